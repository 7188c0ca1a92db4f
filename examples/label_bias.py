"""Label bias: two words, one automaton, and a model that stops listening.

A reader goes through letters and names the state of the automaton that wrote each of them:

    start --> t1 --> i --> n1      writes "tin", three times out of five
          \\-> t2 --> o --> n2      writes "ton", twice out of five

One letter in ten is misread. The CRF and the MEMM get the same features (the letter), the same regulariser
and the same labels; only the place of the normaliser differs. A third model is a MEMM that sees the next
letter as well. The last row is the best that any reader can do, by Bayes' rule.

    python examples/label_bias.py
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from rich.console import Console
from rich.table import Table

from trellis import MEMM, SequenceLabeler

LETTERS = "tino"
WORDS = {"tin": ["t1", "i", "n1"], "ton": ["t2", "o", "n2"]}
SHARES = [0.6, 0.4]
MISREAD = 0.1

Words = tuple[list[list[dict[str, str]]], list[list[str]]]


def write(n: int, seed: int) -> Words:
    """``n`` words as feature dictionaries, and the states that wrote them."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for word in rng.choice(list(WORDS), size=n, p=SHARES):
        shown = [
            str(rng.choice(list(LETTERS.replace(letter, "")))) if rng.random() < MISREAD else letter
            for letter in word
        ]
        X.append([{"letter": letter} for letter in shown])
        y.append(WORDS[word])
    return X, y


def looking_ahead(X: list[list[dict[str, str]]]) -> list[list[dict[str, str]]]:
    """The same steps, each with the letter that comes next."""
    return [
        [
            {**step, "next": after["letter"]} if after else step
            for step, after in zip(x, [*x[1:], None], strict=True)
        ]
        for x in X
    ]


def best_possible() -> float:
    """The share of words that Bayes' rule reads right: for each reading, the likelier of the two words."""
    right = 0.0
    for reading in product(LETTERS, repeat=3):
        right += max(
            share
            * math.prod(1 - MISREAD if a == b else MISREAD / 3 for a, b in zip(word, reading, strict=True))
            for word, share in zip(WORDS, SHARES, strict=True)
        )
    return float(right)


def run(n_train: int = 2000, n_test: int = 2000) -> dict[str, dict[str, float]]:
    """For each reader the share of words read right: of all words, of each word, and of ``ton`` when no
    letter of it was misread."""
    X, y = write(n_train, seed=0)
    X_new, y_new = write(n_test, seed=1)
    found = {
        "CRF": SequenceLabeler("log", l2=0.1).fit(X, y).predict(X_new),
        "MEMM": MEMM(l2=0.1).fit(X, y).predict(X_new),
        "MEMM that sees the next letter": MEMM(l2=0.1).fit(looking_ahead(X), y).predict(looking_ahead(X_new)),
    }
    clear = [all(step["letter"] == letter for step, letter in zip(x, "ton", strict=True)) for x in X_new]
    table = {}
    for name, readings in found.items():
        right = np.array([a == b for a, b in zip(readings, y_new, strict=True)])
        is_ton = np.array([states == WORDS["ton"] for states in y_new])
        table[name] = {
            "all": float(right.mean()),
            "tin": float(right[~is_ton].mean()),
            "ton": float(right[is_ton].mean()),
            "clear ton": float(right[np.array(clear) & is_ton].mean()),
        }
    return table


def what_the_memm_believes() -> dict[str, float]:
    """p(i | t1, letter) for each letter: the state t1 has one successor."""
    X, y = write(2000, seed=0)
    model = MEMM(l2=0.1).fit(X, y)
    # p(t1, i | t, letter) / p(t1 | t), both of them probabilities of the model
    first = np.exp(model.predict_log_proba([[{"letter": "t"}]], [["t1"]]))[0]
    both = {
        letter: np.exp(model.predict_log_proba([[{"letter": "t"}, {"letter": letter}]], [["t1", "i"]]))[0]
        for letter in LETTERS
    }
    return {letter: float(p / first) for letter, p in both.items()}


def main() -> None:
    console = Console()
    table = Table(title="Words read right (%)")
    for column in ("", "all", "tin", "ton", "ton, no letter misread"):
        table.add_column(column, justify="left" if not column else "right")
    for name, shares in run().items():
        table.add_row(name, *(f"{100 * share:.1f}" for share in shares.values()))
    table.add_row("best possible", f"{100 * best_possible():.1f}", "", "", "")
    console.print(table)
    beliefs = ", ".join(f"{letter}: {p:.3f}" for letter, p in what_the_memm_believes().items())
    console.print(f"MEMM, p(i | t1, letter) for each letter   {beliefs}")


if __name__ == "__main__":
    main()

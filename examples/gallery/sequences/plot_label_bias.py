"""
Label bias: a model that ignores its input
==========================================

An automaton writes "tin" three times out of five and "ton" twice; one letter in ten is misread. A CRF and
an MEMM with the same features and the same regulariser name the state that wrote each letter; they differ
only in where they normalise. The CRF reads nearly as well as Bayes' rule; the MEMM reads every clear "ton"
as "tin".
"""

import math

import matplotlib.pyplot as plt
import numpy as np

from trellis import MEMM, SequenceLabeler

LETTERS = "tino"
WORDS = {"tin": ["t1", "i", "n1"], "ton": ["t2", "o", "n2"]}  # each state has one successor
SHARES = [0.6, 0.4]
MISREAD = 0.1
Letters = list[list[dict[str, str]]]

# %%
# Letters, and the states that wrote them
# ---------------------------------------


def write(n: int, seed: int) -> tuple[Letters, list[list[str]]]:
    rng = np.random.default_rng(seed)
    X, y = [], []
    for word in rng.choice(list(WORDS), size=n, p=SHARES):
        others = {letter: list(LETTERS.replace(letter, "")) for letter in word}
        shown = [str(rng.choice(others[letter])) if rng.random() < MISREAD else letter for letter in word]
        X.append([{"letter": letter} for letter in shown])
        y.append(WORDS[word])
    return X, y


def look_ahead(X: Letters) -> Letters:
    """The same steps, each with the letter that comes next."""
    after = [[{"next": step["letter"]} for step in x[1:]] + [{}] for x in X]
    return [[{**a, **b} for a, b in zip(x, more, strict=True)] for x, more in zip(X, after, strict=True)]


(X, y), (X_new, y_new) = write(2000, seed=0), write(2000, seed=1)
memm = MEMM(l2=0.1).fit(X, y)
found = {
    "CRF": SequenceLabeler("log", l2=0.1).fit(X, y).predict(X_new),
    "MEMM": memm.predict(X_new),
    "MEMM that sees the next letter": MEMM(l2=0.1).fit(look_ahead(X), y).predict(look_ahead(X_new)),
}

# %%
# Who reads what
# --------------
# For each reading, the best possible reader takes the more probable of the two words.

is_ton = np.array([states == WORDS["ton"] for states in y_new])
is_clear = np.array(["".join(step["letter"] for step in x) == "ton" for x in X_new])
groups = {"all": is_ton | True, "tin": ~is_ton, "ton": is_ton, "ton, no letter misread": is_ton & is_clear}
shares: dict[str, dict[str, float]] = {}
for name, read in found.items():
    right = np.array([a == b for a, b in zip(read, y_new, strict=True)])
    shares[name] = {group: float(right[chosen].mean()) for group, chosen in groups.items()}
density = np.where(np.eye(4) == 1, 1 - MISREAD, MISREAD / 3)  # p(letter read | letter written)
joint = [
    share * np.einsum("a,b,c->abc", *density[[LETTERS.index(letter) for letter in word]])
    for word, share in zip(WORDS, SHARES, strict=True)
]
best = float(np.maximum(*joint).sum())
print(f"{'words read right (%)':32}", *(f"{group:>6}" for group in groups))
for name, row in shares.items():
    print(f"{name:32}", *(f"{100 * row[group]:{max(6, len(group))}.1f}" for group in groups))
print(f"{'best possible':32} {100 * best:6.1f}")

# %%
# The reason: the state t1 has one successor, so p(i | t1, letter) is 1 whatever the letter. The evidence
# comes too late.

start = [{"letter": "t"}]
first = math.exp(memm.predict_log_proba([start], [["t1"]])[0])
beliefs = {
    letter: math.exp(memm.predict_log_proba([[*start, {"letter": letter}]], [["t1", "i"]])[0]) / first
    for letter in LETTERS
}
print("MEMM, p(i | t1, letter):", ", ".join(f"{letter} {p:.3f}" for letter, p in beliefs.items()))

figure, axes = plt.subplots()
for k, (name, row) in enumerate(shares.items()):
    bars = axes.bar(np.arange(4) + 0.27 * (k - 1), [100 * share for share in row.values()], 0.25, label=name)
    axes.bar_label(bars, fmt="%.1f", fontsize=8, padding=5)
axes.axhline(100 * best, 0, 0.25, color="0.2", linestyle="--", label="best possible reader of all words")
axes.set(title="The MEMM follows the more frequent word from its first letter", ylabel="words read right (%)")
axes.set(xticks=range(4), xticklabels=list(groups), ylim=(0, 112))
axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2)
plt.show()

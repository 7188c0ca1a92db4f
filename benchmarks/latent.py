"""Latent states inside labels: what they gain over the plain chain, and where they do not.

Generated: sequences of visits of three labels. A visit runs through three stages of random length, each with
a symbol of its own. The labels have the same symbols in other orders (A: a b c, B: c b a, C: b a c), and 15 %
of the symbols are drawn at random. A symbol alone says nothing about its label, so a chain over labels that
sees one symbol per step is nearly blind; with three states per label it can learn the stages. A plain chain
that also sees the two symbols before and after each step is the fair competitor. Each seed draws new data
and new first weights.

Handwritten words (OCR letters): train on one fold, test on the other nine; states can stand for ways to write
a letter. The first ``--folds`` of the ten folds. Differences are paired, with 95 % t intervals.

    python benchmarks/latent.py [--data FOLDER] [--quick] [--seeds 5] [--folds 3]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

from _common import files, parser
from trellis import SequenceLabeler
from trellis.objectives import Direct

ORDERS = {"A": "abc", "B": "cba", "C": "bac"}
NOISE = 0.15
OBJECTIVES: dict[str, Any] = {
    "perceptron": "perceptron",
    "margin (CCCP)": "margin",
    "log (hidden-state CRF)": "log",
    "softmax_margin": "softmax_margin",
    "ramp": "ramp",
    "direct, toward better": Direct(1.0, sign="better"),
    "direct, away from worse": Direct(1.0, sign="worse"),
}
Data = tuple[list[Any], list[list[Any]]]


def visits(n: int, rng: np.random.Generator) -> Data:
    X, y = [], []
    for _ in range(n):
        symbols, labels = [], []
        for label in rng.choice(list(ORDERS), rng.integers(3, 7)).tolist():
            for symbol in ORDERS[label]:
                for _ in range(rng.geometric(0.6)):
                    symbols.append(symbol if rng.random() > NOISE else str(rng.choice(list("abc"))))
                    labels.append(label)
        X.append(symbols)
        y.append(labels)
    return X, y


def windows(X: list[list[str]]) -> list[list[dict[str, str]]]:
    """Each step with the symbols up to two steps away."""
    return [
        [{str(d): x[t + d] for d in range(-2, 3) if 0 <= t + d < len(x)} for t in range(len(x))] for x in X
    ]


def generated(n_seeds: int) -> Table:
    table = _table(f"Generated stages, 300 training sequences, percent of labels right, {n_seeds} seeds")
    plain_log: list[float] = []
    for name, objective in OBJECTIVES.items():
        plain, latent, seconds = [], [], []
        for seed in range(n_seeds):
            rng = np.random.default_rng(seed)
            train, test = visits(300, rng), visits(500, rng)
            plain.append(_right(_fit(objective, 1, 0.1, seed, train)[0], test))
            model, cpu = _fit(objective, 3, 0.1, seed, train)
            latent.append(_right(model, test))
            seconds.append(cpu)
        _row(table, f"{name}: 1 and 3 states", plain, latent, seconds)
        plain_log = plain if objective == "log" else plain_log
    wide, seconds = [], []
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        (X, y), (X_test, y_test) = visits(300, rng), visits(500, rng)
        model, cpu = _fit("log", 1, 0.1, seed, (windows(X), y))
        wide.append(_right(model, (windows(X_test), y_test)))
        seconds.append(cpu)
    table.add_section()
    _row(table, "log, 1 state: one symbol, and a window of five", plain_log, wide, seconds)
    return table


def letters(path: Any, folds: list[int], numbers: tuple[int, ...]) -> Table:
    with np.load(path) as data:
        pixels = np.unpackbits(data["pixels"], axis=1)[:, :128].astype(np.float64)
        lengths, codes, fold = data["lengths"].astype(int), data["labels"], data["folds"]
    ends = np.cumsum(lengths)[:-1]
    X, y = np.split(pixels, ends), [part.tolist() for part in np.split(codes, ends)]

    def some(chosen: np.ndarray) -> Data:
        where = np.flatnonzero(chosen)
        return [X[i] for i in where], [y[i] for i in where]

    table = _table(f"OCR letters, train on one fold (about 700 words), percent right, {len(folds)} folds")
    for name, objective, l2 in (("log, l2 = 1", "log", 1.0), ("margin, l2 = 10", "margin", 10.0)):
        right: dict[int, list[float]] = {}
        seconds: dict[int, list[float]] = {}
        for n in numbers:
            fits = [_fit(objective, n, l2, f, some(fold == f)) for f in folds]
            right[n] = [_right(model, some(fold != f)) for (model, _), f in zip(fits, folds, strict=True)]
            seconds[n] = [cpu for _, cpu in fits]
        for n in numbers[1:]:
            _row(table, f"{name}: 1 and {n} states", right[1], right[n], seconds[n])
    return table


def certificates(seed: int = 0) -> None:
    """Both certificates of one run of the DC algorithm."""
    train = visits(300, np.random.default_rng(seed))
    model, _ = _fit("margin", 3, 0.1, seed, train)
    primal, dual = (np.array(model.history_[key]) for key in ("primal", "dual"))
    rise = max(np.diff(primal).max(), np.diff(dual).max(), (primal - dual).max())
    print(f"CCCP, seed {seed}: {model.status_}")
    print(
        "dual, primal by iteration:", ", ".join(f"{d:.1f} {p:.1f}" for d, p in zip(dual, primal, strict=True))
    )
    print(f"largest rise of either: {max(rise, 0.0):.1g}")


def _fit(objective: Any, states: int, l2: float, seed: int, data: Data) -> tuple[SequenceLabeler, float]:
    began = time.process_time()
    model = SequenceLabeler(objective, latent_states=states, l2=l2, random_state=seed, verbose=False)
    model.set_params(max_iter=300) if objective in ("log", "softmax_margin") else None
    return model.fit(*data), time.process_time() - began


def _right(model: SequenceLabeler, data: Data) -> float:
    return 100.0 * model.score(*data)


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("what: first and second", "first", "second", "second - first (95 %)", "CPU of second"):
        table.add_column(column, justify="left" if column.startswith("what") else "right")
    return table


def _row(table: Table, name: str, first: list[float], second: list[float], seconds: list[float]) -> None:
    gain = np.subtract(second, first)
    n = len(gain)
    half = student.ppf(0.975, n - 1) * gain.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    shown = f"{gain.mean():+.1f} +- {half:.1f}"
    table.add_row(
        name, f"{np.mean(first):.1f}", f"{np.mean(second):.1f}", shown, f"{np.median(seconds):.1f} s"
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--folds", type=int, default=3)
    given = options.parse_args()
    show: Callable[[Table], None] = Console(width=120).print
    show(generated(2 if given.quick else given.seeds))
    certificates()
    (path,) = files(given.data / "ocr_letters", "letters.npz")
    show(
        letters(
            path, list(range(1, 2 if given.quick else 1 + given.folds)), (1, 2) if given.quick else (1, 2, 3)
        )
    )


if __name__ == "__main__":
    main()

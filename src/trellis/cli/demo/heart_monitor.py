"""A monitor that must not miss an arrhythmia: one task, one structure, four ways to a decision.

Beats are normal or not, seen through two noisy readings. To miss an arrhythmic beat costs ten times a false
alarm. The readings come once as they should be, and once with loose electrodes: some are artefacts, far off
and without meaning. CRF and structural SVM choose their l2 on a fifth of the training recordings, by the cost
under the decoding that is reported; direct loss holds out as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from trellis.cli.demo.drawings import Row, bars, beat_strip
from trellis.cli.demo.story import Chapter, Picture, Sizes, Table, interval
from trellis.losses import WeightedHamming
from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler
from trellis.theory import Comparison, compare_models, score_with_interval
from trellis.theory.example_losses import measure_losses

NORMAL, ARRHYTHMIA = "normal", "arrhythmia"
MISS = 10.0
ARTEFACTS = 0.08
L2_VALUES = (1.0, 100.0, 1e4, 1e5)
READABLE = 3.0  # readings beyond cannot come from a heart: who knows that can clip them
CRF, CAREFUL, CLIPPED, SVM, DIRECT = (
    "CRF",
    "CRF, minimum-risk decoding",
    "the same, readings clipped",
    "structural SVM",
    "direct loss",
)
RIGHT = (
    " The model is right here, so its probabilities can be trusted, and decoding by expected cost is enough: "
    "no other training is needed."
)
WRONG = (
    " A likelihood has to explain every artefact, which it can do only with weights near 0; a hinge pays for "
    "each in proportion to its size; the cost itself counts each as one mistake and no more."
)


@dataclass(frozen=True)
class Recordings:
    X: list[np.ndarray]
    y: list[list[str]]

    def __getitem__(self, part: slice) -> Recordings:
        return Recordings(self.X[part], self.y[part])


@dataclass(frozen=True)
class Monitor:
    """A fitted labeller with its way to decode and to read."""

    model: SequenceLabeler
    decoding: str = "best"
    clip: float = np.inf

    def predict(self, X: list[np.ndarray]) -> Any:
        return self.model.predict([np.clip(x, -self.clip, self.clip) for x in X], decoding=self.decoding)


@dataclass(frozen=True)
class Result:
    name: str
    monitor: Monitor
    cost: float
    low: float
    high: float
    against_direct: Comparison | None


def record(n: int, seed: int, artefacts: float) -> Recordings:
    """``n`` recordings of 20 to 30 beats."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        states = np.fromiter(_states(int(rng.integers(20, 31)), rng), int)
        level = states[:, None] * np.array([0.9, 0.8])
        readings = level + rng.normal(size=level.shape) * np.array([0.7, 0.8])
        loose = rng.random(len(states)) < artefacts
        readings[loose] = rng.normal(0.0, 12.0, (int(loose.sum()), 2))
        X.append(readings)
        y.append([(NORMAL, ARRHYTHMIA)[state] for state in states])
    return Recordings(X, y)


def _states(n: int, rng: np.random.Generator) -> Iterator[int]:
    state = int(rng.random() < 0.2)
    for _ in range(n):
        yield state
        if rng.random() < (0.25 if state else 0.06):
            state = 1 - state


def costs() -> WeightedHamming:
    return WeightedHamming({(ARRHYTHMIA, NORMAL): MISS})


def tuned(objective: str, training: Recordings, decoding: str = "best", clip: float = np.inf) -> Monitor:
    """With the l2 of the smallest cost on a fifth of the recordings; then all of them are trained on."""

    def fit(l2: float, data: Recordings) -> Monitor:
        model = SequenceLabeler(objective, costs(), l2=l2, random_state=0, verbose=False)
        model.fit([np.clip(x, -clip, clip) for x in data.X], data.y)
        return Monitor(model, decoding, clip)

    kept = 4 * len(training.y) // 5
    held_out = training[kept:]

    def held_out_cost(l2: float) -> float:
        monitor = fit(l2, training[:kept])
        return measure_losses(held_out.y, monitor.predict(held_out.X), costs()).value

    return fit(min(L2_VALUES, key=held_out_cost), training)


def compare(training: Recordings, test: Recordings, clipped: bool) -> list[Result]:
    """Every way on the same recordings; the last is direct loss, with which the others are compared."""
    direct = SequenceLabeler("direct", costs(), random_state=0, verbose=False).fit(training.X, training.y)
    ways = {CRF: tuned("log", training), CAREFUL: tuned("log", training, "minimum_risk")}
    if clipped:
        ways[CLIPPED] = tuned("log", training, "minimum_risk", READABLE)
    ways |= {SVM: tuned("margin", training), DIRECT: Monitor(direct)}
    results = []
    for name, monitor in ways.items():
        score = score_with_interval(monitor, test.X, test.y, loss=costs(), method="mean")
        other = (
            None if name == DIRECT else compare_models(monitor, ways[DIRECT], test.X, test.y, loss=costs())
        )
        results.append(Result(name, monitor, score.value, score.low, score.high, other))
    return results


def tell(sizes: Sizes) -> Chapter:
    """The whole comparison."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some fits give every beat one label: their rows say what that costs
        clean = compare(record(sizes.training, 0, 0.0), record(sizes.test, 1, 0.0), False)
        test = record(sizes.test, 1, ARTEFACTS)
        loose = compare(record(sizes.training, 0, ARTEFACTS), test, True)
    shown = max(range(min(40, len(test.y))), key=lambda i: _changes(test.y[i]))
    strips = {"truth": test.y[shown]}
    strips |= {r.name: list(r.monitor.predict([test.X[shown]])[0]) for r in loose if r.name != CLIPPED}
    parts = (
        f"The task is to label each heartbeat. A missed arrhythmia costs {MISS:g}, a false alarm 1. There "
        f"are {sizes.training} recordings to learn from and {sizes.test} others to test on; CRF and "
        "structural SVM choose their l2 on a fifth of the former. The tables give the cost of a recording "
        "with 95 % intervals; the last column is the paired difference from direct loss (above 0: direct "
        "loss is cheaper).",
        _table("Firmly attached electrodes", clean),
        _verdict(clean, CAREFUL) + (RIGHT if _ahead(clean, CAREFUL) <= 0 else ""),
        _table(f"Loose electrodes: {ARTEFACTS:.0%} of the readings are artefacts", loose),
        _verdict(loose, CAREFUL) + (WRONG if _ahead(loose, CAREFUL) > 0 else ""),
        "If you know which readings are impossible, you can clip them, and trust probabilities again. "
        + _verdict(loose, CLIPPED),
        Picture(
            bars(
                [("firmly attached electrodes", _rows(clean)), ("loose electrodes", _rows(loose))],
                "cost of a recording",
            ),
            "Cost of a recording on the test set, with 95 % intervals; green: the cheapest and its ties.",
        ),
        Picture(
            beat_strip(test.X[shown], strips, ARRHYTHMIA),
            "One test recording with loose electrodes: its two readings (artefacts reach beyond the frame), "
            "the true labels and those of each method. Filled cells are beats labelled arrhythmia.",
        ),
    )
    return Chapter("The loss that matters: a heart monitor", parts)


def _changes(labels: list[str]) -> int:
    return sum(a != b for a, b in pairwise(labels))


def _best(results: list[Result]) -> frozenset[int]:
    """The row with the smallest cost, and that of direct loss if it cannot be told from it."""
    best = min(results, key=lambda r: r.cost)
    ties = best if _ahead(results, best.name) else results[-1]
    return frozenset({results.index(best), results.index(ties)})


def _rows(results: list[Result]) -> list[Row]:
    best = _best(results)
    return [Row(r.name, r.cost, r.low, r.high, i in best) for i, r in enumerate(results)]


def _table(title: str, results: list[Result]) -> Table:
    rows = tuple(
        (
            r.name,
            f"{r.cost:.1f}",
            f"{r.low:.1f} to {r.high:.1f}",
            "" if r.against_direct is None else interval(r.against_direct.low, r.against_direct.high),
        )
        for r in results
    )
    columns = ("trained as", "cost", "interval", "minus direct")
    return Table(title, columns, rows, _best(results))


def _ahead(results: list[Result], name: str) -> int:
    """1 if direct loss is ahead of a way by more than chance, -1 if it is behind, else 0."""
    found = next(r.against_direct for r in results if r.name == name)
    return 0 if found is None or not found.significant else 1 if found.difference > 0 else -1


def _verdict(results: list[Result], name: str) -> str:
    """Who wins, and whether that can be told from chance."""
    found = next(r.against_direct for r in results if r.name == name)
    way = "The CRF with minimum-risk decoding" + " and clipped readings" * (name == CLIPPED)
    if found is None or not found.significant:
        return f"{way} and direct loss cannot be told apart."
    low, high = sorted(map(abs, (found.low, found.high)))
    by = f"by {low:.1f} to {high:.1f} a recording (p = {found.p_value:.2g})."
    return f"{way} {'loses to' if found.difference > 0 else 'beats'} direct loss {by}"

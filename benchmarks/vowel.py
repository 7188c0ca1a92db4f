"""Vowel onset and offset in single words: a second structure through the same segment problem and objectives.

Data: the vowel tutorial of StructED (Adi and Keshet 2016), 22 acoustic features per frame; the length of a
frame is not stated there, so errors are in frames. A word is three segments: before the vowel, the vowel,
after it. Features: for each acoustic column, the mean of the next w frames minus that of the last w, w = 2,
5 and 10, at the onset and at the offset; sums of the columns over the vowel; its log duration under a
Gaussian. Some training words choose the penalties, C, eps and when to stop; all systems have at most as
many passes.

The clips were cut out around the answer: every onset is frame 30, every offset about 78 frames before the
end. So nothing here may know where a clip begins or ends: the segments around the vowel have no features,
and the baseline "position" shows what a model that knew would reach.

    python benchmarks/vowel.py [--data FOLDER] [--quick]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _common import Figures, files, parser
from trellis.objectives.records import Log, Margin, Objective, Perceptron
from trellis.objectives.special_cases import Direct
from trellis.solvers import LBFGS, FrankWolfe, MiniBatch, PassiveAggressive
from trellis.structures.segments.problem.alignment_losses import TauInsensitive
from trellis.structures.segments.problem.segment_problem import SegmentExample, SegmentProblem
from trellis.structures.segments.scores.segment_graph import SegmentGraph, SegmentPath
from trellis.structures.segments.scores.segment_scores import SegmentFeatures
from trellis.training.driver import EarlyStopping, minimise

FOLDER = "structed_vowel/tutorials-code/vowel"
WIDTHS = (2, 5, 10)
SHORTEST, LONGEST = 5, 120  # frames of a vowel; training vowels have 15 to 55
HOLDOUT = 20
L2 = (0.1, 1.0, 10.0, 100.0)  # of the convex objectives, chosen on the hold-out words
EPSILON = (0.3, 1.0, 3.0)  # of the direct objective, likewise
PASSES = 30
LOSS = TauInsensitive(0.0)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5)
    given = options.parse_args()
    seeds = 1 if given.quick else given.seeds
    lists = files(given.data / FOLDER / "data/vowel", "train.vowel.txt", "test.vowel.txt")
    train, test = (words(given.data / FOLDER, path) for path in lists)
    figures = Figures(
        f"vowels of {len(test)} words: mean absolute error in frames, {seeds} seeds",
        ("onset", "offset", "both", "spread over seeds", ""),
    )
    for name, errors in baselines(train, test).items():
        add(figures, name, [errors])
    table = Features.of(train)
    examples = [table.example(*word) for word in train], [table.example(*word) for word in test]
    for name, objective in systems().items():
        add(figures, name, [errors_of(objective, *examples, seed) for seed in range(seeds)])
    figures.print()


def systems() -> dict[str, list[tuple[Objective, Any, float]]]:
    """name -> candidates (objective, solver, l2), among which the hold-out words choose."""
    online: dict[str, Any] = {"batch_size": 1, "average": True}
    constant = MiniBatch(learning_rate=1.0, schedule="constant", **online)
    direct: list[tuple[Objective, Any, float]] = [
        (
            Direct(eps, sign="better"),
            MiniBatch(learning_rate=0.1 * eps, schedule="inverse_sqrt", **online),
            0.0,
        )
        for eps in EPSILON
    ]
    return {
        "perceptron, averaged": [(Perceptron(), constant, 0.0)],
        "margin, passive-aggressive": [(Margin(), PassiveAggressive(C=c), 0.0) for c in (0.01, 0.1, 1.0)],
        "margin, Frank-Wolfe": [(Margin(), FrankWolfe(), l2) for l2 in L2],
        "CRF": [(Log(), LBFGS(), l2) for l2 in L2],
        "direct loss, from the CRF": direct,
    }


Word = tuple[np.ndarray, int, int]  # frames (T, 22), first frame of the vowel, first frame after it


def words(root: Path, path: Path) -> list[Word]:
    found = []
    for line in path.read_text().splitlines():
        data, labels = (root / name for name in line.split())
        frames = np.loadtxt(data, ndmin=2)
        onset, offset = (int(x) for x in labels.read_text().splitlines()[1].split())
        found.append((cleaned(frames), onset, offset))
    return found


def cleaned(frames: np.ndarray) -> np.ndarray:
    """Where a measurement is missing (pitch of unvoiced frames), its column's mean over the clip, or 0."""
    known = np.isfinite(frames)
    mean = np.where(known, frames, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known, frames, mean)


class Features:
    """From words to examples; columns are standardised by the training words."""

    def __init__(self, centre: np.ndarray, spread: np.ndarray, log_mean: float, log_deviation: float) -> None:
        self.centre, self.spread = centre, spread
        self.log_mean, self.log_deviation = log_mean, log_deviation

    @classmethod
    def of(cls, train: Sequence[Word]) -> Features:
        frames = np.concatenate([frames for frames, _, _ in train])
        spread = frames.std(axis=0)
        lengths = np.log([offset - onset for _, onset, offset in train])
        return cls(
            frames.mean(axis=0),
            np.where(spread > 1e-9, spread, 1.0),
            float(lengths.mean()),
            float(lengths.std()),
        )

    def example(self, frames: np.ndarray, onset: int, offset: int) -> SegmentExample:
        x = np.clip((frames - self.centre) / self.spread, -5.0, 5.0)
        n, columns = x.shape
        graph = SegmentGraph.chain([1, SHORTEST, 1], [n, LONGEST, n])
        inside = np.zeros((columns, 2, n + 1))  # row 1 is the vowel's, row 0 of the segments around it
        inside[:, 1, 1:] = np.cumsum(x, axis=0).T / LONGEST
        change = np.concatenate([steps(x, w) for w in WIDTHS])
        boundary = np.zeros((2 * len(change), 3, n + 1))
        boundary[: len(change), 1], boundary[len(change) :, 2] = change, change
        z = (np.log(np.maximum(np.arange(n + 1), 1)) - self.log_mean) / self.log_deviation
        duration = np.zeros((1, 2, n + 1))
        duration[0, 1] = -0.5 * z**2
        rows = [0, 1, 0]
        features = SegmentFeatures.of(
            graph,
            n,
            prefix=inside,
            prefix_rows=rows,
            boundary=boundary,
            duration=duration,
            duration_rows=rows,
        )
        return SegmentExample(features, SegmentPath.of_chain(np.array([0, onset, offset]), n))


def steps(x: np.ndarray, w: int) -> np.ndarray:
    """(columns, T + 1): mean of frames t .. t+w-1 minus mean of frames t-w .. t-1, the ends repeated."""
    padded = np.pad(x, ((w, w), (0, 0)), mode="edge")
    sums = np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(padded, axis=0)])
    middle = np.arange(len(x) + 1) + w
    return ((sums[middle + w] - 2 * sums[middle] + sums[middle - w]) / w).T


def errors_of(
    system: list[tuple[Objective, Any, float]],
    train: list[SegmentExample],
    test: list[SegmentExample],
    seed: int,
) -> np.ndarray:
    """(words, 2): predicted minus true onset and offset."""
    order = np.random.default_rng(seed).permutation(len(train))
    held, rest = [train[i] for i in order[:HOLDOUT]], [train[i] for i in order[HOLDOUT:]]
    first = np.zeros(train[0].features.dimension)
    if isinstance(system[0][0], Direct):
        first = chosen(systems()["CRF"], rest, held, first, seed)
    weights = chosen(system, rest, held, first, seed)
    paths = SegmentProblem(test, Log(), LOSS).predict(weights)
    return np.array([p.starts[1:] - e.gold.starts[1:] for p, e in zip(paths, test, strict=True)])


def chosen(
    candidates: list[tuple[Objective, Any, float]],
    train: list[SegmentExample],
    held: list[SegmentExample],
    first: np.ndarray,
    seed: int,
) -> np.ndarray:
    """The weights of the candidate with the smallest loss on the hold-out words."""
    judge = SegmentProblem(held, Log(), LOSS)

    def held_out_loss(weights: np.ndarray) -> float:
        return float(np.mean(judge.task_losses(weights)))

    found = []
    for objective, solver, l2 in candidates:
        epsilon = float(objective.epsilon) if isinstance(objective, Direct) else 1.0
        problem = SegmentProblem(train, objective, LOSS, l2=l2, epsilon=epsilon)
        stopping = None if l2 else EarlyStopping(held_out_loss, PASSES // 3)
        rng = np.random.default_rng(seed)
        solution = minimise(solver, problem, first, max_iter=PASSES, rng=rng, early_stopping=stopping)
        found.append(np.asarray(solution.weights))
    return min(found, key=held_out_loss)


def baselines(train: Sequence[Word], test: Sequence[Word]) -> dict[str, np.ndarray]:
    """Mean onset and mean length of the training words; and the accident of how the clips were cut."""
    onset = np.mean([a for _, a, _ in train])
    length = np.mean([b - a for _, a, b in train])
    after = np.mean([len(frames) - b for frames, _, b in train])
    return {
        "training means of onset and length": np.array([[onset - a, onset + length - b] for _, a, b in test]),
        "position in the clip (not a result)": np.array(
            [[onset - a, len(frames) - after - b] for frames, a, b in test]
        ),
    }


def add(figures: Figures, name: str, runs: Sequence[np.ndarray]) -> None:
    means = np.array([np.abs(errors).mean(axis=0) for errors in runs])
    both = means.mean(axis=1)
    onset, offset = means.mean(axis=0)
    figures.row(name, f"{onset:.2f}", f"{offset:.2f}", f"{both.mean():.2f}", f"{both.std():.2f}", met=None)


if __name__ == "__main__":
    main()

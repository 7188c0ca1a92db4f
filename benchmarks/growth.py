"""How time grows with the length of a sequence, the number of sequences, and the number of labels K.

Each piece of work is timed (one thread, CPU, compiled, least of several repeats) over a wide range of one
size with the others fixed. The exponent is the slope of log time over log size by least squares; it should be
at most 1.05 for length and number, and at most 2.1 for K. The slope over the last three doublings is shown
too: fixed costs no longer flatter it. Where the results or the scratch of a single long sequence grow to tens
of megabytes, they come fresh from the operating system (page faults), which shows as one jump on the way up;
problems keep their scratch from call to call, the chain's questions do not.

    python benchmarks/growth.py [--quick] [--picture growth.png]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from _common import Figures, chain_problem, parser
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.sequences import offsets_from_lengths
from trellis.features.encoded import Encoded, Features
from trellis.objectives import Log, Margin, Objective, Perceptron
from trellis.solvers import Perceptron as PerceptronSolver
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.scores.chain_scores import ChainScores

N_FEATURES = 500
PER_STEP = 5
MIN_SECONDS = 0.02  # shorter work is repeated within one measurement

Work = Callable[[], object]


class Size(NamedTuple):
    length: int
    sequences: int
    labels: int


class Sweep(NamedTuple):
    name: str
    sizes: list[Size]
    axis: int
    at_most: float

    def values(self) -> np.ndarray:
        return np.array([size[self.axis] for size in self.sizes], dtype=np.float64)


def sweeps(quick: bool) -> list[Sweep]:
    top = 15 if quick else 20
    return [
        Sweep("sequence length", [Size(2**p, 1, 10) for p in range(9, top + 1)], 0, 1.05),
        Sweep("number of sequences", [Size(20, 2**p, 10) for p in range(5, top - 3)], 1, 1.05),
        Sweep("labels", [Size(50, 8, k) for k in (4, 8, 16, 32, 64, 128, 256)[: 6 if quick else 7]], 2, 2.1),
    ]


def random_scores(size: Size, rng: np.random.Generator) -> ChainScores:
    k, n = size.labels, size.length * size.sequences
    return ChainScores.of(
        rng.normal(size=(n, k)), rng.normal(size=(k, k)), lengths=[size.length] * size.sequences
    )


def random_problem(size: Size, objective: Objective, rng: np.random.Generator) -> LinearChainProblem:
    steps = size.length * size.sequences
    offsets = offsets_from_lengths([size.length] * size.sequences)
    indices = rng.integers(N_FEATURES, size=steps * PER_STEP).astype(np.uint32)
    indptr = np.arange(0, steps * PER_STEP + 1, PER_STEP, dtype=np.int64)
    inputs = Encoded(Features(indptr, indices, np.ones(1), N_FEATURES, offsets))
    codes = rng.integers(size.labels, size=steps).astype(np.int32)
    codes[: min(steps, size.labels)] = np.arange(min(steps, size.labels))
    labels = EncodedLabels(codes, None, offsets)
    return chain_problem(inputs, labels, LabelSet(range(size.labels)), objective, l2=1.0)


def viterbi(size: Size, rng: np.random.Generator) -> Work:
    scores = random_scores(size, rng)
    return lambda: Chain().best(scores)


def marginals(size: Size, rng: np.random.Generator) -> Work:
    scores = random_scores(size, rng)
    return lambda: Chain().marginals(scores)


def objective_work(objective: Objective) -> Callable[[Size, np.random.Generator], Work]:
    def work(size: Size, rng: np.random.Generator) -> Work:
        problem = random_problem(size, objective, rng)
        weights = rng.normal(size=problem.dimension)
        return lambda: problem.value_and_gradient(weights)

    return work


def perceptron_pass(size: Size, rng: np.random.Generator) -> Work:
    problem = random_problem(size, Perceptron(), rng)
    return PerceptronSolver().start(problem, np.zeros(problem.dimension), rng).step


TASKS: dict[str, Callable[[Size, np.random.Generator], Work]] = {
    "best labelling (Viterbi)": viterbi,
    "marginals": marginals,
    "log objective and gradient": objective_work(Log()),
    "margin objective and gradient": objective_work(Margin()),
    "averaged perceptron pass": perceptron_pass,
}


def seconds_of(work: Work, repeats: int) -> float:
    """CPU seconds of one call: the least of several measurements, each of enough calls for the clock."""
    work()
    calls, best = 1, np.inf
    measured = 0
    while measured < repeats:
        began = time.process_time()
        for _ in range(calls):
            work()
        seconds = time.process_time() - began
        if seconds < MIN_SECONDS and calls < 10_000:
            calls *= 2
            continue
        best = min(best, seconds / calls)
        measured += 1
    return best


def slope(sizes: np.ndarray, seconds: np.ndarray) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def picture(path: Path, measured: dict[str, dict[str, np.ndarray]], swept: list[Sweep]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(swept), figsize=(4.5 * len(swept), 4), layout="constrained")
    for axis, sweep in zip(axes, swept, strict=True):
        sizes = sweep.values()
        for task, seconds in measured[sweep.name].items():
            axis.loglog(sizes, seconds, marker="o", markersize=3, label=task)
        reference = np.round(sweep.at_most) * np.log(sizes / sizes[-1])
        axis.loglog(sizes, seconds[-1] * np.exp(reference), "k:", label=f"slope {round(sweep.at_most)}")
        axis.set(xlabel=sweep.name, ylabel="CPU seconds")
    axes[0].legend(fontsize="small")
    figure.savefig(path, dpi=120)
    print(f"picture written to {path}")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--picture", type=Path, help="where to save a picture of the curves")
    given = options.parse_args()
    swept = sweeps(given.quick)
    figures = Figures(
        "Growth: exponents of CPU time",
        ("from", "to", "time at the top", "exponent", "last 3 doublings", "target", "met"),
    )
    measured: dict[str, dict[str, np.ndarray]] = {}
    for sweep in swept:
        sizes = sweep.values()
        for task, prepare in TASKS.items():
            rng = np.random.default_rng(0)
            seconds = np.array([seconds_of(prepare(size, rng), 5) for size in sweep.sizes])
            measured.setdefault(sweep.name, {})[task] = seconds
            whole, last = slope(sizes, seconds), slope(sizes[-4:], seconds[-4:])
            figures.row(
                f"{task}: {sweep.name}",
                f"{sizes[0]:,.0f}",
                f"{sizes[-1]:,.0f}",
                f"{1e3 * seconds[-1]:.1f} ms",
                f"{whole:.3f}",
                f"{last:.3f}",
                f"\u2264 {sweep.at_most:g}",
                met=whole <= sweep.at_most,
            )
    figures.print()
    if given.picture:
        picture(given.picture, measured, swept)


if __name__ == "__main__":
    main()

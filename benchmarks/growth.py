"""How time grows: exponents in length, number of sequences, labels or states, features, and threads.

Each piece of work is timed (one thread, CPU, compiled, least of several repeats) over a wide range of one
size with the others fixed. The exponent is the slope of log time over log size by least squares, and the fit
error the root of the mean square of what is left, in per cent of the time. The slope over the last three
doublings is shown too: fixed costs no longer flatter it.

Expected are 1 in length and number, 2 in labels and states of chains (3 in the states of a Kalman smoother,
whose steps multiply matrices), 1 in the features of a step, 0 in the features there are (a step reads its
own), 1 in the variables of a network that is a chain of cliques, and -1 in threads (wall time: on a machine
that others use, this one means little). Where the results or the scratch of a single long sequence grow to
tens of megabytes, they come fresh from the operating system (page faults), which shows as one jump on the way
up; problems keep their scratch from call to call, the chain's questions do not.

    python benchmarks/growth.py [--quick] [--top 20] [--picture growth.png]
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import hmm
import kalman
from _common import Figures, chain_problem, parser
from trellis import BayesianNetwork
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.sequences import offsets_from_lengths
from trellis.features.encoded import Encoded, Features
from trellis.objectives import Log, Margin, Objective, Perceptron
from trellis.solvers import Perceptron as PerceptronSolver
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.scores.chain_scores import ChainScores

MIN_SECONDS = 0.02  # shorter work is repeated within one measurement

Work = Callable[[], object]


class Size(NamedTuple):
    length: int = 50
    sequences: int = 8
    labels: int = 10  # or states
    features: int = 500
    per_step: int = 5  # features of a step
    threads: int = 1


Prepare = Callable[[Size, np.random.Generator], Work]


class Sweep(NamedTuple):
    """One size from small to large, for some of the tasks."""

    name: str
    axis: str
    sizes: list[Size]
    tasks: dict[str, Prepare]
    expected: float
    at_most: float

    def values(self) -> np.ndarray:
        return np.array([getattr(size, self.axis) for size in self.sizes], dtype=np.float64)


def sweeps(top: int) -> list[Sweep]:
    """Lengths up to 2^top, the others in proportion."""
    little = top < 15
    lengths = [2**p for p in range(min(9, top - 3), top + 1)]
    numbers = [2**p for p in range(min(5, top - 6), top - 3)]
    labels = [4, 8, 16, 32, 64, 128, 256][: 4 if little else 6 if top == 15 else 7]
    states = [4, 8, 16, 32, 64][: 4 if little else 5]
    long = [Size(length, 1) for length in lengths]
    short = long[: 4 if little else len(long) - 2]  # of work that takes longer
    many = Size(20, 2 ** (5 if little else 11))
    threads = [many._replace(threads=n) for n in (1, 2, 4, 8) if n <= max(2, os.cpu_count() or 1)]
    chains = {name: TASKS[name] for name in CHAINS}
    linear = {name: TASKS[name] for name in LINEAR}
    e_step, smoother, query = {HMM: TASKS[HMM]}, {KALMAN: TASKS[KALMAN]}, {NETWORK: TASKS[NETWORK]}
    return [
        Sweep("length", "length", long, chains, 1.0, 1.05),
        Sweep("length", "length", short, {**e_step, **smoother}, 1.0, 1.05),
        Sweep("variables", "length", [Size(2**p) for p in range(4, 8 if little else 11)], query, 1.0, 1.2),
        Sweep("sequences", "sequences", [Size(20, n) for n in numbers], {**chains, **e_step}, 1.0, 1.05),
        Sweep("labels", "labels", [Size(labels=k) for k in labels], {**chains, **e_step}, 2.0, 2.1),
        Sweep("states", "labels", [Size(200, 1, k) for k in states], smoother, 3.0, 3.1),
        Sweep(
            "features of a step",
            "per_step",
            [many._replace(per_step=p) for p in (4, 8, 16, 32, 64)],
            linear,
            1.0,
            1.05,
        ),
        Sweep(
            "features there are",
            "features",
            [many._replace(features=2**p) for p in range(8, 12 if little else 17)],
            linear,
            0.0,
            0.35,
        ),
        Sweep("threads (wall)", "threads", threads, {LOG: TASKS[LOG], **e_step}, -1.0, -0.75),
    ]


def random_scores(size: Size, rng: np.random.Generator) -> ChainScores:
    k, n = size.labels, size.length * size.sequences
    return ChainScores.of(
        rng.normal(size=(n, k)), rng.normal(size=(k, k)), lengths=[size.length] * size.sequences
    )


def random_problem(size: Size, objective: Objective, rng: np.random.Generator) -> LinearChainProblem:
    steps = size.length * size.sequences
    offsets = offsets_from_lengths([size.length] * size.sequences)
    indices = rng.integers(size.features, size=steps * size.per_step).astype(np.uint32)
    indptr = np.arange(0, steps * size.per_step + 1, size.per_step, dtype=np.int64)
    inputs = Encoded(Features(indptr, indices, np.ones(1), size.features, offsets))
    codes = rng.integers(size.labels, size=steps).astype(np.int32)
    codes[: min(steps, size.labels)] = np.arange(min(steps, size.labels))
    labels = EncodedLabels(codes, None, offsets)
    return chain_problem(inputs, labels, LabelSet(range(size.labels)), objective, l2=1.0, n_jobs=size.threads)


def viterbi(size: Size, rng: np.random.Generator) -> Work:
    scores = random_scores(size, rng)
    return lambda: Chain().best(scores)


def marginals(size: Size, rng: np.random.Generator) -> Work:
    scores = random_scores(size, rng)
    return lambda: Chain().marginals(scores)


def objective_work(objective: Objective) -> Prepare:
    def work(size: Size, rng: np.random.Generator) -> Work:
        problem = random_problem(size, objective, rng)
        weights = rng.normal(size=problem.dimension)
        return lambda: problem.value_and_gradient(weights)

    return work


def perceptron_pass(size: Size, rng: np.random.Generator) -> Work:
    problem = random_problem(size, Perceptron(), rng)
    return PerceptronSolver().start(problem, np.zeros(problem.dimension), rng).step


def e_step(size: Size, rng: np.random.Generator) -> Work:
    case = hmm.Case("", size.labels, size.sequences, size.length, "categorical", 20, 1.0)
    problem = hmm.problem_of(case, size.threads)
    return lambda: problem.problem.h(problem.ours)


def kalman_smoother(size: Size, rng: np.random.Generator) -> Work:
    """With gaps: without them, most steps are the same as the one before."""
    model = kalman.example(size.labels, max(1, size.labels // 2), rng)
    x, _ = model.sample(size.length, random_state=1)
    x[rng.random(x.shape) < 0.1] = np.nan
    return lambda: model.smooth(x)


def network_query(size: Size, rng: np.random.Generator) -> Work:
    """All marginals of a network in which each variable has the two before it as parents."""
    n, k = size.length, 3
    parents = {f"v{i}": [f"v{j}" for j in range(max(0, i - 2), i)] for i in range(n)}
    states = {name: [str(j) for j in range(k)] for name in parents}
    tables = {name: rng.dirichlet(np.ones(k), size=[k] * len(of)) for name, of in parents.items()}
    net = BayesianNetwork(states, parents, tables)
    return lambda: net.query(None, {f"v{n - 1}": "0"})


LOG, HMM, KALMAN, NETWORK = "CRF objective and gradient", "HMM E-step", "Kalman smoother", "network query"
TASKS: dict[str, Prepare] = {
    "Viterbi": viterbi,
    "marginals": marginals,
    LOG: objective_work(Log()),
    "margin objective and gradient": objective_work(Margin()),
    "perceptron pass": perceptron_pass,
    HMM: e_step,
    KALMAN: kalman_smoother,
    NETWORK: network_query,
}
CHAINS = ("Viterbi", "marginals", LOG, "margin objective and gradient", "perceptron pass")
LINEAR = (LOG, "perceptron pass")


def seconds_of(work: Work, repeats: int, clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of one call: the least of several measurements, each of enough calls for the clock."""
    work()
    calls, best = 1, np.inf
    measured = 0
    while measured < repeats:
        began = clock()
        for _ in range(calls):
            work()
        seconds = clock() - began
        if seconds < MIN_SECONDS and calls < 10_000:
            calls *= 2
            continue
        best = min(best, seconds / calls)
        measured += 1
    return best


def slope(sizes: np.ndarray, seconds: np.ndarray) -> tuple[float, float]:
    """The exponent, and the root of the mean square of what it leaves of log time."""
    line = np.polyfit(np.log(sizes), np.log(seconds), 1)
    left = np.log(seconds) - np.polyval(line, np.log(sizes))
    return float(line[0]), float(np.sqrt(np.mean(left**2)))


def picture(path: Path, measured: list[dict[str, np.ndarray]], swept: list[Sweep]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(3, 3, figsize=(13, 11), layout="constrained")
    for axis, sweep, curves in zip(grid.flat, swept, measured, strict=True):
        for task, seconds in curves.items():
            axis.loglog(sweep.values(), seconds, marker="o", markersize=3, label=task)
        steps = sweep.expected * np.log(sweep.values() / sweep.values()[-1])
        axis.loglog(sweep.values(), seconds[-1] * np.exp(steps), "k:", label=f"slope {sweep.expected:g}")
        axis.set(xlabel=sweep.name, ylabel="seconds")
        axis.legend(fontsize="x-small")
    figure.savefig(path, dpi=120)
    print(f"picture written to {path}")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--picture", type=Path, help="where to save a picture of the curves")
    options.add_argument("--top", type=int, default=20, help="lengths up to 2 to this power")
    options.add_argument("--repeats", type=int, default=5, help="measurements, of which the least counts")
    given = options.parse_args()
    if given.top < 8:
        options.error("--top is at least 8")
    swept = sweeps(min(given.top, 15) if given.quick else given.top)
    figures = Figures(
        "Growth: exponents of time",
        (
            "from",
            "to",
            "at the top",
            "exponent",
            "fit error",
            "last 3 doublings",
            "expected",
            "target",
            "met",
        ),
    )
    measured = [measure(figures, sweep, given.repeats) for sweep in swept]
    figures.print()
    if given.picture:
        picture(given.picture, measured, swept)


def measure(figures: Figures, sweep: Sweep, repeats: int) -> dict[str, np.ndarray]:
    """The seconds of each task over the sizes of a sweep; a row of the table for each."""
    sizes, found = sweep.values(), {}
    clock = time.perf_counter if sweep.axis == "threads" else time.process_time
    for task, prepare in sweep.tasks.items():
        rng = np.random.default_rng(0)
        seconds = np.array([seconds_of(prepare(size, rng), repeats, clock) for size in sweep.sizes])
        found[task] = seconds
        (whole, error), (last, _) = slope(sizes, seconds), slope(sizes[-4:], seconds[-4:])
        figures.row(
            f"{task}: {sweep.name}",
            f"{sizes[0]:,.0f}",
            f"{sizes[-1]:,.0f}",
            f"{1e3 * seconds[-1]:.1f} ms",
            f"{whole:.3f}",
            f"{100 * error:.0f} %",
            f"{last:.3f}",
            f"{sweep.expected:g}",
            f"\u2264 {sweep.at_most:g}",
            met=whole <= sweep.at_most,
        )
    return found


if __name__ == "__main__":
    main()

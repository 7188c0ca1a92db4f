"""The rates that solvers take where none is given do not overshoot, whatever the length of the features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import small_problems
from trellis.solvers.online.minibatch import MiniBatch
from trellis.solvers.online.online_run import stable_rate
from trellis.solvers.online.step_size_kernels import INVERSE
from trellis.solvers.online.stochastic import SGD
from trellis.training.driver import minimise


def objective_at(problem: Any, weights: np.ndarray) -> float:
    return float(problem.value_and_gradient(weights)[0] + 0.5 * problem.l2 * weights @ weights)


@pytest.mark.parametrize("solver", [SGD(), MiniBatch(batch_size=1), MiniBatch()], ids=str)
@pytest.mark.parametrize("structure", small_problems.STRUCTURES)
def test_squared_objectives_fall_however_long_the_features(structure: str, solver: Any) -> None:
    for seed in range(4):
        problem = small_problems.make(structure, "squared_margin", seed, l2=0.1)
        start = 3.0 * np.random.default_rng(seed).normal(size=problem.dimension)
        ends = []
        for factor in (1.0, 300.0):
            longer = Longer(problem, factor)
            found = minimise(solver, longer, start / factor, max_iter=10, rng=np.random.default_rng(seed))
            ends.append(objective_at(longer, found.weights))
        assert ends[1] == pytest.approx(ends[0])
        assert ends[0] < 0.5 * objective_at(problem, start)


class Longer:
    """The problem in w' = w / factor: features that are ``factor`` times as long."""

    def __init__(self, problem: Any, factor: float) -> None:
        self._problem, self._factor = problem, factor
        self.objective, self.epsilon, self.l1 = problem.objective, problem.epsilon, 0.0
        self.l2, self.convex = problem.l2 * factor**2, problem.convex
        self.dimension, self.n_examples = problem.dimension, problem.n_examples

    def run_value_and_gradient(self, w: np.ndarray, first: int, last: int) -> tuple[float, np.ndarray]:
        value, gradient = self._problem.run_value_and_gradient(self._factor * w, first, last)
        return value, self._factor * gradient

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        return self.run_value_and_gradient(w, 0, self.n_examples)


def test_a_stable_rate_is_half_of_what_ends_at_no_slack() -> None:
    """A step with twice the rate from one example of one active output has xi = 0 behind it."""
    problem = small_problems.make("graphs", "squared_margin", 3)
    weights = np.random.default_rng(0).normal(size=problem.dimension)
    rates = []
    for i in range(problem.n_examples):
        value, gradient = problem.run_value_and_gradient(weights, i, i + 1)
        xi = np.sqrt(2.0 * value / problem.sample_weight[i])
        d = gradient / (problem.sample_weight[i] * xi)
        rates.append(0.5 / (problem.sample_weight[i] * float(d @ d)))
    assert stable_rate(problem, weights, INVERSE) == pytest.approx(min(rates))

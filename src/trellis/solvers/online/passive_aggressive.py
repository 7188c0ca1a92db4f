"""The passive-aggressive algorithm (PA-I): the least change of the weights that meets one example's margin.

    w <- w - min(C, f / ||g||^2) g,       f = c_i f_i(w) and g its subgradient: one example's highest plane

For the margin objective f is the hinge max_y (s(y) + L(y)) - s(y*) and g = Phi(y) - Phi(y*) at its
maximiser: a step of f / ||g||^2 makes that plane 0, and C bounds the step (Crammer et al. 2006). An example
whose hinge is 0 changes nothing. One step of the loop is a pass in random order. The answer is the mean of
the weights over all visits (``average``), or the last ones. C plays the part of the regulariser; l2 is not
used.

Each pass measures ``pass_objective``, the sum of f at the weights of the visits, and ``violations``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.core.status import Status
from trellis.solvers.problem import ExamplePlaneProblem, example_plane_problem


@register
@dataclass(frozen=True)
class PassiveAggressive:
    """Needs ``problem.example_plane(index, weights)`` and a convex objective made of planes."""

    C: float = 1.0
    average: bool = True

    name = "passive_aggressive"

    def __post_init__(self) -> None:
        if not self.C > 0:
            raise DataError(f"C must be positive, got {self.C}")

    def start(self, problem: Any, weights: FloatArray, rng: np.random.Generator) -> _PassiveAggressiveRun:
        return _PassiveAggressiveRun(example_plane_problem(problem, self.name), weights, rng, self)


class _PassiveAggressiveRun:
    def __init__(
        self,
        problem: ExamplePlaneProblem,
        weights: FloatArray,
        rng: np.random.Generator,
        options: PassiveAggressive,
    ) -> None:
        self._problem, self._rng, self._options = problem, rng, options
        self._current = weights
        self._average = weights.copy()
        self._visits = 0
        self._status: Status | None = None

    @property
    def weights(self) -> FloatArray:
        return self._average if self._options.average else self._current

    def step(self) -> Mapping[str, float]:
        total, violations = 0.0, 0
        for index in self._rng.permutation(self._problem.n_examples):
            value, gradient = self._problem.example_plane(int(index), self._current)
            square = float(gradient @ gradient)
            total += value
            if value > 0.0 and square > 0.0:
                violations += 1
                self._current -= min(self._options.C, value / square) * gradient
            self._visits += 1
            self._average += (self._current - self._average) / self._visits
        if not np.isfinite(total):
            self._status = Status(False, "the objective is no longer finite; scale the features")
        elif violations == 0:
            self._average[:] = self._current
            self._status = Status(True, "a pass without a violation: the last weights meet every margin")
        return {"pass_objective": total, "violations": float(violations)}

    def status(self) -> Status | None:
        return self._status

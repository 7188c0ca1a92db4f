"""The passive-aggressive algorithm (PA-I): the least change of the weights that meets one example's margin.

    w <- w - min(C, f / ||g||^2) g,       f = c_i f_i(w) and g its subgradient: one example's highest plane

For the margin objective f is the hinge max_y (s(y) + L(y)) - s(y*) and g = Phi(y) - Phi(y*) at its
maximiser: a step of f / ||g||^2 makes that plane 0, and C bounds the step (Crammer et al. 2006). An example
whose hinge is 0 changes nothing. One step of the loop is a pass in random order. The answer is the mean of
the weights over all visits (``average``), or the last ones. C plays the part of the regulariser; l2 is not
used.

Each pass measures ``pass_objective``, the sum of f at the weights of the visits, and ``violations``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.core.status import Status
from trellis.solvers.online.online_run import OnlineRun, OnlineState, Rule
from trellis.solvers.online.parameter_mixing import mixed
from trellis.solvers.online.step_size_kernels import CONSTANT, DESCENT
from trellis.solvers.problem import check_problem


@register
@dataclass(frozen=True)
class PassiveAggressive:
    """Needs the gradient of one example at a time, and a convex objective made of planes.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import PassiveAggressive
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("margin", solver=PassiveAggressive(C=0.5), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    C: float = 1.0
    average: bool = True

    name = "passive_aggressive"

    def __post_init__(self) -> None:
        if not self.C > 0:  # infinite: every step meets its margin
            raise DataError(f"C is {self.C}; give a positive number")

    def start(
        self, problem: Any, weights: FloatArray, rng: np.random.Generator, state: OnlineState | None = None
    ) -> OnlineRun:
        check_problem(problem, self.name, "run_value_and_gradient", piecewise_linear=True)
        rule = Rule(DESCENT, CONSTANT, self.C, 0.0, 0.0, int(self.average))
        return mixed(_PassiveAggressiveRun(problem, weights, rng, rule, state), self)


class _PassiveAggressiveRun(OnlineRun):
    """``rule.rate`` is C."""

    _met = False
    kept = ("_met",)

    @property
    def answered(self) -> bool:
        return self._met

    def update(self, value: float, gradient: FloatArray) -> int:
        square = float(gradient @ gradient)
        if not (value > 0.0 and square > 0.0):
            return 0
        self.state.weights -= min(self.rule.rate, value / square) * gradient
        return 1

    def counted(self) -> str:
        return "violations"

    def end_pass(self, moved: int) -> None:
        if moved == 0:
            self._answer, self._met = self.state.weights, True

    def status(self) -> Status | None:
        if self._met:
            return Status(True, "a pass without a violation: the last weights meet every margin")
        return super().status()

"""What L-BFGS and OWL-QN share: options, the point and its pairs, what is measured, and when they stop.

    LBFGS   min_w  f(w) + (l2 / 2) ||w||^2                  f = sum_i c_i f_i, smooth
    OWLQN   min_w  f(w) + (l2 / 2) ||w||^2 + l1 ||w||_1     (Andrew and Gao 2007)

One step is one iteration: a direction from the limited-memory inverse Hessian, then a line search, which as
a rule accepts its first trial, so that an iteration costs one evaluation of f. Measured at each step:
``objective`` (with the regulariser), ``gradient_norm`` (of the pseudo-gradient, i.e. the shortest
subgradient, under l1), ``evaluations`` (of f, since the start) and, when the problem is convex and l2 > 0,

    gap = ||gradient||^2 / (2 l2)  >=  objective - optimum,

because an l2-strongly convex function lies above its tangent parabola at w. Both solvers stop when

    ||gradient|| <= tol max(1, ||w||),

or, if ``delta`` > 0, when ``period`` iterations lowered the objective by less than ``delta`` times its
value (CRFsuite's rule, at 1e-5 by default there). ``tol`` is 1e-5 where none is given. ``delta`` is then 0,
but 1e-6 for OWL-QN: the gradient of a sum with kinks falls slowly, long after the objective has come to rest.
Whoever gives ``tol`` alone gets that tolerance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg.blas import daxpy

from trellis.core.arguments import check_int, check_nonnegative
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.status import Status
from trellis.solvers.problem import Problem
from trellis.solvers.quasi_newton.inverse_hessian import InverseHessian
from trellis.solvers.resumable import Resumable

TOLERANCE = 1e-5
STALL = 50  # iterations at the floating-point floor that lower nothing


@dataclass(frozen=True)
class QuasiNewton:
    """The options of both: pairs kept for the inverse Hessian, and the stopping rules above."""

    memory: int = 10
    tol: float | None = None
    delta: float | None = None
    period: int = 10

    default_delta: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        check_int("memory", self.memory, 1)
        check_int("period", self.period, 1)
        for name in ("tol", "delta"):
            if getattr(self, name) is not None:
                check_nonnegative(name, getattr(self, name))

    @property
    def tolerance(self) -> float:
        """Of the gradient."""
        return TOLERANCE if self.tol is None else self.tol

    @property
    def least_fall(self) -> float:
        """The share of the objective by which ``period`` iterations must lower it."""
        if self.delta is None:
            return self.default_delta if self.tol is None else 0.0
        return self.delta


class QuasiNewtonRun(Resumable, ABC):
    """What both share: the point, the smooth part's gradient, the pairs, and the stopping rules.

    A point is three things that change together: ``weights``, ``_gradient`` of the smooth part,
    ``_objective``. Trials are written to a second set of buffers and swapped in when accepted, so an
    interrupted step leaves the last point whole.
    """

    kept: ClassVar[tuple[str, ...]] = (
        "weights",
        "_gradient",
        "_gradient_products",
        "_inverse_hessian",
        "_objective",
        "_objectives",
        "_evaluations",
        "_gradient_norm",
        "_failure",
        "_lowest",
        "_since_progress",
    )

    def __init__(self, problem: Problem, weights: FloatArray, options: QuasiNewton) -> None:
        self.weights = weights
        self._problem = problem
        self._options = options
        # the threads of the problem, where it has any
        self._inverse_hessian = InverseHessian(options.memory, len(weights), getattr(problem, "n_jobs", 1))
        self._gradient_products: FloatArray | None = None  # of the pairs with the gradient, where known
        self._gradient = np.empty_like(weights)
        self._trial_weights = np.empty_like(weights)
        self._trial_gradient = np.empty_like(weights)
        self._direction = np.empty_like(weights)
        self._objective = np.nan
        self._objectives: list[float] = []
        self._evaluations = 0
        self._gradient_norm = np.inf
        self._failure: str | None = None
        self._lowest = (np.inf, np.inf)  # objective, gradient norm
        self._since_progress = 0

    def step(self) -> Mapping[str, float]:
        if not self._objectives:
            self._objective = self._evaluate(self.weights, self._gradient)
            if not np.isfinite(self._objective):
                raise DataError(
                    f"the objective is {self._objective} at the starting weights; scale the features"
                )
            self._objectives.append(self._objective)
            self._gradient_norm = self._measure_gradient()
        if not self._small_gradient():
            self._iterate()
            self._gradient_norm = self._measure_gradient()
        self._objectives.append(self._objective)
        self._note_progress()
        measured = {
            "objective": self._objective,
            "gradient_norm": self._gradient_norm,
            "evaluations": float(self._evaluations),
        }
        if self._problem.convex and self._problem.l2 > 0:
            measured["gap"] = self._gradient_norm**2 / (2.0 * self._problem.l2)
        return measured

    def status(self) -> Status | None:
        delta, period = self._options.least_fall, self._options.period
        norm = f"gradient norm {self._gradient_norm:.2g}"
        if self._small_gradient():
            return Status(True, f"{norm} (tolerance {self._gradient_tolerance():.2g})")
        if self._failure is not None:
            return Status(False, f"{self._failure} at {norm} (tolerance {self._gradient_tolerance():.2g})")
        if self._since_progress >= STALL:
            return Status(
                False,
                f"{STALL} iterations lowered neither objective nor gradient: floating-point precision "
                f"is exhausted at {norm} (tolerance {self._gradient_tolerance():.2g}); raise tol",
            )
        if delta > 0 and len(self._objectives) > period:
            fall = self._objectives[-1 - period] - self._objectives[-1]
            if fall < delta * abs(self._objectives[-1]):
                return Status(
                    True,
                    f"{period} iterations lowered the objective by less than {delta:.2g} of it; {norm}",
                )
        return None

    def _note_progress(self) -> None:
        objective, norm = self._lowest
        progress = self._objective < objective or self._gradient_norm < norm
        self._since_progress = 0 if progress else self._since_progress + 1
        self._lowest = (min(objective, self._objective), min(norm, self._gradient_norm))

    def _gradient_tolerance(self) -> float:
        return self._options.tolerance * max(1.0, float(np.sqrt(self.weights @ self.weights)))

    def _small_gradient(self) -> bool:
        return self._gradient_norm <= self._gradient_tolerance()

    def _evaluate(self, weights: FloatArray, gradient: FloatArray) -> float:
        """The whole objective; the gradient of its smooth part goes to ``gradient``."""
        value, data_gradient = self._problem.value_and_gradient(weights)
        self._evaluations += 1
        l1, l2 = self._problem.l1, self._problem.l2
        np.copyto(gradient, data_gradient)
        if l2 > 0:
            daxpy(weights, gradient, a=l2)
            value += 0.5 * l2 * float(weights @ weights)
        if l1 > 0:
            value += l1 * float(np.abs(weights).sum())
        return float(value)

    def _accept(self, objective: float) -> None:
        self._gradient_products = self._inverse_hessian.update(
            self._trial_weights, self.weights, self._trial_gradient, self._gradient
        )
        self.weights, self._trial_weights = self._trial_weights, self.weights
        self._gradient, self._trial_gradient = self._trial_gradient, self._gradient
        self._objective = objective

    def _iterate(self) -> None:
        """Search along the quasi-Newton direction; if that fails, along the gradient, pairs forgotten."""
        if self._search():
            return
        if len(self._inverse_hessian):
            self._inverse_hessian.forget()
            if self._search():
                return
        self._failure = (
            "no step along the gradient lowers the objective: floating-point precision is exhausted, "
            "or the objective is not smooth; raise tol; it stopped"
        )

    def _first_step(self) -> float:
        """The natural length 1 of a quasi-Newton direction; at first, a move of length 1."""
        return 1.0 if len(self._inverse_hessian) else 1.0 / self._gradient_norm

    @abstractmethod
    def _measure_gradient(self) -> float:
        """The norm of the (pseudo-)gradient at the point."""

    @abstractmethod
    def _search(self) -> bool:
        """Look for a better point along a direction and accept it; ``False`` if there is none."""

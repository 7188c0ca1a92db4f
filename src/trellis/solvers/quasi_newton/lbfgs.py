"""L-BFGS, and OWL-QN for the L1 norm, as solver records.

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
from typing import Any, ClassVar

import numpy as np
from scipy.linalg.blas import daxpy

from trellis.core.arguments import check_int, check_nonnegative
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.core.status import Status
from trellis.solvers.problem import Problem, check_problem
from trellis.solvers.quasi_newton.inverse_hessian import InverseHessian
from trellis.solvers.quasi_newton.line_search import ROUNDING, SUFFICIENT_DECREASE, Trial, strong_wolfe
from trellis.solvers.quasi_newton.stochastic_start import stochastic_start
from trellis.solvers.resumable import Resumable

MOSTLY_FIXED = 0.7  # share of fixed zero weights above which OWL-QN takes H from the free ones alone
EARLY_PAIRS = 6  # of H while OWL-QN still looks for its orthant: older ones come from other orthants
SETTLED = 5, 0.005  # it has found it when that many iterations lower the objective by less than this share
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


@register
@dataclass(frozen=True)
class LBFGS(QuasiNewton):
    """Limited-memory BFGS with a strong Wolfe line search, for smooth objectives without L1 norm.

    ``start_passes``: passes of stochastic gradient descent before the first iteration, from w = 0
    (:mod:`.stochastic_start`). None is 4 where they pay: large data under a convex log objective with l2 > 0,
    on a structure that has compiled passes. 0 does without; elsewhere they are not made.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import LBFGS
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("log", solver=LBFGS(memory=5), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    start_passes: int | None = None

    name = "lbfgs"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start_passes is not None:
            check_int("start_passes", self.start_passes, 0)

    def start(self, problem: Problem, weights: FloatArray, rng: np.random.Generator) -> _LBFGSRun:
        check_problem(problem, self.name, smooth=True)
        return _LBFGSRun(problem, weights, self, rng)


@register
@dataclass(frozen=True)
class OWLQN(QuasiNewton):
    """Orthant-wise L-BFGS: a step stays in one orthant, weights that would leave it become exactly zero.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import OWLQN
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("log", solver=OWLQN(memory=5), max_iter=50, random_state=0, l1=0.1, l2=0.0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    name = "owlqn"
    default_delta = 1e-6

    def start(self, problem: Problem, weights: FloatArray, rng: np.random.Generator) -> _OWLQNRun:
        check_problem(problem, self.name, l1=True, smooth=True)
        return _OWLQNRun(problem, weights, self)


class _QuasiNewtonRun(Resumable, ABC):
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


class _LBFGSRun(_QuasiNewtonRun):
    def __init__(
        self, problem: Problem, weights: FloatArray, options: LBFGS, rng: np.random.Generator
    ) -> None:
        super().__init__(problem, weights, options)
        self._start_passes, self._rng = options.start_passes, rng

    def step(self) -> Mapping[str, float]:
        if not self._objectives:
            found = stochastic_start(self._problem, self.weights, self._rng, self._start_passes)
            if found is not None:
                self.weights, scale = found
                self._inverse_hessian.rescale(scale)
        return super().step()

    def _measure_gradient(self) -> float:
        return float(np.sqrt(self._gradient @ self._gradient))

    def _search(self) -> bool:
        self._inverse_hessian.times(self._gradient, self._direction, self._gradient_products)
        slope = -float(self._direction @ self._gradient)
        if not slope < 0:
            return False
        found = strong_wolfe(self._try_step, Trial(0.0, self._objective, slope), self._first_step())
        if found is None:
            return False
        self._accept(found.value)
        return True

    def _try_step(self, step: float) -> Trial:
        np.copyto(self._trial_weights, self.weights)
        daxpy(self._direction, self._trial_weights, a=-step)
        value = self._evaluate(self._trial_weights, self._trial_gradient)
        return Trial(step, value, -float(self._direction @ self._trial_gradient))


class _OWLQNRun(_QuasiNewtonRun):
    """Pseudo-gradient p of the whole objective: the shortest vector of

    gradient + l1 sign(w)  where w != 0,   gradient + l1 [-1, 1]  where w = 0.

    A trial w + t d is projected on the orthant of sign(w) (of -p where w = 0) and accepted when F(trial) <=
    F(w) + 1e-4 p.(trial - w), rounding of F apart. The direction d is one of two:

    * At first, as Andrew and Gao have it, -H p without *every* component that does not descend along -p.
      While most weights still change their signs, what is dropped would mostly be clipped at zero.
    * Once the objective falls slowly (``SETTLED``), -H p within the free coordinates (those with w != 0 or
      p != 0; H is made from these alone once they are few), without the components that would move a zero
      weight uphill. What the first rule drops is what makes a quasi-Newton direction better than the
      gradient, and only zero weights need it dropped.

    The first rule alone needs up to ten times as many evaluations to reach the optimum of a logistic
    regression of the digit images; the second alone is behind for the first fifty iterations on text
    (benchmarks/l1.py).
    """

    kept = ("_settled",)

    def __init__(self, problem: Problem, weights: FloatArray, options: QuasiNewton) -> None:
        super().__init__(problem, weights, options)
        self._pseudo_gradient = np.empty_like(weights)
        self._orthant = np.empty_like(weights)
        self._settled = False

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        super().restore(snapshot)
        self._measure_gradient()  # writes the pseudo-gradient and the orthant

    def _measure_gradient(self) -> float:
        l1, p = self._problem.l1, self._pseudo_gradient
        # soft-thresholded gradient where w = 0, gradient + l1 sign(w) elsewhere
        np.sign(self.weights, out=self._orthant)
        shrunk = np.clip(self._gradient, -l1, l1)
        np.subtract(self._gradient, shrunk, out=p)
        np.multiply(self._orthant, l1, out=shrunk)
        shrunk += self._gradient
        np.copyto(p, shrunk, where=self._orthant != 0)
        np.copyto(self._orthant, -np.sign(p), where=self._orthant == 0)
        return float(np.sqrt(p @ p))

    def _has_settled(self) -> bool:
        period, share = SETTLED
        if not self._settled and len(self._objectives) > period:
            last = self._objectives[-1]
            self._settled = self._objectives[-1 - period] - last < share * abs(last)
        return self._settled

    def _direct(self) -> None:
        """Write -d, so that a trial is w - t times it."""
        p, d = self._pseudo_gradient, self._direction
        if not self._has_settled():
            self._inverse_hessian.times(p, out=d, newest=EARLY_PAIRS)
            d[d * p <= 0] = 0.0
            return
        at_zero = self.weights == 0
        fixed = at_zero & (p == 0)
        if np.count_nonzero(fixed) > MOSTLY_FIXED * len(p):
            self._inverse_hessian.times_within(np.flatnonzero(~fixed), p, out=d)
        else:  # gathering the free coordinates would cost more than it saves iterations
            self._inverse_hessian.times(p, out=d)
            d[fixed] = 0.0
        d[at_zero & (d * p <= 0)] = 0.0

    def _search(self) -> bool:
        self._direct()
        if not float(self._direction @ self._pseudo_gradient) > 0:
            return False
        step = self._first_step()
        for _ in range(30):
            decrease = self._project(step)
            if decrease >= 0:  # the projection stopped the good components: closer by, it does not
                step *= 0.5
                continue
            value = self._evaluate(self._trial_weights, self._trial_gradient)
            if value <= self._objective + SUFFICIENT_DECREASE * decrease + ROUNDING * abs(self._objective):
                self._accept(value)
                return True
            step *= 0.5
        return False

    def _project(self, step: float) -> float:
        """Write the projected trial; returns p.(trial - w), the fall that the pseudo-gradient promises."""
        trial = self._trial_weights
        np.copyto(trial, self.weights)
        daxpy(self._direction, trial, a=-step)
        trial[trial * self._orthant <= 0] = 0.0
        return float(self._pseudo_gradient @ trial) - float(self._pseudo_gradient @ self.weights)

"""The latent structural SVM by the DC algorithm (the concave-convex procedure), with both certificates.

    min_w  F(w) = g(w) - h(w),      see :mod:`trellis.objectives.latent`

One step completes the gold outputs at the present weights, v = sum_i c_i Phi(x_i, y*_i, h_i), and minimises
g(w) - <w, v>, a plain structural SVM, by 1-slack cutting planes. The planes bound the convex part of g, which
does not change from step to step, so each step begins with the planes of the steps before it, tilted by
v_before - v. The inner problem is solved until its duality gap is at most ``rough`` of what the step has
gained so far, or ``tol`` F(w) / 2: a rough minimiser serves as long as it is no worse than the point before.

History: ``primal`` = F(w) after the step and ``dual`` = h*(v) - g*(v) of it, neither of which ever rises
(``algorithm`` checks every half-step); ``inner_gap``, how far the inner problem is from its
minimum at most, and ``evaluations`` of the loss-augmented oracle on all data. The run has converged when a
step lowers F by at most ``tol`` F while its inner gap is as small: no plane that supports h at the weights
then allows a gain of more than the sum of the two. It is a critical point, not always the smallest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arguments import check_nonnegative
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.registration import register
from trellis.core.status import Status
from trellis.objectives.latent import Completion
from trellis.objectives.structured_problem import StructuredProblem
from trellis.solvers.dc.algorithm import DCRun
from trellis.solvers.planes.cutting_plane import Bundle, OneSlackRun
from trellis.solvers.problem import check_problem
from trellis.solvers.resumable import Resumable

MAX_PLANES = 1000  # evaluations in one step
NOTHING = 1e-12  # of the first objective: what is left is rounding


@register
@dataclass(frozen=True)
class CCCP:
    """Stops when a step lowers the objective by at most ``tol`` of it. Needs l2 > 0, no L1 norm and the
    margin objective with a loss that is a sum over parts. ``rough``: see above.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import CCCP
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("margin", solver=CCCP(), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    tol: float = 1e-3
    rough: float = 0.2

    name = "cccp"

    def __post_init__(self) -> None:
        check_nonnegative("tol", self.tol)
        if not 0 <= self.rough < 1:
            raise DataError(f"rough is {self.rough}; it must be at least 0 and below 1")

    def start(self, problem: Any, weights: FloatArray, rng: np.random.Generator) -> CCCPRun:
        check_problem(problem, self.name, "completed", l2=True)
        if not getattr(problem, "exact", True):
            raise UnsupportedError(
                "solver 'cccp' needs the maximum over all outputs, and this loss "
                "looks at candidates only; use solver='minibatch'"
            )
        if not problem.objective.margin_rescaling:
            raise UnsupportedError(
                f"solver 'cccp' works only with objective='margin', not {problem.objective.name!r}; use "
                "solver='auto'"
            )
        return CCCPRun(problem, weights, self)


class CCCPRun(Resumable):
    """One step of the loop is one iteration of the DC algorithm."""

    kept = ("_first", "_primal", "_parts", "_dc")

    def __init__(self, problem: StructuredProblem, weights: FloatArray, options: CCCP) -> None:
        self._parts = _LatentMargin(problem, options)
        self._dc: DCRun[FloatArray, FloatArray] = DCRun(self._parts, weights, options.tol)
        self._tol, self._first, self._primal = options.tol, np.nan, np.nan

    @property
    def weights(self) -> FloatArray:
        return self._dc.point

    @property
    def doubt(self) -> str:
        """Which certificate was the first to fail, if any was."""
        return self._dc.doubt

    def step(self) -> Mapping[str, float]:
        if np.isnan(self._first):
            self._first = self._dc.begin()["primal"]
        measured = self._dc.step()
        self._primal = measured["primal"]
        return {
            "objective": self._primal,
            **measured,
            "inner_gap": self._parts.gap,
            "evaluations": float(self._parts.evaluations),
        }

    def status(self) -> Status | None:
        first, primal, fall = self._first, self._primal, self._dc.fall
        if primal <= NOTHING * first:
            return Status(True, f"the objective is 0 to rounding ({primal:.2g}, from {first:.2g})")
        least = self._tol * abs(primal)
        if fall <= least and self._parts.gap <= least:
            return Status(
                True,
                f"a step lowered the objective by {fall:.2g}, with an inner duality gap of "
                f"{self._parts.gap:.2g} (tolerance {least:.2g})",
            )
        if fall <= 0.0:
            return Status(
                False,
                f"a step did not lower the objective, and its inner duality gap is {self._parts.gap:.2g} "
                f"(tolerance {least:.2g}); raise tol",
            )
        return None


class _LatentMargin(Resumable):
    """g and h of :mod:`trellis.objectives.latent` for the DC algorithm."""

    kept = ("_bundle", "_tilted", "gap", "evaluations")

    def __init__(self, problem: StructuredProblem, options: CCCP) -> None:
        self._problem, self._options = problem, options
        self._bundle = Bundle(problem.dimension)
        self._point = np.empty(0)
        self._completion: Completion
        self._tilted: FloatArray | None = None  # the v that the planes of the bundle are relative to
        self.gap, self.evaluations = np.inf, 0

    def g(self, u: FloatArray) -> float:
        value, _ = self._problem.value_and_gradient(u)
        return value + self._completed(u).value + 0.5 * self._problem.l2 * float(u @ u)

    def h(self, u: FloatArray) -> tuple[float, FloatArray]:
        completion = self._completed(u)
        return completion.value, completion.gradient

    def inner(self, u: FloatArray, v: FloatArray) -> float:
        return float(u @ v)

    def g_conjugate(self, v: FloatArray) -> tuple[float, FloatArray]:
        """Minimise g(u) - <u, v> from the last point; v must be the subgradient of h there."""
        if self._tilted is not None:
            self._bundle.tilt(self._tilted - v)
        self._tilted = v
        tol, rough = self._options.tol, self._options.rough
        run = OneSlackRun(self._completion.convex, self._point.copy(), tol, self._bundle)
        before = None
        for _ in range(MAX_PLANES):
            measured = run.step()
            self.evaluations += 1
            objective, gap = measured["objective"], measured["gap"]
            before = objective if before is None else before
            if gap <= max(rough * (before - objective), 0.5 * tol * abs(objective)) or run.status():
                break
        self.gap = gap
        return -objective, run.weights.copy()

    def _completed(self, u: FloatArray) -> Completion:
        if self._point is not u:
            self._point, self._completion = u, self._problem.completed(u)
        return self._completion

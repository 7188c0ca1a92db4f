"""Differences of convex functions: minimise g(u) - h(u), and certify each step.

For convex g and h the dual programme is to minimise h*(v) - g*(v); the two have the same optimal value
(``f*(v) = sup_u <u, v> - f(u)`` is the conjugate). The DC algorithm works on both by turns:

    v_t in the subdifferential of h at u_t             u_{t+1} in the subdifferential of g* at v_t

The first step replaces h by a plane that touches it at u_t from below, the second minimises g minus that
plane. With h*(v_t) = <u_t, v_t> - h(u_t), which holds because v_t is a subgradient there, the certificates

    primal_t = g(u_t) - h(u_t)          dual_t = h*(v_t) - g*(v_t) = <u_t, v_t> - h(u_t) - g*(v_t)

interleave: primal_0 >= dual_0 >= primal_1 >= dual_1 >= ... The first inequality of each pair is Fenchel's,
g(u) + g*(v) >= <u, v>; the second is the plane lying below h. So neither sequence ever rises, and a rise
beyond rounding proves that a subgradient or a conjugate is wrong. EM is the special case in which g is a
log-partition function and h the sum of log-partition functions with the observations held fixed: v_t are the
expected statistics (E-step), u_{t+1} is maximum likelihood from them (M-step), and dual_t is the negative
evidence lower bound.

A certificate that rises, or cannot be computed, never costs the point reached. The run goes on as long as the
primal itself falls, its status names the first iteration in doubt and does not say "converged"; a step that
does not lower the primal either is dropped, and the run ends with the point before it.

No scaling: whatever units g and h have, ``tol`` has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, NumericalError, StepError
from trellis.core.status import Status
from trellis.solvers.resumable import Resumable
from trellis.solvers.run import Trace

U = TypeVar("U")  # a primal point: an array, or a record of parameters
V = TypeVar("V")  # a dual point: an array, or a record of statistics

ROUNDING = 1e-10  # of the largest of the four terms met so far: sums of 1e8 terms stay well inside
CANCELLED = 1e-14  # of the magnitude, where a problem says it: some 50 roundings


class DCProblem(Protocol[U, V]):
    """A pair of convex functions, by their values and (sub)gradients.

    A rise of a certificate is forgiven up to 1e-10 of the largest magnitude met so far of g, h, <u, v> and
    g*. Where these are small differences of large terms, a problem may say how large by
    ``magnitude(u, v) -> float``, the sum of the sizes of the terms of <u, v>; 1e-14 of it is forgiven too.
    ``measure(h) -> Mapping[str, float]`` adds to what the history records of each point, given h there.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.solvers import ArrayDC, DCProblem
    >>> problem: DCProblem = ArrayDC(
    ...     g=lambda u: 0.5 * float(u @ u),
    ...     h=lambda u: (float(np.abs(u).sum()), np.sign(u)),
    ...     step=lambda v: v,
    ... )
    >>> problem.h(np.array([0.5]))
    (0.5, array([1.]))
    """

    def g(self, u: U) -> float:
        """The convex part."""

    def h(self, u: U) -> tuple[float, V]:
        """The part that is subtracted, convex too, and one of its subgradients at ``u``."""

    def g_conjugate(self, v: V) -> tuple[float, U]:
        """g*(v) = max over u of <u, v> - g(u), and a maximiser."""

    def inner(self, u: U, v: V) -> float:
        """<u, v>."""


@dataclass(frozen=True)
class ArrayDC:
    """A DC problem on arrays from three functions.

    ``h(u)`` returns its value and a subgradient; ``step(v)`` returns a minimiser of g(u) - <u, v>, from which
    the conjugate follows as g*(v) = <u, v> - g(u). A rough minimiser is allowed as long as it is no worse
    than the point before: both certificates hold all the same.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.solvers import ArrayDC
    >>> from trellis.training import minimise_dc
    >>> problem = ArrayDC(
    ...     g=lambda u: 0.5 * float(u @ u),
    ...     h=lambda u: (float(np.abs(u).sum()), np.sign(u)),
    ...     step=lambda v: v,
    ... )
    >>> minimise_dc(problem, np.array([0.2]), max_iter=100, tol=1e-9).point.tolist()
    [1.0]
    """

    g: Callable[[FloatArray], float]
    h: Callable[[FloatArray], tuple[float, FloatArray]]
    step: Callable[[FloatArray], FloatArray]

    def g_conjugate(self, v: FloatArray) -> tuple[float, FloatArray]:
        u = self.step(v)
        return self.inner(u, v) - float(self.g(u)), u

    def inner(self, u: FloatArray, v: FloatArray) -> float:
        return float(np.vdot(u, v))


@dataclass(kw_only=True)
class DCSolution(Trace, Generic[U]):
    """``history["primal"][t]`` for t = 0 .. n_iter; ``history["dual"][t]`` for t = 0 .. n_iter - 1.

    ``history["seconds"][t]`` is the wall-clock time at the end of iteration t + 1.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.solvers import ArrayDC
    >>> from trellis.training import minimise_dc
    >>> size = lambda u: (float(abs(u).sum()), np.sign(u))
    >>> problem = ArrayDC(lambda u: 0.5 * float(u @ u), size, lambda v: v)
    >>> solution = minimise_dc(problem, np.array([0.2]), max_iter=100, tol=1e-9)
    >>> np.round(solution.history["primal"][:2], 3).tolist()
    [-0.18, -0.5]
    """

    point: U

    @property
    def objective(self) -> float:
        """The primal at ``point``; infinite if the run was interrupted before it was known."""
        return self.history["primal"][-1] if self.history["primal"] else np.inf


class DCRun(Resumable, Generic[U, V]):
    """The DC algorithm from ``start``, until a step lowers the primal by at most ``tol``.

    It keeps the point reached and the plane of h there. A step is kept whole or not at all; ``doubt`` says
    which certificate was the first to fail, if any was."""

    kept = ("point", "fall", "doubt", "_iteration", "_scale", "_terms", "_primal")

    def __init__(self, problem: DCProblem[U, V], start: U, tol: float) -> None:
        if not tol >= 0:
            raise DataError(
                f"tol is {tol}; give the least fall of the objective worth another iteration, or 0"
            )
        self.point, self.fall, self.doubt = start, np.inf, ""
        self._problem, self._tol, self._iteration = problem, tol, 0
        self._magnitude: Callable[[U, V], float] | None = getattr(problem, "magnitude", None)
        self._measure: Callable[[float], Mapping[str, float]] = getattr(problem, "measure", lambda h: {})
        self._scale = self._terms = 0.0
        self._primal = np.nan

    def begin(self) -> Mapping[str, float]:
        self._primal, self._h, self._v = self._evaluate(self.point)
        if not np.isfinite(self._primal):
            raise NumericalError(
                f"g(u) - h(u) is {self._primal} at the start; start where both functions are finite, and "
                "scale the problem"
            )
        return {"primal": self._primal, **self._measure(self._h)}

    def step(self) -> Mapping[str, float]:
        try:
            dual, point = self._solve()
            primal, h, v = self._evaluate(point)
        except NumericalError as error:
            if self._iteration == 0:
                raise
            raise StepError(str(error)) from error
        doubt = self._doubt(dual, primal)
        if doubt and not (np.isfinite(primal) and primal < self._primal):
            raise StepError(doubt)
        self.doubt = self.doubt or doubt
        self.fall = max(self._primal - primal, 0.0)
        if primal < self._primal:  # a rise that rounding explains is no progress: the better point is kept
            self.point, self._primal, self._h, self._v = point, primal, h, v
        self._iteration += 1
        return {"primal": self._primal, "dual": dual, **self._measure(self._h)}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """The plane of h follows from the point: statistics may be as large as the data."""
        super().restore(snapshot)
        h, self._v = self._problem.h(self.point)
        self._h = float(h)

    def _solve(self) -> tuple[float, U]:
        """The dual of the plane at the point reached, and the next point."""
        inner = float(self._problem.inner(self.point, self._v))
        conjugate, point = self._problem.g_conjugate(self._v)
        self._scale = max(self._scale, *(abs(x) for x in (inner, conjugate) if np.isfinite(x)), 0.0)
        if self._magnitude is not None:
            sizes = (float(self._magnitude(u, self._v)) for u in (self.point, point))
            self._terms = max(self._terms, *sizes)
        return inner - self._h - float(conjugate), point

    def status(self) -> Status | None:
        if self.fall > self._tol:
            return None
        return Status(True, f"the objective fell by {self.fall:.2g} (tolerance {self._tol:.2g})")

    def _evaluate(self, u: U) -> tuple[float, float, V]:
        g = float(self._problem.g(u))
        h, v = self._problem.h(u)
        self._scale = max(self._scale, *(abs(x) for x in (g, float(h)) if np.isfinite(x)), 0.0)
        return g - float(h), float(h), v

    def _doubt(self, dual: float, primal: float) -> str:
        """What is wrong with the certificates of the step to ``primal``; empty if nothing is."""
        t = self._iteration + 1
        for name, value in (("h*(v) - g*(v)", dual), ("g(u) - h(u)", primal)):
            if not np.isfinite(value):
                return f"the certificate of iteration {t} cannot be computed, because {name} is {value}"
        forgiven = ROUNDING * self._scale + CANCELLED * self._terms
        rises = (
            (dual - self._primal, "h*(v) - g*(v) is {:.3g} above g(u) - h(u)",
             "g_conjugate does not give the conjugate of g and its maximiser"),
            (primal - dual, "g(u) - h(u) is {:.3g} above h*(v) - g*(v)",
             "h does not return a subgradient of itself, or g* is too large"),
        )  # fmt: skip
        for rise, what, why in rises:
            if rise > forgiven:
                return (
                    f"the certificate of iteration {t} failed: {what.format(rise)}, and rounding explains "
                    f"{forgiven:.2g}, so {why}, or one of the two functions is not convex"
                )
        return ""

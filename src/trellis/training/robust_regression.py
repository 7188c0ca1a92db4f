"""Least squares in which no residual costs more than c^2 / 2: a non-convex fit by the DC algorithm (CCCP).

    minimise over (w, b)    sum_i min(r_i^2, c^2) / 2 + ridge / 2 |w|^2,        r_i = x_i . w + b - y_i

A row further than c from the plane pays a flat price and has no pull on it, however far away it is: the fit
is least squares on the rows that it calls inliers. The loss is an exact difference of convex functions,
min(r^2, c^2) = r^2 - max(r^2 - c^2, 0):

    g(w, b) = sum_i r_i^2 / 2 + ridge / 2 |w|^2          h(w, b) = sum_i max(r_i^2 - c^2, 0) / 2

But for the ridge, both see (w, b) through the fitted values f = X w + b alone, so the dual point is kept as
the vector q in R^n of <u, v> = f . q: a subgradient of h is q_i = r_i where |r_i| > c and 0 elsewhere. The
step, the minimiser of g(u) - f . q, is ordinary least squares on the targets y + q: each outlier's target is
replaced by its present fitted value. X does not change, so one SVD serves all iterations of all starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.solvers.dc.algorithm import DCSolution
from trellis.training.driver import minimise_dc
from trellis.training.restarts import keep_best


class Plane(NamedTuple):
    """The fitted function x . coef + intercept."""

    coef: FloatArray
    intercept: float


class TruncatedLeastSquares:
    """The pair (g, h) of this module for given data: a :class:`~trellis.solvers.dc.algorithm.DCProblem`."""

    def __init__(self, X: FloatArray, y: FloatArray, threshold: float, ridge: float, intercept: bool) -> None:
        self._X, self._y, self._c, self._ridge = X, y, threshold, ridge
        # A free intercept takes the means out of the problem for w.
        self._centre = X.mean(axis=0) if intercept else np.zeros(X.shape[1])
        self._intercept = intercept
        left, singular, self._right = scipy.linalg.svd(X - self._centre, full_matrices=False)
        kept = singular > singular.max(initial=0.0) * max(X.shape) * np.finfo(float).eps
        self._left, self._right, s = left[:, kept], self._right[kept], singular[kept]
        self._shrink = s / (s * s + ridge)

    def fitted(self, u: Plane) -> FloatArray:
        values: FloatArray = self._X @ u.coef + u.intercept
        return values

    def least_squares(self, targets: FloatArray) -> Plane:
        """Ridge regression of ``targets``; the shortest of the solutions where there are several."""
        middle = float(targets.mean()) if self._intercept else 0.0
        coef = self._right.T @ (self._shrink * (self._left.T @ (targets - middle)))
        return Plane(coef, middle - float(self._centre @ coef))

    def g(self, u: Plane) -> float:
        r = self.fitted(u) - self._y
        return 0.5 * float(r @ r) + 0.5 * self._ridge * float(u.coef @ u.coef)

    def h(self, u: Plane) -> tuple[float, FloatArray]:
        r = self.fitted(u) - self._y
        q = np.where(np.abs(r) > self._c, r, 0.0)
        return 0.5 * float(np.maximum(r * r - self._c**2, 0.0).sum()), q

    def g_conjugate(self, q: FloatArray) -> tuple[float, Plane]:
        u = self.least_squares(self._y + q)
        return self.inner(u, q) - self.g(u), u

    def inner(self, u: Plane, q: FloatArray) -> float:
        return float(self.fitted(u) @ q)


@dataclass(frozen=True)
class RobustFit:
    """The best fit found: its plane, which rows it leaves out, and how its run went."""

    coef: FloatArray
    intercept: float
    outliers: NDArray[np.bool_]
    objective: float
    solution: DCSolution[Plane]

    def predict(self, X: ArrayLike) -> FloatArray:
        values: FloatArray = np.asarray(X, dtype=np.float64) @ self.coef + self.intercept
        return values


def truncated_least_squares(
    X: ArrayLike,
    y: ArrayLike,
    *,
    threshold: float,
    ridge: float = 0.0,
    intercept: bool = True,
    n_init: int = 20,
    max_iter: int = 1000,
    tol: float = 1e-9,
    random_state: int | np.random.Generator | None = None,
) -> RobustFit:
    """Fit y ~ X w + b by least squares whose residuals are cut off at ``threshold`` (in the units of y).

    ``X`` has shape (n, d), ``y`` shape (n,). The objective is that of the module's first lines; its local
    minima differ, so the DC algorithm starts from least squares on all rows, from w = 0, and from the planes
    through ``n_init - 2`` random sets of rows, and the lowest objective wins. ``tol`` is the least fall of
    the objective worth another iteration, in units of threshold^2.

        fit = truncated_least_squares(X, y, threshold=2.5 * noise)
        fit.coef, fit.intercept, fit.outliers.sum(), fit.solution.history["primal"]
    """
    X, y = _checked(X, y)
    if not (threshold > 0 and np.isfinite(threshold)):
        raise DataError(f"threshold is {threshold}; give the largest residual of an inlier, above 0")
    if not ridge >= 0:
        raise DataError(f"ridge is {ridge}; it must not be negative")
    if n_init < 1:
        raise DataError(f"n_init is {n_init}; at least one start is needed")
    problem = TruncatedLeastSquares(X, y, threshold, ridge, intercept)
    rng = np.random.default_rng(random_state)
    flat = Plane(np.zeros(X.shape[1]), 0.0)  # under a ridge it may be best to call every row an outlier
    starts = chain(
        [problem.least_squares(y), flat][:n_init],
        (_through_random_rows(X, y, intercept, rng) for _ in range(n_init - 2)),
    )
    tol = tol * threshold**2
    best, _ = keep_best(minimise_dc(problem, start, max_iter=max_iter, tol=tol) for start in starts)
    plane = best.point
    outliers = np.abs(problem.fitted(plane) - y) > threshold
    return RobustFit(plane.coef, plane.intercept, outliers, best.objective, best)


def _checked(X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    rows, targets = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if rows.ndim != 2 or targets.shape != rows.shape[:1] or not len(targets):
        raise DataError(
            f"X has shape {rows.shape} and y {targets.shape}; they must be (n, d) and (n,) with n at least 1"
        )
    bad = ~(np.isfinite(rows).all(axis=1) & np.isfinite(targets))
    if bad.any():
        raise DataError(f"row {int(bad.argmax())} of X and y is not finite; remove or correct it")
    return rows, targets


def _through_random_rows(X: FloatArray, y: FloatArray, intercept: bool, rng: np.random.Generator) -> Plane:
    """The plane through as few rows as fix one: all of them are often inliers, which least squares needs."""
    n, d = X.shape
    rows = rng.choice(n, size=min(n, d + intercept), replace=False)
    A = np.hstack([X[rows], np.ones((len(rows), 1))]) if intercept else X[rows]
    solution = np.linalg.lstsq(A, y[rows], rcond=None)[0]
    return Plane(solution[:d], float(solution[d]) if intercept else 0.0)

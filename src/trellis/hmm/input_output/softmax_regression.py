"""Weighted multinomial logistic regression, solved to its optimum.

    max_W  sum_t sum_c Y[c, t] log p(c | x_t)  -  (l2 / 2) sum of squares of all slopes,
    p(c | x) = exp<W[c], x> / sum_d exp<W[d], x>

``Y`` (C, N) are weights that need not add up to 1 in a column: posterior probabilities of what happened at
step t. The last column of the features x is 1; its weights, the intercepts, are not penalised. Sums, not
means.

Newton's method with Levenberg-Marquardt damping: a step that gains too little is retried with more damping,
so the method is also safe where probabilities are 0 or 1 and the curvature vanishes. It stops when half the
squared Newton decrement (what the next step could still gain) is below ``TOL`` of the total weight. Some
damping, ``DAMPING`` of the largest possible curvature, is always applied: without a penalty W is not unique
(a vector may be added to every W[c]), and damped steps do not move along that direction. With more than
``NEWTON_LIMIT`` weights L-BFGS takes over. Steps of the data are processed in blocks that fit the cache, and
are the last axis: there are many of them, and few classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from trellis.core.arrays import FloatArray
from trellis.core.logspace import log_softmax
from trellis.hmm.input_output.regression_searches import Search, WholeSearch, answered
from trellis.solvers.quasi_newton.lbfgs import LBFGS
from trellis.training.driver import minimise

TOL = 1e-13
DAMPING = 1e-11
NEWTON_LIMIT = 600
MAX_STEPS = 300
_BLOCK = 1 << 16  # numbers in a block of steps

# Y[:, first:last], made when it is needed: one-hot columns of a large alphabet never exist all at once
Targets = Callable[[int, int], FloatArray]


def step_blocks(n_steps: int, width: int) -> Iterator[tuple[int, int]]:
    """Runs of steps that hold about ``_BLOCK`` numbers, ``width`` for each step."""
    size = max(16, _BLOCK // max(width, 1))
    for first in range(0, n_steps, size):
        yield first, min(first + size, n_steps)


class Bounds(NamedTuple):
    """Asks for the total weight, and for an upper bound on the curvature along each feature (P,)."""


class Terms(NamedTuple):
    """Asks for the value, the gradient and (or 0) the Hessian of the objective without its penalty, at
    ``flat``."""

    flat: FloatArray
    second_order: bool


def fit_softmax(features: FloatArray, targets: Targets, start: FloatArray, l2: float) -> FloatArray:
    """The optimal weights (C, P) for ``features`` (P, N), from ``start``; never worse than it."""
    found: FloatArray = answered(
        softmax_search(start, l2),
        lambda request: regression_sums(features, targets, start.shape, request),
    )
    return found


def softmax_search(start: FloatArray, l2: float) -> Search | WholeSearch:
    """The same for data that lie anywhere: see :mod:`.regression_searches`."""
    if start.size <= NEWTON_LIMIT:
        return _newton(start, l2)

    def solve(ask: Callable[[Any], Any]) -> FloatArray:
        total_weight, _ = ask(Bounds())
        tight = LBFGS(tol=1e-8 * max(1.0, total_weight))
        problem = _Regression(ask, l2, start.shape)
        found = minimise(tight, problem, start.ravel(), max_iter=500, rng=np.random.default_rng(0))
        return np.asarray(found.weights.reshape(start.shape))

    return WholeSearch(solve)


def regression_sums(
    features: FloatArray, targets: Targets, shape: tuple[int, ...], request: Bounds | Terms
) -> tuple[Any, ...]:
    """What some steps of the data answer; answers of several parts are added."""
    if isinstance(request, Terms):
        return _terms(features, targets, shape, request)
    total, by_feature = 0.0, np.zeros(shape[1])
    for a, b in step_blocks(features.shape[1], shape[0]):
        weight = targets(a, b)
        total += float(weight.sum())
        by_feature += 0.25 * features[:, a:b] ** 2 @ weight.sum(axis=0)  # p (1 - p) <= 1 / 4
    return total, by_feature


def _terms(
    features: FloatArray, targets: Targets, shape: tuple[int, ...], request: Terms
) -> tuple[float, FloatArray, FloatArray | float]:
    """With n_t = sum_c Y[c, t] and v_t = p_t (x) x_t,

    Hessian = blockdiag_c( sum_t n_t p_t[c] x_t x_t^T ) - sum_t n_t v_t v_t^T.
    """
    c, p = shape
    weights, second_order = request.flat.reshape(shape), request.second_order
    value, gradient = 0.0, np.zeros(shape)
    own, cross = (np.zeros((c * p, n)) if second_order else np.zeros(()) for n in (p, c * p))
    for first, last in step_blocks(features.shape[1], c * p if second_order else c):
        x, y = features[:, first:last], targets(first, last)
        log_p = log_softmax(weights @ x, axis=0)
        value -= float(np.vdot(y, log_p))
        total = y.sum(axis=0)
        prob = np.exp(log_p)
        gradient += (prob * total - y) @ x.T
        if second_order:
            v = (prob[:, None] * x).reshape(c * p, -1)
            heavy = v * total
            own += heavy @ x.T
            cross -= heavy @ v.T
    for k in range(c if second_order else 0):
        cross[k * p : (k + 1) * p, k * p : (k + 1) * p] += own[k * p : (k + 1) * p]
    return value, gradient.ravel(), cross if second_order else 0.0


def _penalised(
    terms: tuple[float, FloatArray, Any], flat: FloatArray, shape: tuple[int, ...], l2: float
) -> tuple[float, FloatArray, Any]:
    """The negative of the objective, its gradient and Hessian, with the penalty on the slopes."""
    value, gradient, hessian = terms
    c, p = shape
    slopes = np.flatnonzero(np.tile(np.arange(p) < p - 1, c))
    if np.ndim(hessian):
        hessian[slopes, slopes] += l2
    gradient[slopes] += l2 * flat[slopes]
    return value + 0.5 * l2 * float(np.sum(flat.reshape(shape)[:, :-1] ** 2)), gradient, hessian


@dataclass(frozen=True, eq=False)
class _Regression:
    """The negative of the objective, as a problem for solvers (the penalty is in it: ``l2`` is theirs)."""

    ask: Callable[[Any], Any]
    penalty: float
    shape: tuple[int, ...]
    l1 = 0.0
    l2 = 0.0
    convex = True
    n_examples = 1

    @property
    def dimension(self) -> int:
        return self.shape[0] * self.shape[1]

    def value_and_gradient(self, flat: FloatArray) -> tuple[float, FloatArray]:
        terms = self.ask(Terms(flat, False))
        value, gradient, _ = _penalised(terms, flat, self.shape, self.penalty)
        return value, gradient


def _newton(start: FloatArray, l2: float) -> Search:
    shape, w = start.shape, start.ravel().copy()

    def terms(answer: Any, at: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        return _penalised(answer, at, shape, l2)

    total_weight, by_feature = yield Bounds()
    by_feature = by_feature.copy()
    by_feature[:-1] += l2
    curvature = np.tile(np.where(by_feature > 0, by_feature, 1.0), shape[0])
    scale = 1.0 / np.sqrt(curvature)
    enough = 2.0 * TOL * max(1.0, total_weight)
    value, gradient, hessian = terms((yield Terms(w, True)), w)
    damping, tried_free = DAMPING, False
    for _ in range(MAX_STEPS):
        direction = _damped(hessian, gradient, scale, damping)
        decrement = np.inf if direction is None else float(gradient @ direction)
        if decrement <= enough:
            if damping == DAMPING or tried_free:
                break
            damping, tried_free = DAMPING, True  # small only because of the damping?
            continue
        if direction is not None:
            trial = terms((yield Terms(w - direction, True)), w - direction)
            gained = (value - trial[0]) / (decrement - 0.5 * float(direction @ hessian @ direction))
            if gained > 1e-4:  # of what the quadratic model promises
                w = w - direction
                value, gradient, hessian = trial
                damping = max(DAMPING, damping * (0.01 if gained > 0.75 else 1.0 if gained > 0.25 else 4.0))
                continue
        if damping > 1e6:  # rounding hides what is left to gain
            break
        damping = max(1e-6, 10.0 * damping)
    return w.reshape(shape)


def _damped(
    hessian: FloatArray, gradient: FloatArray, scale: FloatArray, damping: float
) -> FloatArray | None:
    """The solution of (Hessian + damping / scale^2) d = gradient; ``None`` if rounding leaves none."""
    scaled = hessian * scale * scale[:, None]
    scaled[np.diag_indices_from(scaled)] += damping
    try:
        factor = cho_factor(scaled, lower=True)
    except LinAlgError:
        return None
    return np.asarray(scale * cho_solve(factor, scale * gradient))

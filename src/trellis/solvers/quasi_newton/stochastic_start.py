"""A stochastic start: a few passes of gradient descent, then the scale of each weight for L-BFGS.

From w = 0, L-BFGS spends half of its evaluations on what a few passes of stochastic gradient descent find at
once, and the other half on an optimum that it sees at the wrong scale: the curvature of a weight grows with
the number of steps that its feature has. So, with n examples, lambda = l2 / n and t counting visits,

    1.  w <- (1 - eta_t lambda) w - eta_t c_i grad f_i(w),     eta_t = rate / (1 + rate lambda t),

visits all examples ``passes`` times, each time in a new random order. The rate is RATE / (1 + m) times a
power of RATIO, m being the mean squared length of the features of a step (1 is for its transition): the one
with the smallest sum of c_i f_i, each at the weights of its visit, over a sample of the examples. And

    2.  D_j = sum_i c_i sum_s (x_sj df_i / du_s)^2,        scale_j = (max(l2, FLOOR max D) + D_j)^(-1/4),

with the scores u_s = x_s . w, estimates the diagonal of the Hessian, because y - p of a label has the square
p (1 - p) in expectation; the last pass measures it as it goes. L-BFGS then works on w / scale. The full
correction, with the power -1/2, is too much of a good thing: features overlap, and the diagonal takes each of
them for the only one.

Both are only where to begin and a choice of coordinates: objective, gradient, gap and the stopping rules are
those of all data, in w. Passes are sequential, so the number of threads changes nothing in them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.solvers.problem import compiled_run

PASSES = 4  # where none are asked for
MANY_STEPS = 20_000  # of data for which that pays
RATE, RATIO = 2.0, 2.0
SAMPLE = 16, 200  # examples to try a rate on: one in 16, but at least 200
TRIALS = 30  # rates at most
FLOOR = 1e-4  # of the largest curvature, where l2 is less


@dataclass(frozen=True)
class StochasticStart:
    """Asks a problem for its passes (``compiled_run``)."""

    name = "stochastic_start"


class StartPasses(Protocol):
    """What a problem answers with."""

    def visit(
        self,
        weights: FloatArray,
        order: NDArray[np.int64],
        rate: float,
        decay: float,
        visits: int,
        squares: FloatArray | None = None,
    ) -> float:
        """Step 1 over the examples of ``order``, in place, t going on from ``visits``, and D of step 2 added
        to ``squares``; the sum of c_i f_i, each at the weights of its visit, not finite if it runs away."""

    def __enter__(self) -> StartPasses: ...

    def __exit__(self, *error: object) -> None: ...


def stochastic_start(
    problem: Any, weights: FloatArray, rng: np.random.Generator, passes: int | None
) -> tuple[FloatArray, FloatArray] | None:
    """The weights to start from, and the scale of each.

    ``None`` where ``weights`` are a start already, where the problem has no such passes, l2 = 0 or no convex
    objective, and, if ``passes`` is None, where it has few data."""
    length, steps = getattr(problem, "squared_features", (0.0, 0))
    if passes == 0 or (passes is None and steps < MANY_STEPS):
        return None
    if not problem.l2 > 0 or not problem.convex or not length > 0 or weights.any():
        return None
    offered: AbstractContextManager[StartPasses] | None = compiled_run(
        problem, StochasticStart(), weights, rng
    )
    if offered is None:
        return None
    n, w = problem.n_examples, weights.copy()
    decay = problem.l2 / n
    passes = PASSES if passes is None else passes
    share, least = SAMPLE
    sample = np.linspace(0, n - 1, min(n, max(n // share, least))).astype(np.int64)
    squares = np.zeros_like(w)
    with offered as descent:
        at_zero = descent.visit(w.copy(), sample, 0.0, decay, 0) * n / len(sample)
        rate = _best_rate(descent, w, sample, decay, RATE / (1.0 + length / steps))
        for done in range(passes):
            order = rng.permutation(n)
            wanted = squares if done == passes - 1 else None
            value = descent.visit(w, order, rate, decay, done * n, wanted)
            if not value < at_zero:  # it runs away: w = 0 is the better start
                return None
    if not (np.isfinite(w).all() and np.isfinite(squares).all()):
        return None
    floor = max(problem.l2, FLOOR * float(squares.max(initial=0.0)))
    return w, (floor + squares) ** -0.25


def _best_rate(
    descent: StartPasses, zero: FloatArray, sample: NDArray[np.int64], decay: float, middle: float
) -> float:
    """A search from the ``middle``, down, then up, for as long as the loss over the sample falls."""
    tried: dict[float, float] = {}

    def loss(rate: float) -> float:
        if rate not in tried:
            value = descent.visit(zero.copy(), sample, rate, decay, 0)
            tried[rate] = value if np.isfinite(value) else np.inf
        return tried[rate]

    rate = middle
    for ratio in (1.0 / RATIO, RATIO):
        while len(tried) < TRIALS and (loss(rate * ratio) < loss(rate) or loss(rate) == np.inf):
            rate *= ratio
    return rate

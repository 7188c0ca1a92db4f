# mypy: allow-untyped-defs, disable-error-code="call-arg"
"""Sums over alternatives in log space, for kernels: the one log-sum-exp in Numba, and the modes max and sum.

``-inf`` stands for "impossible": what has no possible alternative has the log-sum ``-inf``, never NaN. Scores
are never NaN and never ``+inf``.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.numerics import kernel
from trellis.core.numerics_kernels import exp_shifted, highest

MAX, SUM = 0, 1  # which total over alternatives a kernel takes: the maximum, or (log-)sum


@kernel
def semiring_add(mode, a, b):
    """max(a, b) under MAX, log(exp a + exp b) under SUM."""
    top = max(a, b)
    if mode == MAX or top == -np.inf:
        return top
    return top + math.log1p(math.exp(min(a, b) - top))


@kernel
def log_sum_exp(x):
    """log sum_k exp x[k]."""
    top = -np.inf
    for k in range(x.shape[0]):
        top = max(top, x[k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(x.shape[0]):
        total += math.exp(x[k] - top)
    return top + math.log(total)


@kernel
def log_dot_exp(x, y):
    """log sum_k exp(x[k] + y[k])."""
    top = -np.inf
    for k in range(x.shape[0]):
        top = max(top, x[k] + y[k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(x.shape[0]):
        total += math.exp(x[k] + y[k] - top)
    return top + math.log(total)


@kernel
def normalise_logs(x):
    """Subtract log sum exp x in place and return it; where all are ``-inf``, x stays as it is.

    The maximum goes first: next to it the rest of the log-sum may be lost, and with it the sum of 1."""
    top = highest(x)
    if top == -np.inf:
        return top
    for k in range(x.shape[0]):
        x[k] -= top
    rest = log_sum_exp(x)
    for k in range(x.shape[0]):
        x[k] -= rest
    return top + rest


@kernel
def exp_and_sum(x, out):
    """out = exp(x - max x), which may be x itself; returns max x and sum out. All ``-inf``: (-inf, 0)."""
    top = highest(x)
    exp_shifted(x, top if top > -np.inf else 0.0, out)
    total = 0.0
    for k in range(out.shape[0]):
        total += out[k]
    return top, total

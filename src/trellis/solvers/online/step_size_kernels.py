# mypy: allow-untyped-defs
"""Step sizes of online solvers, for plain and compiled passes alike."""

from __future__ import annotations

import math

from trellis.core.numerics import kernel

DESCENT, ADAGRAD, ADAM = range(3)
CONSTANT, SQRT, INVERSE, PEGASOS = range(4)
TINY = 1e-8  # keeps adaptive steps finite
BETA1, BETA2 = 0.9, 0.999  # of Adam's moments

# The curvature search of the stochastic average gradient method
FLAT = 1e-10  # squared gradient norms below this say nothing about curvature
FORGET = 0.9  # an example's curvature estimate may fall by this factor at each search


@kernel
def rate_at(schedule, rate, decay, t):
    """eta_t; ``decay`` is lambda."""
    if schedule == SQRT:
        return rate / math.sqrt(t)
    if schedule == INVERSE:
        return rate / (1.0 + rate * decay * t)
    if schedule == PEGASOS:
        return 1.0 / (decay * (t + 1.0))
    return rate

"""The quadratic program behind 1-slack cutting planes, by PIQP (an interior-point method; chosen by
measurement, see docs/decisions/qp.md):

    min_alpha  1/2 alpha' G alpha - b' alpha        subject to  alpha >= 0,  sum alpha <= bound

G is positive semi-definite and often singular or nearly so, its diagonal spread over many orders of
magnitude: early planes are long, late ones short and alike. So the variables are scaled to a unit diagonal
and the linear term to size 1 before PIQP sees them; its proximal terms take care of the rest, and no ridge
is added. What is left is a common unit of all variables. PIQP wants answers of about size 1: where G decides
how large alpha is, the unit is that of b / G; where the bound does (planes that nearly cancel, so that G
holds alpha back only when they no longer do), it is that of the bound. Which one it is, only the answer
tells, so the second is tried where the first fails.

Whatever PIQP says of its own answer, the answer is judged by its duality gap  bound max(0, max_j r_j) -
alpha.r, r = b - G alpha, which bounds how far the objective can be from the optimum.
"""

from __future__ import annotations

import numpy as np
import piqp

from trellis.core.arrays import FloatArray
from trellis.core.errors import NumericalError

ACCURACY = 1e-12  # asked of PIQP, in the scaled problem
ACCEPTED_GAP = 1e-4  # relative to the objective; an answer further from the optimum is a failure
ROUNDED_GAP = 1e-10  # of bound max b: where the terms cancel to a tiny optimum, nothing finer is meant


def solve_simplex_qp(gram: FloatArray, linear: FloatArray, bound: float = 1.0) -> FloatArray:
    """The minimiser alpha, feasible to the last digit."""
    if linear.max(initial=0.0) <= 0.0:
        return np.zeros_like(linear)  # G >= 0 and b <= 0: nothing is better than alpha = 0
    diagonal = gram.diagonal()
    # A plane without slope has no natural length; it keeps its unit.
    size = 1.0 / np.sqrt(np.where(diagonal > 1e-300, diagonal, 1.0))
    slope = linear * size
    step = float(np.abs(slope).max())
    unit_gram = gram * size * size[:, None]
    gap = value = np.inf
    rounding = ROUNDED_GAP * bound * float(linear.max())  # of the largest that the objective could be
    for unit in (step, bound / float(size.max())):
        scaled = _solve_with_piqp(unit_gram * (unit / step), slope / step, size * (unit / bound))
        alpha = np.maximum(scaled * size * unit, 0.0)
        alpha *= min(1.0, bound / max(float(alpha.sum()), 1e-300))
        gap, value = _gap_and_value(gram, linear, bound, alpha)
        if gap <= max(ACCEPTED_GAP * abs(value), rounding):
            return alpha
    raise NumericalError(
        f"the quadratic program of {len(linear)} planes could not be solved (duality gap {gap:.3g} at "
        f"objective {value:.3g}); scale the features to similar size or raise l2"
    )


def _solve_with_piqp(gram: FloatArray, linear: FloatArray, row: FloatArray) -> FloatArray:
    """min 1/2 x'Gx - b'x subject to x >= 0 and row.x <= 1."""
    solver = piqp.DenseSolver()
    settings = solver.settings
    settings.eps_abs = settings.eps_rel = ACCURACY
    settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = ACCURACY
    solver.setup(
        np.asfortranarray(gram),
        -linear,
        None,
        None,
        np.asfortranarray(row[None]),
        np.array([-np.inf]),
        np.ones(1),
        np.zeros(len(linear)),
        None,
    )
    solver.solve()
    return np.array(solver.result.x)


def _gap_and_value(
    gram: FloatArray, linear: FloatArray, bound: float, alpha: FloatArray
) -> tuple[float, float]:
    """How far the objective is from the optimum at most, and the objective (with the sign of a maximum)."""
    residual = linear - gram @ alpha
    value = float(alpha @ linear) - 0.5 * float(alpha @ (gram @ alpha))
    return bound * max(0.0, float(residual.max())) - float(alpha @ residual), value

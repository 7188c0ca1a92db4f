"""Block coordinate ascent on the n-slack dual, and the small Gram matrices it needs.

    D(alpha) = sum_ij alpha_ij b_ij - (l2 / 2) ||w||^2,    w = -(1/l2) sum_ij alpha_ij g_ij,    dD/dalpha_ij
    = b_ij + g_ij.w

Planes are ordered by example: those of example i are ``starts[i] .. starts[i + 1]``, plane p is the sparse
row ``indptr[p] .. indptr[p + 1]``, and the example's Gram matrix is stored row by row in ``gram`` after
those of the examples before it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.numerics import kernel

ROUNDING = 1e-14


@kernel
def extend_gram(
    starts: IntArray,
    old_starts: IntArray,
    source: IntArray,
    old_gram: FloatArray,
    indptr: IntArray,
    indices: NDArray[np.int32],
    data: FloatArray,
    scratch: FloatArray,
) -> FloatArray:
    """Gram matrices after an exchange of planes: ``source[p]`` is the old index of plane p, or -1 for a new
    one.

    ``scratch``: zeros of the weights' dimension, zeros again on return.
    """
    size = 0
    for i in range(len(starts) - 1):
        size += (starts[i + 1] - starts[i]) ** 2
    gram = np.empty(size)
    at = 0
    old_at = 0
    for i in range(len(starts) - 1):
        first, count = starts[i], starts[i + 1] - starts[i]
        old_first, old_count = old_starts[i], old_starts[i + 1] - old_starts[i]
        for a in range(count):
            old_a = source[first + a] - old_first
            if source[first + a] >= 0:
                for b in range(count):
                    if source[first + b] >= 0:
                        gram[at + a * count + b] = old_gram[
                            old_at + old_a * old_count + source[first + b] - old_first
                        ]
                continue
            for e in range(indptr[first + a], indptr[first + a + 1]):
                scratch[indices[e]] += data[e]
            for b in range(count):
                product = 0.0
                for e in range(indptr[first + b], indptr[first + b + 1]):
                    product += data[e] * scratch[indices[e]]
                gram[at + a * count + b] = product
                gram[at + b * count + a] = product
            for e in range(indptr[first + a], indptr[first + a + 1]):
                scratch[indices[e]] = 0.0
        at += count * count
        old_at += old_count * old_count
    return gram


@kernel
def ascend(
    weights: FloatArray,
    l2: float,
    starts: IntArray,
    indptr: IntArray,
    indices: NDArray[np.int32],
    data: FloatArray,
    offsets: FloatArray,
    gram: FloatArray,
    alpha: FloatArray,
    target: float,
    max_passes: int,
) -> int:
    """Passes over the examples until their gaps add up to ``target``; moves ``alpha`` and ``weights``.

    The gap of example i at w is  max(0, max_j r_j) - sum_j alpha_j r_j,  r_j = b_j + g_j.w.  Most examples
    have none left after a few passes, so up to 20 passes over those that had one follow each pass over all;
    only a pass over all ends the ascent. Returns the number of passes made.
    """
    n = len(starts) - 1
    widest = 0
    for i in range(n):
        widest = max(widest, starts[i + 1] - starts[i])
    slope = np.empty(widest)
    before = np.empty(widest)
    open_gap = np.ones(n, dtype=np.bool_)
    small = 0.01 * target / n
    since_full = 0
    for sweep in range(max_passes):
        total = 0.0
        at = 0
        for i in range(n):
            first, count = starts[i], starts[i + 1] - starts[i]
            if since_full == 0 or open_gap[i]:
                top = 0.0
                current = 0.0
                for a in range(count):
                    r = offsets[first + a]
                    for e in range(indptr[first + a], indptr[first + a + 1]):
                        r += data[e] * weights[indices[e]]
                    slope[a] = r
                    before[a] = alpha[first + a]
                    top = max(top, r)
                    current += alpha[first + a] * r
                total += top - current
                open_gap[i] = top - current > small
                if open_gap[i]:
                    _solve_block(slope, alpha[first : first + count], gram[at : at + count * count], l2)
                    # w = -(1/l2) sum alpha g
                    for a in range(count):
                        change = (before[a] - alpha[first + a]) / l2
                        if change != 0.0:
                            for e in range(indptr[first + a], indptr[first + a + 1]):
                                weights[indices[e]] += change * data[e]
            at += count * count
        if since_full == 0 and total <= target:
            return sweep + 1
        since_full = 0 if since_full == 20 or total <= 0.5 * target else since_full + 1
    return max_passes


@kernel
def _solve_block(slope: FloatArray, alpha: FloatArray, gram: FloatArray, l2: float) -> None:
    """max over the simplex of one example, by moving mass from the flattest plane in use to the steepest.

    The zero plane (index -1: slope 0, no gradient) takes part with the mass that the alphas leave. Moving t
    from d to u changes D by  t (r_u - r_d) - t^2 ||g_u - g_d||^2 / (2 l2).
    """
    count = len(alpha)
    free = 1.0
    for a in range(count):
        free -= alpha[a]
    free = max(free, 0.0)
    for _ in range(20 * (count + 1)):
        up, high = -1, 0.0
        down, low = -1, np.inf
        if free > 0.0:
            low = 0.0
        for a in range(count):
            if slope[a] > high:
                up, high = a, slope[a]
            if alpha[a] > 0.0 and slope[a] < low:
                down, low = a, slope[a]
        rise = high - low
        if not rise > ROUNDING * (abs(high) + abs(low)) or up == down:
            return
        curvature = 0.0
        if up >= 0:
            curvature += gram[up * count + up]
        if down >= 0:
            curvature += gram[down * count + down]
        if up >= 0 and down >= 0:
            curvature -= 2.0 * gram[up * count + down]
        mass = free if down < 0 else alpha[down]
        move = mass
        if curvature > 0.0:
            move = min(mass, rise * l2 / curvature)
        if up >= 0:
            alpha[up] += move
        else:
            free += move
        if down < 0:
            free -= move
        elif move == mass:
            alpha[down] = 0.0
        else:
            alpha[down] -= move
        for a in range(count):
            pull = 0.0
            if up >= 0:
                pull += gram[a * count + up]
            if down >= 0:
                pull -= gram[a * count + down]
            slope[a] -= move * pull / l2

"""The passes of limited-memory BFGS over its block of pairs, in runs of coordinates that stay in the cache.

The block is far larger than any cache, so its passes cost what reading it costs: one pass stores a new pair
and takes all its inner products, another makes a direction. Each works on the coordinates first..last-1.
Pairs are those of the scaled weights w / scale, whose gradient is scale g; vectors come and go unscaled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.numerics import kernel

RUN = 1024  # coordinates at a time: the vectors' pieces stay in the first-level cache


@kernel
def store_pair(
    pairs: NDArray[np.float32],
    used: NDArray[np.int64],
    slot: int,
    w_new: FloatArray,
    w_old: FloatArray,
    g_new: FloatArray,
    g_old: FloatArray,
    scale: NDArray[np.float32],
    first: int,
    last: int,
    products: FloatArray,
) -> None:
    """pairs[slot] = (w_new - w_old) / scale, pairs[n + slot] = scale (g_new - g_old) (n half the rows);

    products[0, i] += pairs[i] . pairs[n + slot],  products[1, i] += pairs[i] . (scale g_new),  i in ``used``.
    """
    gradient = np.empty(RUN)
    changes = pairs.shape[0] // 2 + slot
    for a in range(first, last, RUN):
        b = min(a + RUN, last)
        step, change = pairs[slot, a:b], pairs[changes, a:b]
        for t in range(b - a):
            gradient[t] = scale[a + t] * g_new[a + t]
            step[t] = (w_new[a + t] - w_old[a + t]) / scale[a + t]
            change[t] = scale[a + t] * (g_new[a + t] - g_old[a + t])
        for i in used:
            row = pairs[i, a:b]
            by_change, by_gradient = 0.0, 0.0
            for t in range(b - a):
                x = np.float64(row[t])  # a product of two single-precision numbers would be rounded
                by_change += x * change[t]
                by_gradient += x * gradient[t]
            products[0, i] += by_change
            products[1, i] += by_gradient


@kernel
def products_with(
    pairs: NDArray[np.float32],
    used: NDArray[np.int64],
    vector: FloatArray,
    scale: NDArray[np.float32],
    first: int,
    last: int,
    products: FloatArray,
) -> None:
    """products[i] += pairs[i] . (scale vector), i in ``used``."""
    scaled = np.empty(RUN)
    for a in range(first, last, RUN):
        b = min(a + RUN, last)
        for t in range(b - a):
            scaled[t] = scale[a + t] * vector[a + t]
        for i in used:
            row, total = pairs[i, a:b], 0.0
            for t in range(b - a):
                total += row[t] * scaled[t]
            products[i] += total


@kernel
def combine(
    pairs: NDArray[np.float32],
    on_pairs: NDArray[np.float32],
    vector: FloatArray,
    on_vector: float,
    scale: NDArray[np.float32],
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """out = scale (on_vector scale vector + sum_i on_pairs[i] pairs[i]), where on_pairs[i] is not 0."""
    scaled = np.empty(RUN)
    for a in range(first, last, RUN):
        b = min(a + RUN, last)
        piece = out[a:b]
        # a product of two numbers at a time: how one of three is rounded would depend on where the arrays lie
        for t in range(b - a):
            scaled[t] = scale[a + t] * vector[a + t]
        for t in range(b - a):
            piece[t] = on_vector * scaled[t]
        for i in range(pairs.shape[0]):
            c = on_pairs[i]
            if c != 0.0:
                row = pairs[i, a:b]
                for t in range(b - a):
                    piece[t] += c * row[t]
        for t in range(b - a):
            piece[t] *= scale[a + t]

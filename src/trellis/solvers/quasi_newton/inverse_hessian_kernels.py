"""The passes of limited-memory BFGS over its block of pairs, in runs of coordinates that stay in the cache.

The block is far larger than any cache, so its passes cost what reading it costs: one pass stores a new pair
and takes all its inner products, another makes a direction. Each works on the coordinates first..last-1.
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
    slot: int,
    w_new: FloatArray,
    w_old: FloatArray,
    g_new: FloatArray,
    g_old: FloatArray,
    first: int,
    last: int,
    products: FloatArray,
) -> None:
    """pairs[slot] = w_new - w_old, pairs[n + slot] = g_new - g_old (n half the rows);

    products[0, i] += pairs[i] . (g_new - g_old),    products[1, i] += pairs[i] . g_new.
    """
    rows = pairs.shape[0]
    changes = rows // 2 + slot
    for a in range(first, last, RUN):
        b = min(a + RUN, last)
        step, change, gradient = pairs[slot, a:b], pairs[changes, a:b], g_new[a:b]
        for t in range(b - a):
            step[t] = w_new[a + t] - w_old[a + t]
            change[t] = gradient[t] - g_old[a + t]
        for i in range(rows):
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
    pairs: NDArray[np.float32], vector: FloatArray, first: int, last: int, products: FloatArray
) -> None:
    """products[i] += pairs[i] . vector."""
    for a in range(first, last, RUN):
        b = min(a + RUN, last)
        for i in range(pairs.shape[0]):
            total = 0.0
            for t in range(a, b):
                total += pairs[i, t] * vector[t]
            products[i] += total


@kernel
def combine(
    pairs: NDArray[np.float32],
    on_pairs: NDArray[np.float32],
    vector: FloatArray,
    scale: float,
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """out = scale vector + sum_i on_pairs[i] pairs[i], where on_pairs[i] is not 0."""
    for a in range(first, last, RUN):
        b = min(a + RUN, last)
        piece = out[a:b]
        for t in range(b - a):
            piece[t] = scale * vector[a + t]
        for i in range(pairs.shape[0]):
            c = on_pairs[i]
            if c != 0.0:
                row = pairs[i, a:b]
                for t in range(b - a):
                    piece[t] += c * row[t]

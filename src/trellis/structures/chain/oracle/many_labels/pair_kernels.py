# mypy: allow-untyped-defs
"""Transitions between allowed pairs of labels, and the scratch of the programmes over them.

A sequence is worked on in blocks of B steps; of the steps before a block only one row of messages is kept.
The way back scores each block and runs through it once more, so scratch is O((B + n / B) K). The tables of
all steps need not exist: the scores of a block are computed when they are needed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.numerics import kernel


class PairScores(NamedTuple):
    """Transitions: ``a`` (E,) by pairs, exp(a - shift of the label they lead to) in ``e``; ``start``,
    ``end``."""

    bounds: NDArray[np.uint32]
    source: NDArray[np.uint32]
    a: FloatArray
    e: FloatArray
    shift: FloatArray
    start: FloatArray
    end: FloatArray


class Blocks(NamedTuple):
    """Scratch: rows of a block, and one row of messages for each block of the longest sequence."""

    u: FloatArray  # (B, K) scores, and then the gradient
    f: FloatArray  # (B + 1, K) messages; row 0 is that before the block
    weight: FloatArray  # (B + 1, K) exp(f - max f)
    arrive: FloatArray  # (B + 1, K) sums of weight * e into each label
    kept: FloatArray  # (blocks, K) the messages before each block
    p: FloatArray  # (2, K)


class Gradient(NamedTuple):
    """Where sums over sequences go: weights of features, by pairs, of first and last labels; which weights
    there are."""

    flat: FloatArray
    hot: FloatArray
    pairs: FloatArray
    start: FloatArray
    end: FloatArray
    mask: NDArray[np.uint8]


@kernel
def exp_pairs(bounds, a, shift, e):
    """shift[k] = the largest a into k (0 where there is none), e = exp(a - shift)."""
    for k in range(shift.shape[0]):
        top = -np.inf
        for i in range(bounds[k], bounds[k + 1]):
            top = max(top, a[i])
        shift[k] = top if top > -np.inf else 0.0
        for i in range(bounds[k], bounds[k + 1]):
            e[i] = math.exp(a[i] - shift[k])


@kernel
def pair_place(pairs, j, k):
    """Where the pair (j, k) stands; -1 if it is not allowed."""
    low, high = np.int64(pairs.bounds[k]), np.int64(pairs.bounds[k + 1])
    while low < high:
        middle = (low + high) // 2
        if pairs.source[middle] < j:
            low = middle + 1
        else:
            high = middle
    return low if low < np.int64(pairs.bounds[k + 1]) and pairs.source[low] == j else np.int64(-1)

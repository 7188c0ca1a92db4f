"""Rows of data, equal ones once: a table of thousands of rows often holds few different ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trellis.bayesnet.model.data_frames import Codes
from trellis.core.arrays import FloatArray, IntArray


class DistinctRows(NamedTuple):
    """Rows of data, equal ones once: their weights, a number of the original row, and which row is which."""

    codes: Codes
    weight: FloatArray
    origin: IntArray
    inverse: IntArray


def distinct_rows(codes: Codes, weight: FloatArray) -> DistinctRows:
    """Equal rows once, with their weights added; rows of weight 0, which may be impossible, are left out.

    Rows are compared by a random 64-bit sum of their states, and then, so that nothing rests on chance, state
    by state with the first row of the same sum.
    """
    kept = np.flatnonzero(weight > 0)
    rows = codes[kept]
    random = np.random.default_rng(0).integers(2**63, size=codes.shape[1], dtype=np.uint64)
    with np.errstate(over="ignore"):
        sums = (rows.astype(np.uint64) * random).sum(axis=1, dtype=np.uint64)
    _, first, inverse = np.unique(sums, return_index=True, return_inverse=True)
    if not np.array_equal(rows[first[inverse]], rows):
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    total = np.zeros(len(first))
    np.add.at(total, inverse, weight[kept])
    return DistinctRows(np.ascontiguousarray(rows[first]), total, kept[first], inverse)

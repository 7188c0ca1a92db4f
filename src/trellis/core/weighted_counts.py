"""Expected counts and the logarithms of what they become: one rule for what is too little to count.

Probabilities are counts divided by their sum, so a count near the smallest number may have the probability 0,
and its share of an expected log-likelihood, count * log 0, would be infinite in place of nothing.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray

# What has less weight than this has seen nothing: it keeps the parameters it has. (Quotients of smaller
# numbers lose their digits to gradual underflow.)
NO_WEIGHT = 1e-290


def weighted_sum(counts: FloatArray, logs: FloatArray) -> float:
    """sum counts * logs over the counts above ``NO_WEIGHT``: 0 log 0 = 0."""
    seen = counts > NO_WEIGHT
    return float(counts[seen] @ logs[seen])


def normalise_rows(counts: FloatArray, fallback: FloatArray) -> FloatArray:
    """Rows divided by their sums; a row without any count is that of ``fallback``."""
    weight = counts.sum(axis=1, keepdims=True)
    empty = weight <= NO_WEIGHT
    table: FloatArray = np.where(empty, fallback, counts / np.where(empty, 1.0, weight))
    return table

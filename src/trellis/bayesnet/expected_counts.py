"""The E-step: log p(row) and expected counts of all families, over rows with missing states.

Rows whose gaps fall into small connected components (at most 2^12 configurations each) are enumerated
(:mod:`trellis.bayesnet.counting_kernels`). Both are exact; sums over rows, weighted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trellis.bayesnet.columns import Codes
from trellis.bayesnet.counting_kernels import count_rows, largest_components
from trellis.bayesnet.flat_factors import FlatFactors, FloatArray, IntArray
from trellis.errors import UnsupportedError
from trellis.inference.shards import over_shards

ENUMERATED = 20.0  # log2 of the configurations of the largest component that is enumerated


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


class Expectation:
    """Expected counts for fixed rows under changing tables."""

    def __init__(
        self, factors: FlatFactors, codes: Codes, weight: FloatArray, origin: IntArray, n_jobs: int = 1
    ) -> None:
        self._factors, self._codes, self._weight, self._n_jobs = factors, codes, weight, n_jobs
        log_size = np.zeros(len(codes))
        largest_components(factors, codes, log_size)
        widest = float(log_size.max(initial=0.0))
        if widest > ENUMERATED:
            row = int(origin[log_size.argmax()])
            raise UnsupportedError(
                f"row {row} has missing states that depend on each other in 2^{widest:.1f} configurations"
            )
        self._room = round(2.0**widest)

    def __call__(self, log_values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log p of each row, and counts in the layout of the values."""
        row_log = np.zeros(len(self._codes))

        def shard(first: int, last: int) -> FloatArray:
            counts = np.zeros_like(log_values)
            count_rows(
                self._factors, log_values, self._codes, self._weight, first, last, self._room, counts, row_log
            )
            return counts

        parts = over_shards(shard, np.arange(len(self._codes) + 1), self._n_jobs)
        counts: FloatArray = np.sum(parts, axis=0) if parts else np.zeros_like(log_values)
        return row_log, counts

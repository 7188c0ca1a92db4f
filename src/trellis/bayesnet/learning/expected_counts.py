"""The E-step: log p(row) and expected counts of all families, over rows with missing states.

Rows whose missing states fall into small connected components are enumerated
(``counting_kernels``), all others go through a junction tree of the whole network
(``tree_counts``). A component is small if it has at most a quarter as many configurations
as the tree takes multiplications: that is where both take the same time on alarm and on hailfinder. Both are
exact. Sums over rows, weighted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trellis.bayesnet.inference.flat_factors import FlatFactors
from trellis.bayesnet.learning.counting_kernels import count_rows, largest_components
from trellis.bayesnet.learning.data_columns import Codes
from trellis.bayesnet.learning.tree_counts import TreeCounts
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.shards import over_shards

SMALL = 64  # configurations that are enumerated without asking what a tree would cost
MOST = 2**20  # configurations that are never enumerated


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

    def __init__(self, factors: FlatFactors, codes: Codes, weight: FloatArray, n_jobs: int = 1) -> None:
        self._factors, self._n_jobs = factors, n_jobs
        log_size = np.zeros(len(codes))
        largest_components(factors, codes, log_size)
        large = log_size > np.log2(SMALL)
        self._tree: TreeCounts | None = None
        if large.any():
            tree = TreeCounts(factors, codes[large])
            larger = log_size > np.log2(min(max(SMALL, tree.multiplications / 4), MOST))
            if larger.any():
                self._tree = tree if np.array_equal(large, larger) else TreeCounts(factors, codes[larger])
            large = larger
        self._room = round(2.0 ** log_size[~large].max(initial=0.0))
        self._large, self._small = np.flatnonzero(large), np.flatnonzero(~large)
        self._codes, self._weight = np.ascontiguousarray(codes[self._small]), weight[self._small]
        self._large_weight = weight[self._large]

    def __call__(self, log_values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log p of each row, and counts in the layout of the values."""
        row_log = np.zeros(len(self._small) + len(self._large))
        row_log[self._small], counts = self._enumerated(log_values)
        if self._tree is not None:
            row_log[self._large], more = self._tree(log_values, self._large_weight, self._n_jobs)
            counts = counts + more
        return row_log, counts

    def _enumerated(self, log_values: FloatArray) -> tuple[FloatArray, FloatArray]:
        row_log = np.zeros(len(self._codes))

        def shard(first: int, last: int) -> FloatArray:
            counts = np.zeros_like(log_values)
            count_rows(
                self._factors, log_values, self._codes, self._weight, first, last, self._room, counts, row_log
            )
            return counts

        parts = over_shards(shard, np.arange(len(self._codes) + 1), self._n_jobs)
        return row_log, np.sum([np.zeros_like(log_values), *parts], axis=0)

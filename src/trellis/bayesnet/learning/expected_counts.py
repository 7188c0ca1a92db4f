"""The E-step: log p(row) and expected counts of all families, over rows with missing states.

Rows whose missing states fall into small connected components are enumerated
(``counting_kernels``), all others go through a junction tree of the whole network
(``tree_counts``). A component is small if it has at most a quarter as many configurations
as the tree takes multiplications: that is where both take the same time on alarm and on hailfinder. Both are
exact. Sums over rows, weighted.
"""

from __future__ import annotations

import numpy as np

from trellis.bayesnet.learning.counting_kernels import count_rows, largest_components
from trellis.bayesnet.learning.tree_counts import TreeCounts
from trellis.bayesnet.model.data_frames import Codes
from trellis.core.arrays import FloatArray
from trellis.core.shards import over_shards
from trellis.factors.flat_factors import FlatFactors

SMALL = 64  # configurations that are enumerated without asking what a tree would cost
MOST = 2**20  # configurations that are never enumerated


class ExpectedCounts:
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

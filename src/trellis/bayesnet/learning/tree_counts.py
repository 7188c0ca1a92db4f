"""Expected counts by a junction tree, for rows with too many configurations to enumerate.

The leaves of one plan are the tables of all families and, for each variable that some row observes, a leaf
with a slice for each row (:mod:`trellis.factors.junction_tree.row_tree`). Two passes give Z of each row and
the posterior of every family, as many rows at a time as memory allows.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from trellis.bayesnet.model.data_frames import Codes
from trellis.core.arrays import FloatArray
from trellis.factors.flat_factors import FlatFactors
from trellis.factors.junction_tree.plan_choice import MEMORY_LIMIT, check_memory
from trellis.factors.junction_tree.row_tree import RowTree

ROWS = 512
ROWS_MEMORY = 2.0**28


class TreeCounts:
    """Two passes over a junction tree of all families, for rows of one kind of data."""

    def __init__(self, factors: FlatFactors, codes: Codes) -> None:
        self._codes, self._starts = codes, factors.value_start
        scopes = [factors.scope[a:b].tolist() for a, b in pairwise(factors.scope_start.tolist())]
        observed = np.flatnonzero((codes >= 0).any(axis=0)).tolist()
        sizes = factors.cardinalities.tolist()
        self._tree = RowTree(
            sizes, scopes, (), observed, (), len(codes), block_bytes=ROWS_MEMORY, least=2, most=ROWS
        )

    @property
    def multiplications(self) -> float:
        """What one row takes in the pass to the roots."""
        return self._tree.pair.multiplications / 2

    def __call__(
        self, log_values: FloatArray, weight: FloatArray, n_jobs: int = 1
    ) -> tuple[FloatArray, FloatArray]:
        """log p of each row, and weighted expected counts in the layout of ``log_values``."""
        check_memory(self._tree.pair, MEMORY_LIMIT)
        tables = np.split(log_values, self._starts[1:-1])
        row_log, counts = self._tree.expected(tables, self._codes, weight, n_jobs)
        return row_log, np.concatenate([table.ravel() for table in counts])

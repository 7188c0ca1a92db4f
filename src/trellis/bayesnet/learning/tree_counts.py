"""Expected counts by a junction tree, for rows whose missing states depend on each other in many ways.

The leaves of one plan (:mod:`trellis.factors.junction_tree_plan`) are the tables of all families and, for
each variable that some row observes, a leaf with a slice for each row: one at the observed state, or ones
everywhere. Two passes give Z of each row and the derivative of Z with respect to every entry t of a table,
and with them the posterior of a family:

    p(entry | row) = t dZ/dt / sum over the entries of the table of t dZ/dt

Rows run side by side along the innermost axis, as many at a time as memory allows. Rows of which underflow
could have lost something are done again in log space (:mod:`.tree_counts_log`).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.learning.tree_counts_log import log_counts
from trellis.bayesnet.model.data_frames import Codes
from trellis.core.arrays import FloatArray
from trellis.core.logspace_kernels import SUM
from trellis.core.shards import over_shards
from trellis.factors.elimination_order import elimination_order
from trellis.factors.flat_factors import FlatFactors
from trellis.factors.junction_tree_choice import MEMORY_LIMIT, refuse_above
from trellis.factors.junction_tree_compiled import Arrays, steepest
from trellis.factors.junction_tree_plan import Plan

ROWS = 512
ROWS_MEMORY = 2.0**28
# Products below 1e-308 are lost: with slopes below exp(640) = 1e278 they are less than 1e-30 of a row.
SAFE_LOG_SLOPE = 640.0


class TreeCounts:
    """Two passes over a junction tree of all families, for rows of one kind of data."""

    def __init__(self, factors: FlatFactors, codes: Codes) -> None:
        self._factors, self._codes = factors, codes
        sizes = factors.cardinalities.tolist()
        scopes = [factors.scope[a:b].tolist() for a, b in pairwise(factors.scope_start.tolist())]
        self._n_families = len(scopes)
        self._observed = np.flatnonzero((codes >= 0).any(axis=0)).tolist()
        self._order = elimination_order(sizes, scopes).variables
        self._scopes = [*scopes, *([v] for v in self._observed)]  # families, then what is observed
        self._pair = self._plan(2).forecast
        self._rows = max(2, min(ROWS, int(2 * ROWS_MEMORY / self._pair.bytes), len(codes)))

    @property
    def multiplications(self) -> float:
        """What one row takes in the pass to the roots."""
        return self._pair.multiplications / 2

    @cached_property
    def _tree(self) -> Plan:
        refuse_above(self._pair, MEMORY_LIMIT)
        return self._plan(self._rows)

    @cached_property
    def _arrays(self) -> Arrays:
        return Arrays(self._tree)

    def __call__(
        self, log_values: FloatArray, weight: FloatArray, n_jobs: int = 1
    ) -> tuple[FloatArray, FloatArray]:
        """log p of each row, and weighted expected counts in the layout of ``log_values``."""
        row_log = np.empty(len(self._codes))
        leaves = self._leaves(np.exp(log_values))
        unsafe = np.zeros(len(self._codes), dtype=np.bool_)
        cuts = [*range(0, len(self._codes), self._rows), len(self._codes)]

        def shard(first: int, last: int) -> list[FloatArray]:
            return [
                self._block(leaves, weight, cuts[block], cuts[block + 1], row_log, unsafe)
                for block in range(first, last)
            ]

        parts = over_shards(shard, np.arange(len(cuts)), n_jobs)
        counts = np.sum([counts for part in parts for counts in part], axis=0)
        if unsafe.any():
            families, again = self._scopes[: self._n_families], self._codes[unsafe]
            row_log[unsafe], more = log_counts(
                self._factors, families, self._order, log_values, again, weight[unsafe]
            )
            counts = counts + more
        return row_log, counts

    def _plan(self, rows: int) -> Plan:
        marked = range(self._n_families, len(self._scopes))
        sizes = self._factors.cardinalities.tolist()
        return Plan(sizes, self._scopes, self._order, rows=rows, row_leaves=marked)

    def _leaves(self, values: FloatArray) -> FloatArray:
        """The tables of all families side by side, as their steps read them; place 0 is the number 1."""
        parts = [np.ones(1)]
        for f in range(self._n_families):
            axes = [self._scopes[f].index(v) for v in self._tree.layout(f)]
            parts.append(self._table(values, f).transpose(axes).ravel())
        return np.concatenate(parts)

    def _table(self, flat: FloatArray, f: int) -> FloatArray:
        start, end = self._factors.value_start[f], self._factors.value_start[f + 1]
        return flat[start:end].reshape(self._factors.cardinalities[self._scopes[f]])

    def _block(
        self,
        leaves: FloatArray,
        weight: FloatArray,
        first: int,
        last: int,
        row_log: FloatArray,
        unsafe: NDArray[np.bool_],
    ) -> FloatArray:
        """Rows ``first`` .. ``last - 1``; places of the block that are left over observe nothing.

        Marks rows that need log space: underflow and impossibility look alike. They count nothing here.
        """
        arrays, rows, n = self._arrays, self._rows, last - first
        values, slopes = np.empty(arrays.n_values), np.empty(arrays.n_slopes)
        values[: len(leaves)] = leaves
        for leaf, v in enumerate(self._observed, start=self._n_families):
            self._observe(values, leaf, self._codes[first:last, v])
        log_scale = np.zeros((arrays.n_tables, rows))
        arrays.to_roots(SUM, rows, values, log_scale)
        total = log_scale.sum(axis=0)
        with np.errstate(divide="ignore"):
            for table, at, _ in arrays.roots:
                total += np.log(values[at : at + rows] if self._tree.has_rows(table) else values[at])
        row_log[first:last] = total[:n]
        log_slope = arrays.derivatives(rows, values, log_scale, slopes)
        steep = steepest(log_slope, log_scale)[:n] > SAFE_LOG_SLOPE
        unsafe[first:last] = steep | np.isneginf(row_log[first:last])
        share = np.zeros(rows)
        share[:n] = np.where(unsafe[first:last], 0.0, weight[first:last])
        return self._counts(values, slopes, share)

    def _observe(self, values: FloatArray, leaf: int, states: Codes) -> None:
        start, end = self._tree.offsets[leaf], self._tree.offsets[leaf + 1]
        table = values[start:end].reshape(-1, self._rows)
        table[:] = 1.0
        seen = np.flatnonzero(states >= 0)
        table[:, seen] = 0.0
        table[states[seen], seen] = 1.0

    def _counts(self, values: FloatArray, slopes: FloatArray, share: FloatArray) -> FloatArray:
        counts = np.empty(len(self._factors.values))
        for f in range(self._n_families):
            start, end = self._tree.offsets[f], self._tree.offsets[f + 1]
            slope = self._tree.slope_offsets[f]
            table = values[start:end]
            derivatives = slopes[slope : slope + table.size * self._rows].reshape(-1, self._rows)
            norm = table @ derivatives
            found = table * (derivatives @ np.divide(share, norm, out=np.zeros_like(share), where=norm > 0))
            layout = self._tree.layout(f)
            back = [layout.index(v) for v in self._scopes[f]]
            self._table(counts, f)[...] = found.reshape(self._tree.shape(f)).transpose(back)
        return counts

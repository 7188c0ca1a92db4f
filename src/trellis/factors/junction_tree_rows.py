"""Many rows of evidence at once: one plan, whose tables have the rows as their innermost axis.

A variable that is observed in every row leaves the tables: a factor with such variables becomes one slice for
each row, f[rest, row] = f(rest, observed states of the row). A variable that is observed in some rows keeps
its place and gets a factor of its own, 1 at the observed state and 0 elsewhere, or all 1 where it is missing.
Tables that no evidence reaches are the same for all rows and are computed once.

Rows go through the kernels in blocks; blocks do not depend on the number of threads, and neither does any
result.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.logspace_kernels import SUM
from trellis.factors.elimination_order import elimination_order
from trellis.factors.junction_tree_compiled import SAFE_LOG_SLOPE, Arrays
from trellis.factors.junction_tree_plan import Plan
from trellis.factors.tables import Table

Codes = NDArray[np.integer]
BLOCKS = (128, 64, 32, 16, 8)  # rows at a time: as many as the second-level cache holds tables for
CACHE_BYTES = 2.0**23


class RowMarginals(NamedTuple):
    """log Z of each row, the marginals (rows, states) of each variable asked for, and rows to be done anew.

    Impossible rows have log Z = -inf and meaningless marginals. In rows that are ``unsafe`` underflow may
    have lost something: they need log space.
    """

    log_partition: FloatArray
    of: dict[int, FloatArray]
    unsafe: NDArray[np.bool_]


class _RowLeaf(NamedTuple):
    """A leaf with one slice for each row: flat values, places of a slice, and the strides of the evidence."""

    start: int
    values: FloatArray
    places: NDArray[np.int64]
    observed: NDArray[np.int64]
    strides: NDArray[np.int64]


class RowTree:
    """A junction tree for rows in which ``always`` are observed in all rows and ``sometimes`` in some."""

    def __init__(
        self,
        cardinalities: Sequence[int],
        factors: Sequence[Table],
        always: Collection[int],
        sometimes: Collection[int],
        wanted: Collection[int],
        n_rows: int,
    ) -> None:
        self.cardinalities = list(cardinalities)
        always, self._sometimes = frozenset(always), sorted(sometimes)
        tops = [float(table.values.max()) for table in factors]
        self._possible = all(top > 0 for top in tops)
        self._log_leaves = float(sum(np.log(top) for top in tops)) if self._possible else -np.inf
        self._factors = [
            Table(t.variables, t.values / top) for t, top in zip(factors, tops, strict=True) if top
        ]
        scopes = [tuple(v for v in table.variables if v not in always) for table in self._factors]
        row_leaves = [i for i, table in enumerate(self._factors) if not always.isdisjoint(table.variables)]
        row_leaves += range(len(scopes), len(scopes) + len(self._sometimes))
        scopes += [(v,) for v in self._sometimes]
        order = elimination_order(self.cardinalities, scopes).variables
        for rows in (min(size, max(n_rows, 1)) for size in BLOCKS):
            self.plan = Plan(
                self.cardinalities, scopes, order, rows=rows, row_leaves=row_leaves, wanted=wanted
            )
            if self.plan.forecast.bytes <= CACHE_BYTES:
                break
        self.rows = self.plan.rows
        self._row_leaves = set(row_leaves)
        self._always = always

    def solve(self, codes: Codes, n_jobs: int = 1) -> RowMarginals:
        """Marginals for each row of ``codes`` (rows, variables), -1 where missing."""
        n, rows = len(codes), self.rows
        arrays = Arrays(self.plan)
        log_partition, unsafe = np.full(n, -np.inf), np.zeros(n, dtype=np.bool_)
        of = {v: np.full((n, self.cardinalities[v]), np.nan) for v in arrays.names}
        if self._possible and n:
            leaves = [self._row_leaf(leaf) for leaf in sorted(self._row_leaves) if leaf < len(self._factors)]
            values, log_scale = self._shared(arrays)
            starts = range(0, n, rows)

            def run(first: int, last: int) -> None:
                mine, scales, slopes = values.copy(), log_scale.copy(), np.empty(arrays.n_slopes)
                for start in starts[first:last]:
                    part = slice(start, min(start + rows, n))
                    padded = codes[np.minimum(np.arange(start, start + rows), n - 1)]
                    found, sums, steep = self._block(arrays, leaves, padded, mine, scales, slopes)
                    count = part.stop - start
                    log_partition[part], unsafe[part] = found[:count], steep[:count] > SAFE_LOG_SLOPE
                    for v, share in arrays.normalised(sums).items():
                        of[v][part] = share.T[:count]

            cuts = np.linspace(0, len(starts), min(n_jobs, len(starts)) + 1).astype(int).tolist()
            with ThreadPoolExecutor(len(cuts) - 1) as pool:
                list(pool.map(run, cuts[:-1], cuts[1:]))
        # Where log Z is -inf, underflow and impossibility look alike.
        return RowMarginals(log_partition, of, unsafe | (np.isneginf(log_partition) & self._possible))

    def _shared(self, arrays: Arrays) -> tuple[FloatArray, FloatArray]:
        """Values with all leaves and tables that do not depend on the row."""
        plan = self.plan
        values = np.zeros(arrays.n_values)
        values[0] = 1.0
        for leaf, table in enumerate(self._factors):
            if leaf not in self._row_leaves:
                axes = [table.variables.index(v) for v in plan.layout(leaf)]
                values[plan.offsets[leaf] : plan.offsets[leaf + 1]] = table.values.transpose(axes).ravel()
        log_scale = np.zeros((arrays.n_tables, self.rows))
        arrays.run(SUM, self.rows, values, log_scale, 0, plan.n_shared)
        return values, log_scale

    def _row_leaf(self, leaf: int) -> _RowLeaf:
        table = self._factors[leaf]
        values = np.ascontiguousarray(table.values)
        strides = {v: s // 8 for v, s in zip(table.variables, values.strides, strict=True)}
        places = np.zeros(1, dtype=np.int64)
        for v in self.plan.layout(leaf):
            places = (places[:, None] + strides[v] * np.arange(self.cardinalities[v])).ravel()
        observed = [v for v in table.variables if v in self._always]
        return _RowLeaf(
            int(self.plan.offsets[leaf]),
            values.ravel(),
            places,
            np.array(observed, dtype=np.int64),
            np.array([strides[v] for v in observed], dtype=np.int64),
        )

    def _block(
        self,
        arrays: Arrays,
        leaves: list[_RowLeaf],
        codes: Codes,
        values: FloatArray,
        log_scale: FloatArray,
        slopes: FloatArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """log Z (rows,), unnormalised marginals (states, rows) and the largest log slopes (rows,)."""
        rows = self.rows
        for leaf in leaves:
            chosen = codes[:, leaf.observed] @ leaf.strides
            size = len(leaf.places) * rows
            np.take(
                leaf.values,
                leaf.places[:, None] + chosen,
                out=values[leaf.start : leaf.start + size].reshape(-1, rows),
                mode="clip",
            )
        for number, v in enumerate(self._sometimes, start=len(self._factors)):
            start, size = int(self.plan.offsets[number]), self.cardinalities[v]
            seen = codes[:, v]
            fits = (seen == np.arange(size)[:, None]) | (seen < 0)
            values[start : start + size * rows] = fits.ravel()
        arrays.to_roots(SUM, rows, values, log_scale, self.plan.n_shared)
        log_z = self._log_leaves + log_scale.sum(axis=0)
        with np.errstate(divide="ignore"):
            for table, at, _ in arrays.roots:
                log_z = log_z + np.log(values[at : at + (rows if self.plan.has_rows(table) else 1)])
        sums, log_slope = arrays.from_roots(rows, values, log_scale, slopes)
        sums[:, np.isneginf(log_z)] = 1.0  # no division by zero
        return log_z, sums, log_slope

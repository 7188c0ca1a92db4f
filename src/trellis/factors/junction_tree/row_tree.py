"""Many rows of evidence at once: one plan, whose tables have the rows as their innermost axis.

A variable that is observed in every row (``always``) leaves the tables: a factor with such variables becomes
one slice for each row, f[rest, row] = f(rest, observed states of the row). A variable that is observed in
some rows (``sometimes``) keeps its place and gets a factor of its own, 1 at the observed state and 0
elsewhere, or all 1 where it is missing. Tables that no evidence reaches are the same for all rows and are
computed once.

Rows go through the kernels in blocks, which do not depend on the number of threads, and neither does any
result. Rows of which underflow could have lost something go through log space: the same tree, with one more
variable that is never summed out, the row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.core.logspace_kernels import SUM
from trellis.core.shards import over_shards
from trellis.factors.elimination_order import elimination_order
from trellis.factors.junction_tree.compiled_plan import (
    LARGEST_LEAF_SPAN,
    Leaves,
    PlanArrays,
    ScaledSums,
    Sums,
)
from trellis.factors.junction_tree.log_passes import LogSums
from trellis.factors.junction_tree.plan import Forecast, Plan
from trellis.factors.tables import Table

Codes = NDArray[np.integer]
Found = TypeVar("Found")
LOG_CLIQUE_BYTES = 2.0**27  # in log space products are written down, with all rows


class RowMarginals(NamedTuple):
    """log Z of each row (-inf: impossible), and the marginals (rows, states) of each variable asked for.

    The marginals of impossible rows have no meaning.
    """

    log_partition: FloatArray
    of: dict[int, FloatArray]


class _RowLeaf(NamedTuple):
    """A leaf with one slice for each row: flat values, places of a slice, and the strides of the evidence."""

    leaf: int
    places: IntArray
    observed: IntArray
    strides: IntArray

    def entries(self, codes: Codes) -> IntArray:
        """Places of the slices (entries as laid out, rows) in the flat values of the factor."""
        return np.asarray(self.places[:, None] + codes[:, self.observed] @ self.strides)


class RowTree:
    """A junction tree for rows in which ``always`` are observed in all rows and ``sometimes`` in some.

    Parameters
    ----------
    cardinalities, scopes : of all variables, and the variables of each factor.
    wanted : the variables whose marginals will be asked for.
    n_rows : how many rows there will be.
    block_bytes : as many rows run side by side as leave the tables this small, within ``least`` and ``most``.
    """

    def __init__(
        self,
        cardinalities: Sequence[int],
        scopes: Sequence[Sequence[int]],
        always: Collection[int],
        sometimes: Collection[int],
        wanted: Collection[int],
        n_rows: int,
        *,
        block_bytes: float = 2.0**23,
        least: int = 8,
        most: int = 128,
    ) -> None:
        self.cardinalities, self._scopes = list(cardinalities), [tuple(scope) for scope in scopes]
        self._always, self._sometimes, self._wanted = frozenset(always), sorted(sometimes), wanted
        self._reduced = [tuple(v for v in scope if v not in self._always) for scope in self._scopes]
        self._leaf_scopes = [*self._reduced, *((v,) for v in self._sometimes)]
        self._order = elimination_order(self.cardinalities, self._leaf_scopes).variables
        self.pair = self._plan(2).forecast  # of two rows
        fitting = int(2.0 * block_bytes / max(self.pair.bytes, 1.0))
        rows = max(2, min(max(least, min(most, fitting)), n_rows))
        self.rows = rows - rows % 8 if rows > 8 else rows  # whole SIMD registers

    def _plan(self, rows: int) -> Plan:
        sliced = [f for f, scope in enumerate(self._scopes) if not self._always.isdisjoint(scope)]
        indicators = range(len(self._scopes), len(self._leaf_scopes))
        of_all = self.cardinalities, self._leaf_scopes, self._order
        return Plan(*of_all, rows=rows, row_leaves=[*sliced, *indicators], wanted=self._wanted)

    @cached_property
    def plan(self) -> Plan:
        return self._plan(self.rows)

    @property
    def forecast(self) -> Forecast:
        """What one block needs."""
        return self.plan.forecast

    @cached_property
    def _arrays(self) -> PlanArrays:
        return PlanArrays(self.plan)

    @cached_property
    def _row_leaves(self) -> list[_RowLeaf]:
        found = []
        for f, scope in enumerate(self._scopes):
            observed = [v for v in scope if v in self._always]
            if observed:
                sizes = [self.cardinalities[v] for v in scope]
                strides = dict(zip(scope, np.cumprod([1, *sizes[:0:-1]])[::-1].tolist(), strict=True))
                places = np.zeros(1, dtype=np.int64)
                for v in self.plan.layout(f):
                    places = (places[:, None] + strides[v] * np.arange(self.cardinalities[v])).ravel()
                steps = np.array([strides[v] for v in observed], dtype=np.int64)
                found.append(_RowLeaf(f, places, np.array(observed, dtype=np.int64), steps))
        return found

    # -- questions --------------------------------------------------------------------------------------

    def marginals(self, tables: Sequence[FloatArray], codes: Codes, n_jobs: int = 1) -> RowMarginals:
        """For each row of ``codes`` (rows, variables), -1 where missing; ``tables`` are logarithms."""
        n = len(codes)
        log_partition = np.full(n, -np.inf)
        of = {v: np.full((n, self.cardinalities[v]), np.nan) for v in self.plan.marginal_tables}

        def read(rows: IntArray, sums: Sums, used: BoolArray) -> None:
            first, last = int(rows[0]), int(rows[-1]) + 1
            if used.all() and last - first == len(rows):  # a slice is several times faster than its numbers
                log_partition[first:last] = sums.log_partition
                for v, shares in sums.marginals().items():
                    of[v][first:last] = shares.T
                return
            log_partition[rows[used]] = np.broadcast_to(sums.log_partition, used.shape)[used]
            for v, shares in sums.marginals().items():
                of[v][rows[used]] = np.broadcast_to(shares, (len(shares), len(used))).T[used]

        self._over_blocks(tables, codes, n_jobs, read)
        return RowMarginals(log_partition, of)

    def expected(
        self, tables: Sequence[FloatArray], codes: Codes, weight: FloatArray, n_jobs: int = 1
    ) -> tuple[FloatArray, list[FloatArray]]:
        """log Z of each row, and for each factor the weighted sum of its posteriors over the rows.

        Only without ``always``. Impossible rows count nothing.
        """
        log_partition = np.full(len(codes), -np.inf)

        def read(rows: IntArray, sums: Sums, used: BoolArray) -> list[FloatArray]:
            log_partition[rows[used]] = np.broadcast_to(sums.log_partition, used.shape)[used]
            share = np.zeros(len(used))
            share[used] = weight[rows[used]]
            counts = []
            for f, scope in enumerate(self._scopes):
                if isinstance(sums, LogSums):
                    posterior = sums.posterior(f).values
                    counts.append(np.broadcast_to(posterior, (*posterior.shape[:-1], len(used))) @ share)
                else:
                    layout = self.plan.layout(f)
                    counts.append(sums.expected(f, share).transpose([layout.index(v) for v in scope]))
            return counts

        nothing = [np.zeros([self.cardinalities[v] for v in scope]) for scope in self._scopes]
        parts = [nothing, *self._over_blocks(tables, codes, n_jobs, read)]
        return log_partition, [np.sum(of_factor, axis=0) for of_factor in zip(*parts, strict=True)]

    # -- blocks -----------------------------------------------------------------------------------------

    def _over_blocks(
        self,
        tables: Sequence[FloatArray],
        codes: Codes,
        n_jobs: int,
        read: Callable[[IntArray, Sums, BoolArray], Found],
    ) -> list[Found]:
        """What ``read`` makes of each block: the numbers of its rows, its sums, and which of them count."""
        n = len(codes)
        sizes = np.array([table.size for table in tables], dtype=np.int64)
        flat = np.concatenate([table.ravel() for table in tables]) if tables else np.zeros(0)
        leaves = Leaves.of(flat, sizes)
        unsafe = np.full(n, leaves.log_scale > -np.inf)
        found: list[Found] = []
        if unsafe.any() and leaves.span <= LARGEST_LEAF_SPAN:
            scaled = np.split(leaves.values, np.cumsum(sizes)[:-1])
            cuts = [*range(0, n, self.rows), n]
            arrays = self._arrays  # made before threads ask for it

            def shard(first: int, last: int) -> list[Found]:
                values, log_scale = self._shared(scaled)
                slopes = np.empty(arrays.n_slopes)
                results = []
                for begin in cuts[first:last]:
                    rows = np.minimum(np.arange(begin, begin + self.rows), n - 1)  # the last one fills up
                    self._fill(values, scaled, codes[rows])
                    sums = ScaledSums(arrays, values, leaves.log_scale, log_scale, self.plan.n_shared)
                    safe = sums.go_back(slopes) & (np.arange(begin, begin + self.rows) < n)
                    unsafe[rows[safe]] = False
                    results.append(read(rows, sums, safe))
                return results

            found += [one for part in over_shards(shard, np.arange(len(cuts)), n_jobs) for one in part]
        for rows, log_sums in self._log_blocks(tables, codes, np.flatnonzero(unsafe)):
            found.append(read(rows, log_sums, np.ones(len(rows), dtype=np.bool_)))
        return found

    def _shared(self, scaled: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Values with all leaves and tables that do not depend on the row, and their scales."""
        plan = self.plan
        values = np.empty(self._arrays.n_values)
        values[0] = 1.0
        for f, scope in enumerate(self._scopes):
            if not plan.has_rows(f):
                table = scaled[f].reshape([self.cardinalities[v] for v in scope])
                axes = [scope.index(v) for v in plan.layout(f)]
                values[plan.offsets[f] : plan.offsets[f + 1]] = table.transpose(axes).ravel()
        log_scale = np.zeros((self._arrays.n_tables, self.rows))
        self._arrays.run(SUM, values, log_scale, 0, plan.n_shared)
        return values, log_scale

    def _fill(self, values: FloatArray, scaled: Sequence[FloatArray], codes: Codes) -> None:
        """The leaves that depend on the row."""
        for leaf in self._row_leaves:
            start, end = self.plan.offset_lists[0][leaf.leaf : leaf.leaf + 2]
            out = values[start:end].reshape(-1, self.rows)
            np.take(scaled[leaf.leaf], leaf.entries(codes), out=out, mode="clip")
        for leaf_number, v in enumerate(self._sometimes, start=len(self._scopes)):
            start, end = self.plan.offset_lists[0][leaf_number : leaf_number + 2]
            values[start:end] = _agrees(codes[:, v], self.cardinalities[v]).ravel()

    def _log_blocks(
        self, tables: Sequence[FloatArray], codes: Codes, rows: IntArray
    ) -> Iterator[tuple[IntArray, LogSums]]:
        """Rows in log space, as many at a time as memory allows."""
        size = max(1, int(LOG_CLIQUE_BYTES / (8.0 * self.pair.clique)))
        row = len(self.cardinalities)
        for first in range(0, len(rows), size):
            part = rows[first : first + size]
            leaves = []
            for scope, reduced, table in zip(self._scopes, self._reduced, tables, strict=True):
                observed = [v for v in scope if v in self._always]
                values = table.reshape([self.cardinalities[v] for v in scope])
                if observed:
                    values = values.transpose([scope.index(v) for v in (*observed, *reduced)])
                    values = values[tuple(codes[part, v] for v in observed)]
                leaves.append(Table((row, *reduced) if observed else scope, values))
            for v in self._sometimes:
                agrees = _agrees(codes[part, v], self.cardinalities[v])
                leaves.append(Table((v, row), np.where(agrees, 0.0, -np.inf)))
            sizes, scopes = [*self.cardinalities, len(part)], [leaf.variables for leaf in leaves]
            yield part, LogSums(Plan(sizes, scopes, self._order, wanted=self._wanted), leaves, 0.0, row)


def _agrees(codes: Codes, size: int) -> BoolArray:
    """Which states (size, rows) agree with what is observed."""
    return np.asarray((codes == np.arange(size)[:, None]) | (codes < 0))

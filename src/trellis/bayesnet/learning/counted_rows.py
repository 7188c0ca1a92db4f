"""Rows of data that EM asks for their expected counts: in this process, or in shards on a backend.

Rows in shards are cut by the data alone; log tables go out, one vector of counts comes back for each of them,
added in an order that depends on the number of shards alone.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.learning.expected_counts import ExpectedCounts
from trellis.bayesnet.model.distinct_rows import DistinctRows
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.backends import Backend, PlacedShards
from trellis.core.errors import DataError
from trellis.core.shards import shard_bounds
from trellis.data.sequence_shards.sequence_shard import n_shards
from trellis.factors.flat_factors import FlatFactors


class RowSummary(NamedTuple):
    """Of different rows: their number and weight, and how many of them have a state of each variable (V,)."""

    n_rows: int
    weight: float
    known: IntArray

    @property
    def complete(self) -> bool:
        return bool((self.known == self.n_rows).all())

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Variables that are never observed."""
        return np.asarray(self.known == 0)


class CountedRows:
    """Expected counts for fixed rows under changing tables."""

    def __init__(self, factors: FlatFactors, rows: DistinctRows, n_jobs: int = 1) -> None:
        self._weight, self._origin = rows.weight, rows.origin
        self._expected = ExpectedCounts(factors, rows.codes, rows.weight, n_jobs)

    def __call__(self, log_values: FloatArray) -> tuple[float, FloatArray]:
        """The weighted sum of log p, and counts in the layout of the values."""
        row_log, counts = self._expected(log_values)
        impossible = row_log == -np.inf
        if impossible.any():
            raise DataError(
                f"row {self._origin[impossible.argmax()]} of the data is impossible under the tables; "
                "give the network tables without zeros there, or use start='random' and keep no such table"
            )
        return float(self._weight @ row_log), counts


class ShardedRows:
    """The same in shards."""

    def __init__(self, shards: PlacedShards) -> None:
        self._shards = shards

    @classmethod
    def of(cls, factors: FlatFactors, rows: DistinctRows, backend: Backend) -> ShardedRows:
        return cls(backend.place(partial(_counted, factors), cut_rows(rows)))

    def __call__(self, log_values: FloatArray) -> tuple[float, FloatArray]:
        return self._shards.total(shard_counts, log_values)


def summarise(rows: DistinctRows) -> RowSummary:
    known = (rows.codes >= 0).sum(axis=0)
    return RowSummary(len(rows.codes), float(rows.weight.sum()), known)


def cut_rows(rows: DistinctRows) -> list[DistinctRows]:
    n, width = rows.codes.shape
    every = np.arange(n + 1)
    return [
        DistinctRows(rows.codes[a:b], rows.weight[a:b], rows.origin[a:b], every[: b - a])
        for a, b in shard_bounds(every, n_shards(n, width))
    ]


def _counted(factors: FlatFactors, rows: DistinctRows) -> CountedRows:
    return CountedRows(factors, rows)


def shard_counts(rows: CountedRows, log_values: FloatArray) -> tuple[float, FloatArray]:
    return rows(log_values)

"""EM for the tables of a Bayesian network, as an instance of the DC algorithm.

With u the logarithms of all tables, b the weights of the rows, and a >= 0 pseudo-counts,

    g(u) = - <a, u>  where every row of a table sums to one at most, infinite elsewhere
    h(u) = sum over rows of data of  b log sum over hidden states of exp(sum of the cells of u that they use)

g is convex, for the set {sum_k exp u_k <= 1} is, and h is a sum of log-sum-exps. A subgradient of h is the
vector of expected counts (E-step); the maximiser of <u, v> - g(u) divides counts plus pseudo-counts by their
sum (M-step). So primal = -(log-likelihood + <a, log tables>), and dual is the negative evidence lower bound
at the new tables and the old posteriors. The prior is Dirichlet with parameters a + 1. Sums, not means.

A row of a table that no data reach has nothing to maximise and keeps what it was; so do the tables of
variables that are kept fixed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.learning.counted_rows import CountedRows, ShardedRows
from trellis.bayesnet.model.distinct_rows import DistinctRows
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.weighted_counts import NO_WEIGHT, weighted_sum
from trellis.factors.flat_factors import FlatFactors

TRACE = 1e-300  # of the counts of a row: less is nothing


class Counts(NamedTuple):
    """A dual point: expected counts of all cells, and the tables (logarithms) that gave them."""

    counts: FloatArray
    taken_at: FloatArray


class NetworkEM:
    """The pair (g, h) of this module for given rows: a :class:`~trellis.solvers.dc.algorithm.DCProblem`."""

    def __init__(
        self,
        factors: FlatFactors,
        rows: DistinctRows | ShardedRows,
        pseudocount: FloatArray,
        fixed: NDArray[np.bool_],
        n_jobs: int = 1,
    ) -> None:
        self._factors, self._pseudocount, self._fixed = factors, pseudocount, fixed
        self._rows = rows if isinstance(rows, ShardedRows) else CountedRows(factors, rows, n_jobs)
        own = factors.cardinalities[factors.scope[factors.scope_start[1:] - 1]]
        self._row_size = np.repeat(own, np.diff(factors.value_start) // own)  # of the rows of all tables
        self._row_start = np.concatenate([[0], np.cumsum(self._row_size)[:-1]]).astype(np.int64)

    def g(self, u: FloatArray) -> float:
        return -weighted_sum(self._pseudocount, u)

    def h(self, u: FloatArray) -> tuple[float, Counts]:
        value, counts = self._rows(u)
        return value, Counts(self._without_traces(counts), u)

    def _without_traces(self, counts: FloatArray) -> FloatArray:
        """Zero for counts whose share of their row is no number: its logarithm would be infinite, and with it
        a certificate, for the sake of something that changes no digit of anything."""
        total = np.repeat(np.add.reduceat(counts + self._pseudocount, self._row_start), self._row_size)
        return np.where(counts > TRACE * total, counts, 0.0)

    def g_conjugate(self, v: Counts) -> tuple[float, FloatArray]:
        u = self.normalise(v.counts + self._pseudocount, v.taken_at)
        return self.inner(u, v) - self.g(u), u

    def inner(self, u: FloatArray, v: Counts) -> float:
        return weighted_sum(v.counts, u)

    def normalise(self, counts: FloatArray, before: FloatArray) -> FloatArray:
        """log of counts / their sum in each row; ``before`` where there is none and in fixed cells."""
        total = np.repeat(np.add.reduceat(counts, self._row_start), self._row_size)
        stays = self._fixed | (total <= NO_WEIGHT)
        with np.errstate(divide="ignore"):
            logs = np.log(counts / np.where(stays, 1.0, total))
        u: FloatArray = np.where(stays, before, logs)
        return u

    def complete_counts(self) -> FloatArray:
        """The counts of data in which nothing is missing, which no table changes."""
        return self._rows(np.zeros(len(self._pseudocount)))[1]

    def rows_without_data(self, v: Counts) -> IntArray:
        """For each variable, the rows of its table that have neither data nor pseudo-counts."""
        total = np.add.reduceat(v.counts + self._pseudocount, self._row_start)
        empty = (total <= NO_WEIGHT) & ~self._fixed[self._row_start]
        owner = np.searchsorted(self._factors.value_start, self._row_start, side="right") - 1
        return np.bincount(owner[empty], minlength=len(self._factors.cardinalities))

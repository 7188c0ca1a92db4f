"""Segmentations of one utterance: the graph of segments, their part scores, and the features behind them.

Frames 0..T-1 are cut into segments, one per visited *node* (an instance of a phone). Nodes stand in
topological order: node i lists the nodes that may come before it, all smaller than i, and -1 where it may
begin the utterance; ``final[i]`` says that it may end it. A sequence of phones is a chain; an optional
silence or another pronunciation is a node that a path may leave out. A path visits nodes i_1, i_2, ... from
frames s_1 = 0 < s_2 < ... with lengths l_k = s_{k+1} - s_k, min_length <= l <= max_length, and scores

    sum_k  prefix[i_k, s_k + l_k] - prefix[i_k, s_k] + boundary[i_k, s_k] + duration[i_k, l_k]
           - rate_weight sum_{k>1} (l_k / mean_length[i_k] - l_{k-1} / mean_length[i_{k-1}])^2

``prefix`` holds sums of frame scores over frames before t; ``boundary`` counts at frame 0 as anywhere else, so
put 0 there. ``-inf`` in ``boundary`` or ``duration`` forbids.

:class:`SegmentFeatures` keeps the tables unweighted. The score is linear in the weights, w . Phi(path), in the
order: prefix tables, boundary tables, duration tables, rate; Phi_rate = -rate sum d^2, not divided by anything
but what ``rate`` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.data.sequences import IntArray
from trellis.errors import DataError, InfeasibleError
from trellis.scores.parts import FloatArray

BEGIN = -1  # in ``pred``: the beginning of the utterance


@dataclass(frozen=True, eq=False)
class SegmentGraph:
    """Which segments may follow which, and how long they may be. Build it with :meth:`chain` or :meth:`of`.

    ``min_length``, ``max_length``: (P,) frames. ``mean_length``: (P,), of the rate term. The predecessors of
    node i are ``pred[pred_indptr[i]:pred_indptr[i + 1]]``. ``final``: (P,).
    """

    min_length: IntArray
    max_length: IntArray
    mean_length: FloatArray
    pred_indptr: IntArray
    pred: IntArray
    final: NDArray[np.bool_]

    @classmethod
    def chain(
        cls, min_length: ArrayLike, max_length: ArrayLike, mean_length: ArrayLike | None = None
    ) -> SegmentGraph:
        """Each node follows the one before it: a plain sequence of phones."""
        n = len(np.atleast_1d(min_length))
        return cls.of(min_length, max_length, [[i - 1] for i in range(n)], np.arange(n) == n - 1, mean_length)

    @classmethod
    def of(
        cls,
        min_length: ArrayLike,
        max_length: ArrayLike,
        predecessors: Sequence[Sequence[int]],
        final: ArrayLike,
        mean_length: ArrayLike | None = None,
    ) -> SegmentGraph:
        """``predecessors[i]``: nodes before i, -1 for the beginning; an empty list means the beginning."""
        low, high = (np.array(x, dtype=np.int64, ndmin=1) for x in (min_length, max_length))
        mean = np.ones(len(low)) if mean_length is None else np.array(mean_length, dtype=np.float64, ndmin=1)
        ends = np.array(final, dtype=bool, ndmin=1)
        if len(low) == 0:
            raise DataError("a segmentation needs at least one node; the transcript is empty")
        if not (len(low) == len(high) == len(mean) == len(predecessors) == len(ends)):
            raise DataError(
                f"a graph of segments has {len(low)} minimum, {len(high)} maximum and {len(mean)} mean lengths, "
                f"{len(predecessors)} lists of predecessors and {len(ends)} final marks; they must be as many"
            )
        bad = np.flatnonzero((low < 1) | (high < low) | ~(mean > 0) | ~np.isfinite(mean))
        if bad.size:
            i = int(bad[0])
            raise DataError(
                f"node {i} has lengths {low[i]} to {high[i]} with mean {mean[i]}; it must be at least 1 frame "
                "long, its maximum at least its minimum, and its mean positive"
            )
        lists = [sorted(set(before)) or [BEGIN] for before in predecessors]
        for i, before in enumerate(lists):
            if before[0] < BEGIN or before[-1] >= i:
                raise DataError(
                    f"node {i} has predecessors {before}; they must stand before it (0 to {i - 1}, or -1 for "
                    "the beginning)"
                )
        if not ends.any():
            raise DataError("no node may end the utterance; mark one as final")
        indptr = np.concatenate([[0], np.cumsum([len(before) for before in lists])]).astype(np.int64)
        pred = np.array([p for before in lists for p in before], dtype=np.int64)
        return cls(low, high, mean, indptr, pred, ends)

    @property
    def n_nodes(self) -> int:
        return len(self.min_length)

    @property
    def longest(self) -> int:
        """L: the longest segment of any node."""
        return int(self.max_length.max())

    def check(self, path: SegmentPath, where: str = "the path") -> None:
        """Raise ``InfeasibleError`` unless the path follows the graph and its lengths are allowed."""
        nodes, lengths = path.nodes, path.lengths
        if len(nodes) == 0 or len(nodes) != len(path.starts) or path.starts[0] != 0:
            raise InfeasibleError(f"{where} must have one start per node, and the first at frame 0")
        if nodes.min() < 0 or nodes.max() >= self.n_nodes:
            raise InfeasibleError(f"{where} visits nodes that the graph's {self.n_nodes} do not include")
        for k, (before, node) in enumerate(zip([BEGIN, *nodes[:-1].tolist()], nodes.tolist(), strict=True)):
            if before not in self.pred[self.pred_indptr[node] : self.pred_indptr[node + 1]]:
                raise InfeasibleError(f"{where}: node {node} (segment {k}) may not follow node {before}")
        if not self.final[nodes[-1]]:
            raise InfeasibleError(f"{where} ends in node {nodes[-1]}, which may not end the utterance")
        bad = np.flatnonzero((lengths < self.min_length[nodes]) | (lengths > self.max_length[nodes]))
        if bad.size:
            k = int(bad[0])
            i = int(nodes[k])
            raise InfeasibleError(
                f"{where}: segment {k} is {lengths[k]} frames long, node {i} allows {self.min_length[i]} to "
                f"{self.max_length[i]}; widen the minimum and maximum durations"
            )


@dataclass(frozen=True, eq=False)
class SegmentPath:
    """The visited ``nodes`` (n,), the frames at which they start (n,), and the score that was maximised."""

    nodes: IntArray
    starts: IntArray
    n_frames: int
    score: float = np.nan

    @classmethod
    def of_chain(cls, starts: ArrayLike, n_frames: int) -> SegmentPath:
        """All nodes in their order, from the given start frames."""
        frames = np.array(starts, dtype=np.int64, ndmin=1)
        return cls(np.arange(len(frames)), frames, n_frames)

    @property
    def ends(self) -> IntArray:
        return np.append(self.starts[1:], self.n_frames)

    @property
    def lengths(self) -> IntArray:
        return self.ends - self.starts

    def squared_rate_change(self, graph: SegmentGraph) -> float:
        """sum_k (l_k / mean_k - l_{k-1} / mean_{k-1})^2."""
        relative = self.lengths / graph.mean_length[self.nodes]
        return float(np.sum(np.diff(relative) ** 2))


@dataclass(frozen=True, eq=False)
class SegmentScores:
    """``prefix``, ``boundary``: (P, T + 1). ``duration``: (P, L + 1), where entry l is for length l."""

    graph: SegmentGraph
    prefix: FloatArray
    boundary: FloatArray
    duration: FloatArray
    rate_weight: float = 0.0

    @classmethod
    def of(
        cls,
        graph: SegmentGraph,
        prefix: ArrayLike,
        boundary: ArrayLike | None = None,
        duration: ArrayLike | None = None,
        rate_weight: float = 0.0,
    ) -> SegmentScores:
        """Check shapes and values; what is left out is 0. Rows may be broadcast over nodes."""
        p, longest = graph.n_nodes, graph.longest
        sums = np.asarray(prefix, dtype=np.float64)
        if sums.ndim != 2 or sums.shape[0] not in (1, p) or sums.shape[1] < 2:
            raise DataError(
                f"prefix scores have shape {sums.shape}; for {p} nodes it must be ({p}, frames + 1)"
            )
        columns = sums.shape[1]
        starts = np.zeros((p, columns)) if boundary is None else boundary
        lengths = np.zeros((p, longest + 1)) if duration is None else duration
        if not np.isfinite(rate_weight):
            raise DataError(f"the rate weight is {rate_weight}; it must be finite")
        sums = _table("prefix", sums, (p, columns))
        if not np.isfinite(sums).all():
            raise DataError("prefix scores must be finite; forbid by -inf in boundary or duration scores")
        return cls(
            graph,
            sums,
            _table("boundary", starts, (p, columns)),
            _table("duration", lengths, (p, longest + 1)),
            float(rate_weight),
        )

    @property
    def n_frames(self) -> int:
        return self.prefix.shape[1] - 1

    def plus(self, boundary_bonus: FloatArray | None) -> SegmentScores:
        """With a table (P, T + 1) added to ``boundary``: loss-adjusted inference."""
        if boundary_bonus is None:
            return self
        return replace(self, boundary=self.boundary + boundary_bonus)

    def of_path(self, path: SegmentPath) -> float:
        """The score of a path that follows the graph."""
        nodes, starts, ends = path.nodes, path.starts, path.ends
        total = (self.prefix[nodes, ends] - self.prefix[nodes, starts] + self.boundary[nodes, starts]).sum()
        total += self.duration[nodes, path.lengths].sum()
        return float(total) - self.rate_weight * path.squared_rate_change(self.graph)


@dataclass(frozen=True, eq=False)
class SegmentParts:
    """How often each part occurs, or is expected to: one number per part score.

    ``starts``, ``ends``: (P, T + 1), node i starts at t, or ends before t. ``lengths``: (P, L + 1).
    ``squared_rate_change``: the sum over adjacent segments of (l / mean - l' / mean')^2.
    """

    starts: FloatArray
    ends: FloatArray
    lengths: FloatArray
    squared_rate_change: float


@dataclass(frozen=True, eq=False)
class SegmentFeatures:
    """The unweighted tables of one utterance; see the module for the order of the weights.

    ``prefix``: (J, R, T + 1), ``boundary``: (J, R, T + 1), ``duration``: (J, R, L + 1), all finite. R is P, or
    fewer rows that nodes share: node i reads row ``prefix_rows[i]`` (and so on; the default is i, or 0 where
    R is 1). ``rate``: 0 for no rate feature, otherwise the factor of it. Build it with :meth:`of`.
    """

    graph: SegmentGraph
    prefix: NDArray[np.floating[Any]]
    boundary: NDArray[np.floating[Any]]
    duration: NDArray[np.floating[Any]]
    rate: float
    prefix_rows: IntArray
    boundary_rows: IntArray
    duration_rows: IntArray

    @classmethod
    def of(
        cls,
        graph: SegmentGraph,
        n_frames: int,
        *,
        prefix: ArrayLike | None = None,
        boundary: ArrayLike | None = None,
        duration: ArrayLike | None = None,
        rate: float = 0.0,
        prefix_rows: ArrayLike | None = None,
        boundary_rows: ArrayLike | None = None,
        duration_rows: ArrayLike | None = None,
    ) -> SegmentFeatures:
        """Check shapes and values. Single precision stays as it is: it halves the memory."""
        p, columns = graph.n_nodes, n_frames + 1
        if n_frames < 1:
            raise DataError("an utterance needs at least one frame; the audio is too short")
        if not (np.isfinite(rate) and rate >= 0):
            raise DataError(f"the factor of the rate feature is {rate}; it must be finite and not negative")
        tables, rows = [], []
        for name, table, given, width in (
            ("prefix", prefix, prefix_rows, columns),
            ("boundary", boundary, boundary_rows, columns),
            ("duration", duration, duration_rows, graph.longest + 1),
        ):
            array = _feature_table(name, table, width)
            tables.append(array)
            rows.append(_feature_rows(name, given, array.shape[1], p))
        return cls(graph, *tables, float(rate), *rows)

    @property
    def n_frames(self) -> int:
        return self.prefix.shape[2] - 1

    @property
    def dimension(self) -> int:
        return len(self.prefix) + len(self.boundary) + len(self.duration) + (self.rate > 0)

    def scores(self, weights: FloatArray) -> SegmentScores:
        """sum_j w_j (table j): what inference sees."""
        if weights.shape != (self.dimension,):
            raise DataError(
                f"the utterance has {self.dimension} features, the weights have shape {weights.shape}"
            )
        a, b, c = self._bounds()
        return SegmentScores(
            self.graph,
            _weighted(weights[:a], self.prefix)[self.prefix_rows],
            _weighted(weights[a:b], self.boundary)[self.boundary_rows],
            _weighted(weights[b:c], self.duration)[self.duration_rows],
            float(weights[c]) * self.rate if self.rate > 0 else 0.0,
        )

    def of_path(self, path: SegmentPath) -> FloatArray:
        """Phi(path), (J,)."""
        nodes, starts, ends = path.nodes, path.starts, path.ends
        rows = self.prefix_rows[nodes]
        parts = [
            (self.prefix[:, rows, ends] - self.prefix[:, rows, starts]).sum(axis=1, dtype=np.float64),
            self.boundary[:, self.boundary_rows[nodes], starts].sum(axis=1, dtype=np.float64),
            self.duration[:, self.duration_rows[nodes], path.lengths].sum(axis=1, dtype=np.float64),
        ]
        if self.rate > 0:
            parts.append(np.array([-self.rate * path.squared_rate_change(self.graph)]))
        return np.concatenate(parts)

    def of_parts(self, parts: SegmentParts) -> FloatArray:
        """E Phi from expected parts, (J,): the pull-back of a gradient in the scores."""
        found = [
            _inner(self.prefix, self.prefix_rows, parts.ends - parts.starts),
            _inner(self.boundary, self.boundary_rows, parts.starts),
            _inner(self.duration, self.duration_rows, parts.lengths),
        ]
        if self.rate > 0:
            found.append(np.array([-self.rate * parts.squared_rate_change]))
        return np.concatenate(found)

    def _bounds(self) -> tuple[int, int, int]:
        a = len(self.prefix)
        b = a + len(self.boundary)
        return a, b, b + len(self.duration)


def _table(name: str, values: ArrayLike, shape: tuple[int, int]) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] not in (1, shape[0]) or array.shape[1] != shape[1]:
        raise DataError(f"{name} scores have shape {array.shape}; it must be {shape}")
    if not (array < np.inf).all():
        raise DataError(f"{name} scores contain NaN or +inf; scores must be finite or -inf (forbidden)")
    return np.ascontiguousarray(np.broadcast_to(array, shape))


def _feature_table(name: str, table: ArrayLike | None, width: int) -> NDArray[np.floating[Any]]:
    if table is None:
        return np.zeros((0, 1, width))
    array = np.asarray(table)
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    if array.ndim != 3 or array.shape[2] != width:
        raise DataError(f"{name} features have shape {array.shape}; it must be (features, rows, {width})")
    if not np.isfinite(array).all():
        raise DataError(f"{name} features contain NaN or an infinity; forbid lengths by the graph")
    return np.ascontiguousarray(array)


def _feature_rows(name: str, given: ArrayLike | None, n_rows: int, n_nodes: int) -> IntArray:
    if given is None:
        if n_rows not in (1, n_nodes):
            raise DataError(
                f"{name} features have {n_rows} rows for {n_nodes} nodes; say which in {name}_rows"
            )
        return np.arange(n_nodes) if n_rows == n_nodes else np.zeros(n_nodes, dtype=np.int64)
    rows = np.array(given, dtype=np.int64)
    if rows.shape != (n_nodes,) or rows.min() < 0 or rows.max() >= n_rows:
        raise DataError(f"{name}_rows must name one of {n_rows} rows for each of {n_nodes} nodes")
    return rows


def _weighted(weights: FloatArray, tables: NDArray[np.floating[Any]]) -> FloatArray:
    total = np.zeros(tables.shape[1:])
    for weight, table in zip(weights, tables, strict=True):
        total += weight * table
    return total


def _inner(tables: NDArray[np.floating[Any]], rows: IntArray, counts: FloatArray) -> FloatArray:
    """sum over nodes and columns of table[rows[i], t] counts[i, t], for each table."""
    by_row = np.zeros(tables.shape[1:])
    np.add.at(by_row, rows, counts)
    return np.array([float(np.sum(table * by_row)) for table in tables])

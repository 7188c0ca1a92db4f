"""Segmentations of one utterance: part scores, and the features behind them.

A path through the nodes of a :class:`SegmentGraph` (``segment_graph``) scores

    sum_k  prefix[i_k, s_k + l_k] - prefix[i_k, s_k] + boundary[i_k, s_k] + duration[i_k, l_k]
           - rate_weight sum_{k>1} (l_k / mean_length[i_k] - l_{k-1} / mean_length[i_{k-1}])^2

``prefix`` holds sums of frame scores over frames before t; ``boundary`` counts at frame 0 as anywhere else,
so put 0 there. ``-inf`` in ``boundary`` or ``duration`` forbids.

:class:`SegmentFeatures` keeps the tables unweighted. The score is linear in the weights, w . Phi(path), in
the order: prefix tables, boundary tables, duration tables, rate; Phi_rate = -rate sum d^2, not divided by
anything but what ``rate`` says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.structures.segments.scores.segment_graph import SegmentGraph, SegmentPath

__all__ = ["SegmentFeatures", "SegmentGraph", "SegmentParts", "SegmentPath", "SegmentScores"]


@dataclass(frozen=True, eq=False)
class SegmentScores:
    """``prefix``, ``boundary``: (P, T + 1). ``duration``: (P, L + 1), where entry l is for length l.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.structures.segments import SegmentGraph, Segmentation, SegmentScores
    >>> graph = SegmentGraph.chain(min_length=[1, 1], max_length=[3, 3])
    >>> prefix = np.array([[0.0, 1, 2, 1, 0], [0, -1, -2, -1, 0]])
    >>> float(Segmentation().best(SegmentScores.of(graph, prefix)).score)
    4.0
    """

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
        return int(self.prefix.shape[1]) - 1

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

    ``prefix``: (J, R, T + 1), ``boundary``: (J, R, T + 1), ``duration``: (J, R, L + 1), all finite. R is P,
    or fewer rows that nodes share: node i reads row ``prefix_rows[i]`` (and so on; the default is i, or 0
    where R is 1). ``rate``: 0 for no rate feature, otherwise the factor of it. Build it with :meth:`of`.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.structures.segments import SegmentFeatures, SegmentGraph, SegmentPath
    >>> graph = SegmentGraph.chain(min_length=[1, 1], max_length=[3, 3])
    >>> frames = np.array([[0.0, 1, 2, 1, 0], [0, -1, -2, -1, 0]])
    >>> features = SegmentFeatures.of(graph, n_frames=4, prefix=frames[None])
    >>> features.of_path(SegmentPath.of_chain([0, 2], 4)).tolist()
    [4.0]
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
        sums = _feature_table("prefix", prefix, columns)
        starts = _feature_table("boundary", boundary, columns)
        lengths = _feature_table("duration", duration, graph.longest + 1)
        return cls(
            graph,
            sums,
            starts,
            lengths,
            float(rate),
            _feature_rows("prefix", prefix_rows, sums.shape[1], p),
            _feature_rows("boundary", boundary_rows, starts.shape[1], p),
            _feature_rows("duration", duration_rows, lengths.shape[1], p),
        )

    @property
    def n_frames(self) -> int:
        return int(self.prefix.shape[2]) - 1

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
        before, after = self.prefix[:, rows, starts], self.prefix[:, rows, ends]
        parts = [
            np.subtract(after, before, dtype=np.float64).sum(axis=1),
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
    return np.array(np.broadcast_to(array, shape), order="C")


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
    """In double precision: before NumPy 2, a number times a table in single precision was one, too."""
    total = np.zeros(tables.shape[1:])
    for weight, table in zip(weights, tables, strict=True):
        total += np.multiply(weight, table, dtype=np.float64)
    return total


def _inner(tables: NDArray[np.floating[Any]], rows: IntArray, counts: FloatArray) -> FloatArray:
    """sum over nodes and columns of table[rows[i], t] counts[i, t], for each table."""
    by_row = np.zeros(tables.shape[1:])
    np.add.at(by_row, rows, counts)
    return np.array([float(np.sum(table * by_row)) for table in tables])

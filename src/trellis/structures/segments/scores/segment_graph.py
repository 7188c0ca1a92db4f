"""Which segments may follow which, how long they may be, and a path through them.

Frames 0..T-1 are cut into segments, one per visited *node* (an instance of a phone). Nodes stand in
topological order: node i lists the nodes that may come before it, all smaller than i, and -1 where it may
begin the utterance; ``final[i]`` says that it may end it. A sequence of phones is a chain; an optional
silence or another pronunciation is a node that a path may leave out. A path visits nodes i_1, i_2, ... from
frames s_1 = 0 < s_2 < ... with lengths l_k = s_{k+1} - s_k, min_length <= l <= max_length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, InfeasibleError

BEGIN = -1  # in ``pred``: the beginning of the utterance


@dataclass(frozen=True, eq=False)
class SegmentGraph:
    """Which segments may follow which, and how long they may be. Build it with :meth:`chain` or :meth:`of`.

    ``min_length``, ``max_length``: (P,) frames. ``mean_length``: (P,), of the rate term. The predecessors of
    node i are ``pred[pred_indptr[i]:pred_indptr[i + 1]]``. ``final``: (P,).

    Examples
    --------
    >>> from trellis.structures.segments import SegmentGraph
    >>> graph = SegmentGraph.chain(min_length=[1, 1, 1], max_length=[4, 4, 4])
    >>> graph.n_nodes, graph.final.tolist()
    (3, [False, False, True])
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
                f"a graph of segments has {len(low)} minimum, {len(high)} maximum and {len(mean)} mean "
                f"lengths, {len(predecessors)} lists of predecessors and {len(ends)} final marks; give one "
                "of each per node"
            )
        bad = np.flatnonzero((low < 1) | (high < low) | ~(mean > 0) | ~np.isfinite(mean))
        if bad.size:
            i = int(bad[0])
            raise DataError(
                f"node {i} has lengths {low[i]} to {high[i]} with mean {mean[i]}; it must be at least 1 "
                "frame long, its maximum at least its minimum, and its mean positive"
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
    """The visited ``nodes`` (n,), the frames at which they start (n,), and the score that was maximised.

    Examples
    --------
    >>> from trellis.structures.segments import SegmentPath
    >>> path = SegmentPath.of_chain([0, 2, 5], 8)
    >>> path.nodes.tolist(), path.starts.tolist()
    ([0, 1, 2], [0, 2, 5])
    """

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

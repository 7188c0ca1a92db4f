"""A reference of which only some boundaries are known: latent alignments.

``starts[i]`` is the frame at which node i starts, or NaN where that is not known. The gold output is then the
set of all paths that visit every node with a known start, and start it there. Their scores are those of

    boundary[i, t] = -inf  for t != starts[i],          no edge, beginning or end that passes over node i

for each known node i: nodes stand in topological order, so a path leaves node i out exactly if it has an edge
p -> q with p < i < q, begins after i or ends before it. What is not known is left to the scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, InfeasibleError
from trellis.structures.segments.scores.segment_graph import SegmentGraph
from trellis.structures.segments.scores.segment_scores import SegmentScores


@dataclass(frozen=True, eq=False)
class KnownStarts:
    """``starts``: (P,) whole frames, NaN where not known. Build it with :meth:`of`.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.structures.segments import KnownStarts, SegmentGraph
    >>> graph = SegmentGraph.chain(min_length=[1, 1, 1], max_length=[4, 4, 4])
    >>> KnownStarts.of(graph, [0, np.nan, 5], n_frames=8).starts.tolist()
    [0.0, nan, 5.0]
    """

    graph: SegmentGraph
    starts: FloatArray
    n_frames: int

    @classmethod
    def of(cls, graph: SegmentGraph, starts: ArrayLike, n_frames: int) -> KnownStarts:
        frames = np.array(starts, dtype=np.float64, ndmin=1)
        if frames.shape != (graph.n_nodes,):
            raise DataError(
                f"known starts have shape {frames.shape}; the graph has {graph.n_nodes} nodes, one start for "
                "each (NaN where it is not known)"
            )
        known = frames[~np.isnan(frames)]
        bad = known[(known < 0) | (known >= n_frames) | (known != np.floor(known))]
        if bad.size:
            raise InfeasibleError(
                f"a node starts at frame {bad[0]:g}; known starts are whole frames from 0 to {n_frames - 1}"
            )
        return cls(graph, frames, n_frames)

    @cached_property
    def clamped_graph(self) -> SegmentGraph:
        """The graph without the ways round the known nodes."""
        graph = self.graph
        known = np.flatnonzero(~np.isnan(self.starts))
        if not known.size:
            return graph
        owner = np.repeat(np.arange(graph.n_nodes), np.diff(graph.pred_indptr))
        # known nodes strictly between p and q; BEGIN is -1, before them all
        passed = np.searchsorted(known, owner) - np.searchsorted(known, graph.pred, side="right")
        kept = passed == 0
        pred_indptr = np.concatenate([[0], np.cumsum(np.bincount(owner[kept], minlength=graph.n_nodes))])
        final = graph.final & (np.arange(graph.n_nodes) >= known[-1])
        return replace(graph, pred_indptr=pred_indptr, pred=graph.pred[kept], final=final)

    @cached_property
    def forbidden(self) -> FloatArray:
        """(P, T + 1): 0 where node i may start, -inf elsewhere."""
        known = ~np.isnan(self.starts)
        table = np.zeros((self.graph.n_nodes, self.n_frames + 1))
        table[known] = -np.inf
        table[known, self.starts[known].astype(np.int64)] = 0.0
        return table

    def clamp(self, scores: SegmentScores) -> SegmentScores:
        """The scores of the paths that agree with what is known; all others are forbidden."""
        return replace(scores.plus(self.forbidden), graph=self.clamped_graph)

"""Segmentations of one utterance in plain PyTorch: one batched operation per node of the graph.

    into[i, s] = boundary[i, s] + (+)_p until[p, s],      p a predecessor; 0 at s = 0 where i may begin
    until[i, e] = (+)_l into[i, e - l] + prefix[i, e] - prefix[i, e - l] + duration[i, l]

and (+)_i until[i, T] over final nodes i, with (+) the maximum or log-sum-exp; ``prefix`` sums the frame
scores before a frame. There is no rate term here: with it, sums need pairs of lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trellis.neural.tensors import Reduce
from trellis.structures.segments.scores.segment_graph import BEGIN, SegmentGraph, SegmentPath


@dataclass(frozen=True, eq=False)
class SegmentTensors:
    """``prefix``, ``boundary``: (P, T + 1). ``duration``: (P, L + 1). ``rate``: a scalar, the rate weight.
    ``kernels``: whether compiled kernels may read them."""

    graph: SegmentGraph
    prefix: Tensor
    boundary: Tensor
    duration: Tensor
    rate: Tensor
    kernels: bool

    @property
    def n_frames(self) -> int:
        return int(self.prefix.shape[1]) - 1


class Messages(NamedTuple):
    into: list[Tensor]
    until: list[Tensor]
    total: Tensor


def forward(scores: SegmentTensors, reduce: Reduce) -> Messages:
    """All messages, and the total as a tensor (1,)."""
    graph, frames = scores.graph, scores.n_frames
    never = scores.prefix.new_full((frames + 1,), -torch.inf)
    begin = torch.cat([never.new_zeros(1), never[1:]])
    into: list[Tensor] = []
    until: list[Tensor] = []
    for i in range(graph.n_nodes):
        before = graph.pred[graph.pred_indptr[i] : graph.pred_indptr[i + 1]].tolist()
        arrive = torch.stack([begin if p == BEGIN else until[p] for p in before])
        into.append(scores.boundary[i] + reduce(arrive, 0))
        until.append(reduce(spans(scores, i, into[i]), 1) + scores.prefix[i])
    ends = torch.stack([until[i][frames] for i in np.flatnonzero(graph.final).tolist()])
    return Messages(into, until, reduce(ends, 0).reshape(1))


def spans(scores: SegmentTensors, i: int, into: Tensor) -> Tensor:
    """[T + 1, lengths of node i]: into[e - l] - prefix[e - l] + duration[l], -inf before the first frame."""
    low, high = int(scores.graph.min_length[i]), int(scores.graph.max_length[i])
    lengths = torch.arange(low, high + 1, device=into.device)
    starts = torch.arange(len(into), device=into.device)[:, None] - lengths
    open_ = (into - scores.prefix[i])[starts.clamp(min=0)]
    return open_.masked_fill(starts < 0, -torch.inf) + scores.duration[i, low : high + 1]


def path_score(scores: SegmentTensors, path: SegmentPath) -> Tensor:
    """(1,) the score of a path, the rate term included."""
    nodes, starts, ends = (torch.from_numpy(x.astype(np.int64)) for x in (path.nodes, path.starts, path.ends))
    parts = scores.prefix[nodes, ends] - scores.prefix[nodes, starts] + scores.boundary[nodes, starts]
    total = (parts + scores.duration[nodes, ends - starts]).sum()
    return (total - scores.rate * path.squared_rate_change(scores.graph)).reshape(1)


def sample_path(scores: SegmentTensors, messages: Messages, rng: np.random.Generator) -> SegmentPath:
    """One exact sample: backwards from the end, a node and its length in turn."""
    graph, frame = scores.graph, scores.n_frames
    nodes: list[int] = []
    starts: list[int] = []
    finals = np.flatnonzero(graph.final)
    node = int(finals[_draw(torch.stack([messages.until[i][frame] for i in finals.tolist()]), rng)])
    while node != BEGIN:
        length = _draw(spans(scores, node, messages.into[node])[frame], rng)
        frame -= int(graph.min_length[node]) + length
        nodes.append(node)
        starts.append(frame)
        before = graph.pred[graph.pred_indptr[node] : graph.pred_indptr[node + 1]]
        weights = [
            (0.0 if frame == 0 else -np.inf) if p == BEGIN else float(messages.until[p][frame])
            for p in before.tolist()
        ]
        node = int(before[_draw(torch.tensor(weights, dtype=torch.float64), rng)])
    return SegmentPath(np.array(nodes[::-1]), np.array(starts[::-1]), scores.n_frames)


def _draw(weights: Tensor, rng: np.random.Generator) -> int:
    p = torch.softmax(weights.double(), 0).cpu().numpy()
    return int(rng.choice(len(p), p=p / p.sum()))

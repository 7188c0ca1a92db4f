"""Gold paths and alignment losses of one utterance, and the oracle that adds them to the scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.core.arrays import BoolArray, FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.neural.segments.segment_functions import segment_total, total_and_starts
from trellis.neural.segments.segment_torch import SegmentTensors, path_score
from trellis.neural.tensor_structure import Goal
from trellis.neural.tensors import Reduce, maximum
from trellis.structures.segments.problem.alignment_losses import get_alignment_loss
from trellis.structures.segments.scores.segment_graph import SegmentGraph, SegmentPath


@dataclass(frozen=True, eq=False)
class SegmentOracle:
    """One utterance for ``tensor_objectives``. ``path``: the gold path, if it is one; otherwise ``allowed``
    (P, T + 1) says where gold paths may start each node. ``cost``: (P, T + 1)."""

    scores: SegmentTensors
    path: SegmentPath | None
    allowed: Tensor
    cost: Tensor
    zero_one: bool = False

    @classmethod
    def of(cls, scores: SegmentTensors, gold: Any, goal: Goal) -> SegmentOracle:
        path, allowed = _encode_gold(gold, scores.graph, scores.n_frames)
        cost = np.zeros(allowed.shape)
        if goal.objective.uses_loss:
            known = allowed.any(axis=1)
            distance = _distances(allowed[known])
            cost[known] = get_alignment_loss(goal.loss).of_error(distance) / max(int(known.sum()), 1)
        device = scores.prefix.device
        costs = torch.from_numpy(cost).to(device, scores.prefix.dtype)
        return cls(scores, path, torch.from_numpy(allowed).to(device), costs)

    def total(self, reduce: Reduce, scale: float | Tensor) -> Tensor:
        boundary = self.scores.boundary + scale * self.cost
        return segment_total(replace(self.scores, boundary=boundary), reduce)

    def gold_total(self, reduce: Reduce) -> Tensor:
        if self.path is not None:
            return path_score(self.scores, self.path)
        boundary = self.scores.boundary.masked_fill(~self.allowed, -torch.inf)
        return segment_total(replace(self.scores, boundary=boundary), reduce)

    def outside(self) -> Tensor:
        raise UnsupportedError("alignments have no 0-1 loss; use 'tau_alignment' or 'tau_insensitive'")

    def loss_of_best(self) -> Tensor:
        with torch.no_grad():
            _, starts = total_and_starts(self.scores, maximum)
        return (starts * self.cost).sum().reshape(1)


def _encode_gold(gold: Any, graph: SegmentGraph, frames: int) -> tuple[SegmentPath | None, BoolArray]:
    """The gold path if it is one, and where gold paths may start each node (P, T + 1)."""
    shape = (graph.n_nodes, frames + 1)
    if not isinstance(gold, SegmentPath):
        marks = torch.as_tensor(gold).cpu().numpy()
        if marks.dtype == np.bool_:
            if marks.shape != shape:
                raise DataError(
                    f"gold starts have shape {marks.shape}; they must be booleans of shape {shape}"
                )
            return None, marks
        gold = SegmentPath.of_chain(marks, frames)
    if gold.n_frames != frames:
        raise DataError(f"the gold path has {gold.n_frames} frames, the scores have {frames}")
    graph.check(gold, "the gold path")
    allowed = np.zeros(shape, np.bool_)
    allowed[gold.nodes, gold.starts] = True
    return gold, allowed


def _distances(allowed: BoolArray) -> FloatArray:
    """Frames from each start to the nearest allowed one of its row, which has one."""
    frames = np.arange(allowed.shape[1])
    nearest = [np.abs(frames[:, None] - np.flatnonzero(row)).min(axis=1) for row in allowed]
    return np.array(nearest, dtype=np.float64).reshape(allowed.shape)

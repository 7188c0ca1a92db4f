"""Segmentations on the CPU: the oracle of ``segment_oracle`` as functions that PyTorch
differentiates.

The gradient is a difference of expected parts: in the prefix sums, ends - starts; in the boundary scores,
starts; in the duration scores, lengths; in the rate weight, minus the expected squared change of rate. Second
derivatives of log Z, where they are asked for, come from the plain PyTorch path, which has no rate term.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.oracle import Answer
from trellis.neural.segments.segment_torch import SegmentTensors, forward
from trellis.neural.tensor_structure import check_once
from trellis.neural.tensors import log_sum_exp
from trellis.objectives.formulas import value_and_gradient
from trellis.objectives.records import Objective
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.scores.segment_scores import (
    SegmentGraph,
    SegmentParts,
    SegmentPath,
    SegmentScores,
)


@dataclass(frozen=True, eq=False)
class AlignmentTask:
    """``path``: the gold path, if it is one; otherwise ``allowed`` (P, T + 1) are the starts that gold paths
    may have. ``cost``: (P, T + 1)."""

    objective: Objective
    epsilon: float
    path: SegmentPath | None
    allowed: NDArray[np.bool_]
    cost: FloatArray


def segment_scores(
    graph: SegmentGraph, prefix: Tensor, boundary: Tensor, duration: Tensor, rate: Tensor
) -> SegmentScores:
    sums, starts, lengths = (t.detach().double().numpy() for t in (prefix, boundary, duration))
    return SegmentScores.of(graph, sums, starts, lengths, float(rate))


def flat_parts(parts: SegmentParts) -> FloatArray:
    """One vector, in the order of the scores."""
    return np.concatenate(
        [
            (parts.ends - parts.starts).ravel(),
            parts.starts.ravel(),
            parts.lengths.ravel(),
            [-parts.squared_rate_change],
        ]
    )


def parts_of_path(path: SegmentPath, scores: SegmentScores) -> SegmentParts:
    starts, ends, lengths = (np.zeros(t.shape) for t in (scores.prefix, scores.prefix, scores.duration))
    starts[path.nodes, path.starts] = 1.0
    ends[path.nodes, path.ends] = 1.0
    lengths[path.nodes, path.lengths] = 1.0
    return SegmentParts(starts, ends, lengths, path.squared_rate_change(scores.graph))


class KernelOracle:
    """One utterance for :mod:`trellis.objectives.formulas`."""

    def __init__(self, scores: SegmentScores, task: AlignmentTask) -> None:
        self._scores, self._task = scores, task

    @cached_property
    def _gold(self) -> SegmentScores:
        return self._scores.plus(np.where(self._task.allowed, 0.0, -np.inf))

    def best(self, scale: float) -> Answer:
        return self._best(self._scores.plus(scale * self._task.cost) if scale else self._scores)

    def sum(self, scale: float) -> Answer:
        return self._sum(self._scores.plus(scale * self._task.cost) if scale else self._scores)

    def gold_best(self) -> Answer:
        return self._best(self._gold) if self._task.path is None else self._at(self._task.path)

    def gold_sum(self) -> Answer:
        return self._sum(self._gold) if self._task.path is None else self._at(self._task.path)

    def _at(self, path: SegmentPath) -> Answer:
        return Answer(self._scores.of_path(path), flat_parts(parts_of_path(path, self._scores)))

    def _best(self, scores: SegmentScores) -> Answer:
        path = Segmentation().best(scores)
        loss = float(self._task.cost[path.nodes, path.starts].sum())
        return Answer(path.score, flat_parts(parts_of_path(path, scores)), loss)

    def _sum(self, scores: SegmentScores) -> Answer:
        found = Segmentation().marginals(scores)
        return Answer(found.log_partition, flat_parts(found.parts))


class AlignmentObjective(torch.autograd.Function):
    """The value (1,) of an objective and its gradient at once."""

    @staticmethod
    def forward(
        ctx: Any,
        prefix: Tensor,
        boundary: Tensor,
        duration: Tensor,
        rate: Tensor,
        graph: SegmentGraph,
        task: Any,
    ) -> Tensor:
        scores = segment_scores(graph, prefix, boundary, duration, rate)
        value, gradient = value_and_gradient(task.objective, KernelOracle(scores, task), task.epsilon)
        ctx.save_for_backward(*_unflat(gradient, prefix, boundary, duration, rate))
        ctx.objective = task.objective
        return prefix.new_tensor([value])

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        check_once(ctx.objective)
        return (*(weight[0] * g for g in ctx.saved_tensors), None, None)


class AlignmentLogPartition(torch.autograd.Function):
    """log Z (1,)."""

    @staticmethod
    def forward(
        ctx: Any, prefix: Tensor, boundary: Tensor, duration: Tensor, rate: Tensor, graph: SegmentGraph
    ) -> Tensor:
        found = Segmentation().marginals(segment_scores(graph, prefix, boundary, duration, rate))
        ctx.graph = graph
        gradient = _unflat(flat_parts(found.parts), prefix, boundary, duration, rate)
        ctx.save_for_backward(prefix, boundary, duration, rate, *gradient)
        return prefix.new_tensor([found.log_partition])

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        scores, gradient = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
        if torch.is_grad_enabled():  # second derivatives
            if float(scores[3]) != 0.0:
                raise UnsupportedError(
                    "second derivatives with a rate term are not available; use rate_weight=0"
                )
            gradient = (*marginal_tensors(ctx.graph, *scores[:3]), gradient[3])
        return (*(weight[0] * g for g in gradient), None)


def marginal_tensors(
    graph: SegmentGraph, prefix: Tensor, boundary: Tensor, duration: Tensor
) -> tuple[Tensor, ...]:
    """The gradient of log Z, itself differentiable, in plain PyTorch."""
    with torch.enable_grad():
        moved = [t + torch.zeros_like(t).requires_grad_() for t in (prefix, boundary, duration)]
        total = forward(SegmentTensors(graph, *moved), log_sum_exp).total
        return torch.autograd.grad(total.sum(), moved, create_graph=True)


def _unflat(gradient: FloatArray, *like: Tensor) -> list[Tensor]:
    ends = np.cumsum([t.numel() for t in like])
    pieces = np.split(gradient, ends[:-1])
    return [
        torch.from_numpy(piece.copy()).reshape(t.shape).to(t.dtype)
        for piece, t in zip(pieces, like, strict=True)
    ]

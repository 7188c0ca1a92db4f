"""The best score and log Z of a segmentation as functions that PyTorch differentiates.

On the CPU both are answers of ``segment_oracle``, and the gradient is made of the parts of the best path, or
of the expected parts: in the prefix sums, ends - starts; in the boundary scores, starts; in the duration
scores, lengths; in the rate weight, minus the (expected) squared change of rate. Second derivatives of log Z
come from plain PyTorch, which has no rate term.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.core.errors import UnsupportedError
from trellis.neural.segments.segment_torch import SegmentTensors, forward
from trellis.neural.tensors import Reduce, apply, differentiate, log_sum_exp, maximum
from trellis.structures.segments.oracle.segment_oracle import Segmentation as SegmentInference
from trellis.structures.segments.scores.segment_scores import SegmentParts, SegmentPath, SegmentScores


def segment_total(scores: SegmentTensors, reduce: Reduce) -> Tensor:
    """(1,) the maximum or log-sum-exp of the scores of all paths."""
    if not scores.kernels:
        return forward(scores, reduce).total
    tables = (scores.prefix, scores.boundary, scores.duration, scores.rate)
    values: Tensor = apply(SegmentTotal, scores, reduce, *tables)
    return values


def total_and_starts(scores: SegmentTensors, reduce: Reduce) -> tuple[Tensor, Tensor]:
    """The total (1,), and how often node i starts at frame t (P, T + 1): on the best path, or expected."""
    total, (starts,) = differentiate(
        lambda boundary: segment_total(replace(scores, boundary=boundary), reduce), scores.boundary
    )
    return total, starts


def kernel_scores(scores: SegmentTensors) -> SegmentScores:
    """The same as arrays."""
    tables = scores.prefix, scores.boundary, scores.duration
    prefix, boundary, duration = (t.detach().double().numpy() for t in tables)
    return SegmentScores.of(scores.graph, prefix, boundary, duration, float(scores.rate))


def check_no_rate(rate: Tensor) -> None:
    if float(rate.detach()) != 0.0:
        raise UnsupportedError(
            "with a rate term, segmentations offer structured_loss (but for the risk objective), decode, "
            "log_partition with one derivative and marginals without, on the CPU; use rate_weight=0 for the "
            "rest"
        )


class SegmentTotal(torch.autograd.Function):
    """``segment_total`` by kernels."""

    @staticmethod
    def forward(ctx: Any, scores: SegmentTensors, reduce: Reduce, *tables: Tensor) -> Tensor:
        arrays = kernel_scores(scores)
        if reduce is maximum:
            path = SegmentInference().best(arrays)
            total, parts = path.score, _count_parts(path, arrays)
        else:
            found = SegmentInference().marginals(arrays)
            total, parts = found.log_partition, found.parts
        ctx.graph, ctx.reduce = scores.graph, reduce
        change = np.array(-parts.squared_rate_change)
        gradients = (parts.ends - parts.starts, parts.starts, parts.lengths, change)
        ctx.save_for_backward(*tables, *(torch.from_numpy(g) for g in gradients))
        return tables[0].new_tensor([total])

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        *tables, rate = ctx.saved_tensors[:4]
        gradients = ctx.saved_tensors[4:]
        if torch.is_grad_enabled() and ctx.reduce is log_sum_exp:  # second derivatives are requested
            check_no_rate(rate)

            def plain(prefix: Tensor, boundary: Tensor, duration: Tensor) -> Tensor:
                moved = SegmentTensors(ctx.graph, prefix, boundary, duration, rate, kernels=False)
                return forward(moved, log_sum_exp).total

            gradients = (*differentiate(plain, *tables)[1], gradients[3])
        return None, None, *(weight[0] * g for g in gradients)


def _count_parts(path: SegmentPath, scores: SegmentScores) -> SegmentParts:
    starts, ends, lengths = (np.zeros(t.shape) for t in (scores.prefix, scores.prefix, scores.duration))
    starts[path.nodes, path.starts] = 1.0
    ends[path.nodes, path.ends] = 1.0
    lengths[path.nodes, path.lengths] = 1.0
    return SegmentParts(starts, ends, lengths, path.squared_rate_change(scores.graph))

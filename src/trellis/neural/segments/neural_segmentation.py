"""``Segmentation``: one utterance cut into segments, with scores from a network.

    s(path) = sum_k (sum of scores[i_k, t] over the frames t of segment k)
              + boundary[i_k, s_k] + duration[i_k, l_k]
              - rate_weight sum_{k>1} (l_k / mean[i_k] - l_{k-1} / mean[i_{k-1}])^2

over the paths i_1, i_2, ... of a ``SegmentGraph``, from frames s_k with lengths l_k. ``scores`` is (P, T), a
row per node: ``network(x)[:, phones].T`` for a network that scores phones in every frame. ``gold`` is a
``SegmentPath``, the start frames (P,) of all nodes of a chain, or booleans (P, T + 1) that say where each
node may start (all paths within are gold: the latent form). Losses are those of
:mod:`trellis.structures.segments.problem.alignment_losses`.

A batch is a list of segmentations with lists of scores and gold paths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from trellis.core.errors import DataError, UnsupportedError
from trellis.neural.segments.segment_functions import (
    check_no_rate,
    kernel_scores,
    segment_total,
    total_and_starts,
)
from trellis.neural.segments.segment_gold import SegmentOracle
from trellis.neural.segments.segment_torch import SegmentTensors, forward, sample_path
from trellis.neural.tensor_objectives import check_finite
from trellis.neural.tensor_structure import (
    BatchOptions,
    DifferentiableBatch,
    Goal,
    TensorStructure,
    only_backend,
    uses_kernels,
)
from trellis.neural.tensors import (
    Reduce,
    check_floating,
    check_scores,
    entropy,
    log_sum_exp,
    maximum,
    value_type,
)
from trellis.structures.segments.oracle.segment_oracle import Segmentation as SegmentInference
from trellis.structures.segments.scores.segment_graph import SegmentGraph, SegmentPath


@dataclass(frozen=True, eq=False)
class Segmentation(TensorStructure):
    """``boundary``: (P, T + 1), ``duration``: (P, L + 1), 0 where left out; ``rate_weight``: a number or a
    scalar tensor.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import Segmentation, decode
    >>> from trellis.structures.segments import SegmentGraph
    >>> graph = SegmentGraph.chain(min_length=[1, 1], max_length=[3, 3])
    >>> frames = torch.tensor([[1.0, 1.0, -1.0, -1.0], [-1.0, -1.0, 1.0, 1.0]])
    >>> decode(Segmentation(graph), frames).starts.tolist()
    [0, 2]
    """

    graph: SegmentGraph
    boundary: Tensor | None = None
    duration: Tensor | None = None
    rate_weight: Tensor | float = 0.0

    def bind(self, scores: Tensor, **batch: Unpack[BatchOptions]) -> SegmentBatch:
        nodes, longest = self.graph.n_nodes, self.graph.longest
        backend = only_backend("segmentation", **batch)
        check_floating("frame", scores)
        if scores.ndim != 2 or scores.shape[0] != nodes or scores.shape[1] < 1:
            raise DataError(
                f"frame scores have shape {tuple(scores.shape)}; for {nodes} nodes they must be ({nodes}, "
                "frames)"
            )
        # Prefix sums lose digits: double precision, on devices that are sure to have it.
        kept = torch.float64 if scores.device.type == "cpu" else value_type(scores)
        sums = torch.cumsum(scores.to(kept), 1)
        prefix = torch.cat([sums.new_zeros(nodes, 1), sums], 1)
        if not bool(torch.isfinite(prefix.detach()).all()):
            raise DataError("frame scores must be finite; forbid by -inf in boundary or duration scores")
        boundary = _table("boundary", self.boundary, (nodes, scores.shape[1] + 1), prefix)
        duration = _table("duration", self.duration, (nodes, longest + 1), prefix)
        rate = torch.as_tensor(self.rate_weight, dtype=kept, device=scores.device)
        kernels = uses_kernels(scores, backend)
        if not kernels:
            check_no_rate(rate)
        tensors = SegmentTensors(self.graph, prefix, boundary, duration, rate, kernels)
        return SegmentBatch(tensors, value_type(scores))


def _table(name: str, table: Tensor | None, shape: tuple[int, int], like: Tensor) -> Tensor:
    if table is None:
        return like.new_zeros(shape)
    check_floating(name, table)
    if tuple(table.shape) != shape:
        raise DataError(f"{name} scores have shape {tuple(table.shape)}; they must be {shape}")
    check_scores(name, table)
    return table.to(like.dtype)


@dataclass(frozen=True, eq=False)
class SegmentBatch(DifferentiableBatch):
    """One utterance; ``dtype``: of the answers."""

    scores: SegmentTensors
    dtype: torch.dtype

    def total(self, reduce: Reduce) -> Tensor:
        return segment_total(self.scores, reduce).to(self.dtype)

    def oracle(self, gold: Any, goal: Goal) -> SegmentOracle:
        return SegmentOracle.of(self.scores, gold, goal)

    def objective_values(self, gold: Any, goal: Goal) -> Tensor:
        return super().objective_values(gold, goal).to(self.dtype)

    def decode(self) -> SegmentPath:
        if self.scores.kernels:
            return SegmentInference().best(kernel_scores(self.scores))
        total, marks = total_and_starts(self.scores, maximum)
        check_finite(total)
        nodes, starts = np.nonzero(marks.cpu().numpy() > 0)
        order = np.argsort(starts, kind="stable")
        return SegmentPath(nodes[order], starts[order], self.scores.n_frames, float(total))

    def marginals(self) -> Tensor:
        """(P, T + 1): the probability that node i starts at frame t."""
        s = self.scores
        wanted = any(t.requires_grad for t in (s.prefix, s.boundary, s.duration, s.rate))
        with torch.set_grad_enabled(wanted and torch.is_grad_enabled()):
            total, starts = total_and_starts(s, log_sum_exp)
            check_finite(total)
            return starts.to(self.dtype)

    def entropy(self) -> Tensor:
        s = self.scores
        check_no_rate(s.rate)

        def log_partition(prefix: Tensor, boundary: Tensor, duration: Tensor) -> Tensor:
            moved = replace(s, prefix=prefix[0], boundary=boundary[0], duration=duration[0])
            values = segment_total(moved, log_sum_exp)
            check_finite(values)
            return values

        tables = [table[None] for table in (s.prefix, s.boundary, s.duration)]
        return entropy(log_partition, tables).to(self.dtype)

    def sample(self, n_samples: int, seed: int) -> list[SegmentPath]:
        check_no_rate(self.scores.rate)
        messages = forward(self.scores, log_sum_exp)
        check_finite(messages.total)
        rng = np.random.default_rng(seed)
        return [sample_path(self.scores, messages, rng) for _ in range(n_samples)]

    def k_best(self, k: int) -> Any:
        raise UnsupportedError(
            "segmentations have no list of k best paths; use sample, or the gaps of "
            "trellis.structures.segments.oracle.segment_oracle.Segmentation"
        )

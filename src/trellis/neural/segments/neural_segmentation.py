"""``Segmentation``: one utterance cut into segments, with scores from a network.

    s(path) = sum_k sum of scores[i_k, t] over the frames t of segment k  +  boundary[i_k, s_k] +
    duration[i_k, l_k]
              - rate_weight sum_{k>1} (l_k / mean[i_k] - l_{k-1} / mean[i_{k-1}])^2

over the paths i_1, i_2, ... of a ``SegmentGraph``, from frames s_k with lengths
l_k. ``scores`` is (P, T), a row per node: ``network(x)[:, phones].T`` for a network that scores phones in
every frame. ``gold`` is a ``SegmentPath``, the start frames (P,) of all nodes of a chain, or booleans (P, T +
1) that say where each node may start (all paths within are gold: the latent form). Losses are those of
:mod:`trellis.structures.segments.problem.alignment_losses`.

A batch is a list of alignments with lists of scores and gold paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.neural.segments import segment_functions as kernels
from trellis.neural.segments import segment_torch as plain
from trellis.neural.segments.segment_functions import AlignmentTask
from trellis.neural.segments.segment_torch import SegmentTensors
from trellis.neural.tensor_objectives import check_finite, objective_values
from trellis.neural.tensor_structure import (
    Backend,
    Goal,
    TensorStructure,
    Where,
    uses_kernels,
)
from trellis.neural.tensors import apply, check_floating, check_scores, log_sum_exp, maximum, value_type
from trellis.objectives.formulas import SUPPORTED
from trellis.structures.segments.oracle.segment_oracle import Segmentation as SegmentInference
from trellis.structures.segments.problem.alignment_losses import get_alignment_loss
from trellis.structures.segments.scores.segment_scores import SegmentGraph, SegmentPath


@dataclass(frozen=True, eq=False)
class Segmentation(TensorStructure):
    """``boundary``: (P, T + 1), ``duration``: (P, L + 1), 0 where left out; ``rate_weight``: a number or a
    scalar tensor."""

    graph: SegmentGraph
    boundary: Tensor | None = None
    duration: Tensor | None = None
    rate_weight: Tensor | float = 0.0

    def tensors(self, scores: Tensor, where: Where) -> tuple[SegmentTensors, Tensor]:
        """The part scores, checked, and the rate weight as a tensor."""
        nodes, longest = self.graph.n_nodes, self.graph.longest
        if any(given is not None for given in where):
            raise DataError("an alignment has no lengths, mask or offsets: leave them out, one per utterance")
        check_floating("frame", scores)
        if scores.ndim != 2 or scores.shape[0] != nodes or scores.shape[1] < 1:
            raise DataError(
                f"frame scores have shape {tuple(scores.shape)}; for {nodes} nodes they must be ({nodes}, "
                "frames)"
            )
        # Prefix sums lose digits: double precision, on devices that are sure to have it.
        kept = torch.float64 if scores.device.type == "cpu" else value_type(scores)
        frames = scores.shape[1]
        sums = torch.cumsum(scores.to(kept), 1)
        prefix = torch.cat([sums.new_zeros(nodes, 1), sums], 1)
        if not bool(torch.isfinite(prefix.detach()).all()):
            raise DataError("frame scores must be finite; forbid by -inf in boundary or duration scores")
        boundary = self._given("boundary", self.boundary, (nodes, frames + 1), prefix)
        duration = self._given("duration", self.duration, (nodes, longest + 1), prefix)
        rate = torch.as_tensor(self.rate_weight, dtype=kept, device=scores.device)
        return SegmentTensors(self.graph, prefix, boundary, duration), rate

    @staticmethod
    def _given(name: str, table: Tensor | None, shape: tuple[int, int], like: Tensor) -> Tensor:
        if table is None:
            return like.new_zeros(shape)
        check_floating(name, table)
        if tuple(table.shape) != shape:
            raise DataError(f"{name} scores have shape {tuple(table.shape)}; they must be {shape}")
        check_scores(name, table)
        return table.to(like.dtype)

    # -- answers ------------------------------------------------------------------------------------------

    def objective_values(
        self, scores: Tensor, gold: Any, goal: Goal, where: Where, backend: Backend
    ) -> Tensor:
        tensors, rate = self.tensors(scores, where)
        path, allowed, cost = self._gold(gold, goal, tensors.n_frames)
        exact = isinstance(goal.objective, SUPPORTED)
        if uses_kernels(scores, backend) and (exact or backend == "kernels"):
            task = AlignmentTask(goal.objective, goal.epsilon, path, allowed, cost)
            if not exact:
                raise UnsupportedError(
                    f"the kernels of alignments have no objective {goal.objective.name!r}; leave backend out"
                )
            values: Tensor = apply(kernels.AlignmentObjective, *tensors[1:], rate, self.graph, task)
            return values.to(value_type(scores))
        _without_rate(rate)
        oracle = plain.AlignmentOracle(
            tensors,
            path,
            torch.from_numpy(allowed).to(scores.device),
            torch.from_numpy(cost).to(scores.device, tensors.prefix.dtype),
        )
        return objective_values(goal.objective, oracle, goal.epsilon).to(value_type(scores))

    def _gold(
        self, gold: Any, goal: Goal, frames: int
    ) -> tuple[SegmentPath | None, NDArray[np.bool_], FloatArray]:
        """The gold path if it is one, where gold paths may start each node, and what each start costs."""
        shape, path = (self.graph.n_nodes, frames + 1), None
        if isinstance(gold, SegmentPath):
            if gold.n_frames != frames:
                raise DataError(f"the gold path has {gold.n_frames} frames, the scores have {frames}")
            self.graph.check(gold, "the gold path")
            path, allowed = gold, np.zeros(shape, np.bool_)
            allowed[gold.nodes, gold.starts] = True
        else:
            marks = torch.as_tensor(gold).cpu().numpy()
            if marks.dtype != np.bool_:
                return self._gold(SegmentPath.of_chain(marks, frames), goal, frames)
            if marks.shape != shape:
                raise DataError(
                    f"gold starts have shape {marks.shape}; they must be booleans of shape {shape}"
                )
            allowed = marks
        if not goal.objective.uses_loss:
            return path, allowed, np.zeros(shape)
        loss = get_alignment_loss(goal.loss)
        known = allowed.any(axis=1)
        cost = np.zeros(shape)
        cost[known] = loss.of_error(_distances(allowed[known])) / max(int(known.sum()), 1)
        return path, allowed, cost

    def decode(self, scores: Tensor, where: Where, backend: Backend) -> SegmentPath:
        tensors, rate = self.tensors(scores, where)
        if uses_kernels(scores, backend):
            return SegmentInference().best(kernels.segment_scores(*tensors, rate))
        _without_rate(rate)
        check_finite(plain.forward(tensors, maximum).total)
        return plain.path_of(tensors)

    def log_partition(self, scores: Tensor, where: Where, backend: Backend) -> Tensor:
        """(1,), differentiable twice (once with a rate term)."""
        tensors, rate = self.tensors(scores, where)
        if uses_kernels(scores, backend):
            values: Tensor = apply(kernels.AlignmentLogPartition, *tensors[1:], rate, self.graph)
            return values.to(value_type(scores))
        _without_rate(rate)
        values = plain.forward(tensors, log_sum_exp).total
        check_finite(values)
        return values.to(value_type(scores))

    def marginals(self, scores: Tensor, where: Where, backend: Backend) -> Tensor:
        """(P, T + 1): the probability that node i starts at frame t."""
        tensors, rate = self.tensors(scores, where)
        if float(rate) != 0.0 or (uses_kernels(scores, backend) and not _wants_gradient(tensors)):
            if not uses_kernels(scores, backend) or _wants_gradient(tensors):
                _without_rate(rate)
            found = SegmentInference().marginals(kernels.segment_scores(*tensors, rate))
            return torch.from_numpy(found.parts.starts).to(value_type(scores))
        check_finite(plain.forward(tensors, log_sum_exp).total)
        return kernels.marginal_tensors(*tensors)[1].to(value_type(scores))

    def entropy(self, scores: Tensor, where: Where, backend: Backend) -> Tensor:
        """(1,); not with a rate term."""
        tensors, rate = self.tensors(scores, where)
        _without_rate(rate)
        total = plain.forward(tensors, log_sum_exp).total
        check_finite(total)
        for table, parts in zip(tensors[1:], kernels.marginal_tensors(*tensors), strict=True):
            total = total - (parts * table.masked_fill(table == -torch.inf, 0.0)).sum()
        return total.to(value_type(scores))

    def sample(
        self, scores: Tensor, n_samples: int, seed: int, where: Where, backend: Backend
    ) -> list[SegmentPath]:
        """Independent paths; not with a rate term."""
        tensors, rate = self.tensors(scores, where)
        _without_rate(rate)
        messages = plain.forward(tensors, log_sum_exp)
        check_finite(messages.total)
        rng = np.random.default_rng(seed)
        return [plain.sample_path(tensors, messages, rng) for _ in range(n_samples)]

    def k_best(self, scores: Tensor, k: int, where: Where, backend: Backend) -> Any:
        raise UnsupportedError(
            "alignments have no list of k best paths; use sample, or the gaps of "
            "trellis.structures.segments.oracle.segment_oracle.Segmentation"
        )


def _wants_gradient(tensors: SegmentTensors) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors[1:])


def _without_rate(rate: Tensor) -> None:
    if float(rate.detach()) != 0.0:
        raise UnsupportedError(
            "with a rate term, alignments offer structured_loss, decode, log_partition (one derivative) and "
            "marginals without gradient, on the CPU; use rate_weight=0 for the rest"
        )


def _distances(allowed: NDArray[np.bool_]) -> FloatArray:
    """Frames from each start to the nearest allowed one of its row, which has one."""
    frames = np.arange(allowed.shape[1])
    return np.stack([np.abs(frames[:, None] - np.flatnonzero(row)).min(axis=1) for row in allowed]).astype(
        float
    )

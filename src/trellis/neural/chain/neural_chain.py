"""``Chain``: labels in a row, with scores from a network.

    s(y) = start[y_1] + sum_t scores[t, y_t] + sum_{t>1} transitions[t, y_{t-1}, y_t] + end[y_n]

``transitions`` are (K, K), shared by all steps; (T, K, K), the same for all sequences of a padded batch; or
given by a network for every step, [batch, time, K, K] or packed (N, K, K), where row t leads *into* step t
(that of a first step is not used). ``-inf`` forbids, and gets gradient 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.core.errors import DataError
from trellis.data.constraints import LegalTransitions
from trellis.losses.labelings import get_loss
from trellis.neural.chain import chain_functions as kernels
from trellis.neural.chain import chain_torch as plain
from trellis.neural.chain.batch_layout import Layout
from trellis.neural.chain.chain_functions import ChainTensors, Task
from trellis.neural.chain.chain_search import k_best_padded, sample_padded
from trellis.neural.chain.gold_labels import costs_of, encoded_gold
from trellis.neural.tensor_objectives import check_finite, objective_values
from trellis.neural.tensor_structure import Backend, Goal, TensorStructure, Where, uses_kernels
from trellis.neural.tensors import check_floating, log_sum_exp, maximum, value_type
from trellis.structures.chain.oracle.chain_oracle import Chain as ChainInference
from trellis.structures.chain.problem.objective_kernels import ZERO_ONE
from trellis.structures.chain.scores.chain_scores import ChainScores


@dataclass(frozen=True, eq=False)
class Chain(TensorStructure):
    """``allowed``: a boolean (K, K), rows the previous label, or the start, pair and end marks that
    :func:`trellis.data.constraints.legal_transitions` gives ("bio", "bioes" or pairs)."""

    transitions: Tensor
    start: Tensor | None = None
    end: Tensor | None = None
    allowed: Any = None

    def tensors(self, scores: Tensor, where: Where) -> ChainTensors:
        """All part scores of a batch, checked, with what is not allowed at -inf."""
        check_floating("unary", scores)
        check_floating("transition", self.transitions)
        layout = Layout.of(scores, *where)
        k = scores.shape[-1]
        zero = scores.new_zeros(k)
        start = zero if self.start is None else self.start
        end = zero if self.end is None else self.end
        check_floating("start", start)
        check_floating("end", end)
        if tuple(start.shape) != (k,) or tuple(end.shape) != (k,):
            raise DataError(
                f"start and end scores have shapes {tuple(start.shape)} and {tuple(end.shape)}; for {k} "
                f"labels they must be ({k},)"
            )
        transitions = self._shaped(layout, k)
        if self.allowed is not None:
            legal = self._legal(k, scores.device)
            start, transitions, end = (
                t.masked_fill(~ok, -torch.inf) for t, ok in zip((start, transitions, end), legal, strict=True)
            )
        return ChainTensors(scores, transitions, start, end, layout)

    def _shaped(self, layout: Layout, k: int) -> Tensor:
        given = tuple(self.transitions.shape)
        if given == (k, k):
            return self.transitions
        by_position = len(layout.shape) == 2 and given == (layout.shape[1], k, k)
        if by_position or given == (*layout.shape, k, k):
            if layout.n_rows == 1:  # one matrix, that of a first step, which is not used
                return self.transitions.reshape(k, k)
            return self.transitions.expand(*layout.shape, k, k)
        raise DataError(
            f"transition scores have shape {given}; for {k} labels they must be {(k, k)}, or "
            f"{(*layout.shape, k, k)} for one matrix per step"
        )

    def _legal(self, k: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        if isinstance(self.allowed, LegalTransitions):
            start, pair, end = (torch.as_tensor(mark) for mark in self.allowed)
        else:
            pair = torch.as_tensor(self.allowed)
            start = end = torch.ones(k, dtype=torch.bool)
        if pair.dtype != torch.bool or tuple(pair.shape) != (k, k):
            raise DataError(
                f"allowed must be booleans of shape {(k, k)}, got {pair.dtype} {tuple(pair.shape)}"
            )
        return start.to(device), pair.to(device), end.to(device)

    # -- answers ------------------------------------------------------------------------------------------

    def objective_values(
        self, scores: Tensor, gold: Any, goal: Goal, where: Where, backend: Backend
    ) -> Tensor:
        chain = self.tensors(scores, where)
        k = scores.shape[-1]
        encoded = encoded_gold(gold, chain.layout, k)
        loss = goal.loss if isinstance(goal.loss, Tensor) else get_loss(goal.loss)
        costs = costs_of(goal.objective, loss, encoded, chain.layout, k)
        if uses_kernels(scores, backend):
            return kernels.objective_values(chain, Task(goal.objective, goal.epsilon, encoded, costs))
        padded = plain.PaddedChain.of(chain)
        one = encoded.codes[:, None] == np.arange(k, dtype=np.int32)
        allowed = one if encoded.allowed is None else encoded.allowed
        oracle = plain.ChainOracle(
            padded,
            _pad(encoded.codes.astype(np.int64), padded, 0),
            _pad(allowed, padded, True),
            _pad(costs.by_step(encoded), padded, 0.0).to(padded.unary.dtype),
            costs.kind == ZERO_ONE,
        )
        return objective_values(goal.objective, oracle, goal.epsilon)

    def decode(self, scores: Tensor, where: Where, backend: Backend) -> Tensor:
        """Labels of the shape of the batch, -1 in the padding."""
        chain = self.tensors(scores, where)
        if uses_kernels(scores, backend):
            found = ChainInference().best(packed_scores(chain))
            return chain.layout.unpacked(found.labels.astype(np.int64), -1)
        padded = plain.PaddedChain.of(chain)
        check_finite(padded.total(maximum))
        return _unpad(plain.best_indicators(padded).argmax(-1), chain.layout, padded, -1)

    def log_partition(self, scores: Tensor, where: Where, backend: Backend) -> Tensor:
        chain = self.tensors(scores, where)
        if uses_kernels(scores, backend):
            return kernels.log_partition(chain)
        values = plain.PaddedChain.of(chain).total(log_sum_exp)
        check_finite(values)
        return values

    def marginals(self, scores: Tensor, where: Where, backend: Backend) -> Tensor:
        """P(y_t = k), of the shape of the scores; 0 in the padding."""
        chain = self.tensors(scores, where)
        if uses_kernels(scores, backend):
            return kernels.marginals(chain)[0].to(scores.dtype)
        wanted = torch.is_grad_enabled()
        with torch.enable_grad():
            extra = torch.zeros_like(scores, requires_grad=True)
            shifted = ChainTensors(scores + extra, *chain.tensors[1:], chain.layout)
            total = plain.PaddedChain.of(shifted).total(log_sum_exp)
            check_finite(total)
            (found,) = torch.autograd.grad(total.sum(), extra, create_graph=wanted)
        return found

    def entropy(self, scores: Tensor, where: Where, backend: Backend) -> Tensor:
        """log Z - E s: the expected score is the derivative of log Z(c s) at c = 1."""
        chain = self.tensors(scores, where)
        if uses_kernels(scores, backend):
            return _kernel_entropy(chain)
        padded = plain.PaddedChain.of(chain)
        values, expected = _scaled_entropy(padded)
        check_finite(values)
        return values - expected

    def sample(self, scores: Tensor, n_samples: int, seed: int, where: Where, backend: Backend) -> Tensor:
        """[n_samples, ...batch shape], -1 in the padding."""
        chain = self.tensors(scores, where)
        if n_samples < 0:
            raise DataError(f"n_samples is {n_samples}; it must not be negative")
        if uses_kernels(scores, backend):
            drawn = ChainInference().sample(packed_scores(chain), n_samples, np.random.default_rng(seed))
            return _stack([chain.layout.unpacked(row.astype(np.int64), -1) for row in drawn], chain.layout)
        padded = plain.PaddedChain.of(chain)
        check_finite(padded.total(log_sum_exp))
        rows = sample_padded(padded, n_samples, seed)
        return _stack([_unpad(row, chain.layout, padded, -1) for row in rows], chain.layout)

    def k_best(self, scores: Tensor, k: int, where: Where, backend: Backend) -> tuple[Tensor, Tensor]:
        """Labels [k, ...batch shape] and scores (S, k); -1 and -inf past the last labelling there is."""
        chain = self.tensors(scores, where)
        if k < 1:
            raise DataError(f"k is {k}; ask for at least one labelling")
        if uses_kernels(scores, backend):
            ranked = ChainInference().k_best(packed_scores(chain), k)
            labels = [chain.layout.unpacked(row.astype(np.int64), -1) for row in ranked.labels]
            return torch.stack(labels), torch.from_numpy(ranked.scores).to(value_type(scores))
        padded = plain.PaddedChain.of(chain)
        found, values = k_best_padded(padded, k)
        check_finite(values[:, 0])
        return torch.stack([_unpad(row, chain.layout, padded, -1) for row in found]), values


def packed_scores(chain: ChainTensors) -> ChainScores:
    """For questions without gradients: packed, in double precision."""
    layout = chain.layout
    arrays = kernels.kernel_arrays(*chain.tensors, layout)
    unary, transitions = arrays[0], arrays[1]
    if not layout.full:
        unary = unary[layout.steps]
        transitions = transitions if chain.shared else transitions[layout.steps]
    return ChainScores(
        np.ascontiguousarray(unary, np.float64),
        np.ascontiguousarray(transitions, np.float64),
        arrays[2],
        arrays[3],
        layout.offsets,
    )


def _kernel_entropy(chain: ChainTensors) -> Tensor:
    layout = chain.layout
    mu, pairs = kernels.marginals(chain)
    log_z = kernels.log_partition(chain)
    some, first, last = (torch.from_numpy(rows) for rows in layout.ends_of)
    k = chain.unary.shape[-1]
    owners = torch.from_numpy(layout.owners)
    rows = mu.reshape(-1, k)
    expected = log_z.new_zeros(layout.n_sequences)
    kept = log_z.dtype
    expected = expected.index_add(0, owners, _dot(rows, chain.unary.reshape(-1, k)).sum(1).to(kept))
    ends = _dot(rows[first], chain.start).sum(1) + _dot(rows[last], chain.end).sum(1)
    expected = expected.index_add(0, some, ends.to(kept))
    if chain.shared:
        return log_z - expected - _dot(pairs, chain.transitions).sum((1, 2)).to(kept)
    steps = _dot(pairs, chain.transitions).reshape(-1, k * k).sum(1)
    return log_z - expected.index_add(0, owners, steps.to(kept))


def _dot(parts: Tensor, scores: Tensor) -> Tensor:
    """parts * scores, 0 where a score is not finite: such a part is forbidden, or in the padding."""
    return parts * scores.masked_fill(~torch.isfinite(scores), 0.0)


def _scaled_entropy(padded: plain.PaddedChain) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        scale = padded.unary.new_ones(len(padded.unary), requires_grad=True)

        def scaled(t: Tensor, axes: int) -> Tensor:
            finite = t.masked_fill(t == -torch.inf, 0.0)
            grown = finite * scale.reshape(-1, *[1] * axes)
            return torch.where(t == -torch.inf, t, grown)

        shape = (len(padded.unary), *padded.transitions.shape[-2:])
        start, end = scaled(padded.start, 1), scaled(padded.end, 1)
        if padded.transitions.ndim == 2:
            pairs = scaled(padded.transitions.expand(shape), 2).unsqueeze(1)
            pairs = pairs.expand(-1, padded.unary.shape[1], -1, -1)
        else:
            pairs = scaled(padded.transitions, 3)
        total = plain.PaddedChain(scaled(padded.unary, 2), pairs, start, end, padded.mask).total(log_sum_exp)
        (expected,) = torch.autograd.grad(total.sum(), scale, create_graph=True)
    return total, expected


def _pad(packed: Any, padded: plain.PaddedChain, fill: Any) -> Tensor:
    """A packed array as a padded tensor on the device of the scores."""
    shape = tuple(padded.mask.shape)
    whole = np.full((*shape, *packed.shape[1:]), fill, dtype=packed.dtype)
    whole[padded.mask.cpu().numpy()] = packed
    return torch.from_numpy(whole).to(padded.unary.device)


def _unpad(values: Tensor, layout: Layout, padded: plain.PaddedChain, fill: int) -> Tensor:
    """Padded [B, T] in the shape of the batch."""
    if len(layout.shape) == 1:
        return values[padded.mask]
    return values.masked_fill(~padded.mask, fill)


def _stack(rows: list[Tensor], layout: Layout) -> Tensor:
    return torch.stack(rows) if rows else torch.zeros((0, *layout.shape), dtype=torch.int64)

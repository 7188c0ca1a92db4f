"""Chains in plain PyTorch, for tensors that are not on the CPU: one batched operation per step.

    alpha_1 = start + u_1,    alpha_t = u_t + (+)_j (alpha_{t-1}[j] + a_t[j, .]),    (+)_k alpha_n[k] + end[k]

with (+) the maximum or log-sum-exp. Automatic differentiation gives indicators and marginals, so that nothing
here has a backward pass of its own. A step is a handful of launches however large the batch is. Packed
batches are padded first. Computation runs in the precision of the scores, 16 bits in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from trellis.neural.chain.chain_functions import ChainTensors, on_axes
from trellis.neural.tensors import Reduce, check_scores, log_sum_exp, maximum, value_type


@dataclass(frozen=True, eq=False)
class PaddedChain:
    """``unary`` [B, T, K], ``transitions`` (K, K) or [B, T, K, K], ``mask`` [B, T]."""

    unary: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
    mask: Tensor

    @classmethod
    def of(cls, chain: ChainTensors) -> PaddedChain:
        layout, kept = chain.layout, value_type(chain.unary)
        unary, transitions, start, end = (t.to(kept) for t in chain.tensors)
        time = layout.shape[1] if len(layout.shape) == 2 else int(layout.lengths.max(initial=0))
        lengths = torch.from_numpy(layout.lengths).to(unary.device)
        mask = torch.arange(time, device=unary.device) < lengths[:, None]
        if len(layout.shape) == 1:
            rows = layout.begins[:, None] + np.minimum(
                np.arange(time), np.maximum(layout.lengths[:, None] - 1, 0)
            )
            index = torch.from_numpy(np.minimum(rows, max(layout.n_rows - 1, 0))).to(unary.device)
            unary = unary[index]
            transitions = transitions if chain.shared else transitions[index]
        else:  # what stands in the padding must reach no gradient, not even as 0 times NaN
            unary = unary.masked_fill(~on_axes(mask, unary), 0.0)
            if not chain.shared:
                transitions = transitions.masked_fill(~on_axes(mask, transitions), 0.0)
        for name, scores in zip(
            ("unary", "transition", "start", "end"), (unary, transitions, start, end), strict=True
        ):
            check_scores(name, scores)
        return cls(unary, transitions, start, end, mask)

    def pairs(self, t: int) -> Tensor:
        return self.transitions if self.transitions.ndim == 2 else self.transitions[:, t]

    @cached_property
    def some(self) -> Tensor:
        """(B,) whether a sequence has steps at all."""
        return self.mask.any(1)

    def plus(self, unary: Tensor) -> PaddedChain:
        return PaddedChain(self.unary + unary, self.transitions, self.start, self.end, self.mask)

    def restricted(self, allowed: Tensor) -> PaddedChain:
        """With every label outside ``allowed`` [B, T, K] forbidden."""
        unary = self.unary.masked_fill(~allowed & self.mask.unsqueeze(-1), -torch.inf)
        return PaddedChain(unary, self.transitions, self.start, self.end, self.mask)

    def total(self, reduce: Reduce) -> Tensor:
        """(B,) the maximum or log-sum-exp of all labellings; 0 for a sequence of no steps."""
        if self.unary.shape[1] == 0:
            return self.unary.sum((1, 2))  # zeros that know their gradient
        alpha = self.start + self.unary[:, 0]
        for t in range(1, self.unary.shape[1]):
            onward = reduce(alpha.unsqueeze(-1) + self.pairs(t), 1) + self.unary[:, t]
            alpha = torch.where(self.mask[:, t, None], onward, alpha)
        return self._ended(reduce(alpha + self.end, 1), 0.0)

    def _ended(self, values: Tensor, empty: float) -> Tensor:
        return torch.where(self.some, values, torch.full_like(values, empty))

    def outside(self, allowed: Tensor) -> Tensor:
        """(B,) the best labelling with at least one label outside ``allowed``."""
        if self.unary.shape[1] == 0:
            return self.unary.new_full((self.unary.shape[0],), -torch.inf)
        here = self.start + self.unary[:, 0]
        never = torch.full_like(here, -torch.inf)
        inside, outside = torch.where(allowed[:, 0], here, never), torch.where(allowed[:, 0], never, here)
        for t in range(1, self.unary.shape[1]):
            pairs, fits, now = self.pairs(t), allowed[:, t], self.mask[:, t, None]
            a = maximum(inside.unsqueeze(-1) + pairs, 1) + self.unary[:, t]
            b = maximum(outside.unsqueeze(-1) + pairs, 1) + self.unary[:, t]
            inside = torch.where(now, torch.where(fits, a, never), inside)
            outside = torch.where(now, torch.where(fits, b, torch.where(a > b, a, b)), outside)
        return self._ended(maximum(outside + self.end, 1), -torch.inf)

    def score(self, labels: Tensor) -> Tensor:
        """(B,) the score of labels [B, T]; what stands in the padding does not matter."""
        if self.unary.shape[1] == 0:
            return self.unary.sum((1, 2))
        y = labels.masked_fill(~self.mask, 0)
        rows = torch.arange(len(y), device=y.device)
        last = y[rows, (self.mask.sum(1) - 1).clamp(min=0)]
        units = self.unary.gather(2, y.unsqueeze(-1)).squeeze(-1)
        total = _masked(units, self.mask).sum(1)
        if self.transitions.ndim == 2:
            steps = self.transitions[y[:, :-1], y[:, 1:]]
        else:
            into = torch.arange(1, y.shape[1], device=y.device)
            steps = self.transitions[rows[:, None], into, y[:, :-1], y[:, 1:]]
        total = total + _masked(steps, self.mask[:, 1:]).sum(1)
        return self._ended(total + self.start[y[:, 0]] + self.end[last], 0.0)


def _masked(x: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, x, torch.zeros_like(x))


@dataclass(frozen=True, eq=False)
class ChainOracle:
    """A batch of chains for ``tensor_objectives``. ``codes`` [B, T], -1 where unknown; ``allowed``
    and ``cost`` [B, T, K]."""

    chain: PaddedChain
    codes: Tensor
    allowed: Tensor
    cost: Tensor
    zero_one: bool

    @cached_property
    def _known(self) -> bool:
        return not bool(((self.codes < 0) & self.chain.mask).any())

    def best(self, scale: float) -> Tensor:
        return (self.chain.plus(scale * self.cost) if scale else self.chain).total(maximum)

    def sum(self, scale: float | Tensor) -> Tensor:
        if isinstance(scale, Tensor):
            scale = scale[:, None, None]
        elif scale == 0.0:
            return self.chain.total(log_sum_exp)
        return self.chain.plus(scale * self.cost).total(log_sum_exp)

    def outside(self) -> Tensor:
        return self.chain.outside(self.allowed)

    def gold_best(self) -> Tensor:
        return (
            self.chain.score(self.codes)
            if self._known
            else self.chain.restricted(self.allowed).total(maximum)
        )

    def gold_sum(self) -> Tensor:
        return (
            self.chain.score(self.codes)
            if self._known
            else self.chain.restricted(self.allowed).total(log_sum_exp)
        )

    def loss_of_best(self) -> Tensor:
        found = best_indicators(self.chain)
        if self.zero_one:
            return ((found > 0) & ~self.allowed).any(2).any(1).to(found.dtype)
        return (found * self.cost).sum((1, 2))


def best_indicators(chain: PaddedChain) -> Tensor:
    """[B, T, K] 1 at the labels of the best labelling: the gradient of its score."""
    with torch.enable_grad():
        unary = chain.unary.detach().requires_grad_()
        pairs, start, end = (t.detach() for t in (chain.transitions, chain.start, chain.end))
        total = PaddedChain(unary, pairs, start, end, chain.mask).total(maximum)
        (found,) = torch.autograd.grad(total.sum(), unary, allow_unused=True)
    return torch.zeros_like(unary) if found is None else found.detach()

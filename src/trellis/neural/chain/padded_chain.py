"""Chains in plain PyTorch, for tensors that are not on the CPU: one batched operation per step.

    alpha_1 = start + u_1,    alpha_t = u_t + (+)_j (alpha_{t-1}[j] + a_t[j, .]),    (+)_k alpha_n[k] + end[k]

with (+) the maximum or log-sum-exp. Automatic differentiation gives indicators and marginals, so that nothing
here has a backward pass of its own. A step is a handful of launches however large the batch is. Packed
batches are padded first. Computation runs in the precision of the scores, 16 bits in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from trellis.neural.chain.batch_layout import ChainTensors
from trellis.neural.chain.chain_functions import on_axes
from trellis.neural.tensors import Reduce, check_scores, differentiate, maximum, value_type


@dataclass(frozen=True, eq=False)
class PaddedChain:
    """``unary`` [B, T, K], ``transitions`` (K, K) or [B, T, K, K], ``start``, ``end`` (K,) or [B, K],
    ``mask`` [B, T]."""

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
            steps = np.minimum(np.arange(time), np.maximum(layout.lengths[:, None] - 1, 0))
            rows = np.minimum(layout.begins[:, None] + steps, max(layout.n_rows - 1, 0))
            index = torch.from_numpy(rows).to(unary.device)
            unary = unary[index]
            transitions = transitions if chain.shared else transitions[index]
        else:  # padding must not reach any gradient, not even as 0 times NaN
            unary = unary.masked_fill(~on_axes(mask, unary), 0.0)
            if not chain.shared:
                transitions = transitions.masked_fill(~on_axes(mask, transitions), 0.0)
        tables = {"unary": unary, "transition": transitions, "start": start, "end": end}
        for name, scores in tables.items():
            check_scores(name, scores)
        return cls(unary, transitions, start, end, mask)

    def pairs(self, t: int) -> Tensor:
        return self.transitions if self.transitions.ndim == 2 else self.transitions[:, t]

    @cached_property
    def some(self) -> Tensor:
        """(B,) whether a sequence has steps at all."""
        return self.mask.any(1)

    def plus(self, unary: Tensor) -> PaddedChain:
        return replace(self, unary=self.unary + unary)

    def restricted(self, allowed: Tensor) -> PaddedChain:
        """With every label outside ``allowed`` [B, T, K] forbidden."""
        outside = ~allowed & self.mask.unsqueeze(-1)
        return replace(self, unary=self.unary.masked_fill(outside, -torch.inf))

    def messages(self, reduce: Reduce) -> Iterator[Tensor]:
        """alpha_t [B, K] step by step; that of the last step is repeated in the padding."""
        alpha = self.start + self.unary[:, 0]
        yield alpha
        for t in range(1, self.unary.shape[1]):
            onward = reduce(alpha.unsqueeze(-1) + self.pairs(t), 1) + self.unary[:, t]
            alpha = torch.where(self.mask[:, t, None], onward, alpha)
            yield alpha

    def total(self, reduce: Reduce) -> Tensor:
        """(B,) the maximum or log-sum-exp of all labellings; 0 for a sequence of no steps."""
        if self.unary.shape[1] == 0:
            return self.unary.sum((1, 2))  # zeros that know their gradient
        for alpha in self.messages(reduce):
            last = alpha
        return self._ended(reduce(last + self.end, 1), 0.0)

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
        """(B,) the score of labels [B, T], whose padding is not read."""
        if self.unary.shape[1] == 0:
            return self.unary.sum((1, 2))
        y = labels.masked_fill(~self.mask, 0)
        rows = torch.arange(len(y), device=y.device)
        last = y[rows, (self.mask.sum(1) - 1).clamp(min=0)]
        units = self.unary.gather(2, y.unsqueeze(-1)).squeeze(-1)
        if self.transitions.ndim == 2:
            steps = self.transitions[y[:, :-1], y[:, 1:]]
        else:
            into = torch.arange(1, y.shape[1], device=y.device)
            steps = self.transitions[rows[:, None], into, y[:, :-1], y[:, 1:]]
        total = units.masked_fill(~self.mask, 0.0).sum(1) + steps.masked_fill(~self.mask[:, 1:], 0.0).sum(1)
        return self._ended(total + self.start[y[:, 0]] + self.end[last], 0.0)

    def with_marginals(self, reduce: Reduce) -> tuple[Tensor, Tensor]:
        """The total, and its gradient in the unary scores [B, T, K]: the marginals, or 1 at the labels of
        the best labelling."""
        values, (found,) = differentiate(lambda u: replace(self, unary=u).total(reduce), self.unary)
        return values, found

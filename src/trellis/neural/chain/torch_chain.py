"""A batch of chains on any device, answered by plain PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.core.arrays import AnyArray
from trellis.neural.chain.batch_layout import Layout
from trellis.neural.chain.gold_labels import ChainTask
from trellis.neural.chain.padded_chain import PaddedChain
from trellis.neural.chain.padded_search import k_best_labels, sample_labels
from trellis.neural.tensor_objectives import check_finite
from trellis.neural.tensor_structure import DifferentiableBatch, Goal
from trellis.neural.tensors import Reduce, constant_array, entropy, log_sum_exp, maximum
from trellis.structures.chain.problem.objective_kernels import ZERO_ONE


@dataclass(frozen=True, eq=False)
class TorchChain(DifferentiableBatch):
    """Answers have the shape that ``layout`` gives, marginals the type ``dtype``."""

    chain: PaddedChain
    layout: Layout
    dtype: torch.dtype

    def total(self, reduce: Reduce) -> Tensor:
        return self.chain.total(reduce)

    def oracle(self, gold: Any, goal: Goal) -> ChainOracle:
        task = ChainTask.of(gold, goal, self.layout, self.chain.unary.shape[-1])
        return ChainOracle(
            self.chain,
            self._pad(task.gold.codes.astype(np.int64), 0),
            self._pad(task.allowed, True),
            self._pad(task.cost_by_step, 0.0).to(self.chain.unary.dtype),
            task.loss_kind == ZERO_ONE,
        )

    def decode(self) -> Tensor:
        values, found = self.chain.with_marginals(maximum)
        check_finite(values)
        return self._unpad(found.argmax(-1))

    def marginals(self) -> Tensor:
        values, found = self.chain.with_marginals(log_sum_exp)
        check_finite(values)
        packed = len(self.layout.shape) == 1
        return (found[self.chain.mask] if packed else found).to(self.dtype)

    def entropy(self) -> Tensor:
        chain = self.chain
        batch, time, k = chain.unary.shape
        pairs = chain.transitions if chain.transitions.ndim == 4 else chain.transitions.expand(batch, 1, k, k)

        def log_partition(unary: Tensor, pairs: Tensor, start: Tensor, end: Tensor) -> Tensor:
            own = PaddedChain(unary, pairs.expand(batch, time, k, k), start, end, chain.mask)
            values = own.total(log_sum_exp)
            check_finite(values)
            return values

        return entropy(
            log_partition, (chain.unary, pairs, chain.start.expand(batch, k), chain.end.expand(batch, k))
        )

    def sample(self, n_samples: int, seed: int) -> Tensor:
        self.finite_total(log_sum_exp)
        return self._unpad(sample_labels(self.chain, n_samples, seed))

    def k_best(self, k: int) -> tuple[Tensor, Tensor]:
        labels, values = k_best_labels(self.chain, k)
        check_finite(values[:, 0])
        return self._unpad(labels), values

    def _pad(self, packed: AnyArray, fill: Any) -> Tensor:
        """A packed array as a padded tensor on the device of the scores."""
        mask = self.chain.mask
        whole = np.full((*mask.shape, *packed.shape[1:]), fill, dtype=packed.dtype)
        whole[constant_array(mask)] = packed
        return torch.from_numpy(whole).to(mask.device)

    def _unpad(self, labels: Tensor) -> Tensor:
        """Labels [..., B, T] in the shape of the batch, -1 in the padding."""
        if len(self.layout.shape) == 1:
            return labels[..., self.chain.mask]
        return labels.masked_fill(~self.chain.mask, -1)


@dataclass(frozen=True, eq=False)
class ChainOracle:
    """A batch of chains for ``tensor_objectives``. ``codes`` [B, T], -1 where unknown; ``allowed`` and
    ``cost`` [B, T, K]."""

    chain: PaddedChain
    codes: Tensor
    allowed: Tensor
    cost: Tensor
    zero_one: bool

    def total(self, reduce: Reduce, scale: float | Tensor) -> Tensor:
        if isinstance(scale, Tensor):
            scale = scale[:, None, None]
        elif scale == 0.0:
            return self.chain.total(reduce)
        return self.chain.plus(scale * self.cost).total(reduce)

    def gold_total(self, reduce: Reduce) -> Tensor:
        if self._known:
            return self.chain.score(self.codes)
        return self.chain.restricted(self.allowed).total(reduce)

    def outside(self) -> Tensor:
        return self.chain.outside(self.allowed)

    def loss_of_best(self) -> Tensor:
        with torch.no_grad():
            _, found = self.chain.with_marginals(maximum)
        if self.zero_one:
            return ((found > 0) & ~self.allowed).any(2).any(1).to(found.dtype)
        return (found * self.cost).sum((1, 2))

    @cached_property
    def _known(self) -> bool:
        return not bool(((self.codes < 0) & self.chain.mask).any())

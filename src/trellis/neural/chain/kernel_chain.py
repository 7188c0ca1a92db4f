"""A batch of chains on the CPU, answered by compiled kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.neural.chain.batch_layout import ChainTensors
from trellis.neural.chain.chain_functions import (
    ChainMarginals,
    ChainObjective,
    chain_values,
    kernel_arrays,
)
from trellis.neural.chain.gold_labels import ChainTask
from trellis.neural.tensor_structure import Goal, ScoredBatch
from trellis.neural.tensors import apply, finite_product, value_type
from trellis.objectives.records import Perceptron
from trellis.objectives.special_cases import Direct
from trellis.structures.chain.oracle.chain_oracle import Chain as ChainInference
from trellis.structures.chain.scores.chain_scores import ChainScores


@dataclass(frozen=True, eq=False)
class KernelChain(ScoredBatch):
    chain: ChainTensors

    def objective_values(self, gold: Any, goal: Goal) -> Tensor:
        layout = self.chain.layout
        task = ChainTask.of(gold, goal, layout, self.chain.unary.shape[-1])
        wanted = torch.is_grad_enabled() and any(t.requires_grad for t in self.chain.tensors)
        values: Tensor = apply(ChainObjective, layout, task, wanted, *self.chain.tensors)[0]
        return values

    def gaps_and_losses(self, gold: Any, goal: Goal) -> tuple[Tensor, Tensor]:
        layout, k = self.chain.layout, self.chain.unary.shape[-1]
        arrays = kernel_arrays(layout, *self.chain.tensors)
        gaps, losses = (
            chain_values(arrays, layout, ChainTask.of(gold, replace(goal, objective=one), layout, k))
            for one in (Perceptron(), Direct(epsilon=1.0, sign="better"))  # whose value is L(y_hat)
        )
        return torch.from_numpy(gaps), torch.from_numpy(losses)

    def decode(self) -> Tensor:
        return self.chain.layout.unpack(ChainInference().best(self._packed).labels)

    def log_partition(self) -> Tensor:
        return self._marginals()[0]

    def marginals(self) -> Tensor:
        return self._marginals()[1].to(self.chain.unary.dtype)

    def entropy(self) -> Tensor:
        """log Z - E s, the expected score from the marginals of all parts."""
        chain, layout = self.chain, self.chain.layout
        log_z, unary, pairs = self._marginals()
        some, first, last = (torch.from_numpy(rows) for rows in layout.first_and_last)
        owners = torch.from_numpy(layout.owners)
        k = unary.shape[-1]
        rows = unary.reshape(-1, k)
        by_row = finite_product(rows, chain.unary.reshape(-1, k)).sum(1)
        by_pair = finite_product(pairs, chain.transitions).reshape(-1, k * k).sum(1)
        ends = finite_product(rows[first], chain.start) + finite_product(rows[last], chain.end)
        values = log_z.index_add(0, owners, by_row.to(log_z.dtype), alpha=-1)
        values = values.index_add(0, some, ends.sum(1).to(log_z.dtype), alpha=-1)
        if chain.shared:
            return values - by_pair.to(log_z.dtype)
        return values.index_add(0, owners, by_pair.to(log_z.dtype), alpha=-1)

    def sample(self, n_samples: int, seed: int) -> Tensor:
        drawn = ChainInference().sample(self._packed, n_samples, np.random.default_rng(seed))
        return self.chain.layout.unpack(drawn)

    def k_best(self, k: int) -> tuple[Tensor, Tensor]:
        ranked = ChainInference().k_best(self._packed, k)
        scores = torch.from_numpy(ranked.scores).to(value_type(self.chain.unary))
        return self.chain.layout.unpack(ranked.labels), scores

    def _marginals(self) -> tuple[Tensor, Tensor, Tensor]:
        log_z, unary, pairs = apply(ChainMarginals, self.chain.layout, *self.chain.tensors)
        return log_z, unary, pairs

    @cached_property
    def _packed(self) -> ChainScores:
        """For questions without gradients: packed, in double precision."""
        layout = self.chain.layout
        unary, transitions, start, end = kernel_arrays(layout, *self.chain.tensors)
        if not layout.full:
            unary = unary[layout.steps]
            transitions = transitions if self.chain.shared else transitions[layout.steps]
        unary, transitions = (np.ascontiguousarray(array, np.float64) for array in (unary, transitions))
        return ChainScores(unary, transitions, start, end, layout.offsets)

"""A batch of factor graphs with their tables: answers by variable elimination."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.core.errors import UnsupportedError
from trellis.neural.factors.factor_gold import FactorOracle
from trellis.neural.factors.tensor_elimination import (
    Elimination,
    LogTable,
    aligned,
    eliminate,
    joint,
    walk_back,
)
from trellis.neural.tensor_objectives import check_finite
from trellis.neural.tensor_structure import DifferentiableBatch, Goal
from trellis.neural.tensors import Reduce, differentiate, entropy, log_sum_exp, maximum

MOST_ASSIGNMENTS = 200_000  # that k_best writes out


@dataclass(frozen=True, eq=False)
class FactorBatch(DifferentiableBatch):
    """``order``: in which variables are eliminated. ``tables``: those of the ``n_factors`` factors, then one
    for each variable, so that every variable is in some table."""

    cardinalities: tuple[int, ...]
    order: tuple[int, ...]
    tables: list[LogTable]
    n_factors: int

    @property
    def n_examples(self) -> int:
        return max(len(table.values) for table in self.tables)

    def plus(self, tables: Iterable[LogTable]) -> FactorBatch:
        """With more tables added to the scores."""
        return replace(self, tables=[*self.tables, *tables])

    def total(self, reduce: Reduce) -> Tensor:
        return self._eliminate(reduce).total

    def _eliminate(self, reduce: Reduce) -> Elimination:
        return eliminate(self.tables, self.order, reduce)

    def oracle(self, gold: Any, goal: Goal) -> FactorOracle:
        return FactorOracle.of(self, gold, goal)

    def decode(self) -> Tensor:
        """(batch, variables)."""
        found = self._eliminate(maximum)
        check_finite(found.total)
        return walk_back(found, len(self.cardinalities), len(found.total), 1, lambda w: w.max(1).indices)[0]

    def marginals(self) -> list[Tensor]:
        """One tensor per factor, [batch, sizes]: the probability of each of its entries."""
        values, parts = differentiate(self._log_partition, *self._by_example())
        check_finite(values)
        return list(parts)

    def entropy(self) -> Tensor:
        return entropy(self._log_partition, self._by_example())

    def _by_example(self) -> list[Tensor]:
        """The tables of the factors, one for each example where they are shared."""
        n, factors = self.n_examples, self.tables[: self.n_factors]
        return [table.values.expand(n, *table.values.shape[1:]) for table in factors]

    def _log_partition(self, *values: Tensor) -> Tensor:
        own = [LogTable(t.scope, v) for t, v in zip(self.tables, values, strict=False)]
        return replace(self, tables=[*own, *self.tables[len(own) :]]).total(log_sum_exp)

    def sample(self, n_samples: int, seed: int) -> Tensor:
        """(n_samples, batch, variables)."""
        found = self._eliminate(log_sum_exp)
        check_finite(found.total)
        noise = torch.Generator(device=found.total.device).manual_seed(seed)

        def draw(weights: Tensor) -> Tensor:
            if not len(weights):
                return weights.new_zeros(0, dtype=torch.int64)
            return torch.multinomial(torch.softmax(weights, 1), 1, generator=noise)[:, 0]

        return walk_back(found, len(self.cardinalities), len(found.total), n_samples, draw)

    def k_best(self, k: int) -> tuple[Tensor, Tensor]:
        """States (k, batch, variables) and scores (batch, k), by writing out all assignments."""
        sizes = self.cardinalities
        if prod(sizes) > MOST_ASSIGNMENTS:
            raise UnsupportedError(
                f"this graph has {prod(sizes):.3g} assignments, and the k best are found by writing out at "
                f"most {MOST_ASSIGNMENTS:,}; use sample, or a Chain"
            )
        values = aligned(joint(self.tables), tuple(range(len(sizes)))).flatten(1)
        top, place = torch.sort(values, dim=1, descending=True, stable=True)
        check_finite(top[:, 0])
        top, place = top[:, :k], place[:, :k]
        states = torch.from_numpy(np.stack(np.unravel_index(place.cpu().numpy().T, sizes), axis=-1))
        short = k - top.shape[1]
        states = torch.cat([states, states.new_zeros((short, *states.shape[1:]))]).to(top.device)
        top = torch.cat([top, top.new_full((len(top), short), -torch.inf)], dim=1)
        return states.masked_fill((top == -torch.inf).T.unsqueeze(-1), -1), top

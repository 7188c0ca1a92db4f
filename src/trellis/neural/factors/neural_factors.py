"""``Factors``: any factor graph whose tables come from networks.

    s(y) = sum_f scores[f][y of the variables of factor f]

``scores`` is one tensor per factor, [batch, sizes of its variables], or without the first axis where all
examples share it. ``gold`` is (batch, variables), -1 where a variable is unknown, or a list of booleans
[batch, states], one per variable, for sets of allowed states. Everything is exact, by elimination in PyTorch
(:mod:`.elimination`) on the CPU as on other devices: time and memory grow exponentially in the width of the
graph, not in its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.core.errors import DataError, UnsupportedError
from trellis.factors.elimination_order import EliminationOrder, elimination_order
from trellis.neural.factors.factor_gold import FactorOracle, factor_costs, gold_sets
from trellis.neural.factors.tensor_elimination import (
    Elimination,
    LogTable,
    Scope,
    aligned,
    eliminate,
    joint,
    walk_back,
)
from trellis.neural.tensor_objectives import check_finite, objective_values
from trellis.neural.tensor_structure import Backend, Goal, TensorStructure, Where
from trellis.neural.tensors import check_floating, check_scores, log_sum_exp, maximum, value_type

MOST_ENTRIES = 1e8  # of all tables that elimination makes, for one example
MOST_ASSIGNMENTS = 200_000  # that k_best writes out


@dataclass(frozen=True, eq=False)
class Factors(TensorStructure):
    """``cardinalities``: the number of states of each variable. ``scopes``: the variables of each factor."""

    cardinalities: Sequence[int]
    scopes: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        n = len(self.cardinalities)
        if not n or any(size < 1 for size in self.cardinalities):
            raise DataError(
                f"cardinalities are {list(self.cardinalities)}; give each variable at least one state"
            )
        for f, scope in enumerate(self.scopes):
            if len(set(scope)) != len(scope) or not all(0 <= v < n for v in scope):
                raise DataError(
                    f"factor {f} has the variables {tuple(scope)}; they must differ and run from 0 to {n - 1}"
                )

    @cached_property
    def _order(self) -> EliminationOrder:
        scopes: list[Scope] = [tuple(scope) for scope in self.scopes if len(scope)]
        order = elimination_order(
            list(self.cardinalities), [*scopes, *((v,) for v in range(len(self.cardinalities)))], "best"
        )
        if order.total > MOST_ENTRIES:
            raise UnsupportedError(
                f"exact inference in this graph needs tables of {order.total:.3g} entries per example (width "
                f"{order.width}); leave out factors, or use GraphInference for approximate answers"
            )
        return order

    def tables(self, scores: Any, where: Where, backend: Backend) -> list[LogTable]:
        """The factors and a table of zeros for each variable, checked; scalars of no variable included."""
        if any(given is not None for given in where):
            raise DataError("a factor graph has no lengths, mask or offsets: leave them out")
        if backend == "kernels":
            raise UnsupportedError("factor graphs run in plain PyTorch on every device; leave backend out")
        if isinstance(scores, Tensor) or len(scores) != len(self.scopes):
            raise DataError(f"give {len(self.scopes)} tensors of scores, one per factor")
        found = [self._table(f, tensor) for f, tensor in enumerate(scores)]
        sizes = {len(table.values) for table in found}
        if len(sizes - {1}) > 1:
            raise DataError(
                f"the factors have batches of {sorted(sizes)} examples; they must agree (or be shared)"
            )
        like = found[0].values if found else torch.zeros(1)
        free = [LogTable((v,), like.new_zeros(1, size)) for v, size in enumerate(self.cardinalities)]
        return [*found, *free]

    def _table(self, f: int, tensor: Tensor) -> LogTable:
        check_floating(f"factor {f}:", tensor)
        scope = tuple(self.scopes[f])
        shape = tuple(self.cardinalities[v] for v in scope)
        extra = tensor.ndim - len(shape)
        if extra not in (0, 1) or tuple(tensor.shape[extra:]) != shape:
            raise DataError(
                f"the scores of factor {f} have shape {tuple(tensor.shape)}; over the variables {scope} they "
                f"must be {shape} or [batch, {', '.join(map(str, shape))}]"
            )
        values = tensor.to(value_type(tensor))
        check_scores(f"factor {f}:", values)
        return LogTable(scope, values if tensor.ndim > len(shape) else values.unsqueeze(0))

    def total(self, tables: Sequence[LogTable], reduce: Any) -> Tensor:
        """(B,) the maximum or log-sum-exp over all assignments."""
        return self._eliminate(tables, reduce).total

    def _eliminate(self, tables: Sequence[LogTable], reduce: Any) -> Elimination:
        return eliminate(tables, self._order.variables, reduce)

    # -- answers ------------------------------------------------------------------------------------------

    def objective_values(self, scores: Any, gold: Any, goal: Goal, where: Where, backend: Backend) -> Tensor:
        tables = self.tables(scores, where, backend)
        batch = max(len(table.values) for table in tables)
        sets = gold_sets(gold, self.cardinalities, batch, tables[0].values.device)
        costs = factor_costs(goal, sets, tables[0].values.dtype)
        values = objective_values(goal.objective, FactorOracle(self, tables, sets, costs), goal.epsilon)
        return values.expand(batch)

    def decode(self, scores: Any, where: Where, backend: Backend) -> Tensor:
        """(batch, variables)."""
        return self.best_states(self.tables(scores, where, backend))

    def best_states(self, tables: Sequence[LogTable]) -> Tensor:
        found = self._eliminate(tables, maximum)
        check_finite(found.total)
        return walk_back(found, len(self.cardinalities), len(found.total), 1, lambda w: w.max(1).indices)[0]

    def log_partition(self, scores: Any, where: Where, backend: Backend) -> Tensor:
        values = self.total(self.tables(scores, where, backend), log_sum_exp)
        check_finite(values)
        return values

    def marginals(self, scores: Any, where: Where, backend: Backend) -> list[Tensor]:
        """One tensor per factor, [batch, sizes]: the probability of each of its entries."""
        tables = self.tables(scores, where, backend)
        if not self.scopes:
            return []
        batch = max(len(table.values) for table in tables)
        wanted = torch.is_grad_enabled()
        with torch.enable_grad():
            extra = [
                torch.zeros(
                    (batch, *table.values.shape[1:]), dtype=table.values.dtype, device=table.values.device
                ).requires_grad_()
                for table in tables[: len(self.scopes)]
            ]
            moved = [LogTable(t.scope, t.values + e) for t, e in zip(tables, extra, strict=False)]
            total = self.total([*moved, *tables[len(extra) :]], log_sum_exp)
            check_finite(total)
            return list(torch.autograd.grad(total.sum(), extra, create_graph=wanted))

    def entropy(self, scores: Any, where: Where, backend: Backend) -> Tensor:
        tables = self.tables(scores, where, backend)
        total = self.total(tables, log_sum_exp)
        for table, p in zip(tables, self.marginals(scores, where, backend), strict=False):
            finite = table.values.masked_fill(table.values == -torch.inf, 0.0)
            total = total - (p * finite).reshape(len(p), -1).sum(1)
        return total

    def sample(self, scores: Any, n_samples: int, seed: int, where: Where, backend: Backend) -> Tensor:
        """(n_samples, batch, variables)."""
        found = self._eliminate(self.tables(scores, where, backend), log_sum_exp)
        check_finite(found.total)
        noise = torch.Generator(device=found.total.device).manual_seed(seed)

        def draw(weights: Tensor) -> Tensor:
            if not len(weights):
                return weights.new_zeros(0, dtype=torch.int64)
            return torch.multinomial(torch.softmax(weights, 1), 1, generator=noise)[:, 0]

        return walk_back(found, len(self.cardinalities), len(found.total), n_samples, draw)

    def k_best(self, scores: Any, k: int, where: Where, backend: Backend) -> tuple[Tensor, Tensor]:
        """States (k, batch, variables) and scores (batch, k), by writing out all assignments."""
        sizes = tuple(self.cardinalities)
        if prod(sizes) > MOST_ASSIGNMENTS:
            raise UnsupportedError(
                f"this graph has {prod(sizes):.3g} assignments, and the k best are found by writing out at "
                f"most {MOST_ASSIGNMENTS:,}; use sample, or a Chain"
            )
        if k < 1:
            raise DataError(f"k is {k}; ask for at least one assignment")
        every = joint(self.tables(scores, where, backend))
        values = aligned(every, tuple(range(len(sizes))))
        values = values.reshape(len(values), -1)
        top, place = torch.sort(values, dim=1, descending=True, stable=True)
        check_finite(top[:, 0])
        top, place = top[:, :k], place[:, :k]
        states = torch.from_numpy(np.stack(np.unravel_index(place.cpu().numpy().T, sizes), axis=-1))
        short = k - top.shape[1]
        states = torch.cat([states, states.new_zeros((short, *states.shape[1:]))]).to(top.device)
        top = torch.cat([top, top.new_full((len(top), short), -torch.inf)], dim=1)
        return states.masked_fill((top == -torch.inf).T.unsqueeze(-1), -1), top

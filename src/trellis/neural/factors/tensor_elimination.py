"""Variable elimination over log-tables in PyTorch, batched: exact sums, maxima and samples of a factor graph.

    (+)_x sum_f table_f(x_f),      (+) the maximum or log-sum-exp over all assignments x

One variable after another is reduced away from the sum of the tables that hold it. What was summed is kept,
so that a walk back can choose the variables one by one: the best state each, or a draw from p(x_v | those
already chosen). Automatic differentiation does the rest. Tables have a first axis for the examples of a batch
(length 1: shared).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from trellis.neural.tensors import Reduce

Scope = tuple[int, ...]


class LogTable(NamedTuple):
    """``values``: [batch or 1, sizes of the variables of ``scope``]."""

    scope: Scope
    values: Tensor


class Elimination(NamedTuple):
    """``total`` (B,); ``steps``: for each variable in order, the sum of tables it was reduced from."""

    total: Tensor
    steps: list[tuple[int, LogTable]]


def eliminate(tables: Sequence[LogTable], order: Sequence[int], reduce: Reduce) -> Elimination:
    """Reduce all variables in the given order; every variable is in some table."""
    left = list(tables)
    steps = []
    for v in order:
        joined = joint([table for table in left if v in table.scope])
        steps.append((v, joined))
        axis = 1 + joined.scope.index(v)
        smaller = LogTable(tuple(u for u in joined.scope if u != v), reduce(joined.values, axis))
        left = [table for table in left if v not in table.scope] + [smaller]
    return Elimination(joint(left).values, steps)


def joint(tables: Sequence[LogTable]) -> LogTable:
    """The sum of tables, over the union of their variables."""
    scope = tuple(dict.fromkeys(v for table in tables for v in table.scope))
    total = aligned(tables[0], scope)
    for table in tables[1:]:
        total = total + aligned(table, scope)
    return LogTable(scope, total)


def aligned(table: LogTable, scope: Scope) -> Tensor:
    """The values with an axis for every variable of ``scope``, of length 1 for those it does not have."""
    kept = [v for v in scope if v in table.scope]
    values = table.values.permute(0, *(1 + table.scope.index(v) for v in kept))
    sizes = iter(values.shape[1:])
    return values.reshape(len(values), *(next(sizes) if v in table.scope else 1 for v in scope))


Choose = Callable[[Tensor], Tensor]


def walk_back(found: Elimination, n_variables: int, batch: int, copies: int, choose: Choose) -> Tensor:
    """(copies, batch, V) states, each chosen by ``choose`` (rows of log-weights to states) given later
    ones."""
    device = found.total.device
    states = torch.zeros((copies, batch, n_variables), dtype=torch.int64, device=device)
    example = torch.arange(batch, device=device).expand(copies, -1)
    for v, table in reversed(found.steps):
        values = table.values.expand(batch, *table.values.shape[1:])
        own = 1 + table.scope.index(v)
        rows = values.movedim(own, -1)
        others = [states[:, :, u] for u in table.scope if u != v]
        weights = rows[(example, *others)]
        states[:, :, v] = choose(weights.reshape(-1, weights.shape[-1])).reshape(copies, batch)
    return states

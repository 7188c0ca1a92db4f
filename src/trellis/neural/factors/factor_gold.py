"""Gold assignments and losses of factor graphs, and the oracle that puts them into the tables.

A loss adds a table to each variable: 1 for a state outside its gold set (Hamming), or the costs that the user
gives. The best assignment that contradicts the gold one (for the 0-1 loss) contradicts it in some variable v,
so it is the maximum over v of the best one whose v does: one elimination per variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trellis.core.errors import DataError, UnsupportedError
from trellis.losses.labelings import Hamming, ZeroOne, get_loss
from trellis.neural.factors.tensor_elimination import LogTable
from trellis.neural.tensor_structure import Goal
from trellis.neural.tensors import Reduce, maximum

if TYPE_CHECKING:
    from trellis.neural.factors.factor_batch import FactorBatch


def gold_sets(gold: Any, cardinalities: Sequence[int], batch: int, device: torch.device) -> list[Tensor]:
    """The allowed states of each variable, booleans [batch, states]."""
    first = None if isinstance(gold, Tensor) or not len(gold) else gold[0]
    if isinstance(first, Tensor) and first.dtype == torch.bool:
        sets = [torch.as_tensor(one).to(device) for one in gold]
        if [tuple(one.shape) for one in sets] != [(batch, size) for size in cardinalities]:
            raise DataError(
                f"the gold sets must have shapes (batch, states) for the cardinalities {list(cardinalities)}"
            )
        if not all(bool(one.any(1).all()) for one in sets):
            raise DataError("a gold set is empty; allow at least one state of every variable")
        return sets
    codes = torch.as_tensor(gold).to(device)
    if codes.is_floating_point() or tuple(codes.shape) != (batch, len(cardinalities)):
        raise DataError(
            f"gold states are {codes.dtype} of shape {tuple(codes.shape)}; give whole numbers of shape "
            f"{(batch, len(cardinalities))}"
        )
    sets = []
    for v, size in enumerate(cardinalities):
        column = codes[:, v]
        if bool(((column < -1) | (column >= size)).any()):
            raise DataError(
                f"a gold state of variable {v} is outside 0 to {size - 1} (-1 is an unknown state)"
            )
        sets.append((column[:, None] == torch.arange(size, device=device)) | (column[:, None] < 0))
    return sets


def factor_costs(goal: Goal, sets: list[Tensor], dtype: torch.dtype) -> list[Tensor] | None:
    """Costs [batch, states] of each variable; ``None`` for the 0-1 loss."""
    if not goal.objective.uses_loss:
        return [torch.zeros_like(one, dtype=dtype) for one in sets]
    if not isinstance(goal.loss, str) and isinstance(goal.loss, Sequence):
        costs = [torch.as_tensor(one).to(sets[0].device, dtype) for one in goal.loss]
        if [tuple(one.shape) for one in costs] != [tuple(one.shape) for one in sets]:
            raise DataError("the costs must be one tensor [batch, states] per variable")
        return costs
    loss = get_loss(goal.loss)
    if isinstance(loss, ZeroOne):
        return None
    if isinstance(loss, Hamming):
        return [(~one).to(dtype) for one in sets]
    raise UnsupportedError(
        f"the loss {loss.name!r} is for sequences; give 'hamming', 'zero_one' or a list of costs per variable"
    )


@dataclass(frozen=True, eq=False)
class FactorOracle:
    """A batch of graphs for ``tensor_objectives``. ``sets``, ``costs``: [batch, states] of each variable;
    there are no costs for the 0-1 loss."""

    batch: FactorBatch
    sets: list[Tensor]
    costs: list[Tensor] | None

    @classmethod
    def of(cls, batch: FactorBatch, gold: Any, goal: Goal) -> FactorOracle:
        like = batch.tables[0].values
        sets = gold_sets(gold, batch.cardinalities, batch.n_examples, like.device)
        return cls(batch, sets, factor_costs(goal, sets, like.dtype))

    @property
    def zero_one(self) -> bool:
        return self.costs is None

    def total(self, reduce: Reduce, scale: float | Tensor) -> Tensor:
        if self.costs is None or (not isinstance(scale, Tensor) and scale == 0.0):
            return self.batch.total(reduce)
        by_example = scale[:, None] if isinstance(scale, Tensor) else scale
        costs = [LogTable((v,), by_example * cost) for v, cost in enumerate(self.costs)]
        return self.batch.plus(costs).total(reduce)

    def gold_total(self, reduce: Reduce) -> Tensor:
        return self._within(dict(enumerate(self.sets)), reduce)

    def outside(self) -> Tensor:
        each = [self._within({v: ~one}, maximum) for v, one in enumerate(self.sets)]
        return torch.stack(each).max(0).values

    def loss_of_best(self) -> Tensor:
        with torch.no_grad():
            states = self.batch.decode().expand(len(self.sets[0]), -1)
            tables = enumerate(self.costs or self.sets)
            chosen = torch.stack([table.gather(1, states[:, v : v + 1])[:, 0] for v, table in tables])
            if self.costs is None:
                return (~chosen).any(0).to(self.batch.tables[0].values.dtype)
            return chosen.sum(0)

    def _within(self, sets: Mapping[int, Tensor], reduce: Reduce) -> Tensor:
        """The total over assignments whose variables are in these sets."""
        zero = self.batch.tables[0].values.new_zeros(())
        walls = [
            LogTable((v,), zero.expand(one.shape).masked_fill(~one, -torch.inf)) for v, one in sets.items()
        ]
        return self.batch.plus(walls).total(reduce)

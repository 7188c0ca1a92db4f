"""``Factors``: any factor graph whose tables come from networks.

    s(y) = sum_f scores[f][y of the variables of factor f]

``scores`` is one tensor per factor, [batch, sizes of its variables], or without the first axis where all
examples share it. ``gold`` is (batch, variables), -1 where a variable is unknown, or a list of booleans
[batch, states], one per variable, for sets of allowed states. Everything is exact, by variable elimination in
plain PyTorch, on the CPU as on other devices: there are no compiled kernels. Time and memory grow
exponentially in the width of the graph, not in its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import torch
from torch import Tensor

from trellis.core.errors import DataError, UnsupportedError
from trellis.factors.elimination_order import EliminationOrder, elimination_order
from trellis.neural.factors.factor_batch import FactorBatch
from trellis.neural.factors.tensor_elimination import LogTable, Scope
from trellis.neural.tensor_structure import BatchOptions, TensorStructure, only_backend
from trellis.neural.tensors import check_floating, check_scores, value_type

MOST_ENTRIES = 1e8  # of all tables that elimination makes, for one example


@dataclass(frozen=True, eq=False)
class Factors(TensorStructure):
    """``cardinalities``: the number of states of each variable. ``scopes``: the variables of each factor.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import Factors, decode
    >>> pair = Factors((2, 2), scopes=[(0,), (0, 1)])
    >>> decode(pair, [torch.tensor([[0.0, 1.0]]), -torch.eye(2)]).tolist()
    [[1, 0]]
    """

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

    def bind(self, scores: Any, **batch: Unpack[BatchOptions]) -> FactorBatch:
        backend = only_backend("factor graph", **batch)
        if backend not in (None, "torch"):
            raise UnsupportedError(
                f"backend={backend!r}: factor graphs run in plain PyTorch on every device; leave backend out"
            )
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
        return FactorBatch(tuple(self.cardinalities), self._order.variables, [*found, *free], len(found))

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

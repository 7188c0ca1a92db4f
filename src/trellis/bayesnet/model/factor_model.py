"""``FactorModel``: non-negative factors over discrete variables, and their product.

    p(x) = (1 / Z) prod_f values_f[x of the variables of f],      Z = sum_x prod_f values_f[...]

This is what a :class:`~trellis.FactorGraph` is made of; inference and the rest are in other modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np

from trellis.bayesnet.model.conditional_tables import MOST_AXES
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.bayesnet.model.variables import Variables, numbered_states
from trellis.core.arguments import is_int
from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.factors.tables import Table

_MOST_STATES = 10_000_000  # of one variable: each has a name


class FactorModel(DiscreteModel):
    """Variables and factors: see :class:`~trellis.FactorGraph` for the parameters."""

    directed = False

    def __init__(
        self,
        cardinalities: Sequence[int] | IntArray,
        factors: Iterable[Table | tuple[Any, Any]],
        names: Sequence[str] | None = None,
        states: Sequence[Sequence[Any]] | None = None,
    ) -> None:
        sizes = [_check_cardinality(i, size) for i, size in enumerate(cardinalities)]
        names = [f"x{i}" for i in range(len(sizes))] if names is None else list(names)
        states = [numbered_states(size) for size in sizes] if states is None else list(states)
        if len(names) != len(sizes) or [len(values) for values in states] != sizes:
            raise DataError(
                f"there are {len(sizes)} cardinalities, {len(names)} names and {len(states)} lists of "
                "states; give one of each for every variable, with as many states as its cardinality"
            )
        self._set(Variables(names, states), factors)

    @classmethod
    def from_factors(cls, variables: Variables, factors: Iterable[Table | tuple[Any, Any]]) -> Self:
        graph = cls.__new__(cls)
        graph._set(variables, factors)
        return graph

    def _set(self, variables: Variables, factors: Iterable[Table | tuple[Any, Any]]) -> None:
        self.variables = variables
        self._factors = tuple(_checked(variables, number, factor) for number, factor in enumerate(factors))

    @property
    def order(self) -> Sequence[int]:
        return range(len(self.names))

    def factors(self) -> list[Table]:
        return list(self._factors)

    def relevant(self, variables: Iterable[int]) -> tuple[list[int], list[Table]]:
        """All of them: without directions, nothing is known to sum to one."""
        return list(self.order), self.factors()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.names)} variables, {len(self._factors)} factors)"


def _check_cardinality(variable: int, size: Any) -> int:
    if not is_int(size, 1, _MOST_STATES):
        raise DataError(
            f"variable {variable} has cardinality {size!r}; give a whole number from 1 to {_MOST_STATES:,}"
        )
    return int(size)


def _checked(variables: Variables, number: int, factor: Table | tuple[Any, Any]) -> Table:
    """The factor with its variables as numbers and its values as an array that cannot be written to."""
    if not isinstance(factor, Sequence) or len(factor) != 2:
        raise DataError(f"factor {number} is not a pair of variables and values; give (['A', 'B'], [[...]])")
    scope, values = factor
    members = [scope] if isinstance(scope, str | Integral) else list(scope)
    for v in members:
        if not isinstance(v, str | Integral):
            raise DataError(f"factor {number} names the variable {v!r}; give a name or a whole number")
    indices = tuple(variables.index(v) if isinstance(v, str) else int(v) for v in members)
    outside = [i for i in indices if not 0 <= i < len(variables)]
    if outside:
        raise DataError(
            f"factor {number} names variable {outside[0]}, and the variables are 0 to {len(variables) - 1}"
        )
    if len(set(indices)) != len(indices):
        raise DataError(f"factor {number} has the same variable on two axes; name each once")
    if len(indices) > MOST_AXES:
        raise DataError(f"factor {number} has {len(indices)} variables; the limit is {MOST_AXES}")
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the values of factor {number} are not an array of numbers ({error})") from None
    shape = tuple(len(variables.states[i]) for i in indices)
    if array.shape != shape:
        raise DataError(f"factor {number} has shape {array.shape} and needs {shape}, as its variables say")
    if array.size and not (array.min() >= 0 and array.max() < np.inf):  # also False for NaN
        raise DataError(
            f"factor {number} has values that are negative or not finite; give finite numbers of at least 0"
        )
    array.setflags(write=False)
    return Table(indices, array)

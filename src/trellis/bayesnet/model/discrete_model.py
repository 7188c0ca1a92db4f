"""What Bayesian networks and factor graphs have in common: named variables, and factors over them.

    p(x) = (1 / Z) prod_f values_f[x of the variables of f]

Models never change: what learns or edits returns a new one. Inside the library, variables and states are
whole numbers in the order of ``names`` and ``states``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from trellis.bayesnet.model.variables import Variables
from trellis.core.arrays import IntArray
from trellis.core.codec import Arrays, State, decode, encode
from trellis.core.output_files import Target
from trellis.factors.tables import Table

if TYPE_CHECKING:
    from trellis.factors.junction_tree.junction_tree import JunctionTree


class DiscreteModel(ABC):
    """Variables and factors; ``DirectedModel`` and ``FactorModel`` are the two kinds.

    In a ``directed`` model factor i is P(variable i | its parents), so that Z = 1.
    """

    directed: ClassVar[bool]
    variables: Variables
    extra_: dict[str, Any]  # what was saved beside the model

    @classmethod
    @abstractmethod
    def from_factors(cls, variables: Variables, factors: Sequence[Table]) -> Self:
        """The model with these factors, which are checked."""

    @abstractmethod
    def factors(self) -> list[Table]:
        """The factors, in their order."""

    @property
    @abstractmethod
    def order(self) -> Sequence[int]:
        """All variables; parents come before their children."""

    @abstractmethod
    def relevant(self, variables: Iterable[int]) -> tuple[list[int], list[Table]]:
        """The variables and the factors on which the joint distribution of ``variables`` depends."""

    @classmethod
    def wrap(cls, model: DiscreteModel) -> Self:
        """A model of the same kind as an object of this class; nothing is copied."""
        wrapped = cls.__new__(cls)
        wrapped.__dict__.update(model.__dict__)
        return wrapped

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.variables.names

    @property
    def states(self) -> tuple[tuple[str, ...], ...]:
        """The names of the states of each variable."""
        return self.variables.states

    @property
    def cardinalities(self) -> IntArray:
        """The number of states of each variable."""
        return self.variables.cardinalities

    def index(self, name: str) -> int:
        """The number of a variable."""
        return self.variables.index(name)

    def shape(self, variables: Iterable[int]) -> tuple[int, ...]:
        """The shape of a table over these variables."""
        return tuple(len(self.states[v]) for v in variables)

    @cached_property
    def junction_trees(self) -> dict[Any, JunctionTree]:
        """The junction trees planned so far, by their options."""
        return {}

    def save(self, path: Target) -> None:
        """Write a Trellis file (to a path or to an open binary stream), which :func:`trellis.load` reads."""
        from trellis.core.persistence import save

        save(self, path)

    def to_state(self) -> State:
        """The model as JSON values and arrays."""
        arrays: Arrays = {}
        parts = {"names": self.names, "states": self.states, "factors": self.factors()}
        return {key: encode(value, arrays, key) for key, value in parts.items()}, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: Arrays) -> Self:
        """The model that :meth:`to_state` described, once everything about it is checked."""
        names, states, factors = (decode(meta[key], arrays, key) for key in ("names", "states", "factors"))
        return cls.from_factors(Variables(names, states), factors)

    def __contains__(self, name: object) -> bool:
        """Whether there is a variable of this name."""
        return name in self.names

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and unpickled models cannot be written to either."""
        self.__dict__.update(state)
        for array in (self.cardinalities, *(factor.values for factor in self.factors())):
            array.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        """Same kind, variables, states and factors in the same order, bit for bit."""
        if not isinstance(other, DiscreteModel) or self.directed != other.directed:
            return NotImplemented
        mine, theirs = self.factors(), other.factors()
        return (
            self.variables == other.variables
            and len(mine) == len(theirs)
            and all(
                a.variables == b.variables and np.array_equal(a.values, b.values)
                for a, b in zip(mine, theirs, strict=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]

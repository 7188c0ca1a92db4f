"""``DirectedModel``: the parents of each variable, and one conditional probability table for each.

    p(x) = prod_i tables[i][x[parents of i], x_i]

This is what a :class:`~trellis.BayesianNetwork` is made of; inference and the rest are in other modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self

from trellis.bayesnet.model.conditional_tables import TOLERANCE, Family, NetworkError
from trellis.bayesnet.model.directed_graph import DirectedGraph, closure, find_cycle, topological_order
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.bayesnet.model.variables import States, Variables
from trellis.core.arguments import is_int
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.factors.tables import Table

Names = str | Iterable[str]


class DirectedModel(DiscreteModel):
    """Variables, parents and tables: see :class:`~trellis.BayesianNetwork` for the parameters."""

    directed = True
    fit_: Any  # how the tables were learned, if they were

    def __init__(
        self,
        states: States,
        parents: Mapping[str, Sequence[str]] | None = None,
        tables: Mapping[str, Any] | Literal["uniform"] = "uniform",
        *,
        tolerance: float = TOLERANCE,
    ) -> None:
        _check_mapping("states", states, "variables to their states, as in {'Rain': ['yes', 'no']}")
        variables = Variables(list(states), list(states.values()))
        indices = _parent_indices(variables, parents or {})
        if isinstance(tables, Mapping):
            for name in tables:
                variables.index(name)
            for i, name in enumerate(variables.names):
                if name not in tables:
                    raise NetworkError(f"the variable {name!r} has no table; give it one", i)
            arrays: list[Any] = [tables[name] for name in variables.names]
        elif tables == "uniform":
            arrays = [Family(variables, i, above).uniform_table() for i, above in enumerate(indices)]
        else:
            raise DataError(f"tables must be a dictionary or 'uniform', got {type(tables).__name__}")
        self._set(variables, indices, arrays, tolerance)

    @classmethod
    def assemble(
        cls,
        variables: Variables,
        parents: Sequence[Sequence[int]],
        tables: Sequence[Any],
        *,
        tolerance: float = TOLERANCE,
    ) -> Self:
        """A network from numbered parts: the parents and the table of each variable, in order."""
        network = cls.__new__(cls)
        network._set(variables, parents, tables, tolerance)
        return network

    @classmethod
    def from_factors(cls, variables: Variables, factors: Sequence[Table]) -> Self:
        scopes = [tuple(scope) for scope, _ in factors]
        if [scope[-1:] for scope in scopes] != [(i,) for i in range(len(variables))]:
            raise DataError("factor i of a network must have variable i as its last one")
        if not all(is_int(v, 0, len(variables) - 1) for scope in scopes for v in scope):
            raise DataError(f"variables are numbered from 0 to {len(variables) - 1}")
        return cls.assemble(variables, [scope[:-1] for scope in scopes], [values for _, values in factors])

    def _set(
        self,
        variables: Variables,
        parents: Sequence[Sequence[int]],
        tables: Sequence[Any],
        tolerance: float,
    ) -> None:
        if not len(parents) == len(tables) == len(variables):
            raise DataError(
                f"there are {len(variables)} variables, {len(parents)} lists of parents and {len(tables)} "
                "tables; give one of each for every variable"
            )
        self.variables = variables
        self.parent_indices: tuple[tuple[int, ...], ...] = tuple(tuple(map(int, above)) for above in parents)
        self.graph = DirectedGraph.from_parents(self.parent_indices)
        self._order = tuple(topological_order(self.graph))
        if len(self._order) < len(variables):
            cycle = find_cycle(self.graph, self._order)
            path = " -> ".join(variables.names[i] for i in [*cycle, cycle[0]])
            raise NetworkError(f"the edges form a cycle, {path}; remove one of them", cycle[0])
        self.tables: tuple[FloatArray, ...] = tuple(
            Family(variables, i, self.parent_indices[i]).check_table(table, tolerance)
            for i, table in enumerate(tables)
        )

    # -- numbered ---------------------------------------------------------------------------------------

    @property
    def order(self) -> tuple[int, ...]:
        return self._order

    def child_indices(self, variable: int) -> tuple[int, ...]:
        """The children of variable number ``variable``, in ascending order."""
        return tuple(self.graph.children(variable).tolist())

    def closure(self, variables: Iterable[int]) -> set[int]:
        """These variables and all their ancestors."""
        return closure(variables, self.parent_indices.__getitem__)

    def factors(self) -> list[Table]:
        """One factor for each variable: its table, over the parents and the variable."""
        return [Table((*self.parent_indices[i], i), table) for i, table in enumerate(self.tables)]

    def relevant(self, variables: Iterable[int]) -> tuple[list[int], list[Table]]:
        """Ancestors: the tables of all other variables sum to one."""
        kept, factors = sorted(self.closure(variables)), self.factors()
        return kept, [factors[v] for v in kept]

    # -- by name ----------------------------------------------------------------------------------------

    @property
    def edges(self) -> list[tuple[str, str]]:
        """All edges as pairs (parent, child)."""
        return [(parent, child) for child in self.names for parent in self.parents(child)]

    @property
    def topological_order(self) -> list[str]:
        """All variables, parents before their children."""
        return [self.names[i] for i in self._order]

    def parents(self, name: str) -> list[str]:
        """The parents of a variable, in the order of the axes of its table."""
        return [self.names[i] for i in self.parent_indices[self.index(name)]]

    def children(self, name: str) -> list[str]:
        return [self.names[i] for i in self.child_indices(self.index(name))]

    def ancestors(self, names: Names) -> list[str]:
        """The variables from which a directed path leads to one of these."""
        start = self.variables.indices(names)
        return [self.names[i] for i in sorted(self.closure(start).difference(start))]

    def descendants(self, names: Names) -> list[str]:
        """The variables to which a directed path leads from one of these."""
        start = self.variables.indices(names)
        return [self.names[i] for i in sorted(closure(start, self.child_indices).difference(start))]

    def table(self, name: str) -> FloatArray:
        """P(variable | parents), with the variable on the last axis."""
        return self.tables[self.index(name)]

    @property
    def n_parameters(self) -> int:
        """How many probabilities can be chosen freely: the last of each row follows from the others."""
        return sum(table.size - table[..., 0].size for table in self.tables)

    @cached_property
    def factorisation(self) -> str:
        """The joint distribution as a product, as in ``P(A) P(B | A)``."""
        terms = []
        for name in self.topological_order:
            above = ", ".join(self.parents(name))
            terms.append(f"P({name} | {above})" if above else f"P({name})")
        return " ".join(terms)

    def with_tables(self, tables: Sequence[Any] | Mapping[str, Any]) -> Self:
        """The same edges with other tables: all in order, or some by the names of their variables."""
        if isinstance(tables, Mapping):
            changed = {self.index(name): table for name, table in tables.items()}
            tables = [changed.get(i, table) for i, table in enumerate(self.tables)]
        return self.assemble(self.variables, self.parent_indices, tables)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.names)} variables, {self.graph.n_edges} edges, "
            f"{self.n_parameters} free parameters)"
        )


def _parent_indices(variables: Variables, parents: Mapping[str, Sequence[str]]) -> list[tuple[int, ...]]:
    _check_mapping("parents", parents, "variables to their parents, as in {'Wet': ['Rain']}")
    indices: list[tuple[int, ...]] = [()] * len(variables)
    for name, above in parents.items():
        child = variables.index(name)
        if not isinstance(above, str | Iterable):
            raise NetworkError(f"the parents of {name!r} are {above!r}; give a list of names", child)
        names = [above] if isinstance(above, str) else list(above)
        indices[child] = tuple(variables.index(parent) for parent in names)
        if len(set(indices[child])) != len(names):
            twice = next(parent for i, parent in enumerate(names) if parent in names[:i])
            raise NetworkError(f"the variable {name!r} has the parent {twice!r} twice; name it once", child)
    return indices


def _check_mapping(name: str, value: Any, content: str) -> None:
    if not isinstance(value, Mapping):
        raise DataError(f"{name} must be a dictionary from {content}, got {type(value).__name__}")

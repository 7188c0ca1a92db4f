"""``BayesianNetwork``: named variables, arrows, and one conditional probability table for each variable.

    p(x) = prod_i tables[i][x[parents of i], x_i]

A network never changes: what learns or edits gives a new one. Below names, variables and states are whole
numbers in the order of ``names`` and ``states``; ``parents(i)`` and ``tables[i]`` speak in these numbers.
Each question to a network is answered by a module of its own, to which the methods here lead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.model.conditional_tables import (
    FILE_TOLERANCE,
    TOLERANCE,
    NetworkError,
    checked_table,
    uniform_table,
)
from trellis.bayesnet.model.directed_graph import (
    DirectedGraph,
    directed_graph,
    find_cycle,
    topological_order,
)
from trellis.bayesnet.model.query_methods import Questions
from trellis.bayesnet.model.structure_methods import Arrows
from trellis.bayesnet.model.variables import States, Variables
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.storage import PathLike

if TYPE_CHECKING:
    from trellis.bayesnet.learning.estimation import LearningReport
    from trellis.bayesnet.model.factor_graph import FactorGraph
    from trellis.factors.tables import Table

State = tuple[dict[str, Any], dict[str, NDArray[Any]]]


class BayesianNetwork(Arrows, Questions):
    """A Bayesian network over discrete variables.

    Parameters
    ----------
    states : the names of the states of each variable; its order is the order of the variables.
    parents : the parents of each variable; a variable that is left out has none.
    tables : the table of each variable, an array of shape (states of parent 1, ..., its own states) or a
        dictionary from the states of the parents to rows (``conditional_tables``); "uniform" makes
        all rows uniform, as a start for learning.
    tolerance : by how much the sum of a row may miss 1 before it is an error; rows are then normalised.

    :class:`~trellis.bayesnet.Network` is a way to write a network one variable at a time.
    """

    extra_: dict[str, Any]  # what was saved beside the network
    fit_: LearningReport  # of a network whose tables were learned

    def __init__(
        self,
        states: States,
        parents: Mapping[str, Sequence[str]] | None = None,
        tables: Mapping[str, Any] | Literal["uniform"] = "uniform",
        *,
        tolerance: float = TOLERANCE,
    ) -> None:
        if not isinstance(states, Mapping):
            raise DataError(
                "states must be a dictionary from variables to their states, as in {'Rain': ['yes', 'no']}, "
                f"got {type(states).__name__}"
            )
        variables = Variables(list(states), list(states.values()))
        indices = _parent_indices(variables, parents or {})
        if not isinstance(tables, Mapping):
            if tables != "uniform":
                raise DataError(f"tables must be a dictionary or 'uniform', got {type(tables).__name__}")
            arrays: list[Any] = [uniform_table(variables, i, above) for i, above in enumerate(indices)]
        else:
            for name in tables:
                variables.index(name)
            for i, name in enumerate(variables.names):
                if name not in tables:
                    raise NetworkError(f"the variable {name!r} has no table; give it one", i)
            arrays = [tables[name] for name in variables.names]
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
        self._parents: tuple[tuple[int, ...], ...] = tuple(tuple(int(p) for p in above) for above in parents)
        self.graph: DirectedGraph = directed_graph(self._parents)
        order = topological_order(self.graph)
        if order is None:
            cycle = find_cycle(self.graph)
            path = " -> ".join(variables.names[i] for i in [*cycle, cycle[0]])
            raise NetworkError(f"the arrows form a cycle, {path}; remove one of them", cycle[0])
        self.order: tuple[int, ...] = tuple(order)
        self.tables: tuple[FloatArray, ...] = tuple(
            checked_table(variables, i, self._parents[i], table, tolerance) for i, table in enumerate(tables)
        )

    # -- what it is made of -----------------------------------------------------------------------------

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

    def parents(self, variable: int) -> tuple[int, ...]:
        """The parents of variable number ``variable``, in the order of the axes of its table."""
        return self._parents[variable]

    def children(self, variable: int) -> tuple[int, ...]:
        return tuple(self.graph.children_of(variable).tolist())

    def parents_of(self, name: str) -> list[str]:
        return [self.names[i] for i in self._parents[self.index(name)]]

    def children_of(self, name: str) -> list[str]:
        return [self.names[i] for i in self.children(self.index(name))]

    def table_of(self, name: str) -> FloatArray:
        """P(variable | parents), with the variable on the last axis."""
        return self.tables[self.index(name)]

    def show(self, name: str, *, max_rows: int = 60) -> str:
        """P(variable | parents) as a table to read, one row for each configuration of the parents."""
        from trellis.bayesnet.drawing.table_text import shown_table

        return shown_table(self, name, max_rows)

    @property
    def n_parameters(self) -> int:
        """How many probabilities can be chosen freely: the last of each row follows from the others."""
        return sum(table.size - table[..., 0].size for table in self.tables)

    @cached_property
    def factorisation(self) -> str:
        """The joint distribution as a product, as in ``P(A) P(B | A)``."""
        terms = []
        for i in self.order:
            above = ", ".join(self.names[p] for p in self._parents[i])
            terms.append(f"P({self.names[i]} | {above})" if above else f"P({self.names[i]})")
        return " ".join(terms)

    def factors(self) -> list[Table]:
        """One factor for each variable: its table, over the parents and the variable."""
        from trellis.factors.tables import Table

        return [Table((*self._parents[i], i), table) for i, table in enumerate(self.tables)]

    def with_tables(self, tables: Sequence[Any] | Mapping[str, Any]) -> Self:
        """The same arrows with other tables: all in order, or some by the names of their variables."""
        if isinstance(tables, Mapping):
            changed = {self.index(name): table for name, table in tables.items()}
            tables = [changed.get(i, table) for i, table in enumerate(self.tables)]
        return self.assemble(self.variables, self._parents, tables)

    # -- files and other forms --------------------------------------------------------------------------

    @classmethod
    def read(
        cls, path: PathLike, *, tolerance: float = FILE_TOLERANCE, encoding: str = "utf-8"
    ) -> BayesianNetwork:
        """Read a ``.bif`` or ``.uai`` file, which may be gzipped; its rows are normalised."""
        from trellis.bayesnet.formats.network_formats import read_network

        return read_network(path, tolerance=tolerance, encoding=encoding)

    def write(self, path: PathLike) -> None:
        """Write a ``.bif`` or ``.uai`` file, or ``.gz`` of these; ``.uai`` has no names."""
        from trellis.bayesnet.formats.network_formats import write_network

        write_network(self, path)

    def save(self, path: PathLike) -> None:
        """Write a Trellis file, which :func:`trellis.load` reads."""
        from trellis.core.persistence import save

        save(self, path)

    def to_state(self) -> State:
        from trellis.bayesnet.formats.network_state import network_to_state

        return network_to_state(self)

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> BayesianNetwork:
        from trellis.bayesnet.formats.network_state import network_from_state

        return network_from_state(meta, arrays)

    @classmethod
    def from_networkx(cls, graph: Any) -> BayesianNetwork:
        """A network from a ``networkx.DiGraph``: see :mod:`trellis.bayesnet.formats.networkx_graphs`."""
        from trellis.bayesnet.formats.networkx_graphs import network_from_networkx

        return network_from_networkx(graph)

    def to_networkx(self) -> Any:
        """A ``networkx.DiGraph`` with states, parents and tables as attributes."""
        from trellis.bayesnet.formats.networkx_graphs import network_to_networkx

        return network_to_networkx(self)

    def to_factor_graph(self) -> FactorGraph:
        """The factor graph whose factors are the tables."""
        from trellis.bayesnet.model.factor_graph import FactorGraph

        return FactorGraph.from_network(self)

    def draw(self, path: PathLike, *, observed: str | Iterable[str] = ()) -> None:
        """A picture (``.png``, ``.svg``, ``.pdf``) or its Graphviz text (``.dot``)."""
        from trellis.bayesnet.drawing.draw import draw_network

        draw_network(self, path, observed=observed)

    # -- data -------------------------------------------------------------------------------------------

    def fit(self, frame: Any, **options: Any) -> BayesianNetwork:
        """A network with the same arrows, its tables learned: see ``estimation``."""
        from trellis.bayesnet.learning.estimation import fit

        return fit(self, frame, **options)

    def sample(self, n: int, **options: Any) -> Any:
        """``n`` rows of data drawn from the network: see :mod:`trellis.bayesnet.learning.estimation`."""
        from trellis.bayesnet.learning.estimation import sample

        return sample(self, n, **options)

    def log_likelihood(self, frame: Any, **options: Any) -> Any:
        """The log-likelihood of data under the network: see :mod:`trellis.bayesnet.learning.estimation`."""
        from trellis.bayesnet.learning.estimation import log_likelihood

        return log_likelihood(self, frame, **options)

    def __contains__(self, name: object) -> bool:
        """Whether there is a variable of this name."""
        return name in self.names

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and unpickled networks cannot be written to either."""
        self.__dict__.update(state)
        for table in (*self.tables, self.cardinalities):
            table.setflags(write=False)

    def __repr__(self) -> str:
        return (
            f"BayesianNetwork({len(self.names)} variables, {self.graph.n_arrows} arrows, "
            f"{self.n_parameters} free parameters)"
        )

    def __eq__(self, other: object) -> bool:
        """Same variables, states, parents (in order) and tables, bit for bit."""
        if not isinstance(other, BayesianNetwork):
            return NotImplemented
        return (
            self.variables == other.variables
            and self._parents == other._parents
            and all(np.array_equal(a, b) for a, b in zip(self.tables, other.tables, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]


def _parent_indices(variables: Variables, parents: Mapping[str, Sequence[str]]) -> list[tuple[int, ...]]:
    if not isinstance(parents, Mapping):
        raise DataError(
            "parents must be a dictionary from variables to their parents, as in {'Wet': ['Rain']}, "
            f"got {type(parents).__name__}"
        )
    indices: list[tuple[int, ...]] = [()] * len(variables)
    for name, above in parents.items():
        child = variables.index(name)
        if not isinstance(above, str | Iterable):
            raise NetworkError(f"the parents of {name!r} are {above!r}; give a list of names", child)
        listed = [above] if isinstance(above, str) else list(above)
        indices[child] = tuple(variables.index(parent) for parent in listed)
        if len(set(indices[child])) != len(listed):
            twice = next(parent for i, parent in enumerate(listed) if parent in listed[:i])
            raise NetworkError(f"the variable {name!r} has the parent {twice!r} twice; name it once", child)
    return indices

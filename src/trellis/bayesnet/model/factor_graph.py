"""``FactorGraph``: non-negative factors over discrete variables, and their product.

    p(x) = (1 / Z) prod_f values_f[x of the variables of f],      Z = sum_x prod_f values_f[...]

Markov networks are factor graphs; so is a Bayesian network, with Z = 1. Factors are
:class:`~trellis.factors.tables.Table` objects, or pairs ``(variables, values)`` with names or numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.model.conditional_tables import MOST_AXES
from trellis.bayesnet.model.query_methods import Questions
from trellis.bayesnet.model.variables import Variables, numbered_states
from trellis.core.arguments import is_int
from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.factors.tables import Table

if TYPE_CHECKING:
    from trellis.bayesnet.model.network import BayesianNetwork

State = tuple[dict[str, Any], dict[str, NDArray[Any]]]
_MOST_STATES = 10_000_000  # of one variable: each has a name


class FactorGraph(Questions):
    """Arbitrary factors over discrete variables.

    Parameters
    ----------
    cardinalities : the number of states of each variable.
    factors : pairs ``(variables, values)``: names or numbers of variables, and an array with one axis for
        each.
    names : names of the variables; ``x0``, ``x1``, ... if left out.
    states : names of the states of each variable; ``0``, ``1``, ... if left out.
    """

    extra_: dict[str, Any]  # what was saved beside the graph

    def __init__(
        self,
        cardinalities: Sequence[int] | IntArray,
        factors: Iterable[Table | tuple[Any, Any]],
        names: Sequence[str] | None = None,
        states: Sequence[Sequence[Any]] | None = None,
    ) -> None:
        sizes = [_size(i, size) for i, size in enumerate(cardinalities)]
        names = [f"x{i}" for i in range(len(sizes))] if names is None else list(names)
        states = [numbered_states(size) for size in sizes] if states is None else list(states)
        if len(names) != len(sizes) or [len(values) for values in states] != sizes:
            raise DataError(
                f"there are {len(sizes)} cardinalities, {len(names)} names and {len(states)} lists of "
                "states; give one of each for every variable, with as many states as its cardinality"
            )
        self.variables = Variables(names, states)
        self._factors = tuple(
            _checked(self.variables, number, factor) for number, factor in enumerate(factors)
        )

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

    def factors(self) -> list[Table]:
        """The factors, in the order given."""
        return list(self._factors)

    @classmethod
    def from_network(cls, network: BayesianNetwork) -> FactorGraph:
        """The factor graph whose factors are the tables of a Bayesian network; its Z is 1."""
        return cls(network.cardinalities, network.factors(), network.names, network.states)

    def to_network(self) -> BayesianNetwork:
        """A Bayesian network with the same distribution: see :mod:`trellis.bayesnet.model.conversions`."""
        from trellis.bayesnet.model.conversions import network_from_graph

        return network_from_graph(self)

    @classmethod
    def from_networkx(cls, graph: Any) -> FactorGraph:
        """A factor graph from a bipartite ``networkx.Graph``: see ``networkx_graphs``."""
        from trellis.bayesnet.formats.networkx_graphs import graph_from_networkx

        return graph_from_networkx(graph)

    def to_networkx(self) -> Any:
        """The bipartite ``networkx.Graph`` of variables and factors."""
        from trellis.bayesnet.formats.networkx_graphs import graph_to_networkx

        return graph_to_networkx(self)

    def draw(self, path: PathLike) -> None:
        """A picture (``.png``, ``.svg``, ``.pdf``) or its Graphviz text (``.dot``)."""
        from trellis.bayesnet.drawing.draw import draw_graph

        draw_graph(self, path)

    # -- files ------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: PathLike, *, encoding: str = "utf-8") -> FactorGraph:
        """Read a ``.uai``, ``.fg`` (libDAI) or ``.bif`` file, which may be gzipped."""
        from trellis.bayesnet.formats.network_formats import read_graph

        return read_graph(path, encoding=encoding)

    def write(self, path: PathLike) -> None:
        """Write a ``.uai`` file (or ``.uai.gz``) of the kind MARKOV; the format has no names."""
        from trellis.bayesnet.formats.network_formats import write_graph

        write_graph(self, path)

    def save(self, path: PathLike) -> None:
        """Write a Trellis file, which :func:`trellis.load` reads."""
        from trellis.core.persistence import save

        save(self, path)

    def to_state(self) -> State:
        from trellis.bayesnet.formats.network_state import graph_to_state

        return graph_to_state(self)

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FactorGraph:
        from trellis.bayesnet.formats.network_state import graph_from_state

        return graph_from_state(meta, arrays)

    def __contains__(self, name: object) -> bool:
        """Whether there is a variable of this name."""
        return name in self.names

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and unpickled factor graphs cannot be written to either."""
        self.__dict__.update(state)
        for array in (*(factor.values for factor in self._factors), self.cardinalities):
            array.setflags(write=False)

    def __repr__(self) -> str:
        return f"FactorGraph({len(self.names)} variables, {len(self._factors)} factors)"

    def __eq__(self, other: object) -> bool:
        """Same variables, states and factors in the same order, bit for bit."""
        if not isinstance(other, FactorGraph):
            return NotImplemented
        return (
            self.variables == other.variables
            and len(self._factors) == len(other._factors)
            and all(
                a.variables == b.variables and np.array_equal(a.values, b.values)
                for a, b in zip(self._factors, other._factors, strict=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]


def _size(variable: int, size: Any) -> int:
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
    listed = [scope] if isinstance(scope, str | Integral) else list(scope)
    for v in listed:
        if not isinstance(v, str | Integral):
            raise DataError(f"factor {number} names the variable {v!r}; give a name or a whole number")
    indices = tuple(variables.index(v) if isinstance(v, str) else int(v) for v in listed)
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
        raise DataError(f"factor {number} has values that are negative or not finite; factors are weights")
    array.setflags(write=False)
    return Table(indices, array)

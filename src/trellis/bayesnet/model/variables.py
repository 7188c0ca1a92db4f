"""Named variables with named states: names for users, whole numbers inside the library.

Variable ``i`` has ``cardinalities[i]`` states. The names of states are strings; a value that is not a string
stands for the state that it is written as, so that ``True``, ``1`` and ``1.0`` (which is how a table with
missing values holds a 1) mean the states ``"True"``, ``"1"`` and ``"1"``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError

States = Mapping[str, Sequence[Any]]


class Variables:
    """The variables of a network or factor graph, in their order."""

    def __init__(self, names: Sequence[str], states: Sequence[Sequence[Any]]) -> None:
        self.names: tuple[str, ...] = tuple(_name(name) for name in names)
        self.states: tuple[tuple[str, ...], ...] = tuple(
            _state_names(name, values) for name, values in zip(self.names, states, strict=True)
        )
        self.cardinalities: IntArray = np.array([len(values) for values in self.states], dtype=np.int64)
        self.cardinalities.setflags(write=False)
        self._index = {name: i for i, name in enumerate(self.names)}
        if len(self._index) != len(self.names):
            twice = next(name for i, name in enumerate(self.names) if self._index[name] != i)
            raise DataError(f"the variable {twice!r} is defined twice; give each variable a name of its own")
        self._codes = tuple({state: code for code, state in enumerate(values)} for values in self.states)

    @classmethod
    def numbered(cls, cardinalities: Sequence[int] | IntArray) -> Variables:
        """Variables ``x0``, ``x1``, ... whose states are called ``0``, ``1``, ..."""
        sizes = [int(size) for size in cardinalities]
        return cls([f"x{i}" for i in range(len(sizes))], [numbered_states(size) for size in sizes])

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Variables):
            return NotImplemented
        return self.names == other.names and self.states == other.states

    __hash__ = None  # type: ignore[assignment]

    def index(self, name: str) -> int:
        """The number of the variable called ``name``."""
        try:
            return self._index[name]
        except (KeyError, TypeError):
            raise DataError(
                f"there is no variable {name!r}{suggestion(str(name), self.names, 'the variables')}"
            ) from None

    def indices(self, names: str | Iterable[str]) -> tuple[int, ...]:
        """The numbers of one variable or of several, each once, in the order given."""
        if not isinstance(names, str | Iterable):
            raise DataError(f"expected the name of a variable or a list of names, got {names!r}")
        several = [names] if isinstance(names, str) else names
        return tuple(dict.fromkeys(self.index(name) for name in several))

    def code(self, variable: int, state: Any) -> int:
        """The number of a state of variable number ``variable``."""
        codes = self._codes[variable]
        try:
            return codes[state]
        except (KeyError, TypeError):
            text = state_name(state)
            if text in codes:
                return codes[text]
            raise DataError(
                f"the variable {self.names[variable]!r} has no state {text!r}"
                f"{suggestion(text, self.states[variable], 'its states')}"
            ) from None

    def codes(self, variable: int) -> Mapping[str, int]:
        """The numbers of all states of a variable, by name."""
        return self._codes[variable]

    def encode(self, assignment: Mapping[str, Any]) -> dict[int, int]:
        """``{name: state}`` as ``{number of the variable: number of the state}``."""
        if not isinstance(assignment, Mapping):
            raise DataError(
                f"expected a dictionary such as {{'variable': 'state'}}, got {type(assignment).__name__}"
            )
        coded = {}
        for name, state in assignment.items():
            variable = self.index(name)
            coded[variable] = self.code(variable, state)
        return coded

    def decode(self, assignment: Mapping[int, int]) -> dict[str, str]:
        """The opposite of :meth:`encode`."""
        return {self.names[variable]: self.states[variable][code] for variable, code in assignment.items()}


def numbered_states(size: int) -> tuple[str, ...]:
    return tuple(str(code) for code in range(size))


def state_name(state: Any) -> str:
    """How a state is written: whole numbers without a decimal point, everything else as Python prints it."""
    if isinstance(state, str):
        return str(state)
    if isinstance(state, bool | np.bool_):
        return str(bool(state))
    if isinstance(state, np.timedelta64):  # which NumPy counts among whole numbers
        return str(state)
    if isinstance(state, Integral):
        return str(int(state))
    if isinstance(state, Real) and float(state).is_integer():
        return str(int(float(state)))
    return str(state)


def suggestion(word: str, known: Sequence[str], what: str) -> str:
    """The end of a message about an unknown word: the nearest known one, or the first few."""
    near = get_close_matches(word, known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    first = ", ".join(repr(name) for name in known[:8])
    return f"; {what} are {first}{', ...' if len(known) > 8 else ''}"


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise DataError(f"the name of a variable must be a string that is not empty, got {name!r}")
    return str(name)


def _state_names(variable: str, states: Sequence[Any]) -> tuple[str, ...]:
    if isinstance(states, str):
        raise DataError(f"the states of {variable!r} are one string, {states!r}; give a list of names")
    if not isinstance(states, Iterable):
        raise DataError(f"the states of {variable!r} are {states!r}; give a list of names")
    names = tuple(state_name(state) for state in states)
    if not names:
        raise DataError(f"the variable {variable!r} has no states; give it at least one")
    if len(set(names)) != len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise DataError(
            f"the variable {variable!r} has the state {twice!r} twice; states need different names"
        )
    return names

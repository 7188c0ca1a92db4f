"""Conditional probability tables: from what users write to one array per variable, and its checks.

The table of a variable has the shape ``(states of parent 1, ..., states of parent m, its own states)``: each
row along the last axis is a distribution. Users may write the array, or a dictionary from the states of the
parents (a tuple, or one state if there is one parent) to rows; a row is a list in the order of the states,
or a dictionary from state to probability, where states that are left out have probability zero.

A row may miss a sum of 1 by at most a tolerance, and is then divided by its sum. A row that is off by no
more than rounding (1e-12) stays as it is, bit for bit, so that writing and reading change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trellis.bayesnet.model.variables import Variables
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError

ROUNDING = 1e-12
TOLERANCE = 1e-6
FILE_TOLERANCE = 1e-3 + 1e-9  # files round their numbers: three times 0.333 is a row of theirs
MOST_NUMBERS = 2**28  # in one table: 2 GiB
MOST_AXES = 64 if int(np.__version__.partition(".")[0]) >= 2 else 32  # of a NumPy array


class NetworkError(DataError):
    """Something is wrong with one variable of a network, perhaps with one row of its table.

    Readers of files add the line. ``row`` counts the rows of the table, the last parent changing fastest; -1
    is no row in particular.
    """

    def __init__(self, message: str, variable: int, row: int = -1) -> None:
        super().__init__(message)
        self.variable, self.row = variable, row


class Family(NamedTuple):
    """A variable and its parents, in the order of the axes of its table."""

    variables: Variables
    variable: int
    parents: Sequence[int]

    @property
    def name(self) -> str:
        return self.variables.names[self.variable]

    @property
    def states(self) -> tuple[str, ...]:
        return self.variables.states[self.variable]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the table; one too large is refused before any memory is allocated."""
        shape = tuple(len(self.variables.states[i]) for i in (*self.parents, self.variable))
        numbers = math.prod(shape)
        if len(shape) > MOST_AXES or numbers > MOST_NUMBERS:
            raise self._error(
                f"the table of {self.name!r} with its {len(self.parents)} parents would have {numbers:,} "
                f"numbers on {len(shape)} axes, and the limits are {MOST_NUMBERS:,} and {MOST_AXES}; give it "
                "fewer parents"
            )
        return shape

    def uniform_table(self) -> FloatArray:
        return np.full(self.shape, 1.0 / len(self.states))

    def check_table(self, values: Any, tolerance: float = TOLERANCE) -> FloatArray:
        """The table as an array of its own that cannot be written to."""
        shape = self.shape
        if isinstance(values, Mapping):
            table = self._from_mapping(values, shape)
        else:
            try:
                table = np.array(values, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise self._error(
                    f"the table of {self.name!r} is not an array of numbers ({error})"
                ) from None
        if table.shape != shape:
            raise self._error(
                f"the table of {self.name!r} has shape {table.shape} and needs {shape}: {self._axes()}"
            )
        with np.errstate(invalid="ignore", over="ignore"):  # infinities are refused below
            sums = table.sum(axis=-1)
        off = np.abs(sums - 1.0)
        # The first comparison is False for NaN too, and negative numbers make no sum of 1 right.
        if not (off <= tolerance).all() or (table < 0).any():
            raise self._bad_row(table, sums, tolerance)
        if (off > ROUNDING).any():
            table = np.where((off > ROUNDING)[..., None], table / sums[..., None], table)
        table.setflags(write=False)
        return table

    def given(self, states: Sequence[int]) -> str:
        """The states of the parents, as in `` given Rain=yes, Wind=no``; nothing without parents."""
        pairs = self.variables.decode(dict(zip(self.parents, map(int, states), strict=True))).items()
        return f" given {', '.join(f'{name}={state}' for name, state in pairs)}" if pairs else ""

    def _from_mapping(self, rows: Mapping[Any, Any], shape: tuple[int, ...]) -> FloatArray:
        if not self.parents:
            return self._row("", rows)
        table, there = np.zeros(shape), np.zeros(shape[:-1], dtype=np.bool_)
        for key, row in rows.items():
            states = key if isinstance(key, tuple) else (key,)
            if len(states) != len(self.parents):
                raise self._error(
                    f"the table of {self.name!r} has a row for {key!r}, and its parents are "
                    f"{', '.join(self.variables.names[i] for i in self.parents)}; give one state of each"
                )
            place = tuple(self.variables.code(i, s) for i, s in zip(self.parents, states, strict=True))
            where = self.given(place)
            if there[place]:
                raise self._error(f"the table of {self.name!r} has two rows{where}; keep one")
            table[place], there[place] = self._row(where, row), True
        if not there.all():
            where = self.given(np.argwhere(~there)[0].tolist())
            raise self._error(f"the table of {self.name!r} has no row{where}; add it")
        return table

    def _row(self, where: str, row: Any) -> FloatArray:
        values = np.zeros(len(self.states))
        try:
            if isinstance(row, Mapping):
                for state, probability in row.items():
                    values[self.variables.code(self.variable, state)] = probability
                return values
            given = np.array(row, dtype=np.float64)
        except (TypeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise self._error(f"the row of {self.name!r}{where} is not a list of numbers ({error})") from None
        if given.shape != values.shape:
            raise self._error(
                f"the row of {self.name!r}{where} has {given.size} numbers and needs {values.size}, one for "
                f"each of its states: {', '.join(self.states)}"
            )
        return given

    def _axes(self) -> str:
        if not self.parents:
            return "one number for each state"
        above = ", ".join(
            f"{self.variables.names[i]} ({len(self.variables.states[i])})" for i in self.parents
        )
        return f"one axis for each parent, {above}, and the last one for its own states"

    def _bad_row(self, table: FloatArray, sums: FloatArray, tolerance: float) -> NetworkError:
        """The first row that is not a distribution."""
        negative = np.asarray(~(table >= 0).all(axis=-1))
        bad = np.asarray(negative | ~(np.abs(sums - 1.0) <= tolerance))
        number = int(np.argmax(bad))
        place = np.unravel_index(number, bad.shape)
        if np.isnan(table[place]).any():
            wrong = "holds NaN; give it probabilities"
        elif negative[place]:
            wrong = f"holds {table[place].min():g}; probabilities must not be negative"
        else:
            wrong = f"sums to {sums[place]:.9g} instead of 1; correct its probabilities"
        where = self.given([int(code) for code in place])
        return self._error(f"the row of {self.name!r}{where} {wrong}", number)

    def _error(self, message: str, row: int = -1) -> NetworkError:
        return NetworkError(message, self.variable, row)

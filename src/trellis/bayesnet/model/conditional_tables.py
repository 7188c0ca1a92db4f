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
from typing import Any

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


def checked_table(
    variables: Variables, variable: int, parents: Sequence[int], values: Any, tolerance: float = TOLERANCE
) -> FloatArray:
    """The table of a variable as an array of its own that cannot be written to."""
    name = variables.names[variable]
    shape = table_shape(variables, variable, parents)
    if isinstance(values, Mapping):
        table = _from_mapping(variables, variable, parents, values, shape)
    else:
        try:
            table = np.array(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise NetworkError(
                f"the table of {name!r} is not an array of numbers ({error})", variable
            ) from None
    if table.shape != shape:
        raise NetworkError(
            f"the table of {name!r} has shape {table.shape} and needs {shape}: "
            f"{_axes(variables, variable, parents)}",
            variable,
        )
    with np.errstate(invalid="ignore", over="ignore"):  # infinities are refused below
        sums = table.sum(axis=-1)
    off = np.abs(sums - 1.0)
    # The first comparison is False for NaN too, and negative numbers make no sum of 1 right.
    if not (off <= tolerance).all() or (table < 0).any():
        raise _bad_row(variables, variable, parents, table, tolerance)
    if (off > ROUNDING).any():
        table = np.where((off > ROUNDING)[..., None], table / sums[..., None], table)
    table.setflags(write=False)
    return table


def uniform_table(variables: Variables, variable: int, parents: Sequence[int]) -> FloatArray:
    shape = table_shape(variables, variable, parents)
    return np.full(shape, 1.0 / shape[-1])


def table_shape(variables: Variables, variable: int, parents: Sequence[int]) -> tuple[int, ...]:
    """The shape of the table of a variable; one too large is refused before memory is asked for."""
    shape = tuple(len(variables.states[i]) for i in (*parents, variable))
    numbers = math.prod(shape)
    if len(shape) > MOST_AXES or numbers > MOST_NUMBERS:
        raise NetworkError(
            f"the table of {variables.names[variable]!r} with its {len(parents)} parents would have "
            f"{numbers:,} numbers on {len(shape)} axes, and the limits are {MOST_NUMBERS:,} and {MOST_AXES}; "
            "give it fewer parents",
            variable,
        )
    return shape


def configuration(variables: Variables, parents: Sequence[int], states: Sequence[int]) -> str:
    """Parents with their states, as in ``Rain=yes, Wind=no``."""
    pairs = zip(parents, states, strict=True)
    return ", ".join(f"{variables.names[i]}={variables.states[i][code]}" for i, code in pairs)


def _from_mapping(
    variables: Variables,
    variable: int,
    parents: Sequence[int],
    rows: Mapping[Any, Any],
    shape: tuple[int, ...],
) -> FloatArray:
    if not parents:
        return _row(variables, variable, "", rows)
    name = variables.names[variable]
    table, there = np.zeros(shape), np.zeros(shape[:-1], dtype=np.bool_)
    for key, row in rows.items():
        states = key if isinstance(key, tuple) else (key,)
        if len(states) != len(parents):
            raise NetworkError(
                f"the table of {name!r} has a row for {key!r}, and its parents are "
                f"{', '.join(variables.names[i] for i in parents)}; give one state of each",
                variable,
            )
        place = tuple(variables.code(i, state) for i, state in zip(parents, states, strict=True))
        where = f" given {configuration(variables, parents, place)}"
        if there[place]:
            raise NetworkError(f"the table of {name!r} has two rows{where}; keep one", variable)
        table[place], there[place] = _row(variables, variable, where, row), True
    if not there.all():
        where = configuration(variables, parents, np.argwhere(~there)[0].tolist())
        raise NetworkError(f"the table of {name!r} has no row given {where}; add it", variable)
    return table


def _row(variables: Variables, variable: int, where: str, row: Any) -> FloatArray:
    size = len(variables.states[variable])
    values = np.zeros(size)
    try:
        if isinstance(row, Mapping):
            for state, probability in row.items():
                values[variables.code(variable, state)] = probability
            return values
        given = np.array(row, dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        message = f"the row of {variables.names[variable]!r}{where} is not a list of numbers ({error})"
        raise NetworkError(message, variable) from None
    if given.shape != (size,):
        raise NetworkError(
            f"the row of {variables.names[variable]!r}{where} has {given.size} numbers and needs {size}, one "
            f"for each of its states: {', '.join(variables.states[variable])}",
            variable,
        )
    return given


def _axes(variables: Variables, variable: int, parents: Sequence[int]) -> str:
    if not parents:
        return "one number for each state"
    above = ", ".join(f"{variables.names[i]} ({len(variables.states[i])})" for i in parents)
    return f"one axis for each parent, {above}, and the last one for its own states"


def _bad_row(
    variables: Variables, variable: int, parents: Sequence[int], table: FloatArray, tolerance: float
) -> NetworkError:
    with np.errstate(invalid="ignore", over="ignore"):
        sums = table.sum(axis=-1)
    negative = np.asarray(~(table >= 0).all(axis=-1))
    bad = np.asarray(negative | ~(np.abs(sums - 1.0) <= tolerance))
    number = int(np.argmax(bad))
    place = np.unravel_index(number, bad.shape)
    where = f" given {configuration(variables, parents, [int(code) for code in place])}" if parents else ""
    if np.isnan(table[place]).any():
        wrong = "holds NaN; give it probabilities"
    elif negative[place]:
        wrong = f"holds {table[place].min():g}; probabilities are not negative"
    else:
        wrong = f"sums to {sums[place]:.9g} instead of 1; correct its probabilities"
    return NetworkError(f"the row of {variables.names[variable]!r}{where} {wrong}", variable, number)

"""Data frames of states as arrays of numbered states, and back.

A frame is a pandas or polars frame, a dictionary of columns, or a two-dimensional array whose columns are all
variables in their order. Columns that are left out, ``None``, NaN, ``pandas.NA`` and masked entries are
missing. Inside the library a missing state is -1:

    codes[row, variable] = number of the state, or -1

Each column is mapped through its distinct values, so that names are compared once per state and not once per
row, wherever the kind of column makes that possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.model.variables import Variables, suggestion
from trellis.core.arguments import check_choice
from trellis.core.errors import DataError, MissingExtraError

Codes = NDArray[np.int32]
Output = Literal["columns", "codes", "pandas", "polars"]
MISSING = -1


def encode_frame(variables: Variables, frame: Any) -> Codes:
    """The numbers of the states, shape (rows, variables) in memory order of the rows; -1 where missing."""
    columns = _columns(variables, frame)
    codes = np.full((_n_rows(variables, frame, columns), len(variables)), MISSING, dtype=np.int32)
    for variable, column in columns.items():
        codes[:, variable] = _encode_column(variables, variable, column)
    return codes


def variables_with_gaps(variables: Variables, frame: Any, codes: Codes) -> list[int]:
    """The variables that have no column, or a row without a state."""
    columns = _columns(variables, frame)
    gaps = np.flatnonzero((codes < 0).any(axis=0)).tolist()
    return [v for v in range(len(variables)) if v not in columns or v in gaps]


def decode_frame(variables: Variables, codes: NDArray[Any], output: Output = "columns") -> Any:
    """Codes (rows, variables) as a dictionary of columns of names, a frame, or as they are."""
    check_choice("output", output, get_args(Output))
    if output == "codes":
        return codes
    columns = zip(variables.names, codes.T, variables.states, strict=True)
    if output == "columns":
        return {name: np.array(states)[column] for name, column, states in columns}
    try:
        library = __import__(output)
    except ImportError:
        raise MissingExtraError(
            f"output={output!r} needs {output}; install it, or leave output out"
        ) from None
    if output == "polars":
        return library.DataFrame({name: np.array(states)[column] for name, column, states in columns})
    # categories: numbers inside, names outside, and the states that no row has are known too
    kind = library.Categorical.from_codes
    return library.DataFrame({name: kind(column, states) for name, column, states in columns})


def _n_rows(variables: Variables, frame: Any, columns: Mapping[int, Any]) -> int:
    lengths = set()
    for variable, column in columns.items():
        if isinstance(column, str) or not hasattr(column, "__len__"):
            raise DataError(
                f"the column {variables.names[variable]!r} is {column!r}; give a list or an array with one "
                "entry for each row"
            )
        lengths.add(len(column))
    if len(lengths) > 1:
        raise DataError(f"the columns of the frame have different lengths: {sorted(lengths)}")
    if lengths:
        return lengths.pop()
    if isinstance(frame, Mapping) or len(frame) == 0:
        raise DataError("the frame has no columns; give it one for each observed variable")
    return len(frame)  # rows of a pandas frame that observe nothing


def _columns(variables: Variables, frame: Any) -> dict[int, Any]:
    """The columns by the number of their variable."""
    if hasattr(frame, "collect_schema") and not hasattr(frame, "height"):
        raise DataError("a lazy frame of polars has no rows yet; call its collect() first")
    if isinstance(frame, Mapping):
        names: Sequence[Any] = list(frame)
        columns = list(frame.values())
    elif hasattr(frame, "columns"):  # pandas, polars
        names = list(frame.columns)
        columns = [frame[name] for name in names]
    else:
        array = frame if isinstance(frame, np.ndarray) else np.array(frame, dtype=object)
        if array.ndim != 2 or array.shape[1] != len(variables):
            raise DataError(
                f"an array of data must have the shape (rows, {len(variables)}), one column for each "
                f"variable, got {array.shape}; a frame or a dictionary may have fewer columns"
            )
        return dict(enumerate(array.T))
    known = set(variables.names)
    for name in names:
        if name not in known:
            hint = suggestion(str(name), variables.names, "the variables")
            raise DataError(f"the column {name!r} is not a variable of the network{hint}; rename or drop it")
    if len(set(names)) != len(names):
        raise DataError("the frame has two columns with the same name; drop one")
    return {variables.index(name): column for name, column in zip(names, columns, strict=True)}


def _encode_column(variables: Variables, variable: int, column: Any) -> NDArray[np.int64]:
    if hasattr(column, "factorize"):  # pandas: hashes the values, -1 is missing
        inverse, distinct = column.factorize()
    elif hasattr(column, "to_list"):  # polars: strings stay Python strings
        inverse, distinct = _distinct(column.to_list())
    else:
        array = column if isinstance(column, np.ndarray) else np.array(column, dtype=object)
        if isinstance(array, np.ma.MaskedArray):
            hidden = np.ma.getmaskarray(array)
            array = np.asarray(array.data, dtype=object)
            array[hidden] = None
        if array.ndim != 1:
            raise DataError(f"the column {variables.names[variable]!r} must have one dimension")
        if array.dtype.kind == "c":
            raise DataError(
                f"the column {variables.names[variable]!r} holds complex numbers; give the names of states"
            )
        if array.dtype == object:
            inverse, distinct = _distinct(array.tolist())
        elif array.dtype.kind == "U":
            inverse, distinct = _match_states(array, variables.states[variable])
        else:
            distinct, inverse = np.unique(array, return_inverse=True)
    lookup = np.full(len(distinct) + 1, MISSING, dtype=np.int64)  # the last entry answers for -1
    for number, value in enumerate(distinct):
        if not _is_missing(value):
            lookup[number] = _code(variables, variable, value, inverse, number)
    codes: NDArray[np.int64] = lookup[np.asarray(inverse)]
    return codes


def _distinct(values: list[Any]) -> tuple[NDArray[np.int64], list[Any]]:
    numbers: dict[Any, int] = {}
    try:
        found = [numbers.setdefault(value, len(numbers)) for value in values]
    except TypeError:
        bad = next(value for value in values if getattr(value, "__hash__", None) is None)
        raise DataError(
            f"a column holds {bad!r}; each entry must be the name of a state or missing"
        ) from None
    return np.array(found, dtype=np.int64), list(numbers)


def _match_states(array: NDArray[np.str_], states: Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Strings against the states one by one, faster than sorting them; the first unknown one comes last."""
    inverse = np.full(len(array), len(states), dtype=np.int64)
    for code, state in enumerate(states):
        inverse[array == state] = code
    unknown = array[inverse == len(states)]
    return inverse, [*states, *unknown[:1].tolist()]


def _code(variables: Variables, variable: int, value: Any, inverse: Any, number: int) -> int:
    try:
        return variables.code(variable, value)
    except DataError as error:
        row = int(np.argmax(np.asarray(inverse) == number))
        raise DataError(f"row {row} of the frame: {error}") from None


def _is_missing(value: Any) -> bool:
    """None, NaN (the number that differs from itself) and pandas.NA (whose comparisons are neither)."""
    if value is None:
        return True
    different = value != value
    return bool(different) if isinstance(different, bool | np.bool_) else True

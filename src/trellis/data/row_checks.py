"""Observations, row by row: numbers with missing entries, and symbols, checked.

A row is a step of a packed sequence. An error about one row says so in :func:`row_error`'s form, from which
:meth:`trellis.data.sequences.Sequences.pack` makes "step 3 of sequence 1".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arguments import to_floats
from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.core.errors import DataError, TrellisError

LARGEST = 1e150  # squares of larger numbers overflow


def row_error(row: int, problem: str, kind: type[TrellisError] = DataError) -> TrellisError:
    """An error about one row."""
    return kind(f"row {row}: {problem}", int(row))


def check_rows(
    values: ArrayLike, n_columns: int | None = None, *, name: str = "X", missing: bool = True
) -> FloatArray:
    """Numbers as a C-contiguous, writeable float64 (N, D) array; (N,) becomes one column.

    NaN and masked entries are missing, which ``missing=False`` refuses. (Writeable, because to Numba a
    read-only array is another type, and another compilation.)
    """
    try:
        rows = to_floats(np.ma.getdata(values))
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must contain numbers, with NaN where one is missing ({error})") from error
    if isinstance(values, np.ma.MaskedArray):
        rows = np.where(np.ma.getmaskarray(values), np.nan, rows)
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.shape[1] == 0:
        hint = f"; if its first axis counts sequences, give list({name})" if rows.ndim == 3 else ""
        raise DataError(f"{name} has shape {rows.shape}; it must have shape (length, columns){hint}")
    if n_columns is not None and rows.shape[1] != n_columns:
        raise DataError(
            f"{name} has {rows.shape[1]} columns, but the model has {n_columns}; they must be equal"
        )
    bad = ~(np.abs(rows) <= LARGEST) if not missing else np.abs(rows) > LARGEST
    if bad.any():
        row, column = np.argwhere(bad)[0]
        value = rows[row, column]
        if np.isfinite(value):
            raise row_error(
                row, f"column {column} of {name} is {value:g}, too large to be squared; scale the data"
            )
        advice = "write NaN where a value is missing" if missing else "every value must be known"
        raise row_error(row, f"column {column} of {name} is {value}; {advice}")
    return np.require(rows, requirements=["C", "W"])


def check_counts(values: ArrayLike, n_columns: int | None = None) -> FloatArray:
    """Whole numbers of at least 0 as :func:`check_rows` returns them, NaN where one is missing."""
    counts = check_rows(values, n_columns)
    wrong = (counts < 0) | (counts != np.floor(counts)) & ~np.isnan(counts)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise row_error(
            row,
            f"column {column} is {counts[row, column]}; counts are whole numbers of at least 0, and NaN "
            "where one is missing",
        )
    return counts


def check_observed(missing: BoolArray) -> None:
    """Refuse to learn from no steps, or from steps that are all ``missing`` (N,)."""
    if not len(missing):
        raise DataError("X has no steps to learn from; give at least one")
    if missing.all():
        raise DataError("X has no observed value to learn from; give at least one")


def column_moments(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance (D,) of what is observed of each column; 0 where nothing is."""
    observed = ~np.isnan(rows)
    count = np.maximum(observed.sum(axis=0), 1)
    means = np.where(observed, rows, 0.0).sum(axis=0) / count
    return means, np.square(np.where(observed, rows - means, 0.0)).sum(axis=0) / count


def check_symbols(values: ArrayLike, n_symbols: int | None = None) -> IntArray:
    """Symbols 0 to ``n_symbols`` - 1 (None: any) as int64 (N,); -1, NaN and masked entries become -1."""
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    try:
        array = np.ma.getdata(values)
        array = to_floats(array) if array.dtype == object else array
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"symbols must be whole numbers in one column ({error})") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array, mask = array[:, 0], None if mask is None else mask[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "iufb":
        raise DataError(
            f"symbols must be whole numbers in one column, got {array.dtype} of shape {array.shape}"
        )
    if mask is not None:  # small unsigned integers have no -1
        array = np.where(mask, -1, array if array.dtype.kind == "f" else array.astype(np.int64))
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), -1.0, array)
    top = 2**62 if n_symbols is None else n_symbols
    wrong = (array < -1) | (array >= top) | (array != np.floor(array))
    if wrong.any():
        row = int(np.argmax(wrong))
        allowed = "from 0 on" if n_symbols is None else f"0 to {n_symbols - 1}"
        raise row_error(
            row,
            f"symbol {array[row]} is not valid; symbols are whole numbers {allowed}, and -1 or NaN where one "
            "is missing",
        )
    return np.require(array, np.int64, ["C", "W"])

"""Containers that users keep data in: iterators become lists, frames and series become arrays.

A frame or series of pandas or polars is recognised by its ``to_numpy``, so that neither package is imported;
a frame has ``columns`` besides. It must not be iterated over: that would visit the names of its columns. A
frame with text has a dictionary for each row, without its missing values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.errors import DataError

Row = dict[Any, Any]


def as_lists(values: Any) -> Any:
    """Iterators as lists, which can be read more than once; anything else unchanged."""
    return list(values) if isinstance(values, Iterator) else values


def as_arrays(values: Any) -> Any:
    """Frames and series as arrays; anything else unchanged."""
    if isinstance(values, np.ndarray) or not hasattr(values, "to_numpy"):
        return values
    return values.to_numpy()


def as_dense(values: Any, name: str) -> Any:
    """Frames and series as arrays; sparse matrices are refused, anything else unchanged."""
    if callable(getattr(values, "toarray", None)):  # a frame may have a column of that name
        raise DataError(f"{name} is a sparse matrix, which is not supported here; give its toarray()")
    return as_arrays(values)


def is_frame(values: Any) -> bool:
    return hasattr(values, "columns") and hasattr(values, "to_numpy")


def frame_columns(X: Any, name: str = "X") -> tuple[str, ...] | None:
    """The columns of a frame, or of the frames in a list, if all their names are strings.

    Frames of a list must agree: as arrays, they have only the places of columns.
    """
    sequences = X if isinstance(X, list | tuple) else [X]
    columns = [tuple(one.columns) for one in sequences if is_frame(one)]
    if not columns or not all(isinstance(column, str) for column in columns[0]):
        return None
    for i, found in enumerate(columns):
        if found != columns[0]:
            raise DataError(
                f"frame {i} of {name} has the columns {list(found)}, frame 0 has {list(columns[0])}; "
                "give all of them the same columns in the same order"
            )
    return columns[0]


def has_text(values: Any) -> bool:
    """Whether values are a frame with columns that are no numbers."""
    return is_frame(values) and np.asarray(values.to_numpy()).dtype.kind not in "biufc"


def frame_rows(frame: Any, columns: Iterable[Any] | None = None) -> list[Row]:
    """Column -> value for each row; missing values are left out, and categories are text."""
    rows: list[Row] = [{} for _ in range(len(frame))]
    for name in frame.columns if columns is None else columns:
        as_text = str(frame[name].dtype) == "category"  # of pandas: they may be numbers
        for row, value in zip(rows, frame[name].to_list(), strict=True):
            if not is_missing(value):
                row[name] = str(value) if as_text else value
    return rows


def frames_as_rows(X: Any, lengths: ArrayLike | None) -> Any:
    """Frames among sequences, or one frame with ``lengths``, as lists of rows; anything else unchanged."""
    if is_frame(X):
        if lengths is None:
            raise DataError(
                f"X is one frame of {len(X)} rows; pass lengths, or a list with one frame for each sequence "
                "(trellis.features.SequenceFrame cuts a frame by a column)"
            )
        return frame_rows(X)
    if isinstance(X, list | tuple) and any(map(is_frame, X)):
        return [frame_rows(one) if is_frame(one) else one for one in X]
    return X


def is_missing(value: Any) -> bool:
    """None, NaN, and pandas' NA and NaT, which are not equal to themselves."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(isinstance(value, float) and value != value)

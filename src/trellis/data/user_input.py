"""Containers that users keep data in: iterators become lists, frames and series become arrays.

A frame or series of pandas or polars is recognised by its ``to_numpy``, so that neither package is imported.
It must not be iterated over: that would visit the names of its columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from trellis.core.errors import DataError


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
    if hasattr(values, "toarray"):
        raise DataError(f"{name} is a sparse matrix, which is not read here; give what its toarray() returns")
    return as_arrays(values)

"""What users hold data in, turned into what the library reads: iterators into lists, frames into arrays.

A frame or series of pandas or polars is known by its ``to_numpy``, so that neither package is imported. It is
read by values, never by iteration: to iterate over a frame is to visit the names of its columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def as_lists(values: Any) -> Any:
    """A generator (or other iterator) as a list, so that it can be read more than once; all else as it is."""
    return list(values) if isinstance(values, Iterator) else values


def as_arrays(values: Any) -> Any:
    """The values of a frame or series as an array; all else as it is."""
    if isinstance(values, np.ndarray) or not hasattr(values, "to_numpy"):
        return values
    return values.to_numpy()

"""Numbers and arrays of numbers that a caller gave, or one sentence about why they are none."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.errors import DataError


def as_numbers(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as float64 of any shape; what is no number (or too large for one) is named."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        raise DataError(f"{name} is {shown}; give a number, or an array of numbers ({error})") from error

"""Options that builders, samplers and learners take: whole numbers and seeds, checked in one place."""

from __future__ import annotations

import sys
from numbers import Real
from typing import Any

import numpy as np

from trellis.errors import DataError

RandomState = int | np.random.Generator | None


def is_whole(value: Any, least: int, most: float = sys.maxsize) -> bool:
    """Whether a value is a whole number between two bounds; 3.0 and 1e6 are, "3" is not."""
    return isinstance(value, Real) and least <= float(value) <= most and float(value).is_integer()


def whole(name: str, value: Any, least: int) -> int:
    """``value`` as a whole number of at least ``least``."""
    if not is_whole(value, least):
        raise DataError(f"{name} is {value!r}; give a whole number of at least {least}")
    return int(value)


def generator(random_state: RandomState) -> np.random.Generator:
    """The generator itself, or a new one for a seed (None: another one each time)."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise DataError(
            f"random_state is {random_state!r}; give a seed (a whole number, 0 or more), a numpy Generator "
            "or None"
        ) from None

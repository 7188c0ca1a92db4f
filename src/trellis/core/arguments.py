"""What callers give for whole numbers, numbers, arrays and seeds: checked once, refused in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.errors import DataError
from trellis.core.parameters import Choice

RandomState = int | np.random.Generator | None


def is_int(value: Any, minimum: int, maximum: float = sys.maxsize) -> bool:
    """Whether a value is a whole number between two bounds; 3.0 and 1e6 are, "3" is not."""
    return isinstance(value, Real) and minimum <= float(value) <= maximum and float(value).is_integer()


def check_int(name: str, value: Any, minimum: int) -> int:
    """``value`` as a whole number of at least ``minimum``."""
    if not is_int(value, minimum):
        raise DataError(f"{name} is {value!r}; give a whole number of at least {minimum}")
    return int(value)


def check_nonnegative(name: str, value: Any) -> float:
    """``value`` as a finite number of at least 0."""
    if not isinstance(value, Real) or not 0.0 <= float(value) < np.inf:
        raise DataError(f"{name} is {value!r}; give a finite number that is not negative")
    return float(value)


def check_fraction(name: str, value: Any) -> float:
    """``value`` as a number between 0 and 1, both excluded."""
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise DataError(f"{name} is {value!r}; give a number between 0 and 1, both excluded")
    return float(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """``value`` as one of some names."""
    if value not in choices:
        raise DataError(f"{name} is {value!r}; give {Choice(tuple(choices))}")
    return str(value)


def as_floats(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as float64 of any shape; what is no number (or too large for one) is named."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        raise DataError(f"{name} is {shown}; give a number, or an array of numbers ({error})") from error


def generator(random_state: RandomState) -> np.random.Generator:
    """The generator itself, or a new one for a seed (None: another one each time)."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise DataError(
            f"random_state is {random_state!r}; give a seed (a whole number, 0 or more), a numpy Generator "
            "or None"
        ) from None


def check_sample_weight(sample_weight: Any, n: int, noun: str = "sequence") -> NDArray[np.float64]:
    """One finite, non-negative weight for each of n examples; ones if none are given."""
    if sample_weight is None:
        return np.ones(n)
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"sample_weight must hold numbers, one for each {noun}") from None
    if weights.shape != (n,):
        raise DataError(
            f"sample_weight has shape {weights.shape}; there are {n} {noun}s, one weight for each"
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise DataError(f"sample_weight[{bad[0]}] is {weights[bad[0]]}; it must be finite and not negative")
    return weights

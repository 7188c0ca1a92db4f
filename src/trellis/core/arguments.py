"""Checks of numbers, choices, arrays, seeds and weights that callers pass; errors are one sentence."""

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
    """Whether a value is a whole number between two bounds: 3, 3.0 or 1e6, but not "3"."""
    return isinstance(value, Real) and minimum <= float(value) <= maximum and float(value).is_integer()


def check_int(name: str, value: Any, minimum: int) -> int:
    """``value`` as a whole number of at least ``minimum``."""
    if not is_int(value, minimum):
        raise DataError(f"{name} is {value!r}; give a whole number of at least {minimum}")
    return int(value)


def check_nonnegative(name: str, value: Any) -> float:
    """``value`` as a finite number of at least 0."""
    if not isinstance(value, Real) or not 0.0 <= float(value) < np.inf:
        raise DataError(f"{name} is {value!r}; give a finite number of at least 0")
    return float(value)


def check_positive(name: str, value: Any) -> float:
    """``value`` as a finite number above 0."""
    if not isinstance(value, Real) or not 0.0 < float(value) < np.inf:
        raise DataError(f"{name} is {value!r}; give a positive number")
    return float(value)


def check_fraction(name: str, value: Any) -> float:
    """``value`` as a number between 0 and 1, both excluded."""
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise DataError(f"{name} is {value!r}; give a number between 0 and 1, both excluded")
    return float(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """``value`` if it is one of the choices."""
    if value not in choices:
        raise DataError(f"{name} is {value!r}; give {Choice(tuple(choices))}")
    return str(value)


def as_floats(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as a float64 array of any shape."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        raise DataError(f"{name} is {shown}; give a number, or an array of numbers ({error})") from error


def generator(random_state: RandomState) -> np.random.Generator:
    """A generator as given, or a new one from a seed (None: a random one)."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise DataError(
            f"random_state is {random_state!r}; give a whole number of at least 0, a numpy Generator or None"
        ) from None


def check_sample_weight(sample_weight: Any, n: int, noun: str = "sequence") -> NDArray[np.float64]:
    """One finite, non-negative weight for each of n examples; ones by default."""
    if sample_weight is None:
        return np.ones(n)
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"sample_weight must hold numbers, one for each {noun}") from None
    if weights.shape != (n,):
        raise DataError(
            f"sample_weight has shape {weights.shape}; give one weight for each of the {n} {noun}s"
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise DataError(f"sample_weight[{bad[0]}] is {weights[bad[0]]}; give finite numbers of at least 0")
    return weights

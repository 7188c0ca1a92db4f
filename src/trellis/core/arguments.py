"""Checks of numbers, choices, arrays, seeds and weights that callers pass; errors are one sentence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.errors import DataError
from trellis.core.parameters import Choice

RandomState = int | np.random.Generator | None


def is_number(value: Any) -> bool:
    """Whether a value is a real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_int(value: Any, minimum: int, maximum: float = sys.maxsize) -> bool:
    """Whether a value is a whole number between two bounds: 3, 3.0 or 1e6, but neither "3" nor True."""
    return is_number(value) and minimum <= float(value) <= maximum and float(value).is_integer()


def check_int(name: str, value: Any, minimum: int) -> int:
    """``value`` as a whole number of at least ``minimum``."""
    if not is_int(value, minimum):
        raise DataError(f"{name} is {value!r}; give a whole number of at least {minimum}")
    return int(value)


def check_nonnegative(name: str, value: Any) -> float:
    """``value`` as a finite number of at least 0."""
    if not is_number(value) or not 0.0 <= float(value) < np.inf:
        raise DataError(f"{name} is {value!r}; give a finite number of at least 0")
    return float(value)


def check_positive(name: str, value: Any) -> float:
    """``value`` as a finite number above 0."""
    if not is_number(value) or not 0.0 < float(value) < np.inf:
        raise DataError(f"{name} is {value!r}; give a positive number")
    return float(value)


def check_fraction(name: str, value: Any) -> float:
    """``value`` as a number between 0 and 1, both excluded."""
    if not is_number(value) or not 0.0 < float(value) < 1.0:
        raise DataError(f"{name} is {value!r}; give a number between 0 and 1, both excluded")
    return float(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """``value`` if it is one of the choices."""
    if value not in choices:
        raise DataError(f"{name} is {value!r}; give {Choice(tuple(choices))}")
    return str(value)


def check_names(name: str, value: Any, names: Sequence[str]) -> frozenset[str]:
    """Some of ``names``: one, several in a tuple, list or set, or "all" of them."""
    if isinstance(value, str):
        value = names if value == "all" else (value,)
    if not isinstance(value, tuple | list | set | frozenset):
        raise DataError(f'{name} is {value!r}; give "all" or a tuple of names of parameters')
    unknown = [one for one in value if one not in names]
    if unknown:
        raise DataError(f"{name} names {unknown[0]!r}; choose from {', '.join(names)}")
    return frozenset(value)


def to_floats(value: Any) -> NDArray[np.float64]:
    """``value`` as a float64 array; a ``TypeError`` or ``ValueError`` says why it is not one of numbers.

    None and pandas' NA are NaN. Dates, complex numbers, text and sparse matrices are no numbers, although
    NumPy would convert some of them.
    """
    array = np.asarray(value)
    if array.dtype.kind in "biuf":
        return np.asarray(array, np.float64)
    if array.dtype.kind != "O":
        raise TypeError(f"its type is {array.dtype}")
    return np.array([_to_float(item) for item in array.ravel()], np.float64).reshape(array.shape)


def _to_float(item: Any) -> float:
    if item is None or type(item).__name__ == "NAType":
        return np.nan
    if not isinstance(item, Real | Decimal):
        raise TypeError(f"it contains a {type(item).__name__}")
    return float(item)


def as_floats(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as a float64 array of any shape."""
    try:
        return to_floats(value)
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
        weights = to_floats(sample_weight)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"sample_weight must hold numbers, one for each {noun}") from None
    if weights.shape != (n,):
        raise DataError(
            f"sample_weight has shape {weights.shape}; give one weight for each of the {n} {noun}s"
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise DataError(f"sample_weight[{bad[0]}] is {weights[bad[0]]}; give finite numbers of at least 0")
    return weights

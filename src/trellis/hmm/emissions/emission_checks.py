"""What every emission asks of its observations and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError

# A state with less posterior weight than this has seen nothing: it keeps the parameters it has. (Quotients of
# smaller numbers lose their digits to gradual underflow.)
NO_WEIGHT = 1e-290

LARGEST = 1e150  # squares of larger numbers overflow


def check_rows(values: ArrayLike, n_columns: int | None = None) -> FloatArray:
    """A C-contiguous, writeable float64 (N, D) array; (N,) becomes one column. NaN and masked entries are
    missing. (Writeable, because to Numba a read-only array is another type, and another compilation.)"""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        rows = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"observations must be numbers, NaN where one is missing ({error})") from error
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DataError(f"observations have shape {rows.shape}; they must have shape (length, columns)")
    if n_columns is not None and rows.shape[1] != n_columns:
        raise DataError(
            f"observations have {rows.shape[1]} columns, but the emission has {n_columns}; they must be equal"
        )
    large = np.abs(rows) > LARGEST
    if large.any():
        row, column = np.argwhere(large)[0]
        raise DataError(
            f"row {row}, column {column} of the observations is infinite; write NaN where a value is missing"
            if np.isinf(rows[row, column])
            else f"row {row}, column {column} of the observations is {rows[row, column]:g}, whose square is "
            "beyond all numbers; scale the data"
        )
    return np.require(rows, requirements=["C", "W"])


def check_order(order: ArrayLike, n_states: int | None) -> NDArray[np.int64]:
    """A permutation of the states."""
    if n_states is None:
        raise UnsupportedError("there are no states to renumber before parameters are given or fitted")
    array = np.asarray(order)
    if not np.array_equal(np.sort(array), np.arange(n_states)):
        raise DataError(f"order must name each of the states 0 to {n_states - 1} once, got {array}")
    return array.astype(np.int64)


def check_posterior(values: NDArray[Any], posterior: FloatArray, n_states: int | None) -> FloatArray:
    """(N, K) float64, C-contiguous, of the rows and states at hand."""
    posterior = np.ascontiguousarray(posterior, np.float64)
    fits = posterior.ndim == 2 and len(posterior) == len(values)
    if not fits or (n_states is not None and posterior.shape[1] != n_states):
        states = "n_states" if n_states is None else str(n_states)
        raise DataError(
            f"the posterior has shape {posterior.shape}; it must have shape ({len(values)}, {states})"
        )
    return posterior


def fixed_array(record: Any, name: str, ndim: int) -> FloatArray:
    """The field ``name`` of a frozen record as a read-only float64 array of its own, finite, put back."""
    value = getattr(record, name)
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be an array of numbers ({error})") from error
    if array.ndim != ndim or array.size == 0:
        raise DataError(f"{name} must have {ndim} axes and not be empty, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise DataError(f"{name} has entries that are not finite: {array[~np.isfinite(array)][0]}")
    array.setflags(write=False)
    object.__setattr__(record, name, array)
    return array


def known(emission: object, parameter: FloatArray | None) -> FloatArray:
    """The parameter, which must have been given or fitted."""
    if parameter is None:
        raise UnsupportedError(
            f"this {type(emission).__name__} has no parameters yet; give them, or fit a model that uses it"
        )
    return parameter

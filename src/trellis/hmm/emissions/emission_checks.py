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

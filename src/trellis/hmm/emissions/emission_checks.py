"""What every emission asks of its parameters and posteriors, and rows of probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from trellis.core.arguments import as_floats
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, UnsupportedError


def check_order(order: ArrayLike, n_states: int | None) -> IntArray:
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


def check_distributions(name: str, table: FloatArray) -> None:
    """Distributions along the last axis."""
    rows = table.reshape(-1, table.shape[-1])
    wrong = ~((rows >= 0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1.0) <= 1e-6))
    if wrong.any():
        row = int(np.argmax(wrong))
        where = f"row {row} of {name}" if table.ndim > 1 else name
        raise DataError(
            f"{where} is not a probability distribution: its entries must not be negative and must add up to "
            f"1 (their sum is {rows[row].sum():g})"
        )


def sample_rows(table: FloatArray, rows: NDArray[np.integer[Any]], rng: np.random.Generator) -> IntArray:
    """A column drawn from the distribution ``table[row]`` for each of ``rows`` (N,), by its inverse."""
    cumulative = np.cumsum(table, axis=1)
    cumulative /= cumulative[:, -1:]
    columns, u = np.empty(len(rows), np.int64), rng.random(len(rows))
    for row in np.unique(rows):
        at = rows == row
        columns[at] = np.searchsorted(cumulative[row], u[at], side="right")
    return columns


def log_factorials(counts: FloatArray) -> FloatArray:
    """sum_d log x_d! of each row, by a table where the counts are small enough for one."""
    top = counts.max(initial=0.0)
    if top > 2 * counts.size + 1000:
        result: FloatArray = gammaln(counts + 1.0).sum(axis=1)
        return result
    table: FloatArray = gammaln(np.arange(1.0, top + 2.0))
    logs: FloatArray = table.take(counts.astype(np.intp))
    return logs.sum(axis=1) if counts.shape[1] > 1 else logs[:, 0]


def freeze_array(record: Any, name: str, ndim: int, *, column: bool = False) -> FloatArray:
    """Replace the field ``name`` of a frozen record by a read-only float64 copy, which must be finite.

    ``column``: one axis less stands for a single column.
    """
    array = as_floats(name, getattr(record, name)).copy()
    array = array[..., None] if column and array.ndim == ndim - 1 else array
    if array.ndim != ndim or array.size == 0:
        raise DataError(f"{name} must have {ndim} axes and not be empty, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise DataError(f"{name} has entries that are not finite: {array[~np.isfinite(array)][0]}")
    array.setflags(write=False)
    object.__setattr__(record, name, array)
    return array


def required(emission: object, parameter: FloatArray | None) -> FloatArray:
    """The parameter, which must have been given or fitted."""
    if parameter is None:
        raise UnsupportedError(
            f"this {type(emission).__name__} has no parameters yet; give them, or fit a model that uses it"
        )
    return parameter

"""Time series at the border: lists or arrays in, packed observations and controls inside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.data.sequences import Sequences, offsets_from_lengths
from trellis.hmm.emissions.emission_checks import LARGEST
from trellis.statespace.kalman_filter import Observations


@dataclass(frozen=True, eq=False)
class Series:
    """Packed data, and whether they came as a list."""

    data: Observations
    listed: bool

    def unpack(self, values: NDArray[Any]) -> Any:
        """Per-step values in the form of the input: a list of arrays, or one array."""
        return np.split(values, self.data.offsets[1:-1]) if self.listed else values

    def extended(self, steps: int, future: FloatArray) -> Observations:
        """The sequences with ``steps`` more steps at their ends, not observed, under ``future`` controls."""
        offsets = self.data.offsets
        lengths = np.diff(offsets)
        longer = offsets_from_lengths(lengths + steps)
        at = np.arange(len(self.data.values)) + steps * np.repeat(np.arange(len(lengths)), lengths)
        values = np.full((longer[-1], self.data.values.shape[1]), np.nan)
        values[at] = self.data.values
        controls = np.zeros((longer[-1], self.data.controls.shape[1]))
        controls[at] = self.data.controls
        controls[(longer[1:, None] - steps + np.arange(steps)).ravel()] = future.reshape(
            future.shape[0] * steps, future.shape[2]
        )
        return Observations(values, controls, longer)


def read_series(
    X: Any, lengths: ArrayLike | None, controls: Any, n_observations: int | None, n_controls: int | None
) -> Series:
    """Observations (list of arrays, or one array, with ``lengths`` if it holds several) and their controls.

    ``None`` for a size takes it from the data.
    """
    packed, listed = _pack(X, lengths, "X", n_observations, "n_observations")
    values = packed.values
    _finite(packed, np.isinf(values), "is infinite; write NaN where a value is missing")
    _finite(packed, np.abs(values) > LARGEST, "is too large to be squared; scale the data")
    offsets = packed.offsets
    if controls is None:
        if n_controls:
            raise DataError(f"the model has {n_controls} controls; pass controls= with one row for each step")
        return Series(Observations(values, np.zeros((len(values), 0)), offsets), listed)
    if n_controls == 0:
        raise DataError("the model was made without controls; leave controls= out, or fit it with them")
    moved, _ = _pack(controls, lengths, "controls", n_controls, "the number of controls")
    if not np.array_equal(moved.offsets, offsets):
        if len(moved) != len(packed):
            raise DataError(f"there are {len(packed)} sequences but controls for {len(moved)}; match them")
        bad = int(np.argmax(moved.lengths != packed.lengths))
        raise DataError(
            f"sequence {bad} has {packed.lengths[bad]} steps, but {moved.lengths[bad]} rows of controls; "
            "give one row for each step"
        )
    _finite(moved, ~np.isfinite(moved.values), "is not finite; controls must be known at every step")
    return Series(Observations(values, moved.values, offsets), listed)


def read_future(
    future: Any, n_sequences: int, steps: int, n_controls: int, name: str = "future_controls"
) -> FloatArray:
    """Controls of steps to come, (n_sequences, steps, p); one (steps, p) array serves all sequences."""
    if future is None:
        if n_controls:
            raise DataError(
                f"the model has {n_controls} controls; pass {name}= of shape ({steps}, {n_controls})"
            )
        return np.zeros((n_sequences, steps, 0))
    shape = (n_sequences, steps, n_controls)
    try:
        array = np.asarray(future, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numbers of shape {shape[1:]} or {shape}") from error
    if array.shape not in (shape[1:], shape) or not np.isfinite(array).all():
        raise DataError(
            f"{name} has shape {array.shape}; give finite numbers of shape {shape[1:]} or {shape}"
        )
    return np.ascontiguousarray(np.broadcast_to(array, shape))


def _pack(
    X: Any, lengths: ArrayLike | None, name: str, width: int | None, named: str
) -> tuple[Sequences, bool]:
    if isinstance(X, Iterator):
        X = list(X)
    listed = lengths is None and isinstance(X, list | tuple)
    if listed:
        packed = Sequences.from_list([_rows(x, f"sequence {i} of {name}") for i, x in enumerate(X)])
    else:
        rows = _rows(X, name)
        packed = Sequences.from_lengths(rows, [len(rows)] if lengths is None else lengths)
    found = packed.values.shape[1]
    if width is not None and found != width:
        raise DataError(f"{name} has {found} columns, but {named} is {width}; they must be equal")
    return Sequences(np.ascontiguousarray(packed.values), packed.offsets), listed


def _rows(x: Any, name: str) -> FloatArray:
    """(length, columns) float64; one number a step becomes one column; masked entries become NaN."""
    if isinstance(x, np.ma.MaskedArray):
        x = np.ma.filled(x.astype(np.float64), np.nan)
    try:
        rows = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be an array of numbers, NaN where one is missing ({error})") from error
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DataError(f"{name} has shape {rows.shape}; it must have shape (length, columns)")
    return rows


def _finite(packed: Sequences, bad: NDArray[np.bool_], what: str) -> None:
    if bad.any():
        row, column = np.argwhere(bad)[0]
        sequence = int(np.searchsorted(packed.offsets, row, side="right")) - 1
        step = int(row - packed.offsets[sequence])
        raise DataError(f"sequence {sequence}, step {step}, column {column} {what}")


def steps_of(offsets: IntArray, steps: int) -> IntArray:
    """The rows of the last ``steps`` steps of each sequence, (n_sequences, steps)."""
    return offsets[1:, None] - steps + np.arange(steps)

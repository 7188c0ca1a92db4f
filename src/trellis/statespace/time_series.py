"""Time series, packed: observations and their controls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arguments import as_floats
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.data.row_checks import check_rows
from trellis.data.sequence_shards.sequence_shard import SequenceShard, cut_sequences, located, narrowed
from trellis.data.sequences import Sequences, append_steps, check_same_lengths
from trellis.data.shard_files import FileShard


@dataclass(frozen=True, eq=False)
class TimeSeries(Sequences):
    """Packed sequences: ``values`` (N, m), NaN where missing, and ``controls`` (N, p)."""

    controls: FloatArray

    @cached_property
    def steps(self) -> IntArray:
        """The number of each row within its sequence."""
        return np.arange(self.n_steps) - np.repeat(self.offsets[:-1], self.lengths)

    def identity(self) -> dict[str, Any]:
        """What a checkpoint knows these data by."""
        return {"X": (self.values, self.offsets), "controls": self.controls}

    def extend(self, steps: int, future: FloatArray) -> tuple[TimeSeries, IntArray]:
        """The sequences with ``steps`` more steps each, not observed, under ``future`` controls (S, steps,
        p); and the rows of the new steps (S, steps)."""
        n = len(self)
        order, is_future, offsets = append_steps(self.offsets, steps * np.arange(n + 1))
        missing = np.full((n * steps, self.values.shape[1]), np.nan)
        controls = np.concatenate([self.controls, future.reshape(n * steps, future.shape[2])])
        longer = TimeSeries(np.concatenate([self.values, missing])[order], offsets, controls[order])
        return longer, np.flatnonzero(is_future).reshape(n, steps)


def read_series(
    X: Any, lengths: ArrayLike | None, controls: Any, n_observations: int | None, n_controls: int | None
) -> TimeSeries:
    """Observations and their controls, both in a form that :meth:`Sequences.pack` reads.

    ``None`` for a size takes it from the data.
    """
    packed = Sequences.pack(X, lengths, check=partial(check_rows, n_columns=n_observations))
    if controls is None:
        if n_controls:
            raise DataError(f"the model has {n_controls} controls; pass controls= with one row for each step")
        known = np.zeros((packed.n_steps, 0))
    elif n_controls == 0:
        raise DataError("the model was made without controls; omit controls=, or fit it with them")
    else:
        check = partial(check_rows, n_columns=n_controls, name="controls", missing=False)
        given = Sequences.pack(controls, lengths, name="controls", check=check)
        check_same_lengths(packed.offsets, given.offsets, "controls")
        known = given.values
    return TimeSeries(packed.values, packed.offsets, known, as_list=packed.as_list, single=packed.single)


def cut_series(series: TimeSeries) -> list[SequenceShard]:
    """In shards, by the data alone."""
    rows = {"values": series.values, "controls": series.controls}
    return cut_sequences(rows, series.offsets, series.values.shape[1] + series.controls.shape[1])


def read_series_file(file: FileShard, n_observations: int | None) -> SequenceShard:
    """A shard out of files of observations; labels in them are not read."""
    values, _ = file.read()
    with located(file.name):
        series = read_series(values, None, None, n_observations, None)
    rows = {"values": series.values, "controls": series.controls}
    return narrowed(SequenceShard(rows, series.offsets, source=file.name))


def shard_series(shard: SequenceShard) -> TimeSeries:
    """A shard as work takes it."""
    return TimeSeries(shard.row("values"), shard.offsets, shard.row("controls"))


def read_future_controls(
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
    array = as_floats(name, future)
    if array.shape not in (shape[1:], shape) or not np.isfinite(array).all():
        raise DataError(
            f"{name} has shape {array.shape}; give finite numbers of shape {shape[1:]} or {shape}"
        )
    return np.ascontiguousarray(np.broadcast_to(array, shape))

"""Observations and inputs at the border: lists of arrays, or one array with ``lengths``, packed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.data.labels import step_name
from trellis.hmm.emissions.emission_checks import LARGEST
from trellis.hmm.observations import packed_arrays


@dataclass(frozen=True, eq=False)
class Packed:
    """Packed sequences, and whether they came as one array: then answers are one array too."""

    values: NDArray[Any]
    offsets: IntArray
    one: bool

    def answer(self, steps: NDArray[Any]) -> Any:
        """Rows per step in the form in which the sequences came."""
        return steps if self.one else np.split(steps, self.offsets[1:-1])


def packed(sequences: Any, lengths: ArrayLike | None) -> Packed:
    """A list of arrays; one array with ``lengths``; or one array that is one sequence. Masked entries become
    NaN."""
    values, offsets, as_list = packed_arrays(sequences, lengths)
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    return Packed(values, offsets, not as_list)


def packed_inputs(inputs: Any, lengths: ArrayLike | None, n_inputs: int | None = None) -> Packed:
    """Inputs as float64 (N, n_inputs), every one of them known."""
    given = packed(inputs, lengths)
    if given.values.dtype.kind not in "biuf":
        raise DataError(f"inputs have the type {given.values.dtype}; they must be numbers")
    values: FloatArray = np.ascontiguousarray(given.values, dtype=np.float64)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or (n_inputs is not None and values.shape[1] != n_inputs):
        wanted = "n_inputs" if n_inputs is None else n_inputs
        raise DataError(f"inputs have shape {values.shape}; they must have shape (length, {wanted})")
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST).all(axis=1))
    if bad.size:
        why = "too large to be squared; scale it"
        if not np.isfinite(values[bad[0]]).all():
            why = "not finite; inputs must be known"
        raise DataError(f"{step_name(given.offsets, int(bad[0]))} has an input that is {why}")
    return Packed(values, given.offsets, given.one)


def check_same_lengths(observed: IntArray, inputs: IntArray) -> None:
    """Every step has an observation (perhaps a missing one) and an input."""
    if len(observed) != len(inputs):
        raise DataError(
            f"X has {len(observed) - 1} sequences, but inputs has {len(inputs) - 1}; they must be equal"
        )
    different = np.flatnonzero(np.diff(observed) != np.diff(inputs))
    if different.size:
        i = int(different[0])
        raise DataError(
            f"sequence {i} has {int(np.diff(observed)[i])} observations, but {int(np.diff(inputs)[i])} inputs"
        )


def followed_by(first: IntArray, then: IntArray) -> tuple[NDArray[np.int64], NDArray[np.bool_], IntArray]:
    """How to put each sequence of one batch before that of another.

    Returns, for the rows of the two batches end to end, their order; which rows in that order are of the
    second batch; and the offsets of the joined sequences.
    """
    rows = np.arange(first[-1] + then[-1])
    sequence = np.concatenate(
        [np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)) for offsets in (first, then)]
    )
    order = np.argsort(sequence, kind="stable")  # within a sequence, rows of the first batch come first
    return rows[order], order >= first[-1], first + then

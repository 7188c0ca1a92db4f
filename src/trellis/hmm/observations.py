"""Sequences of observations at the border of a hidden Markov model: packed on the way in, unpacked on the way
out.

A list of arrays goes in and a list comes out. One array is one sequence, or with ``lengths`` several end to
end, and one array comes out. Known states are whole numbers, -1 (or None) where a state is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError, TrellisError
from trellis.data.sequences import Sequences, offsets_from_lengths
from trellis.hmm.emissions import Emission

UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class Observations:
    """``values`` as the emission takes them; ``known`` (N,) states, or None where none is known."""

    values: NDArray[Any]
    offsets: IntArray
    as_list: bool
    known: IntArray | None = None

    @property
    def n_steps(self) -> int:
        return int(self.offsets[-1])

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    def unpacked(self, steps: NDArray[Any]) -> Any:
        """One array per sequence, or one in all: the form in which the observations came."""
        return np.split(steps, self.offsets[1:-1]) if self.as_list else steps

    def place(self, row: int) -> tuple[int, int]:
        """The sequence and the step of a packed row."""
        sequence = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return sequence, int(row - self.offsets[sequence])


def packed(X: Any, lengths: ArrayLike | None, emission: Emission) -> Observations:
    """Check and pack ``X``; an error names the sequence."""
    values, offsets, as_list = packed_arrays(X, lengths)
    try:
        checked = emission.check(values)
    except DataError as error:
        raise located(error, values, offsets, emission.check) from error
    return Observations(checked, offsets, as_list)


def packed_arrays(X: Any, lengths: ArrayLike | None) -> tuple[NDArray[Any], IntArray, bool]:
    """Rows end to end (masked ones stay masked), offsets, and whether ``X`` is a list of sequences: a list, a
    tuple, an array of arrays or anything that is gone through once. A table or a column of one is an array.
    """
    if not isinstance(X, np.ndarray | list | tuple):
        X = np.asarray(X) if hasattr(X, "__array__") else list(_iterated(X))
    if isinstance(X, np.ndarray) and not (X.dtype == object and X.ndim == 1 and X.size and np.ndim(X[0])):
        if X.ndim == 0:
            raise DataError(f"X is the single value {X}; give an array of shape (length, ...)")
        offsets = offsets_from_lengths([len(X)] if lengths is None else lengths)
        if offsets[-1] != len(X):
            raise DataError(f"lengths add up to {offsets[-1]}, but X has {len(X)} rows; they must be equal")
        return X, offsets, False
    if lengths is not None:
        raise DataError("lengths go with one array of all sequences; a list says its lengths by itself")
    if len(X) and np.ndim(X[0]) == 0:
        raise DataError("X is a list of single values; give a list of sequences, or one sequence as an array")
    sequences = Sequences.from_list(X)
    values = sequences.values
    if any(isinstance(sequence, np.ma.MaskedArray) for sequence in X):
        values = np.ma.array(values, mask=Sequences.from_list([np.ma.getmaskarray(x) for x in X]).values)
    return values, sequences.offsets, True


def _iterated(X: Any) -> Iterable[Any]:
    if not isinstance(X, Iterable):
        raise DataError(f"X is {X!r}; give a list of sequences, or one sequence as an array")
    return X


def located(error: TrellisError, values: Any, offsets: IntArray, read: Callable[[Any], Any]) -> TrellisError:
    """The same error about the first sequence that cannot be read, where rows are counted from its
    beginning."""
    if len(offsets) > 2:
        for i, (lo, hi) in enumerate(pairwise(offsets)):
            try:
                read(values[lo:hi])
            except TrellisError as found:
                return type(found)(f"sequence {i}: {found}")
    return error


def with_states(observations: Observations, states: Any, n_states: int) -> Observations:
    """The observations with what is known of their states."""
    if states is None:
        return observations
    if observations.as_list:
        codes = _codes_of_list(states, observations)
    else:
        codes = _codes(states)
        if codes.shape != (observations.n_steps,):
            raise DataError(
                f"states have shape {codes.shape}; X has {observations.n_steps} steps, so they must have "
                f"shape ({observations.n_steps},)"
            )
    outside = np.flatnonzero((codes < UNKNOWN) | (codes >= n_states))
    if outside.size:
        sequence, step = observations.place(int(outside[0]))
        raise DataError(
            f"state {codes[outside[0]]} at step {step} of sequence {sequence}; states are 0 to "
            f"{n_states - 1}, and -1 where one is not known"
        )
    known = None if (codes == UNKNOWN).all() else codes
    return Observations(observations.values, observations.offsets, observations.as_list, known)


def _codes_of_list(states: Any, observations: Observations) -> IntArray:
    lengths = np.diff(observations.offsets)
    states = list(_iterated(states))
    if len(states) != len(lengths):
        raise DataError(f"there are {len(states)} sequences of states for {len(lengths)} of observations")
    parts = []
    for i, (own, length) in enumerate(zip(states, lengths, strict=True)):
        codes = np.full(length, UNKNOWN) if own is None else _codes(own)
        if codes.shape != (length,):
            raise DataError(f"the states of sequence {i} have shape {codes.shape}; it has {length} steps")
        parts.append(codes)
    return np.concatenate(parts).astype(np.int64)


def _codes(states: Any) -> IntArray:
    """Whole numbers; -1 for None, NaN (a column with gaps is one of floats) and masked entries."""
    array = np.ma.getdata(states) if isinstance(states, np.ma.MaskedArray) else np.asarray(states)
    if array.dtype == object:
        array = np.asarray([UNKNOWN if s is None else s for s in array.ravel()]).reshape(array.shape)
    if np.issubdtype(array.dtype, np.floating):
        array = np.where(np.isnan(array), UNKNOWN, array)
        if (array == np.floor(array)).all() and np.isfinite(array).all():
            array = array.astype(np.int64)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise DataError(f"states must be whole numbers, -1 or None where one is not known, got {array.dtype}")
    return np.where(np.ma.getmaskarray(states), UNKNOWN, array.astype(np.int64))

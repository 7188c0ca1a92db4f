"""The observations of a hidden Markov model, packed, with the states that are known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.data.sequences import Sequences

UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class Observations(Sequences):
    """``values`` as the emission takes them; ``known`` (N,) the states, -1 where one is not known, or None
    where none is. ``first`` and ``source``: the number of the first sequence in what was given, and the file
    that it is numbered in."""

    known: IntArray | None = None
    first: int = field(default=0, kw_only=True)
    source: str = field(default="", kw_only=True)

    @property
    def all_known(self) -> bool:
        return self.known is not None and bool((self.known >= 0).all())

    def identity(self) -> dict[str, Any]:
        """What a checkpoint knows these data by."""
        return {"X": (self.values, self.offsets), "states": self.known}

    def sequence_name(self, i: int) -> str:
        """How errors name a sequence."""
        return f"sequence {self.first + i}" + (f" of {self.source}" if self.source else "")

    def with_states(self, states: Any, n_states: int) -> Observations:
        """The observations with ``states`` in the form of ``X``; -1 or None where one is not known, None in
        place of a sequence of which none is."""
        if states is None:
            return self
        codes = self._list_codes(states) if self.as_list else _codes(states)
        if codes.shape != (self.n_steps,):
            raise DataError(
                f"states have shape {codes.shape}; X has {self.n_steps} steps, so they must have "
                f"shape ({self.n_steps},)"
            )
        outside = np.flatnonzero((codes < UNKNOWN) | (codes >= n_states))
        if outside.size:
            sequence, step = self.locate(int(outside[0]))
            raise DataError(
                f"state {codes[outside[0]]} at step {step} of sequence {sequence}; states are 0 to "
                f"{n_states - 1}, and -1 where one is not known"
            )
        return replace(self, known=None if (codes == UNKNOWN).all() else codes)

    def _list_codes(self, states: Any) -> IntArray:
        states = list(states) if isinstance(states, Iterable) else [states]
        if len(states) != len(self):
            raise DataError(f"there are {len(states)} sequences of states for {len(self)} of observations")
        parts = []
        for i, (own, length) in enumerate(zip(states, self.lengths, strict=True)):
            codes = np.full(length, UNKNOWN) if own is None else _codes(own)
            if codes.shape != (length,):
                raise DataError(f"the states of sequence {i} have shape {codes.shape}; it has {length} steps")
            parts.append(codes)
        return np.concatenate(parts).astype(np.int64)

    def sequence(self, i: int) -> Observations:
        """Sequence i alone."""
        rows = slice(*self.offsets[i : i + 2])
        known = None if self.known is None else self.known[rows]
        return Observations(self.values[rows], np.array([0, self.lengths[i]]), known, single=True)


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

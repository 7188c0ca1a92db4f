"""Ragged data, packed: one array of values and the offsets of the sequences in it.

Lists go in and lists come out at the border of the library; below it there is no Python loop over time
steps or sequences. Sequence ``i`` is ``values[offsets[i]:offsets[i + 1]]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError


@dataclass(frozen=True, eq=False)
class Sequences:
    """``values`` of all sequences end to end, and ``offsets`` (int64, one longer than the number of
    sequences).
    """

    values: NDArray[Any]
    offsets: IntArray

    def __post_init__(self) -> None:
        check_offsets(self.offsets, len(self.values))

    @classmethod
    def from_list(cls, sequences: Sequence[ArrayLike], dtype: Any = None) -> Sequences:
        """Pack a list of arrays (or lists) that agree in everything but their first axis."""
        arrays = [np.asarray(sequence, dtype=dtype) for sequence in sequences]
        if not arrays:
            raise DataError("no sequences were given; pass a list with at least one sequence")
        shape = next((a.shape[1:] for a in arrays if a.size), arrays[0].shape[1:])
        for index, array in enumerate(arrays):
            if array.ndim == 0 or (array.size and array.shape[1:] != shape):
                raise DataError(
                    f"sequence {index} has shape {array.shape}; every sequence must have shape (length"
                    + "".join(f", {n}" for n in shape)
                    + ")"
                )
        arrays = [a if a.shape[1:] == shape else a.reshape((0, *shape)) for a in arrays]
        return cls(np.concatenate(arrays), offsets_from_lengths([len(a) for a in arrays]))

    @classmethod
    def from_lengths(cls, values: NDArray[Any], lengths: ArrayLike) -> Sequences:
        """One array and the length of each sequence in it (hmmlearn's habit)."""
        offsets = offsets_from_lengths(lengths)
        if offsets[-1] != len(values):
            raise DataError(
                f"lengths add up to {offsets[-1]}, but there are {len(values)} rows; they must be equal"
            )
        return cls(values, offsets)

    @property
    def lengths(self) -> IntArray:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        index %= len(self)
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    def to_list(self) -> list[NDArray[Any]]:
        return np.split(self.values, self.offsets[1:-1])


def offsets_from_lengths(lengths: ArrayLike) -> IntArray:
    """Offsets ``[0, l0, l0 + l1, ...]`` of sequences of the given lengths."""
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or (lengths.size and not np.issubdtype(lengths.dtype, np.integer)):
        raise DataError(f"lengths must be a list of whole numbers, got an array of shape {lengths.shape}")
    if lengths.size and lengths.min() < 0:
        raise DataError(f"lengths must not be negative; lengths[{int(lengths.argmin())}] is {lengths.min()}")
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def check_offsets(offsets: IntArray, n_values: int) -> None:
    """Kernels trust their offsets, so they are checked once at the border."""
    if offsets.ndim != 1 or len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n_values:
        raise DataError(f"offsets must run from 0 to the number of values ({n_values})")
    if np.any(np.diff(offsets) < 0):
        raise DataError(
            f"offsets must not decrease; they do after sequence {int(np.argmin(np.diff(offsets)))}"
        )


def shard_bounds(offsets: IntArray, n_shards: int) -> list[tuple[int, int]]:
    """Cut the sequences into at most ``n_shards`` runs ``(first, last)`` of about equal numbers of steps."""
    n = len(offsets) - 1
    targets = np.linspace(0, offsets[-1], min(n_shards, max(n, 1)) + 1)[1:-1]
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets, targets), [n]]))
    return list(pairwise(cuts.tolist()))

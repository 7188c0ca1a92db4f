"""A shard of packed sequences: whole sequences, their rows in the narrowest form that holds them exactly.

Symbols of 8 bytes that fit into one byte take one, numbers that came as float32 take four: a shard in memory,
on disk or on its way to a worker is no larger than the data were. Work widens it again, one shard at a time.

Where sequences are cut depends on the data alone, so that sums over shards are the same for any number of
threads and workers. A sequence is never cut: one long sequence is one shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import IntArray
from trellis.core.errors import TrellisError
from trellis.core.shards import shard_bounds
from trellis.data.sequences import offsets_from_lengths, take_runs

LEAST = 1024  # rows in a shard, unless the data have fewer
SHARDS = 64  # as many as that while none is larger than LARGEST
LARGEST = 2**20  # numbers in a shard at work, 8 MB


@dataclass(frozen=True, eq=False)
class SequenceShard:
    """``rows``: named arrays with one row per step, ``each``: with one per sequence; None where there is
    none.

    ``first`` is the number of the first sequence among all, ``source`` the file that it is numbered in
    (empty: none). ``widened``: the dtypes that the rows have at work.
    """

    rows: Mapping[str, NDArray[Any] | None]
    offsets: IntArray
    each: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    first: int = 0
    source: str = ""
    widened: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_steps(self) -> int:
        return int(self.offsets[-1])

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    def row(self, name: str) -> NDArray[Any]:
        """The rows of that name, as work takes them."""
        found = self.optional(name)
        if found is None:
            raise KeyError(name)
        return found

    def optional(self, name: str) -> NDArray[Any] | None:
        stored = self.rows[name]
        wide = self.widened.get(name)
        return stored if stored is None or wide is None else stored.astype(wide)


def cut_sequences(
    rows: Mapping[str, NDArray[Any] | None],
    offsets: IntArray,
    width: int,
    each: Mapping[str, NDArray[Any]] | None = None,
) -> list[SequenceShard]:
    """Packed sequences in shards; ``width``: the numbers that a step takes at work."""
    shards = []
    for a, b in shard_bounds(offsets, n_shards(int(offsets[-1]), width)):
        lo, hi = int(offsets[a]), int(offsets[b])
        own = {name: None if array is None else array[lo:hi] for name, array in rows.items()}
        of_each = {name: array[a:b] for name, array in (each or {}).items()}
        shards.append(SequenceShard(own, offsets[a : b + 1] - lo, of_each, first=a))
    return shards


def n_shards(n_rows: int, width: int) -> int:
    """Into how many shards so many rows are cut."""
    few = min(max(n_rows // LEAST, 1), SHARDS)
    return max(few, -(-n_rows * max(width, 1) // LARGEST))


def narrowed(shard: SequenceShard) -> SequenceShard:
    """The shard in the form in which it is kept."""
    rows, widened = dict(shard.rows), dict[str, str]()
    for name, array in shard.rows.items():
        if array is None:
            continue
        small = narrow(array)
        if small is not array:
            rows[name], widened[name] = small, array.dtype.str
    return SequenceShard(rows, shard.offsets, shard.each, shard.first, shard.source, widened)


def narrow(array: NDArray[Any]) -> NDArray[Any]:
    """The same values in fewer bytes; the array itself where they need all of them."""
    if array.dtype == np.int64 and array.size:
        least, most = int(array.min()), int(array.max())
        for kind in (np.int8, np.int16, np.int32):
            if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
                return array.astype(kind)
    elif array.dtype == np.float64 and array.size:
        with np.errstate(over="ignore"):
            small = array.astype(np.float32)
        if np.array_equal(small, array, equal_nan=True):
            return small
    return array


def sampled(shard: SequenceShard, share: float) -> SequenceShard:
    """About that ``share`` of the steps: sequences at equal distances, of which the last may be cut short. 1
    is the whole shard."""
    if share >= 1.0 or not shard.n_steps:
        return shard
    wanted = max(int(np.ceil(share * shard.n_steps)), 1)
    chosen = np.arange(0, shard.n_sequences, max(int(1.0 / share), 1))
    at, offsets = take_runs(shard.offsets, chosen)
    at, offsets = at[:wanted], np.minimum(offsets, wanted)
    rows = {name: None if array is None else array[at] for name, array in shard.rows.items()}
    each = {name: array[chosen] for name, array in shard.each.items()}
    return SequenceShard(rows, offsets, each, shard.first, shard.source, shard.widened)


def joined(shards: Sequence[SequenceShard], fill: Mapping[str, Any] | None = None) -> SequenceShard:
    """All sequences end to end, widened. ``fill``: what stands for rows that some shards do not have."""
    lengths = np.concatenate([np.diff(shard.offsets) for shard in shards])
    rows: dict[str, NDArray[Any] | None] = {}
    for name in shards[0].rows:
        parts = [shard.optional(name) for shard in shards]
        if all(part is None for part in parts):
            rows[name] = None
            continue
        filled = [
            np.full(shard.n_steps, (fill or {})[name]) if part is None else part
            for shard, part in zip(shards, parts, strict=True)
        ]
        some = [part for part in filled if len(part)] or filled[:1]
        rows[name] = np.concatenate(some)
    each = {name: np.concatenate([shard.each[name] for shard in shards]) for name in shards[0].each}
    return SequenceShard(rows, offsets_from_lengths(lengths), each)


@contextmanager
def located(source: str) -> Iterator[None]:
    """Errors about what was read from a file name it."""
    try:
        yield
    except TrellisError as error:
        raise type(error)(f"{source}: {error}", error.step) from error

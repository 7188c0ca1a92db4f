"""Sequences in shards, placed where the work on them is done: what learning asks of them before it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trellis.core.backends import Backend, PlacedShards, as_backend
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.checksums import checksum
from trellis.core.errors import DataError
from trellis.data.sequence_shards.sequence_shard import SequenceShard, joined, sampled
from trellis.data.shard_files import ShardFiles, as_shard_files

SAMPLE = 2**22  # numbers, 32 MB: starting points are chosen from so much of the data


def files_and_backend(
    X: Any, backend: Any, n_jobs: int | None, max_memory: int | str | None, **beside: Any
) -> tuple[ShardFiles | None, Backend | None]:
    """``X`` of ``fit`` as files, None where it is data; and where the shards go, None where nothing asks for
    shards. ``beside``: other arguments of ``fit``, which files have no use for."""
    files, chosen = as_shard_files(X), as_backend(backend, n_jobs, max_memory)
    if files is None:
        return None, chosen
    for name, value in beside.items():
        if value is not None:
            raise DataError(f"{name} cannot be given with files, which already contain what belongs to X")
    return files, LocalBackend(n_jobs, max_memory) if chosen is None else chosen


class ShardedSequences:
    """``shards`` hold one :class:`SequenceShard` each.

    ``whole``: what checkpoints know the data by; None, where they are known by checksums of the shards.
    """

    def __init__(self, shards: PlacedShards, whole: Mapping[str, Any] | None = None) -> None:
        self.shards, self._whole = shards, whole
        sizes = shards.ask(shard_sizes)
        self.n_sequences = sum(size[0] for size in sizes)
        self.n_steps = sum(size[1] for size in sizes)
        self._shapes = _common_shapes(sizes)

    def width(self, name: str) -> int:
        """How many numbers of that name a step has."""
        return int(np.prod(self._shapes.get(name, ())))

    def identity(self) -> dict[str, Any]:
        """What a checkpoint must know the data by."""
        if self._whole is not None:
            return dict(self._whole)
        return {"X": self.shards.ask(shard_checksum)}

    def sample(self, width: int, fill: Mapping[str, Any] | None = None) -> SequenceShard:
        """All sequences, where steps of ``width`` numbers each stay within ``SAMPLE``; else some from every
        shard. The same for any number of workers."""
        share = SAMPLE / max(self.n_steps * width, 1)
        return joined(self.shards.ask(sampled, share), fill)

    def whole_in_sample(self, width: int) -> bool:
        return self.n_steps * width <= SAMPLE


def _common_shapes(sizes: Sequence[tuple[int, int, dict[str, Any], str]]) -> dict[str, tuple[int, ...]]:
    """Files must agree in everything but their numbers of rows."""
    first: dict[str, tuple[Any, str]] = {}
    for _, steps, shapes, source in sizes:
        for name, shape in shapes.items() if steps else ():
            known, where = first.setdefault(name, (shape, source))
            if shape != known:
                raise DataError(
                    f"the rows of {source} have shape {shape}, but those of {where} have {known}; all files "
                    "must have the same columns"
                )
    return {name: shape for name, (shape, _) in first.items()}


def shard_sizes(shard: SequenceShard) -> tuple[int, int, dict[str, Any], str]:
    """Sequences, steps, the shapes of rows, and where they come from."""
    shapes = {name: array.shape[1:] for name, array in shard.rows.items() if array is not None}
    return shard.n_sequences, shard.n_steps, shapes, shard.source


def shard_checksum(shard: SequenceShard) -> str:
    return checksum([dict(shard.rows), shard.offsets, dict(shard.each)])

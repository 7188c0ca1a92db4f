"""A shard: what to read in which files, as a small record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from trellis.core.errors import DataError
from trellis.data.shard_files.joined_pieces import join_pieces


class FilePiece(Protocol):
    """Some sequences of one file."""

    @property
    def path(self) -> str: ...

    @property
    def n_sequences(self) -> int: ...

    @property
    def n_steps(self) -> int: ...

    def read(self) -> tuple[Any, Any]:
        """Inputs, and labels or None."""


@dataclass(frozen=True)
class FileShard:
    """Pieces of one or several files, in the order of the files. Small files share a shard."""

    pieces: tuple[FilePiece, ...]

    @property
    def n_sequences(self) -> int:
        return sum(piece.n_sequences for piece in self.pieces)

    @property
    def n_steps(self) -> int:
        return sum(piece.n_steps for piece in self.pieces)

    @property
    def name(self) -> str:
        """What messages call it: its first file, and how many follow."""
        paths = list(dict.fromkeys(piece.path for piece in self.pieces))
        return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"

    def read(self) -> tuple[Any, Any]:
        """Inputs and labels (None where the files have none) in the kinds that ``fit`` takes: columns,
        attributes, or a list of arrays; labels as a list of lists, or of arrays."""
        return join_pieces([piece.read() for piece in self.pieces])

    def located(self, error: DataError, inputs: Any) -> DataError:
        """An error about a step of ``inputs``, as one about a line of a file."""
        lines = getattr(inputs, "lines", None)
        if error.step is None or lines is None:
            return error
        return DataError(f"{lines.where(error.step)}: {error}")


def gathered(pieces: Iterable[FilePiece], shard_steps: int) -> list[FileShard]:
    """Neighbouring pieces together while they have at most one and a half times ``shard_steps`` steps."""
    shards: list[FileShard] = []
    waiting: list[FilePiece] = []
    steps = 0
    for piece in pieces:
        if waiting and 2 * (steps + piece.n_steps) > 3 * shard_steps:
            shards.append(FileShard(tuple(waiting)))
            waiting, steps = [], 0
        waiting.append(piece)
        steps += piece.n_steps
    return [*shards, FileShard(tuple(waiting))] if waiting else shards

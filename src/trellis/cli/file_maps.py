"""Labelling many files: what is done with each piece of a file, wherever workers are, in the order of files.

Pieces are sent out in rounds of a few for each worker, so that what comes back fits into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from trellis.core.progress import terminal_bar
from trellis.data.shard_files.file_paths import find_files
from trellis.data.shard_files.text_files import SHARD_STEPS, TextFiles, TextPiece

if TYPE_CHECKING:
    from trellis.data.input_format import InputData, InputFormat
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler

Answer = TypeVar("Answer")
PIECES_PER_WORKER = 4


@dataclass(frozen=True)
class Work:
    """A piece of a file; ``first``: the number of its first sequence in the file, from 1. ``last``: whether
    it is the last piece of the file."""

    piece: TextPiece
    first: int
    last: bool

    def read(self) -> InputData:
        """All columns, whether or not that of labels is there."""
        return self.piece.read_data(any_columns=True)


def work_on(files: list[str], layout: InputFormat, shard_steps: int = SHARD_STEPS) -> list[Work]:
    """The pieces of all files, in natural order of their names; what is wrong with a file is said now."""
    paths, reader = find_files(files), TextFiles(layout)
    for path in paths:
        reader.check_head(path)
    work: list[Work] = []
    for path in paths:
        first, pieces = 1, reader.cut(path, shard_steps)
        for i, piece in enumerate(pieces):
            work.append(Work(piece, first, i == len(pieces) - 1))
            first += piece.n_sequences
    return work


def answers(
    question: Callable[..., Answer],
    work: list[Work],
    labeler: SequenceLabeler,
    *arguments: Any,
    backend: str | None,
    jobs: int | None,
    max_memory: str | None,
    title: str,
) -> Iterator[tuple[Work, Answer]]:
    """``question(work, labeler, *arguments)`` of each piece, in order, with a bar on a terminal."""
    from trellis.core.backends import as_backend
    from trellis.core.backends.local_backend import LocalBackend

    place = as_backend(backend) or LocalBackend(-1 if jobs is None else jobs, max_memory)
    labeler.set_params(n_jobs=1)  # pieces are worked on side by side
    at_once = PIECES_PER_WORKER * max(place.n_workers, 2)
    with terminal_bar(title, len(work), None) as update:
        for done in range(0, len(work), at_once):
            part = work[done : done + at_once]

            def told(ready: int, _: int, before: int = done) -> None:
                if update is not None:
                    update(before + ready, f"{title} on {place.name}")

            placed = place.place(as_it_is, part)
            found = placed.ask(question, labeler, *arguments, told=told)
            placed.release()
            yield from zip(part, found, strict=True)


def as_it_is(work: Work) -> Work:
    return work

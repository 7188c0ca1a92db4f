"""What ``trellis train`` learns from: one file in memory, or files in shards."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from trellis.core.errors import DataError, UnsupportedError
from trellis.core.file_formats import ARRAY_SUFFIXES, FileFormat
from trellis.data.shard_files import ShardFiles
from trellis.data.shard_files.input_format import InputFormat, choose_format, locate_step
from trellis.data.shard_files.text_shards import TextFiles
from trellis.data.streams import read_utf8, source_name

if TYPE_CHECKING:
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler


MANY, STEPS_OF_EACH = 100, 20  # labels, and fewer tokens than these of each on average: a column of words


class TrainingFile:
    """One file (or standard input), read at once."""

    reading = "reading"  # the stage

    def __init__(self, files: list[str], format: FileFormat | None, *, encoding: str, **columns: Any) -> None:
        text, name = read_utf8(files[0], encoding), source_name(files[0])
        self.layout: InputFormat = choose_format(text, name, format, encoding=encoding, **columns)
        self._data = self.layout.parse(text, name)
        self.n_steps, self.n_sequences = self._data.n_steps, len(self._data)

    def doubt(self) -> str | None:
        """What looks like a column of words in place of labels: hours of training would be spent on it."""
        n_labels = len(self.labels() or ())
        if n_labels <= MANY or n_labels * STEPS_OF_EACH <= self.n_steps:
            return None
        return (
            f"the {self.n_steps:,} tokens have {n_labels:,} different labels; if these are no labels, choose "
            "another column by --label-column"
        )

    def labels(self) -> set[str] | None:
        return set(chain.from_iterable(self.layout.labels(self._data)))

    def fit(self, labeler: SequenceLabeler) -> None:
        try:
            labeler.fit(self.layout.inputs(self._data), self.layout.labels(self._data))
        except DataError as error:
            if error.step is None:
                raise
            raise DataError(f"{locate_step(self._data, error.step)}: {error}") from error


class TrainingFiles:
    """Files in shards, which are read again by ``fit``."""

    reading = "reading and encoding"

    def __init__(self, files: list[str], format: FileFormat | None, **options: Any) -> None:
        self._files = ShardFiles(files, format=None if format is None else format.value, **options)
        if not isinstance(self._files.reader, TextFiles):
            raise UnsupportedError(
                f"trellis train reads text files, and these are {self._files.format} files; for "
                f"{', '.join(ARRAY_SUFFIXES)}, use trellis.ShardFiles from Python"
            )
        self.layout: InputFormat = self._files.reader.layout
        shards = self._files.shards()
        self.n_steps = sum(shard.n_steps for shard in shards)
        self.n_sequences = sum(shard.n_sequences for shard in shards)

    def doubt(self) -> str | None:
        """Not known before all of them have been read."""
        return None

    def labels(self) -> set[str] | None:
        """Not known before all of them have been read."""
        return None

    def fit(self, labeler: SequenceLabeler) -> None:
        labeler.fit(self._files, None)

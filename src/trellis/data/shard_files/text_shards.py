"""Column files, CoNLL-U and CRFsuite's attribute files, plain or gzip, cut at blank lines."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.core.errors import DataError
from trellis.core.file_formats import FileFormat
from trellis.data.shard_files.cut_kernels import sequence_ends
from trellis.data.shard_files.input_format import InputData, InputFormat, choose_format
from trellis.data.shard_files.text_ranges import iter_whole_lines, read_head, read_range
from trellis.data.streams import BOM, to_utf8

SHARD_STEPS = (
    100_000  # with some thirty features of four bytes for each step, encoded shards have about 15 MB
)
_HEAD = 2**18


@dataclass(frozen=True)
class TextPiece:
    """Sequences of one text file: its plain text from byte ``start`` to before ``stop``."""

    path: str
    layout: InputFormat
    start: int
    stop: int
    first_line: int
    n_sequences: int
    n_steps: int

    def read_text(self) -> bytes:
        """The lines, as UTF-8."""
        raw = read_range(self.path, self.start, self.stop)
        return to_utf8(raw, self.layout.encoding, self.path, self.first_line)

    def read_data(self, *, any_columns: bool = False) -> InputData:
        """All columns, as many as the layout has; ``any_columns``: as many as there are."""
        n_columns = 0 if any_columns else self.layout.n_columns
        return self.layout.parse(self.read_text(), self.path, self.first_line, n_columns)

    def read(self) -> tuple[InputData, list[list[str]] | None]:
        data = self.read_data()
        return self.layout.inputs(data), self.layout.labels(data) if self.layout.has_labels else None


@dataclass(frozen=True)
class TextFiles:
    """How the text files of a folder are read."""

    layout: InputFormat

    @property
    def shard_steps(self) -> int:
        return SHARD_STEPS

    def check_head(self, path: str) -> None:
        """Refuse a file whose first lines do not have this layout; the column of labels may be missing."""
        self.layout.inputs(self.layout.parse(_head(path, self.layout.encoding), path))

    def cut(self, path: str, shard_steps: int) -> list[TextPiece]:
        """Pieces of at least ``shard_steps`` steps, but for the last one."""
        comments, words = self.layout.comments, self.layout.format is FileFormat.conllu
        pieces: list[TextPiece] = []
        start, first_line, steps_before, n_sequences = 0, 1, 0, 0  # of the piece that is being gathered
        place, line, steps, inside = 0, 1, 0, False  # of the text that is being read
        end = 0  # of the last sequence

        def add(stop: int, next_line: int, steps_to: int) -> None:
            nonlocal start, first_line, steps_before, n_sequences
            pieces.append(
                TextPiece(path, self.layout, start, stop, first_line, n_sequences, steps_to - steps_before)
            )
            start, first_line, steps_before, n_sequences = stop, next_line, steps_to, 0

        for text in iter_whole_lines(path):
            if not place and text.startswith(BOM):
                place = start = len(BOM)
                text = text[place:]
            found = sequence_ends(np.frombuffer(text, np.uint8), comments, words, inside)
            ends, lines_to, steps_to, n_lines, n_steps, inside = found
            i = 0
            while (j := _first_end(steps + steps_to, i, steps_before + shard_steps)) < len(ends):
                n_sequences += j + 1 - i
                add(place + int(ends[j]), line + int(lines_to[j]), steps + int(steps_to[j]))
                i = j + 1
            n_sequences += len(ends) - i
            end = place + int(ends[-1]) if len(ends) else end
            place, line, steps = place + len(text), line + n_lines, steps + n_steps
        if inside:
            n_sequences, end = n_sequences + 1, place
        if steps > steps_before:
            add(end, line, steps)
        elif n_sequences and pieces:  # sentences of CoNLL-U without a word
            last = pieces[-1]
            pieces[-1] = replace(last, stop=end, n_sequences=last.n_sequences + n_sequences)
        if not pieces:
            raise DataError(f"{path}: the file contains no sequences")
        return pieces


def _first_end(steps_to: Any, first: int, wanted: int) -> int:
    """The first end of a sequence, from ``first`` on, up to which there are as many steps as wanted."""
    return max(int(np.searchsorted(steps_to, wanted)), first)


def text_files(paths: list[str], format: FileFormat | None, **options: Any) -> TextFiles:
    """How to read files, judged by the first one; what the others begin with must agree with it."""
    _check_encoding(options["encoding"])
    first, *others = paths
    layout = choose_format(_head(first, options["encoding"]), first, format, **options)
    for path in others:
        found = choose_format(_head(path, options["encoding"]), path, format, **options)
        if found.format is not layout.format:
            raise DataError(
                f"{path} looks like {found.format}, but {first} like {layout.format}; give files of one "
                "format, or say which by format"
            )
        if found.n_columns != layout.n_columns:
            raise DataError(
                f"{path} has {found.n_columns} columns, but {first} has {layout.n_columns}; all files need "
                "the same columns"
            )
    return TextFiles(layout)


def _head(path: str, encoding: str) -> bytes:
    head = read_head(path, _HEAD)
    return to_utf8(head, encoding, path, 1)


def _check_encoding(encoding: str) -> None:
    """Lines are found in the bytes of a file, so that line ends must be one byte."""
    try:
        single = codecs.encode("a\n", encoding).endswith(b"a\n")
    except LookupError:
        single = True  # an unknown one is refused where text is read
    if not single:
        raise DataError(f"files in {encoding} cannot be cut into shards; convert them to UTF-8 first")

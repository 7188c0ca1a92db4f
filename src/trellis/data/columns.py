"""Column files (CoNLL, CRF++, CoNLL-U): one step per line, blank lines between sequences.

``ColumnData`` keeps every column as integer codes and a list of its distinct strings. Kernels tokenise and
intern the text from its bytes, so neither reading a file nor extracting template features creates a Python
object per token. The original lines are kept, so that tagging can repeat them with an additional column.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.output_files import atomic_text
from trellis.data.column_kernels import TAB, WHITESPACE, count_fields, field_spans
from trellis.data.flatten import flatten
from trellis.data.sequences import locate, offsets_from_lengths, step_name
from trellis.data.streams import Source, iter_sequence_blocks, read_utf8, source_name
from trellis.data.vocabulary import Vocabulary

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class SourceLines:
    """The text of the steps; ``line_of_step`` counts from 0 in it, ``first_line`` from 1 in the file."""

    text: bytes
    line_of_step: IntArray
    name: str
    first_line: int = 1
    separator: str = "\t"

    def where(self, step: int) -> str:
        """``file:line`` of a step."""
        return f"{self.name}:{self.first_line + int(self.line_of_step[step])}"

    def tagged(self, codes: NDArray[np.integer], labels: Sequence[object]) -> bytes:
        """The lines as they were, each step's line with the separator and its label at the end (UTF-8)."""
        lines = self.text.split(b"\n")
        names = np.array([f"{self.separator}{label}".encode() for label in labels], dtype=object)
        endings = np.full(len(lines), b"", dtype=object)
        endings[self.line_of_step] = names[codes]
        joined = b"\n".join((np.array(lines, dtype=object) + endings).tolist())
        return joined if joined.endswith(b"\n") or not joined else joined + b"\n"


@dataclass(frozen=True, eq=False)
class JoinedLines:
    """The text of steps that come from several files; ``first_steps``: of each, and their number."""

    parts: tuple[SourceLines, ...]
    first_steps: IntArray
    separator: str = "\t"

    @property
    def name(self) -> str:
        return self.parts[0].name

    def where(self, step: int) -> str:
        """``file:line`` of a step."""
        part, inside = locate(self.first_steps, step)
        return self.parts[part].where(inside)


def join_lines(parts: Sequence[Any]) -> JoinedLines | None:
    """The lines of several data, None if one has none."""
    if any(part.lines is None for part in parts):
        return None
    return JoinedLines(
        tuple(part.lines for part in parts), offsets_from_lengths([part.n_steps for part in parts])
    )


def join_vocabularies(vocabularies: Iterable[list[str]]) -> tuple[list[str], list[Codes]]:
    """All strings, in order of first appearance, and the new code of each code of each vocabulary."""
    table: defaultdict[str, int] = defaultdict()
    table.default_factory = table.__len__
    codes = [np.fromiter(map(table.__getitem__, one), np.int32, len(one)) for one in vocabularies]
    return list(table), codes


def join_offsets(parts: Iterable[IntArray]) -> IntArray:
    """The offsets of sequences, end to end."""
    return offsets_from_lengths(np.concatenate([np.diff(one) for one in parts]))


@dataclass(frozen=True, eq=False)
class ColumnData:
    r"""Sequences of rows of strings, packed.

    ``codes``: int32 (n_columns, n_steps); the string in column ``j`` of step ``t`` is
    ``vocabularies[j][codes[j, t]]``. Sequence ``i`` holds the steps ``offsets[i]:offsets[i + 1]``. ``lines``
    is ``None`` for data that came from no file.

    Examples
    --------
    >>> import io
    >>> from trellis.data import read_columns
    >>> data = read_columns(io.StringIO("the D\ncat N\n\na D\n\n"))
    >>> len(data), data.vocabularies[1]
    (2, ['D', 'N'])
    """

    codes: Codes
    vocabularies: tuple[list[str], ...]
    offsets: IntArray
    lines: SourceLines | JoinedLines | None = None

    @classmethod
    def from_sequences(cls, sequences: Any, lengths: ArrayLike | None = None) -> ColumnData:
        """Pack a list of sequences of rows; a row is a tuple (or list) of strings, one per column.

        With ``lengths``, ``sequences`` is one list of rows.
        """
        rows, offsets = flatten("X", sequences, lengths, item="row")
        if not rows:
            raise DataError("X has no rows; give at least one sequence of tuples of strings")
        for step, row in enumerate(rows):
            if not isinstance(row, list | tuple) or not all(isinstance(value, str) for value in row):
                raise DataError(f"{step_name(offsets, step)} is {row!r}; a step must be a tuple of strings")
            if len(row) != len(rows[0]):
                raise DataError(
                    f"{step_name(offsets, step)} has {len(row)} columns, but the first has {len(rows[0])}"
                )
        tables: list[defaultdict[str, int]] = []
        codes = np.empty((len(rows[0]), len(rows)), np.int32)
        for j, column in enumerate(zip(*rows, strict=True)):
            table: defaultdict[str, int] = defaultdict()
            table.default_factory = table.__len__
            codes[j] = np.fromiter(map(table.__getitem__, column), np.int32, len(rows))
            tables.append(table)
        return cls(codes, tuple(list(table) for table in tables), offsets)

    @property
    def n_columns(self) -> int:
        return len(self.codes)

    @property
    def n_steps(self) -> int:
        return int(self.codes.shape[1])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def select(self, columns: Iterable[int]) -> ColumnData:
        """Only these columns, in this order; negative numbers count from the last one."""
        chosen = [self._index(j) for j in columns]
        return replace(
            self, codes=self.codes[chosen], vocabularies=tuple(self.vocabularies[j] for j in chosen)
        )

    def without(self, column: int) -> ColumnData:
        """All columns but one (the labels', usually ``-1``)."""
        left_out = self._index(column)
        return self.select(j for j in range(self.n_columns) if j != left_out)

    def column(self, column: int) -> list[str]:
        """The strings of one column, all sequences end to end."""
        j = self._index(column)
        strings: list[str] = np.array(self.vocabularies[j], dtype=object)[self.codes[j]].tolist()
        return strings

    def sequences(self, column: int) -> list[list[str]]:
        """The strings of one column, a list for each sequence."""
        strings = self.column(column)
        return [strings[a:b] for a, b in pairwise(self.offsets.tolist())]

    def tagged(self, codes: NDArray[np.integer], labels: Sequence[object]) -> bytes:
        """The original lines with the label of each step as a new last column (UTF-8).

        It is separated by a blank if the file's first two columns are, otherwise by a tab.
        """
        if not isinstance(self.lines, SourceLines):
            raise UnsupportedError(
                "these rows were not read from one file, so there are no lines to repeat; use write_columns"
            )
        return self.lines.tagged(codes, labels)

    def _index(self, column: int) -> int:
        if not -self.n_columns <= column < self.n_columns:
            where = "the data" if self.lines is None else self.lines.name
            raise DataError(
                f"there is no column {column}; {where} has {self.n_columns} columns, numbered from 0"
            )
        return column % self.n_columns


def read_columns(
    source: Source, *, separator: str | None = None, comments: bool = False, encoding: str = "utf-8"
) -> ColumnData:
    r"""Read a whole column file: a path, ``"-"`` for standard input, or an open stream; gzip is recognised.

    ``separator``: ``None`` for runs of blanks and tabs, ``"\\t"`` for single tabs (fields may then hold
    blanks). ``comments``: skip lines that start with ``#``.

    Examples
    --------
    >>> import io
    >>> from trellis.data import read_columns
    >>> read_columns(io.StringIO("the D\ncat N\n\n")).vocabularies
    (['the', 'cat'], ['D', 'N'])
    """
    text = read_utf8(source, encoding)
    return parse_columns(text, source_name(source), separator=separator, comments=comments)


def iter_column_blocks(
    source: Source,
    sequences_per_block: int = 1000,
    *,
    separator: str | None = None,
    comments: bool = False,
    encoding: str = "utf-8",
) -> Iterator[ColumnData]:
    r"""Read a column file block by block, in memory bounded by the block.

    Examples
    --------
    >>> import io
    >>> from trellis.data import iter_column_blocks
    >>> stream = io.StringIO("the D\ncat N\n\na D\n\n")
    >>> [len(block) for block in iter_column_blocks(stream, sequences_per_block=1)]
    [1, 1]
    """
    name = source_name(source)
    n_columns = 0
    for text, first_line in iter_sequence_blocks(source, sequences_per_block, encoding, comments):
        data = parse_columns(
            text, name, separator=separator, comments=comments, first_line=first_line, n_columns=n_columns
        )
        n_columns = data.n_columns
        yield data
    if not n_columns:
        raise DataError(f"{name}: the file contains no sequences")


def read_conllu(
    source: Source, columns: Iterable[str] = ("form", "upos"), encoding: str = "utf-8"
) -> ColumnData:
    r"""Read some columns of a CoNLL-U file, without multiword ranges (``1-2``) and empty nodes (``1.1``).

    Examples
    --------
    >>> import io
    >>> from trellis.data import read_conllu
    >>> rows = [["1", "cats", "cat", "NOUN"], ["2", "sleep", "sleep", "VERB"]]
    >>> lines = ["\t".join([*row, *"______"]) for row in rows]
    >>> read_conllu(io.StringIO("\n".join(lines) + "\n\n")).vocabularies
    (['cats', 'sleep'], ['NOUN', 'VERB'])
    """
    wanted = list(columns)
    for column in wanted:
        if column not in CONLLU_COLUMNS:
            raise DataError(f"{column!r} is not a CoNLL-U column; choose from {', '.join(CONLLU_COLUMNS)}")
    words = conllu_words(read_columns(source, separator="\t", comments=True, encoding=encoding))
    return words.select(CONLLU_COLUMNS.index(column) for column in wanted)


def conllu_words(data: ColumnData) -> ColumnData:
    """All ten columns of a CoNLL-U file or block, without multiword ranges and empty nodes."""
    if not isinstance(data.lines, SourceLines):
        raise UnsupportedError("these rows were not read from a CoNLL-U file; use read_conllu")
    if data.n_columns != len(CONLLU_COLUMNS):
        raise DataError(f"{data.lines.name}: CoNLL-U has 10 tab-separated columns, not {data.n_columns}")
    is_word = np.array([identifier.isdecimal() for identifier in data.vocabularies[0]])[data.codes[0]]
    if not is_word.any():
        raise DataError(
            f"{data.lines.name}: no line has a whole number in its first column, as CoNLL-U words do"
        )
    kept = np.concatenate([[0], np.cumsum(is_word)])
    return replace(
        data,
        codes=np.ascontiguousarray(data.codes[:, is_word]),
        offsets=kept[data.offsets].astype(np.int64),
        lines=replace(data.lines, line_of_step=data.lines.line_of_step[is_word]),
    )


def join_columns(parts: Sequence[ColumnData]) -> ColumnData:
    """Sequences of several files with the same columns, one after the other."""
    rows, vocabularies = [], []
    for j in range(parts[0].n_columns):
        strings, codes = join_vocabularies(part.vocabularies[j] for part in parts)
        vocabularies.append(strings)
        rows.append(np.concatenate([new[part.codes[j]] for new, part in zip(codes, parts, strict=True)]))
    offsets = join_offsets(part.offsets for part in parts)
    return ColumnData(np.stack(rows), tuple(vocabularies), offsets, join_lines(parts))


def write_columns(
    target: str | os.PathLike[str] | IO[str],
    sequences: Iterable[Iterable[Sequence[str]]],
    separator: str = "\t",
) -> None:
    r"""Write sequences of rows of strings as a column file (UTF-8).

    Examples
    --------
    >>> import io
    >>> from trellis.data import write_columns
    >>> stream = io.StringIO()
    >>> write_columns(stream, [[("the", "D"), ("cat", "N")]], separator=" ")
    >>> stream.getvalue()
    'the D\ncat N\n\n'
    """
    if isinstance(target, str | os.PathLike):
        with atomic_text(target) as stream:
            write_columns(stream, sequences, separator)
        return
    if separator not in {"\t", " "}:
        raise DataError(f"separator is {separator!r}; it must be a tab or a space")
    breaking = set("\t\n\r" if separator == "\t" else " \t\n\r\v\f")
    for index, sequence in enumerate(sequences):
        for step, row in enumerate(sequence):
            # a field with a separator in it would be read back as something else
            for value in row:
                if not value.strip(" \v\f") or not breaking.isdisjoint(value):
                    raise DataError(
                        f"step {step} of sequence {index} holds {value!r}, which a column file cannot "
                        "represent"
                    )
            target.write(separator.join(row) + "\n")
        target.write("\n")


def parse_columns(
    text: bytes,
    name: str,
    *,
    separator: str | None = None,
    comments: bool = False,
    first_line: int = 1,
    n_columns: int = 0,
) -> ColumnData:
    """Column data from UTF-8 text; ``n_columns`` (if not 0) is what earlier blocks of the same file had."""
    if separator not in {None, "\t"}:
        raise DataError(f"separator is {separator!r}; it must be None (runs of spaces and tabs) or a tab")
    mode = TAB if separator == "\t" else WHITESPACE
    counts, raw, offsets, lines = split_lines(text, name, mode, comments, first_line)
    of_steps = counts[lines.line_of_step]
    expected = n_columns or int(of_steps[0])
    ragged = np.flatnonzero(of_steps != expected)
    if ragged.size:
        step = int(ragged[0])
        first = "earlier lines have" if n_columns else f"line {first_line + int(lines.line_of_step[0])} has"
        raise DataError(
            f"{lines.where(step)}: {int(of_steps[step])} columns, but {first} {expected}; all lines of a "
            "column file need the same number"
        )
    starts, ends = field_spans(raw, counts, mode)
    if expected > 1 and text[ends[0]] == ord(" "):
        lines = replace(lines, separator=" ")
    codes = np.empty((expected, len(of_steps)), np.int32)
    vocabularies = []
    for j in range(expected):
        codes[j], vocabulary = intern_fields(raw, starts[j::expected], ends[j::expected])
        vocabularies.append(vocabulary)
    return ColumnData(codes, tuple(vocabularies), offsets, lines)


def split_lines(
    text: bytes, name: str, mode: int, comments: bool, first_line: int
) -> tuple[NDArray[np.int32], NDArray[np.uint8], IntArray, SourceLines]:
    """Field counts of lines, the text as an array, the offsets of the sequences, the lines of the steps."""
    raw = np.frombuffer(text, np.uint8)
    counts = count_fields(raw, mode, comments)
    line_of_step = np.flatnonzero(counts > 0)
    if not line_of_step.size:
        raise DataError(f"{name}: the file contains no sequences")
    blanks_before = np.cumsum(counts == 0)[line_of_step]
    breaks = np.flatnonzero(np.diff(blanks_before)) + 1
    offsets = np.concatenate([[0], breaks, [len(line_of_step)]]).astype(np.int64)
    return counts, raw, offsets, SourceLines(text, line_of_step.astype(np.int64), name, first_line)


def label_lines(codes: NDArray[np.integer], labels: Iterable[object], offsets: IntArray) -> bytes:
    """One label per line and a blank line after each sequence."""
    lines = np.array([f"{label}\n" for label in labels], dtype=object)[codes]
    return "".join("".join(part) + "\n" for part in np.split(lines, offsets[1:-1])).encode()


def intern_fields(raw: NDArray[np.uint8], starts: IntArray, ends: IntArray) -> tuple[Codes, list[str]]:
    """Codes of the fields and their distinct strings, in order of first appearance."""
    vocabulary = Vocabulary()
    return vocabulary.add_spans(raw, starts, ends), vocabulary.strings()

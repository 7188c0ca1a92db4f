"""Text files of sequences: their format, the column of labels, the columns of features.

``trellis train`` and :class:`~trellis.data.shard_files.ShardFiles` determine these once, from options and the
first lines of a file (:class:`InputFormat`). The command line keeps them in the model, so that ``tag`` and
``evaluate`` read their files in the same way. A file to be tagged may have the column of labels or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from trellis.core.errors import DataError, ModelFileError, UnsupportedError
from trellis.core.file_formats import FileFormat
from trellis.data.attributes import AttributeData, iter_attribute_blocks, parse_attributes
from trellis.data.columns import (
    CONLLU_COLUMNS,
    ColumnData,
    conllu_words,
    iter_column_blocks,
    parse_columns,
)
from trellis.data.sequences import step_name
from trellis.data.streams import Source, read_utf8, source_name

_ATTRIBUTE = re.compile(rb"=|:[-+.\d][-+.\deE]*$")

InputData = ColumnData | AttributeData


@dataclass(frozen=True)
class InputFormat:
    """How files are read; ``label`` and ``features`` count columns (from 0) of labelled files. Where there
    are no labels, ``label`` is -1."""

    format: FileFormat
    separator: str | None = None
    encoding: str = "utf-8"
    n_columns: int = 0
    label: int = 0
    features: tuple[int, ...] = ()

    def to_meta(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_meta(cls, meta: dict[str, Any], path: str) -> Self:
        try:
            values = {**meta, "format": FileFormat(meta["format"]), "features": tuple(meta["features"])}
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path}: the description of its input files is damaged") from error

    def parse(self, text: bytes, name: str, first_line: int = 1, n_columns: int = 0) -> InputData:
        """Whole sequences of a file, which begin in its line ``first_line``; all lines must have
        ``n_columns`` columns (0: as many as the first)."""
        if self.format is FileFormat.crfsuite:
            return parse_attributes(text, name, first_line)
        return self._words(
            parse_columns(
                text,
                name,
                separator=self.separator,
                comments=self.comments,
                first_line=first_line,
                n_columns=n_columns,
            )
        )

    def read(self, source: Source) -> InputData:
        return self.parse(read_utf8(source, self.encoding), source_name(source))

    def blocks(self, source: Source, sequences_per_block: int) -> Iterator[InputData]:
        """A file block by block, in memory bounded by the block."""
        if self.format is FileFormat.crfsuite:
            yield from iter_attribute_blocks(source, sequences_per_block, self.encoding)
            return
        for block in iter_column_blocks(
            source,
            sequences_per_block,
            separator=self.separator,
            comments=self.comments,
            encoding=self.encoding,
        ):
            yield self._words(block)

    def inputs(self, data: InputData) -> InputData:
        """The columns of features, whether or not the file has labels."""
        if isinstance(data, AttributeData):
            return data
        if data.n_columns == self.n_columns:
            return data.select(self.features)
        if self.has_labels and data.n_columns == self.n_columns - 1 and self.format is FileFormat.columns:
            return data.select(j - (j > self.label) for j in self.features)
        raise DataError(
            f"{_name(data)} has {data.n_columns} columns, but the model was trained on {self.n_columns} "
            f"(column {self.label}, from 0, is the label, which may be left out)"
        )

    def labels(self, data: InputData) -> list[list[str]]:
        """The label column, a list for each sequence."""
        if isinstance(data, AttributeData):
            return data.labels()
        if data.n_columns != self.n_columns:
            raise DataError(
                f"{_name(data)} has {data.n_columns} columns, but {self.n_columns} are needed: "
                f"the label is column {self.label} (from 0)"
            )
        return data.sequences(self.label)

    @property
    def has_labels(self) -> bool:
        return self.label >= 0

    @property
    def comments(self) -> bool:
        """Whether lines that start with # are none of the steps."""
        return self.format is FileFormat.conllu

    def _words(self, data: ColumnData) -> ColumnData:
        return conllu_words(data) if self.format is FileFormat.conllu else data


def choose_format(
    text: bytes,
    name: str,
    format: FileFormat | None,
    *,
    label_column: str | Literal[False] | None = None,
    feature_columns: str | None = None,
    tabs: bool = False,
    encoding: str = "utf-8",
) -> InputFormat:
    """The format of a training file, from the options or, without them, from its first lines.

    ``label_column``: None is the last one, False is none.
    """
    format = format or detect_format(text, name)
    if format is FileFormat.crfsuite:
        if label_column not in (None, False) or feature_columns is not None:
            raise UnsupportedError(
                "CRFsuite files have the label first and no columns to choose; leave out the column options"
            )
        if b"\t" not in text:
            raise DataError(
                f"{name}: no line has a tab, which separates the attributes in CRFsuite's files; leave out "
                "--format crfsuite for a column file"
            )
        return InputFormat(format, encoding=encoding, label=-1 if label_column is False else 0)
    conllu = format is FileFormat.conllu
    n_columns = len(CONLLU_COLUMNS) if conllu else _count_columns(text, name, tabs)
    label = -1
    if label_column is not False:
        label = _column(label_column or ("upos" if conllu else "-1"), n_columns, conllu)
    if feature_columns is not None:
        features = tuple(_column(part.strip(), n_columns, conllu) for part in feature_columns.split(","))
    elif conllu:
        features = (CONLLU_COLUMNS.index("form"),)
    else:
        features = tuple(j for j in range(n_columns) if j != label)
    if not features:
        first = text.lstrip(b"\n").partition(b"\n")[0]
        other = next((mark for mark in ",;|" if mark.encode() in first), None)
        hint = "" if other is None else f" (columns are separated by blanks or tabs, not by {other!r})"
        raise DataError(
            f"{name}: the file has only one column; it needs another one to predict labels from{hint}"
        )
    if label in features:
        raise UnsupportedError(f"column {label} is both label and feature; choose feature columns without it")
    return InputFormat(format, "\t" if conllu or tabs else None, encoding, n_columns, label, features)


def detect_format(text: bytes, name: str) -> FileFormat:
    """The format of a file, judged by its first lines; a column file unless they look like another format.

    CoNLL-U: ten tab-separated columns, and a number in the first. CRFsuite: tab-separated, and every field
    after the first is like ``name=value`` or ``name:number``; half of them suffice if the number of fields
    varies, which it never does in a column file. (Varying numbers alone do not suffice: a column file with a
    broken line would be taken for one of CRFsuite's, and its words for labels.)
    """
    lines = [line for line in text[:100_000].split(b"\n")[:200] if line.strip()]
    steps = [line.rstrip(b"\r").split(b"\t") for line in lines if not line.startswith(b"#")]
    if not steps:
        raise DataError(f"{name}: the file contains no sequences")
    if all(len(fields) == len(CONLLU_COLUMNS) and fields[0][:1].isdigit() for fields in steps):
        return FileFormat.conllu
    named = [bool(_ATTRIBUTE.search(field)) for fields in steps for field in fields[1:]]
    if not named or any(len(fields) == 1 and b" " in fields[0] for fields in steps):
        return FileFormat.columns
    ragged = len({len(fields) for fields in steps}) > 1
    if all(named) or (ragged and 2 * sum(named) >= len(named)):
        return FileFormat.crfsuite
    return FileFormat.columns


def _count_columns(text: bytes, name: str, tabs: bool) -> int:
    for line in text.split(b"\n"):
        if line.strip():
            return len(line.split(b"\t" if tabs else None))
    raise DataError(f"{name}: the file contains no sequences")


def _column(column: str, n_columns: int, conllu: bool) -> int:
    if conllu and column in CONLLU_COLUMNS:
        return CONLLU_COLUMNS.index(column)
    try:
        index = int(column)
    except ValueError:
        names = f" or one of {', '.join(CONLLU_COLUMNS)}" if conllu else ""
        raise DataError(
            f"column {column!r} is not a whole number (from 0, or -1 for the last){names}"
        ) from None
    if not -n_columns <= index < n_columns:
        raise DataError(
            f"there is no column {index}; the file has {n_columns} columns, numbered from 0 (-1: the last)"
        )
    return index % n_columns


def locate_step(data: InputData, step: int) -> str:
    """``file:line`` of a step, counted over all sequences."""
    return step_name(data.offsets, step) if data.lines is None else data.lines.where(step)


def _name(data: ColumnData) -> str:
    return "the data" if data.lines is None else data.lines.name

"""CRFsuite's attribute files: ``label<TAB>attribute<TAB>attribute:value...``, blank lines between sequences.

The label may be anything when the file is only to be tagged. An attribute without ``:value`` has the value 1.
A colon or a backslash that belongs to the name is written ``\\:`` or ``\\\\``.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.core.output_files import atomic_text
from trellis.data.column_kernels import TAB, field_spans
from trellis.data.columns import (
    Codes,
    JoinedLines,
    SourceLines,
    intern_fields,
    join_lines,
    join_offsets,
    join_vocabularies,
    label_lines,
    split_lines,
)
from trellis.data.streams import Source, iter_sequence_blocks, read_utf8, source_name

_FIELD = re.compile(r"((?:[^\\:]|\\.)*)(?::(.*))?", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, eq=False)
class AttributeData:
    r"""Named attributes with values, CSR over steps, and the label column.

    Step ``t`` has the attributes ``names[codes[i]]`` for ``i`` in ``indptr[t]:indptr[t + 1]``; ``values`` has
    shape (1,) and is ``[1.0]`` when every value is one.

    Examples
    --------
    >>> import io
    >>> from trellis.data import read_attributes
    >>> data = read_attributes(io.StringIO("N\tword=cat:1\tupper:0.5\n\n"))
    >>> data.names, data.label_names, data.values.tolist()
    (['word=cat', 'upper'], ['N'], [1.0, 0.5])
    """

    indptr: IntArray
    codes: Codes
    values: NDArray[np.float64]
    names: list[str]
    offsets: IntArray
    label_codes: Codes
    label_names: list[str]
    lines: SourceLines | JoinedLines | None

    @property
    def n_steps(self) -> int:
        return len(self.indptr) - 1

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def labels(self) -> list[list[str]]:
        """The label column, a list for each sequence."""
        flat = np.array(self.label_names, dtype=object)[self.label_codes]
        return [part.tolist() for part in np.split(flat, self.offsets[1:-1])]

    def tagged(self, codes: NDArray[np.integer], labels: Iterable[object]) -> bytes:
        """One predicted label per line and a blank line after each sequence, as ``crfsuite tag`` writes."""
        return label_lines(codes, labels, self.offsets)


def read_attributes(source: Source, encoding: str = "utf-8") -> AttributeData:
    r"""Read a whole attribute file: a path, ``"-"`` for standard input, or an open stream; gzip too.

    Examples
    --------
    >>> import io
    >>> from trellis.data import read_attributes
    >>> read_attributes(io.StringIO("N\tword=cat\tupper:0.5\n\n")).names
    ['word=cat', 'upper']
    """
    return parse_attributes(read_utf8(source, encoding), source_name(source))


def iter_attribute_blocks(
    source: Source, sequences_per_block: int = 1000, encoding: str = "utf-8"
) -> Iterator[AttributeData]:
    r"""Read an attribute file block by block, in memory bounded by the block.

    Examples
    --------
    >>> import io
    >>> from trellis.data import iter_attribute_blocks
    >>> stream = io.StringIO("N\tword=cat\n\nV\tword=ran\n\n")
    >>> [block.names for block in iter_attribute_blocks(stream, sequences_per_block=1)]
    [['word=cat'], ['word=ran']]
    """
    name = source_name(source)
    empty = True
    for text, first_line in iter_sequence_blocks(source, sequences_per_block, encoding):
        empty = False
        yield parse_attributes(text, name, first_line)
    if empty:
        raise DataError(f"{name}: the file contains no sequences")


def parse_attributes(text: bytes, name: str, first_line: int = 1) -> AttributeData:
    """Attribute data from UTF-8 text. Only distinct fields are parsed in Python, which keeps reading fast."""
    counts, raw, offsets, lines = split_lines(text, name, TAB, False, first_line)
    starts, ends = field_spans(raw, counts, TAB)
    per_step = counts[lines.line_of_step].astype(np.int64)
    first_field = np.concatenate([[0], np.cumsum(per_step)])
    is_attribute = np.ones(len(starts), np.bool_)
    is_attribute[first_field[:-1]] = False
    # a tab at the end of a line leaves an empty field, which names no attribute
    is_attribute &= ends > starts
    label_codes, label_names = intern_fields(raw, starts[first_field[:-1]], ends[first_field[:-1]])
    fields, distinct = intern_fields(raw, starts[is_attribute], ends[is_attribute])
    indptr = np.concatenate([[0], np.cumsum(is_attribute)])[first_field].astype(np.int64)

    table: dict[str, int] = {}
    code_of = np.empty(len(distinct), np.int32)
    value_of = np.ones(len(distinct))
    for i, field in enumerate(distinct):
        parsed = _parse_field(field)
        if parsed is None:
            step = int(np.searchsorted(indptr, np.flatnonzero(fields == i)[0], side="right")) - 1
            raise DataError(
                f"{lines.where(step)}: attribute {field!r} is not a name or name:number "
                "(write \\: for a colon that belongs to the name)"
            )
        code_of[i] = table.setdefault(parsed[0], len(table))
        value_of[i] = parsed[1]
    values = np.ones(1) if (value_of == 1.0).all() else value_of[fields]
    return AttributeData(
        indptr, code_of[fields], values, list(table), offsets, label_codes, label_names, lines
    )


def join_attributes(parts: Sequence[AttributeData]) -> AttributeData:
    """Sequences of several files, one after the other."""
    names, codes = join_vocabularies(part.names for part in parts)
    labels, label_codes = join_vocabularies(part.label_names for part in parts)
    plain = all(part.values.shape == (1,) for part in parts)
    return AttributeData(
        join_offsets(part.indptr for part in parts),
        np.concatenate([new[part.codes] for new, part in zip(codes, parts, strict=True)]),
        np.ones(1)
        if plain
        else np.concatenate([np.broadcast_to(part.values, part.codes.shape) for part in parts]),
        names,
        join_offsets(part.offsets for part in parts),
        np.concatenate([new[part.label_codes] for new, part in zip(label_codes, parts, strict=True)]),
        labels,
        join_lines(parts),
    )


def _parse_field(field: str) -> tuple[str, float] | None:
    match = _FIELD.fullmatch(field)
    if match is None:
        return None
    name, number = match.groups()
    if "\\" in name:
        name = _ESCAPED.sub(r"\1", name)
    if number is None:
        return name, 1.0
    try:
        value = float(number)
    except ValueError:
        return None
    return (name, value) if math.isfinite(value) else None


def write_attributes(
    target: str | os.PathLike[str] | IO[str],
    sequences: Iterable[Iterable[Mapping[str, float]]],
    labels: Iterable[Iterable[object]],
) -> None:
    r"""Write sequences of ``{attribute: value}`` with their labels as an attribute file (UTF-8).

    Examples
    --------
    >>> import io
    >>> from trellis.data import write_attributes
    >>> stream = io.StringIO()
    >>> write_attributes(stream, [[{"word=cat": 1.0}]], [["N"]])
    >>> stream.getvalue()
    'N\tword=cat\n\n'
    """
    if isinstance(target, str | os.PathLike):
        with atomic_text(target) as stream:
            write_attributes(stream, sequences, labels)
        return
    for steps, names in zip(sequences, labels, strict=True):
        for step, label in zip(steps, names, strict=True):
            fields = [str(label)]
            for name, value in step.items():
                escaped = name.replace("\\", "\\\\").replace(":", "\\:")
                fields.append(escaped if value == 1 else f"{escaped}:{float(value)!r}")
            if any("\n" in field or "\t" in field for field in fields):
                raise DataError(
                    f"{fields!r} has a tab or a line break, which an attribute file cannot represent"
                )
            target.write("\t".join(fields) + "\n")
        target.write("\n")

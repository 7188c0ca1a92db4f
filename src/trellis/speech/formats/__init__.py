"""File formats of alignments, one reader and one writer each, found by name or by suffix."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.formats import ctm, elan, textgrid
from trellis.speech.formats import json_csv as native
from trellis.speech.formats import label_lines as lines
from trellis.speech.formats.alignment import Alignment


@dataclass(frozen=True)
class Format:
    """``suffixes``: the first is used for new files, all of them are recognised, in any case."""

    name: str
    suffixes: tuple[str, ...]
    read: Callable[..., Alignment]
    write: Callable[..., None]


FORMATS = {
    entry.name: entry
    for entry in (
        Format("textgrid", (".TextGrid",), textgrid.read_textgrid, textgrid.write_textgrid),
        Format("elan", (".eaf",), elan.read_elan, elan.write_elan),
        Format("json", (".json",), native.read_json, native.write_json),
        Format("csv", (".csv",), native.read_csv, native.write_csv),
        Format("ctm", (".ctm",), ctm.read_ctm, ctm.write_ctm),
        Format("lab", (".lab",), lines.read_lab, lines.write_lab),
        Format("phn", (".phn", ".wrd"), lines.read_phn, lines.write_phn),
        Format("audacity", (".txt",), lines.read_audacity, lines.write_audacity),
    )
}


def get_format(path: PathLike, name: str | None = None) -> Format:
    """The format called ``name``, or that of the suffix of ``path``.

    Examples
    --------
    >>> from trellis.speech.formats import get_format
    >>> get_format("hi.TextGrid") is get_format("elsewhere", "textgrid")
    True
    """
    if name is not None:
        if name not in FORMATS:
            raise DataError(f"no format {name!r}; choose one of {', '.join(FORMATS)}")
        return FORMATS[name]
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    for entry in FORMATS.values():
        if suffix in map(str.lower, entry.suffixes):
            return entry
    known = ", ".join(s for entry in FORMATS.values() for s in entry.suffixes)
    raise DataError(
        f"{os.fspath(path)}: no format has the suffix {suffix!r}; give the format, or use {known}"
    )


def read_alignment(path: PathLike, format: str | None = None, **options: Any) -> Alignment:
    """Read an alignment; ``options`` are those of the reader of its format.

    Examples
    --------
    >>> from trellis.speech import Alignment, Interval
    >>> from trellis.speech.formats import read_alignment, write_alignment
    >>> write_alignment(Alignment(phones=(Interval(0.0, 0.5, "a"),)), "a.TextGrid")
    >>> read_alignment("a.TextGrid").labels
    ('a',)
    """
    return get_format(path, format).read(path, **options)


def write_alignment(alignment: Alignment, path: PathLike, format: str | None = None, **options: Any) -> None:
    """Write an alignment; ``options`` are those of the writer of its format.

    Examples
    --------
    >>> from pathlib import Path
    >>> from trellis.speech import Alignment, Interval
    >>> from trellis.speech.formats import write_alignment
    >>> write_alignment(Alignment(phones=(Interval(0.0, 0.5, "a"),)), "a.txt")
    >>> Path("a.txt").read_text().split()
    ['0.000000', '0.500000', 'a']
    """
    get_format(path, format).write(alignment, path, **options)

r"""Formats with one interval per line and one tier per file: HTK ``.lab``, TIMIT ``.phn``, Audacity.

================  ==========================================  =====================
format            line                                        unit of time
================  ==========================================  =====================
HTK               ``start end label [score ...]``             100 ns, whole numbers
TIMIT             ``start end label``                         samples, whole numbers
Audacity          ``start TAB end TAB label``                 seconds
================  ==========================================  =====================

None of them contains the length of the recording, so readers take ``duration``. Except in Audacity's, a label
cannot be empty: intervals with an empty label are omitted and read back as gaps (:meth:`Alignment.filled`).
An HTK label that begins with a quote or contains blanks is quoted as HTK quotes it; TIMIT's format refuses
labels with blanks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.formats.alignment import Alignment, one_tier
from trellis.speech.formats.intervals import ROUNDED, SLACK, Interval, Tier
from trellis.speech.formats.text_files import check_word, expect, parse_number, read_lines, write_text

_HTK_UNIT = 1e7  # per second
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1).)*)\1(?:\s|$)""")


def read_lab(
    path: PathLike, tier: str = "phones", duration: float | None = None, encoding: str | None = None
) -> Alignment:
    """An HTK label file; scores and further columns are ignored."""

    def parse(line: str, where: str) -> Interval:
        words = line.split(None, 2)
        expect(len(words) == 3, line, where, "start end label")
        start, end = (_count(word, where, "units of 100 ns") / _HTK_UNIT for word in words[:2])
        quoted = _QUOTED.match(words[2])
        return Interval(start, end, re.sub(r"\\(.)", r"\1", quoted[2]) if quoted else words[2].split()[0])

    return _read(path, parse, tier, duration, encoding)


def write_lab(alignment: Alignment, path: PathLike, tier: str = "phones") -> None:
    lines = []
    for interval in _labelled(alignment, tier):
        label = interval.label
        if label[0] in "\"'" or label.split() != [label]:
            _refuse(label, "\n\r", "HTK")
            label = '"' + label.replace("\\", "\\\\").replace('"', '\\"') + '"'
        lines.append(f"{round(interval.start * _HTK_UNIT)} {round(interval.end * _HTK_UNIT)} {label}\n")
    write_text(path, "".join(lines))


def read_phn(
    path: PathLike,
    tier: str | None = None,
    rate: int = 16000,
    duration: float | None = None,
    encoding: str | None = None,
) -> Alignment:
    """A TIMIT ``.phn`` or ``.wrd`` file; ``tier`` follows the suffix unless named.

    Words of TIMIT overlap where they share a phone; the earlier one then ends where the later one starts.
    """

    def parse(line: str, where: str) -> Interval:
        words = line.split()
        expect(len(words) == 3, line, where, "start end label")
        start, end = (_count(word, where, "samples") / rate for word in words[:2])
        return Interval(start, end, words[2])

    tier = tier or _timit_tier(path)
    return _read(path, parse, tier, duration, encoding, float("inf") if tier == "words" else ROUNDED)


def write_phn(alignment: Alignment, path: PathLike, tier: str | None = None, rate: int = 16000) -> None:
    lines = [
        f"{round(i.start * rate)} {round(i.end * rate)} {check_word(i.label, 'TIMIT format')}\n"
        for i in _labelled(alignment, tier or _timit_tier(path))
    ]
    write_text(path, "".join(lines))


def _timit_tier(path: PathLike) -> str:
    return "words" if os.fspath(path).lower().endswith(".wrd") else "phones"


def read_audacity(
    path: PathLike, tier: str = "phones", duration: float | None = None, encoding: str | None = None
) -> Alignment:
    """An Audacity label track; the frequency lines of spectral labels (with a backslash) are skipped."""

    def parse(line: str, where: str) -> Interval:
        words = line.split("\t")
        expect(len(words) in (2, 3), line, where, "start, tab, end, tab, label")
        start, end = parse_number(words[0], where, "start"), parse_number(words[1], where, "end")
        return Interval(start, end, words[2] if len(words) == 3 else "")

    return _read(path, parse, tier, duration, encoding, comment="\\")


def write_audacity(alignment: Alignment, path: PathLike, tier: str = "phones") -> None:
    for i in alignment.tier(tier):
        _refuse(i.label, "\t\n\r", "Audacity")
    lines = [f"{i.start:.6f}\t{i.end:.6f}\t{i.label}\n" for i in alignment.tier(tier)]
    write_text(path, "".join(lines))


def _read(
    path: PathLike,
    parse: Callable[[str, str], Interval],
    tier: str,
    duration: float | None,
    encoding: str | None,
    overlap: float = SLACK,
    comment: str | None = None,
) -> Alignment:
    """``parse(line, where)`` each line."""
    intervals = [parse(line, where) for where, line in read_lines(path, encoding, comment)]
    return one_tier(intervals, tier, duration, os.fspath(path), overlap)


def _count(word: str, where: str, unit: str) -> float:
    """A whole number: a file in seconds would otherwise be read as if nothing took any time."""
    value = parse_number(word, where, "time")
    if not value.is_integer():
        raise DataError(f"{where}: the time is {word}; it must be a whole number of {unit}; convert the file")
    return value


def _labelled(alignment: Alignment, tier: str) -> Tier:
    return tuple(i for i in alignment.tier(tier) if i.label)


def _refuse(label: str, characters: str, format_name: str) -> None:
    if any(c in label for c in characters):
        what = "tab" if "\t" in label else "line break"
        raise DataError(
            f"{format_name} labels cannot contain the {what} in {label!r}; write TextGrid or JSON"
        )

r"""Formats with one interval per line and one tier per file: HTK ``.lab``, TIMIT ``.phn``, Audacity, CTM.

================  ==========================================  =====================
format            line                                        unit of time
================  ==========================================  =====================
HTK               ``start end label [score ...]``             100 ns, whole numbers
TIMIT             ``start end label``                         samples, whole numbers
Audacity          ``start TAB end TAB label``                 seconds
CTM               ``id channel start length label [conf]``    seconds
================  ==========================================  =====================

None of them knows the length of the recording, so readers take ``duration``. Except in Audacity's, a label
cannot be empty: intervals with an empty label are left out and come back as the gaps that they mean
(:meth:`Alignment.filled`). An HTK label that begins with a quote or holds blanks is quoted as HTK quotes it;
the other blank-separated formats refuse labels with blanks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.formats.text_files import number, numbered_lines, read_text, single_word, write_text
from trellis.speech.formats.timed_alignment import Alignment
from trellis.speech.formats.timed_intervals import Interval, Tier, checked, tidy

_HTK_UNIT = 1e7  # per second
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1).)*)\1(?:\s|$)""")
_ROUNDED = 0.02  # seconds: overlaps that printing two decimals makes


def read_lab(
    path: PathLike, tier: str = "phones", duration: float | None = None, encoding: str | None = None
) -> Alignment:
    """An HTK label file; scores and further columns are passed over."""
    shown = os.fspath(path)
    intervals = []
    for line_number, line in numbered_lines(read_text(path, encoding)):
        where = f"{shown}:{line_number}"
        words = line.strip().split(None, 2)
        if len(words) < 3:
            raise DataError(f"{where}: {line.strip()!r} is not: start end label; correct the line")
        start, end = (_count(word, where, "time", "units of 100 ns") / _HTK_UNIT for word in words[:2])
        quoted = _QUOTED.match(words[2])
        label = re.sub(r"\\(.)", r"\1", quoted[2]) if quoted else words[2].split()[0]
        intervals.append(Interval(start, end, label))
    return _alignment(intervals, tier, duration, shown)


def write_lab(alignment: Alignment, path: PathLike, tier: str = "phones") -> None:
    lines = []
    for interval in _labelled(alignment, tier):
        label = interval.label
        if label[0] in "\"'" or label.split() != [label]:
            _one_line(label, "HTK")
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
    shown = os.fspath(path)
    tier = tier or ("words" if shown.lower().endswith(".wrd") else "phones")
    intervals = []
    for line_number, line in numbered_lines(read_text(path, encoding)):
        where = f"{shown}:{line_number}"
        words = line.split()
        if len(words) != 3:
            raise DataError(f"{where}: {line.strip()!r} is not: start end label; correct the line")
        start, end = (_count(word, where, "time", "samples") / rate for word in words[:2])
        intervals.append(Interval(start, end, words[2]))
    overlap = float("inf") if tier == "words" else _ROUNDED
    return _alignment(intervals, tier, duration, shown, overlap)


def write_phn(alignment: Alignment, path: PathLike, tier: str | None = None, rate: int = 16000) -> None:
    tier = tier or ("words" if os.fspath(path).lower().endswith(".wrd") else "phones")
    lines = [
        f"{round(i.start * rate)} {round(i.end * rate)} {single_word(i.label, 'TIMIT format')}\n"
        for i in _labelled(alignment, tier)
    ]
    write_text(path, "".join(lines))


def read_audacity(
    path: PathLike, tier: str = "phones", duration: float | None = None, encoding: str | None = None
) -> Alignment:
    """An Audacity label track; the frequency lines of spectral labels (with a backslash) do not count."""
    shown = os.fspath(path)
    intervals = []
    for line_number, line in numbered_lines(read_text(path, encoding), comment="\\"):
        where = f"{shown}:{line_number}"
        words = line.split("\t")
        if len(words) not in (2, 3):
            raise DataError(f"{where}: {line!r} is not: start, tab, end, tab, label; export the labels again")
        start, end = number(words[0], where, "start"), number(words[1], where, "end")
        intervals.append(Interval(start, end, words[2] if len(words) == 3 else ""))
    return _alignment(intervals, tier, duration, shown)


def write_audacity(alignment: Alignment, path: PathLike, tier: str = "phones") -> None:
    lines = []
    for i in alignment.tier(tier):
        _one_line(i.label, "Audacity")
        if "\t" in i.label:
            raise DataError(
                f"Audacity labels cannot hold the tab in {i.label!r}; write JSON or TextGrid instead"
            )
        lines.append(f"{i.start:.6f}\t{i.end:.6f}\t{i.label}\n")
    write_text(path, "".join(lines))


def read_ctm_file(path: PathLike, tier: str = "phones", encoding: str | None = None) -> dict[str, Alignment]:
    """Every recording of a CTM file by its id. Lines that begin with ``;;`` are comments."""
    shown = os.fspath(path)
    found: dict[tuple[str, str], list[tuple[Interval, float]]] = {}
    for line_number, line in numbered_lines(read_text(path, encoding), comment=";;"):
        where = f"{shown}:{line_number}"
        words = line.split()
        if len(words) < 5:
            raise DataError(
                f"{where}: {line.strip()!r} is not: id channel start length label; correct the line"
            )
        start, length = number(words[2], where, "start"), number(words[3], where, "length")
        sure = number(words[5], where, "confidence") if len(words) > 5 and words[5] != "NA" else float("nan")
        found.setdefault((words[0], words[1]), []).append((Interval(start, start + length, words[4]), sure))
    several = {name for name, _ in found}
    if len(several) != len(found):
        raise DataError(f"{shown}: a recording has several channels; split the file by channel first")
    result = {}
    for (name, _), rows in found.items():
        rows.sort(key=lambda row: row[0].start)
        confidence = tuple(c for _, c in rows)
        known = tier == "phones" and any(c == c for c in confidence)
        made = _alignment([i for i, _ in rows], tier, None, f"{shown} ({name})", _ROUNDED)
        result[name] = Alignment(
            made.phones, made.words, None, confidence if known else None, source=made.source
        )
    return result


def read_ctm(
    path: PathLike,
    tier: str = "phones",
    id: str | None = None,
    duration: float | None = None,
    encoding: str | None = None,
) -> Alignment:
    """One recording of a CTM file: the one called ``id``, or the only one."""
    shown = os.fspath(path)
    found = read_ctm_file(path, tier, encoding)
    names = list(found)
    if id is None and len(names) == 1:
        id = names[0]
    if id is None or id not in found:
        what = "which recording" if id is None else f"no recording {id!r}"
        raise DataError(f"{shown}: {what}; give the id of one of: {', '.join(names[:20]) or 'none'}")
    one = found[id]
    return Alignment(one.phones, one.words, duration, one.confidence, source=one.source)


def write_ctm(
    alignment: Alignment, path: PathLike, tier: str = "phones", id: str | None = None, channel: str = "1"
) -> None:
    write_text(path, ctm_lines(alignment, tier, id or _stem(alignment, path), channel))


def ctm_lines(alignment: Alignment, tier: str, id: str, channel: str = "1") -> str:
    """The lines of one recording, to be joined with those of others. Start and end are whole microseconds."""
    intervals = alignment.tier(tier)
    sure: Sequence[float | None] = (tier == "phones" and alignment.confidence) or [None] * len(intervals)
    lines = []
    for interval, value in zip(intervals, sure, strict=True):
        if not interval.label:
            continue
        start, end = round(interval.start * 1e6), round(interval.end * 1e6)
        confidence = "" if value is None else " NA" if value != value else f" {value!r}"
        head = f"{single_word(id, 'CTM')} {channel} {start / 1e6:.6f} {(end - start) / 1e6:.6f}"
        lines.append(f"{head} {single_word(interval.label, 'CTM')}{confidence}\n")
    return "".join(lines)


def _count(word: str, where: str, what: str, unit: str) -> float:
    """A whole number: a file in seconds would else be read as if nothing took any time."""
    value = number(word, where, what)
    if not value.is_integer():
        raise DataError(f"{where}: the {what} is {word}, and times here are whole {unit}; convert the file")
    return value


def _stem(alignment: Alignment, path: PathLike) -> str:
    return os.path.splitext(os.path.basename(os.fspath(path)))[0].replace(" ", "_")


def _labelled(alignment: Alignment, tier: str) -> Tier:
    return tuple(i for i in alignment.tier(tier) if i.label)


def _one_line(label: str, format_name: str) -> None:
    if "\n" in label or "\r" in label:
        raise DataError(
            f"{format_name} labels cannot hold the line break in {label!r}; write TextGrid or JSON"
        )


def _alignment(
    intervals: Sequence[Interval],
    tier: str,
    duration: float | None,
    shown: str,
    overlap: float = 1e-6,
) -> Alignment:
    if tier not in ("phones", "words"):
        raise DataError(f"an alignment has the tiers phones and words, not {tier!r}")
    made = checked(tidy(intervals, overlap), tier[:-1], shown)
    if tier == "words":
        return Alignment(phones=(), words=made, duration=duration, source=shown)
    return Alignment(phones=made, duration=duration, source=shown)

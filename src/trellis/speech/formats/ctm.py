"""NIST CTM: one line ``id channel start length label [confidence]`` per interval, in seconds, one tier per
file, and any number of recordings in one file.

The format does not contain the length of a recording, so the reader takes ``duration``. Labels are single
words; intervals with an empty label are omitted and read back as gaps (:meth:`Alignment.filled`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.formats.alignment import Alignment, one_tier
from trellis.speech.formats.intervals import ROUNDED, Interval
from trellis.speech.formats.text_files import check_word, expect, parse_number, read_lines, write_text


def read_ctm_file(path: PathLike, tier: str = "phones", encoding: str | None = None) -> dict[str, Alignment]:
    """Every recording of a CTM file by its id. Lines that begin with ``;;`` are comments."""
    shown = os.fspath(path)
    found: dict[tuple[str, str], list[tuple[Interval, float]]] = {}
    for where, line in read_lines(path, encoding, comment=";;"):
        words = line.split()
        expect(len(words) >= 5, line, where, "id channel start length label")
        start, length = parse_number(words[2], where, "start"), parse_number(words[3], where, "length")
        sure = (
            parse_number(words[5], where, "confidence")
            if len(words) > 5 and words[5] != "NA"
            else float("nan")
        )
        found.setdefault((words[0], words[1]), []).append((Interval(start, start + length, words[4]), sure))
    if len({name for name, _ in found}) != len(found):
        raise DataError(f"{shown}: a recording has several channels; split the file by channel first")
    result = {}
    for (name, _), rows in found.items():
        rows.sort(key=lambda row: row[0].start)
        confidence = tuple(c for _, c in rows)
        known = tier == "phones" and any(c == c for c in confidence)
        made = one_tier([i for i, _ in rows], tier, None, f"{shown} ({name})", ROUNDED)
        result[name] = replace(made, confidence=confidence if known else None)
    return result


def read_ctm(
    path: PathLike,
    tier: str = "phones",
    id: str | None = None,
    duration: float | None = None,
    encoding: str | None = None,
) -> Alignment:
    """One recording of a CTM file: the one called ``id``, or the only one."""
    found = read_ctm_file(path, tier, encoding)
    names = list(found)
    if id is None and len(names) == 1:
        id = names[0]
    if id is None or id not in found:
        what = "which recording" if id is None else f"no recording {id!r}"
        raise DataError(
            f"{os.fspath(path)}: {what}; give the id of one of: {', '.join(names[:20]) or 'none'}"
        )
    return replace(found[id], duration=found[id].duration if duration is None else duration)


def write_ctm(
    alignment: Alignment, path: PathLike, tier: str = "phones", id: str | None = None, channel: str = "1"
) -> None:
    """Start and end are whole microseconds; ``id`` is the name of the file unless given."""
    id = check_word(id or os.path.splitext(os.path.basename(path))[0].replace(" ", "_"), "CTM")
    intervals = alignment.tier(tier)
    sure: Sequence[float | None] = (tier == "phones" and alignment.confidence) or [None] * len(intervals)
    lines = []
    for interval, value in zip(intervals, sure, strict=True):
        if not interval.label:
            continue
        start, end = round(interval.start * 1e6), round(interval.end * 1e6)
        times = f"{start / 1e6:.6f} {(end - start) / 1e6:.6f}"
        confidence = "" if value is None else " NA" if value != value else f" {value!r}"
        lines.append(f"{id} {channel} {times} {check_word(interval.label, 'CTM')}{confidence}\n")
    write_text(path, "".join(lines))

"""Trellis's own formats, JSON and CSV, which keep every digit.

JSON (``"format": "trellis-alignment", "version": 1``) keeps everything. CSV is for spreadsheets and
statistics: one row per interval with the columns tier, start, end, label, confidence.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Interval, Tier
from trellis.speech.formats.text_files import parse_number, read_text, write_text

_NAME, _VERSION = "trellis-alignment", 1
_COLUMNS = ["tier", "start", "end", "label", "confidence"]


def write_json(alignment: Alignment, path: PathLike) -> None:
    content = {
        "format": _NAME,
        "version": _VERSION,
        "source": alignment.source,
        "duration": alignment.duration,
        "flags": list(alignment.flags),
        "score": alignment.score,
        "match": alignment.match,
        "words": _rows(alignment.words),
        "phones": _rows(alignment.phones, confidence=alignment.confidence, margin=alignment.margins),
    }
    write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def _rows(tier: Tier, **columns: Sequence[float] | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"start": i.start, "end": i.end, "label": i.label} for i in tier]
    for name, values in columns.items():
        for row, value in zip(rows, values or (), strict=values is not None):
            row[name] = None if math.isnan(value) else value
    return rows


def read_json(path: PathLike, duration: float | None = None, encoding: str | None = None) -> Alignment:
    shown = os.fspath(path)
    try:
        content = json.loads(read_text(path, encoding))
    except json.JSONDecodeError as error:
        raise DataError(f"{shown}:{error.lineno}: this is not JSON ({error.msg}); save it again") from error
    except (ValueError, RecursionError) as error:  # a number or a nesting beyond what Python reads
        raise DataError(f"{shown}: this is not an alignment ({error}); save it again") from error
    if not isinstance(content, dict) or content.get("format") != _NAME:
        raise DataError(f'{shown}: this is not an alignment (its "format" is not "{_NAME}")')
    if content.get("version") != _VERSION:
        raise DataError(
            f"{shown}: version {content.get('version')!r} of the format is not supported; update trellis"
        )
    try:
        phones = [_interval(row) for row in content["phones"]]
        words = [_interval(row) for row in content.get("words", [])]
        confidence, margins = _column(content["phones"], "confidence"), _column(content["phones"], "margin")
        length = _number(content.get("duration")) if duration is None else duration
        flags = tuple(str(flag) for flag in content.get("flags", []))
        source, score = str(content.get("source") or shown), _number(content.get("score"))
        match = _number(content.get("match"))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(
            f"{shown}: phones and words must be lists of start, end and label, and times must be numbers "
            f"({error!r}); save it again"
        ) from error
    return Alignment(tuple(phones), tuple(words), length, confidence, flags, source, score, margins, match)


def _column(rows: list[dict[str, Any]], name: str) -> tuple[float, ...] | None:
    """The numbers under ``name``, None if no row has one."""
    found = tuple(math.nan if row[name] is None else float(row[name]) for row in rows if name in row)
    return found or None


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _interval(row: dict[str, Any]) -> Interval:
    if not isinstance(row["label"], str):
        raise TypeError("label is not a string")
    return Interval(float(row["start"]), float(row["end"]), row["label"])


def write_csv(alignment: Alignment, path: PathLike) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for name in ("words", "phones"):
        tier = alignment.tier(name)
        sure = alignment.confidence if name == "phones" else None
        for interval, value in zip(tier, sure or [math.nan] * len(tier), strict=True):
            shown = "" if math.isnan(value) else repr(value)
            writer.writerow([name, repr(interval.start), repr(interval.end), interval.label, shown])
    write_text(path, out.getvalue())


def read_csv(path: PathLike, duration: float | None = None, encoding: str | None = None) -> Alignment:
    """Rows in any order of columns; a column ``confidence`` may be missing."""
    shown = os.fspath(path)
    reader = csv.DictReader(io.StringIO(read_text(path, encoding), newline=""))
    missing = [name for name in _COLUMNS[:4] if name not in _csv_header(reader, shown)]
    if missing:
        raise DataError(f"{shown}:1: no column {', '.join(missing)}; the first line must be the header")
    tiers: dict[str, list[Interval]] = {"phones": [], "words": []}
    confidence: list[float] = []
    for where, row in _csv_rows(reader, shown):
        if row["tier"] not in tiers or None in row.values():
            raise DataError(f"{where}: a row needs {', '.join(_COLUMNS[:4])}, with the tier phones or words")
        start, end = parse_number(row["start"], where, "start"), parse_number(row["end"], where, "end")
        tiers[row["tier"]].append(Interval(start, end, row["label"]))
        if row["tier"] == "phones":
            word = row.get("confidence") or ""
            confidence.append(parse_number(word, where, "confidence") if word else math.nan)
    sure = None if all(map(math.isnan, confidence)) else tuple(confidence)
    return Alignment(tuple(tiers["phones"]), tuple(tiers["words"]), duration, sure, source=shown)


def _csv_header(reader: csv.DictReader[str], shown: str) -> Sequence[str]:
    try:
        return reader.fieldnames or []
    except csv.Error as error:
        raise DataError(f"{shown}:1: {error}; save it again") from error


def _csv_rows(reader: csv.DictReader[str], shown: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The place and the cells of each row."""
    try:
        for row in reader:
            yield f"{shown}:{reader.line_num}", row
    except csv.Error as error:
        raise DataError(f"{shown}:{reader.line_num}: {error}; save it again") from error

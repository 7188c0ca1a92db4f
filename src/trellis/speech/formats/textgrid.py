r"""Praat TextGrids: long and short text form, UTF-8 or UTF-16.

Praat itself reads both forms by one rule, and so does this reader: only quoted strings (a quote inside is
doubled), free-standing numbers and flags such as ``<exists>`` matter, and everything else (``xmin =``,
``intervals [3]:``, comments from ``!`` to the end of the line) is ignored.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Interval, Tier, check_tier, fill, tidy
from trellis.speech.formats.text_files import read_text, write_text

PHONE_TIERS = (
    "phones", "phone", "phonemes", "phoneme", "segments", "segment", "phonetic", "mau", "phon", "ipa",
)  # fmt: skip
WORD_TIERS = ("words", "word", "ort-mau", "ort", "orthography")
_TOKEN = re.compile(
    r'"(?P<string>(?:[^"]|"")*)"'
    r"|(?<!\S)(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?!\S)"
    r"|(?<!\S)<(?P<flag>exists|absent)>(?!\S)"
    r"|(?P<comment>![^\n]*)"
    r"|(?P<other>[^\s\"]+)"
)


@dataclass(frozen=True)
class TextGrid:
    """Interval tiers by name, in order; point tiers are skipped. ``duration`` is xmax - xmin."""

    tiers: dict[str, Tier]
    duration: float


class _Tokens:
    """Free-standing strings, numbers and flags of a TextGrid, with errors that name the line."""

    def __init__(self, text: str, shown: str) -> None:
        self._text, self._shown = text, shown
        self._found = self._scan()
        self._at = 0

    def _scan(self) -> Iterator[re.Match[str]]:
        for match in _TOKEN.finditer(self._text):
            if match.lastgroup in ("string", "number", "flag"):
                yield match

    def _next(self, kind: str, what: str) -> str:
        match = next(self._found, None)
        self._at = len(self._text) if match is None else match.start()
        if match is None:
            raise self.error(f"the file ends where {what} is expected")
        if match.lastgroup != kind:
            raise self.error(f"{match[0]!r} where {what} is expected")
        return match[kind]

    def string(self, what: str) -> str:
        return self._next("string", what).replace('""', '"')

    def number(self, what: str) -> float:
        value = float(self._next("number", what))
        if not math.isfinite(value):
            raise self.error(f"{what} is not a finite number")
        return value

    def count(self, what: str) -> int:
        value = self.number(what)
        if value < 0 or not value.is_integer():
            raise self.error(f"{what} is {value:g}, which is not a count")
        return int(value)

    def flag(self) -> str:
        return self._next("flag", "<exists>")

    def error(self, sentence: str) -> DataError:
        line = self._text.count("\n", 0, self._at) + 1
        return DataError(f"{self._shown}:{line}: {sentence}; open it in Praat and save it again")


def read_textgrid_tiers(path: PathLike, encoding: str | None = None) -> TextGrid:
    """All interval tiers of a TextGrid, with times relative to its start."""
    shown = os.fspath(path)
    text = read_text(path, encoding)
    head = text[:200]
    if "ooBinaryFile" in head:
        raise DataError(f"{shown}: this TextGrid is binary; open it in Praat and save it as a text file")
    if "TextGrid" not in head:
        raise DataError(f"{shown}: this is not a TextGrid; check the path")
    tokens = _Tokens(text, shown)
    if "ooTextFile" in head:
        tokens.string("the file type")
    tokens.string("the object class")
    begin, end = tokens.number("xmin"), tokens.number("xmax")
    tiers: dict[str, Tier] = {}
    n_tiers = tokens.count("the number of tiers") if tokens.flag() == "exists" else 0
    for _ in range(n_tiers):
        kind, name = tokens.string("the class of a tier"), tokens.string("the name of a tier")
        tokens.number("xmin"), tokens.number("xmax")
        size = tokens.count("the size of a tier")
        if kind == "TextTier":
            for _ in range(size):
                tokens.number("a time"), tokens.string("a mark")
            continue
        if kind != "IntervalTier":
            raise tokens.error(f"the tier {name!r} is of the unknown class {kind!r}")
        if name in tiers:
            raise tokens.error(f"two tiers are called {name!r}")
        intervals = [
            Interval(tokens.number("xmin") - begin, tokens.number("xmax") - begin, tokens.string("a label"))
            for _ in range(size)
        ]
        tiers[name] = check_tier(tidy(intervals), f"tier {name!r}, interval", shown)
    return TextGrid(tiers, end - begin)


def read_textgrid(
    path: PathLike,
    phones: str | None = None,
    words: str | None = None,
    encoding: str | None = None,
    duration: float | None = None,
) -> Alignment:
    """Phones and words of a TextGrid; every interval is kept, empty ones too.

    ``phones`` and ``words`` name the tiers. Without a name the usual ones are tried, in any case; a single
    interval tier is taken as the phones. Words may be missing, phones may not.
    """
    shown = os.fspath(path)
    grid = read_textgrid_tiers(path, encoding)
    found = choose_tiers(shown, grid.tiers, phones, words)
    return Alignment(*found, duration=grid.duration if duration is None else duration, source=shown)


def choose_tiers(
    shown: str, tiers: dict[str, Tier], phones: str | None, words: str | None
) -> tuple[Tier, Tier]:
    """The tiers of phones and words in a file, by their given or their usual names."""
    known = ", ".join(map(repr, tiers)) or "none"
    names = [_find(tiers, phones, PHONE_TIERS), _find(tiers, words, WORD_TIERS)]
    for asked, found, what in zip((phones, words), names, ("phones", "words"), strict=True):
        if asked is not None and found is None:
            raise DataError(f"{shown}: no tier {asked!r} for the {what}; the interval tiers are {known}")
    if names[0] is None and len(tiers) == 1 and names[1] is None:
        names[0] = next(iter(tiers))
    if names[0] is None:
        raise DataError(f"{shown}: no tier with a usual name for phones; give one of {known}")
    return tiers[names[0]], tiers[names[1]] if names[1] is not None else ()


def split_speaker(name: str) -> tuple[str, str]:
    """The speaker of a tier and what it holds: ``"words"``, ``"phones"``, or ``""`` for neither.

    The Montreal aligner writes "speaker - phones"; a usual name has no speaker, any other is one.
    """
    for what, usual in (("phones", PHONE_TIERS), ("words", WORD_TIERS)):
        plain = name.strip().lower()
        if plain in usual:
            return "", what
        for ending in usual[:2]:
            if plain.endswith(f"- {ending}"):
                return name.strip()[: -len(ending) - 2].strip(), what
    return name.strip(), ""


def _find(tiers: Sequence[str] | dict[str, Tier], asked: str | None, usual: Sequence[str]) -> str | None:
    if asked is not None:
        return asked if asked in tiers else None
    by_case = {name.strip().lower(): name for name in reversed(list(tiers))}
    for name in usual:
        if name in by_case:
            return by_case[name]
    # The Montreal aligner writes "speaker - phones" where a file has several speakers.
    ends = [name for name in tiers for u in usual[:2] if name.lower().endswith(f"- {u}")]
    return ends[0] if len(ends) == 1 else None


def write_textgrid(
    alignment: Alignment,
    path: PathLike,
    phones: str = "phones",
    words: str = "words",
    short: bool = False,
    encoding: str = "utf-8",
) -> None:
    """The tiers words (if there are any) and phones; gaps become empty intervals, as Praat requires."""
    tiers = alignment_tiers(alignment, phones, words)
    write_textgrid_tiers(tiers, float(alignment.duration or 0.0), path, short, encoding)


def alignment_tiers(alignment: Alignment, phones: str, words: str) -> list[tuple[str, Tier]]:
    """The tiers words (if there are any) and phones, under these names."""
    spoken = [(words, alignment.words)] if alignment.words else []
    return [*spoken, (phones, alignment.phones)]


def write_textgrid_tiers(
    tiers: Sequence[tuple[str, Tier]],
    length: float,
    path: PathLike,
    short: bool = False,
    encoding: str = "utf-8",
) -> None:
    """Any tiers of a recording of ``length`` seconds, in order."""
    if length <= 0:
        raise DataError(f"{os.fspath(path)}: a TextGrid of length 0 is not allowed; align a recording first")
    write_text(path, textgrid_text(tiers, length, short), encoding)


def textgrid_text(tiers: Sequence[tuple[str, Tier]], length: float, short: bool = False) -> str:
    """What :func:`write_textgrid_tiers` writes."""
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', ""]
    for key, value in _entries([(name, fill(tier, length)) for name, tier in tiers], length):
        if short:
            lines += [value] * bool(value)
        else:
            lines.append(f"{key}{value} " if value else key)
    return "\n".join(lines) + "\n"


def _entries(tiers: list[tuple[str, Tier]], length: float) -> Iterator[tuple[str, str]]:
    """What the long form writes before each value, and the value; headings have none."""
    end = _seconds(length)
    yield from (("xmin = ", "0"), ("xmax = ", end), ("tiers? ", "<exists>"), ("size = ", f"{len(tiers)}"))
    yield "item []: ", ""
    for t, (name, tier) in enumerate(tiers, 1):
        yield f"    item [{t}]:", ""
        indent = 8 * " "
        yield from ((f"{indent}class = ", '"IntervalTier"'), (f"{indent}name = ", _quoted(name)))
        yield from ((f"{indent}xmin = ", "0"), (f"{indent}xmax = ", end))
        yield f"{indent}intervals: size = ", f"{len(tier)}"
        for i, interval in enumerate(tier, 1):
            yield f"{indent}intervals [{i}]:", ""
            yield f"{indent}    xmin = ", _seconds(interval.start)
            yield f"{indent}    xmax = ", _seconds(interval.end)
            yield f"{indent}    text = ", _quoted(interval.label)


def _seconds(seconds: float) -> str:
    """Every digit, but no exponent, which some readers of TextGrids do not know."""
    text = repr(float(seconds))
    return text if "e" not in text else np.format_float_positional(seconds, trim="0")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'

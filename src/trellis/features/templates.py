"""CRF++ feature templates.

One template per line: ``U01:%x[-1,0]/%x[0,1]`` makes, at every step, the feature whose text is the line with
each macro replaced by the string in the given row (relative to the step) and column. Lines that start with
``B`` make features of transitions; ``B`` alone stands for the plain transition weights, which every chain has
anyway. ``U`` without a macro is a bias. Templates that differ only in their rows share their features
(CRF++'s bag of words): give them different names to keep them apart.

Extensions: ``%lower[0,0]``, ``%shape[0,0]``, ``%prefix3[0,0]`` and ``%suffix2[0,0]`` are functions of the
string (a word that is too short for a prefix or suffix has no such feature); ``%first`` and ``%last`` are
empty, and limit a feature to the first or last step. ``out_of_bounds="pad"`` reads ``_B-1``, ``_B-2``,
``_B+1``, ... beyond the ends, as CRF++ does; ``out_of_bounds="omit"`` omits features that reach there, as
CRFsuite's examples do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.data.streams import Source as TextSource
from trellis.data.streams import read_utf8, source_name

_MACRO = re.compile(
    r"%(?:(x|lower|shape|prefix|suffix)([0-9]{0,9})\[\s*([+-]?[0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\]|(first|last)\b)"
)
_MAX_ROW = 64


class StringSource(NamedTuple):
    """The source of a macro's string: a function of a column (``x`` is the identity), or a condition."""

    function: str
    column: int

    def apply(self, strings: Iterable[str]) -> list[str | None]:
        """The function of each string; ``None`` where it has no value."""
        if self.function == "x":
            return list(strings)
        if self.function == "lower":
            return [s.lower() for s in strings]
        if self.function == "shape":
            return [word_shape(s) for s in strings]
        length = int(self.function[6:])
        if self.function.startswith("prefix"):
            return [s[:length] if len(s) >= length else None for s in strings]
        return [s[-length:] if len(s) >= length else None for s in strings]


FIRST, LAST, ALWAYS = (StringSource(name, -1) for name in ("first", "last", "always"))


class Macro(NamedTuple):
    source: StringSource
    row: int


@dataclass(frozen=True)
class FeatureTemplate:
    """One line, ``literals[0] macro[0] literals[1] ... literals[-1]``; ``edge``: whether it starts with B."""

    edge: bool
    literals: tuple[str, ...]
    macros: tuple[Macro, ...]


@register
@dataclass(frozen=True)
class Template:
    r"""A parsed template file. ``transitions`` says whether it has a line ``B`` without macros.

    Examples
    --------
    >>> from trellis.features import Template
    >>> template = Template.parse("U00:%x[0,0]\nU01:%x[-1,0]\nB\n")
    >>> len(template.features), template.transitions
    (2, True)
    """

    text: str
    out_of_bounds: str
    features: tuple[FeatureTemplate, ...]
    transitions: bool

    def to_state(self) -> dict[str, Any]:
        return {"text": self.text, "out_of_bounds": self.out_of_bounds}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Template:
        return cls.parse(state["text"], state["out_of_bounds"])

    @classmethod
    def parse(cls, text: str, out_of_bounds: str = "pad", name: str = "<template>") -> Template:
        if out_of_bounds not in {"pad", "omit"}:
            raise DataError(
                f"out_of_bounds is {out_of_bounds!r}; it must be 'pad' (CRF++'s _B-1, _B+1) or 'omit'"
            )
        features = []
        transitions = False
        for number, line in enumerate(text.splitlines(), start=1):
            line = line.rstrip()
            if not line or line.startswith("#"):
                continue
            if line[0] not in "UB":
                raise DataError(
                    f"{name}:{number}: a template starts with U, B or # (a comment), not {line[0]!r}"
                )
            feature = _parse_line(line, f"{name}:{number}")
            if feature.edge and not feature.macros:
                transitions = True
            else:
                features.append(feature)
        if not features and not transitions:
            raise DataError(f"{name}: the file contains no templates; a template is a line like U00:%x[0,0]")
        return cls(text, out_of_bounds, tuple(features), transitions)

    @classmethod
    def read(cls, source: TextSource, out_of_bounds: str = "pad", encoding: str = "utf-8") -> Template:
        return cls.parse(read_utf8(source, encoding).decode(), out_of_bounds, source_name(source))

    @classmethod
    def builtin(cls, n_columns: int) -> Template:
        """A good default for words and further columns: windows, n-grams, affixes and shapes."""
        if n_columns < 1:
            raise DataError("the built-in template needs at least one column besides the labels")
        return cls.parse(_builtin_text(n_columns))

    @classmethod
    def crfsuite_chunking(cls) -> Template:
        """The features of CRFsuite's chunking example: words in column 0, parts of speech in column 1."""
        return cls.parse(_crfsuite_chunking_text(), out_of_bounds="omit")

    @property
    def n_columns(self) -> int:
        """Number of columns that the data must have."""
        return max((m.source.column for f in self.features for m in f.macros), default=-1) + 1

    @property
    def radius(self) -> int:
        """The largest distance of a macro from its step."""
        return max((abs(m.row) for f in self.features for m in f.macros), default=0)


def as_template(template: Template | str | os.PathLike[str]) -> Template:
    """A template, or the path of a template file."""
    return template if isinstance(template, Template) else Template.read(template)


@lru_cache(maxsize=1 << 16)  # every shard of a text has much the same words
def word_shape(word: str) -> str:
    """Runs of upper-case letters, lower-case letters and digits become X, x and d: McGill-2 is XxXx-d."""
    classes = "".join("X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word)
    return re.sub(r"(.)\1+", r"\1", classes, flags=re.DOTALL)


def _parse_line(line: str, where: str) -> FeatureTemplate:
    literals, macros = [], []
    end = 0
    for match in _MACRO.finditer(line):
        literals.append(line[end : match.start()])
        end = match.end()
        function, length, row, column, condition = match.groups()
        if condition:
            macros.append(Macro(FIRST if condition == "first" else LAST, 0))
            continue
        if (function in {"prefix", "suffix"}) != bool(length) or length.startswith("0"):
            raise DataError(
                f"{where}: {match.group()} must read like "
                "%x[0,0], %lower[0,0], %shape[0,0], %prefix3[0,0] or %suffix3[0,0]"
            )
        if abs(int(row)) > _MAX_ROW:
            raise DataError(f"{where}: {match.group()} is {row} rows away; at most {_MAX_ROW} are allowed")
        macros.append(Macro(StringSource(function + length, int(column)), int(row)))
    literals.append(line[end:])
    for literal in literals:
        if "%" in literal:
            raise DataError(
                f"{where}: {literal[literal.index('%') :]!r} is not a macro; one reads like %x[-1,0]"
            )
    return FeatureTemplate(line[0] == "B", tuple(literals), tuple(macros))


def _ngrams(name: str, column: int, size: int, starts: Iterable[int]) -> list[str]:
    """Lines like ``U:pos[-1]|pos[0]=%x[-1,1]|%x[0,1]``."""
    lines = []
    for start in starts:
        rows = range(start, start + size)
        left = "|".join(f"{name}[{row}]" for row in rows)
        right = "|".join(f"%x[{row},{column}]" for row in rows)
        lines.append(f"U:{left}={right}")
    return lines


def _crfsuite_chunking_text() -> str:
    lines = _ngrams("w", 0, 1, range(-2, 3)) + _ngrams("w", 0, 2, (-1, 0))
    lines += _ngrams("pos", 1, 1, range(-2, 3)) + _ngrams("pos", 1, 2, range(-2, 2))
    lines += _ngrams("pos", 1, 3, range(-2, 1))
    return "\n".join([*lines, "U:__BOS__%first", "U:__EOS__%last", "B"]) + "\n"


def _builtin_text(n_columns: int) -> str:
    lines = ["U:bias", *_ngrams("w", 0, 1, range(-2, 3)), *_ngrams("w", 0, 2, (-1, 0))]
    lines += [f"U:lower[{row}]=%lower[{row},0]" for row in (-1, 0, 1)]
    lines += [f"U:shape[{row}]=%shape[{row},0]" for row in (-1, 0, 1)]
    lines += [f"U:{affix}{n}=%{affix}{n}[0,0]" for affix in ("prefix", "suffix") for n in (1, 2, 3, 4)]
    for column in range(1, n_columns):
        name = f"c{column}"
        lines += _ngrams(name, column, 1, range(-2, 3)) + _ngrams(name, column, 2, range(-2, 2))
        lines += _ngrams(name, column, 3, range(-2, 1))
        lines.append(f"U:w|{name}=%x[0,0]|%x[0,{column}]")
    return "\n".join([*lines, "B"]) + "\n"

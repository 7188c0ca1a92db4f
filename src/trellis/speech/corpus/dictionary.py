"""Pronunciation dictionaries in the formats of CMU and of the Montreal Forced Aligner.

CMU: ``WORD  P1 P2 ...``, further pronunciations as ``WORD(2)``, comments after ``;;;`` or ``#``. Montreal:
fields separated by tabs, ``word [probability [three silence probabilities]] phones``, further pronunciations
on further lines. One file may mix both; each line tells by itself which it is.

Words are looked up as they are written and then in lower case.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.formats.text_files import read_lines

_VARIANT = re.compile(r"(.+)\((\d+)\)")
_PROBABILITY = re.compile(r"\d*\.\d+(?:[eE]-?\d+)?|[01]\.")
_STRESS = re.compile(r"([A-Za-z]+)[0-2]")


@dataclass(frozen=True)
class Pronunciation:
    """One way to say a word; ``probability`` is 1 where the dictionary gives none."""

    phones: tuple[str, ...]
    probability: float = 1.0


class Dictionary:
    """Pronunciations of words. ``dictionary["word"]`` is a tuple of :class:`Pronunciation`, in file order.

    Examples
    --------
    >>> from trellis.speech import Dictionary
    >>> dictionary = Dictionary({"read": [("R", "EH", "D"), ("R", "IY", "D")]})
    >>> [list(way.phones) for way in dictionary["read"]]
    [['R', 'EH', 'D'], ['R', 'IY', 'D']]
    """

    def __init__(
        self, entries: Mapping[str, Iterable[Pronunciation | Sequence[str]]], source: str = ""
    ) -> None:
        self.source = source
        self._entries: dict[str, tuple[Pronunciation, ...]] = {}
        self._lower: dict[str, str] = {}
        for word, given in entries.items():
            pronunciations = list(given)
            if isinstance(given, str) or any(isinstance(p, str) for p in pronunciations):
                raise DataError(
                    f"the word {word!r} has a string among its pronunciations; give lists of phones, such as "
                    "[['dh', 'ax']]"
                )
            ways = [p if isinstance(p, Pronunciation) else Pronunciation(tuple(p)) for p in pronunciations]
            if not ways or not all(way.phones for way in ways):
                raise DataError(f"the word {word!r} has no phones; add them, or leave the word out")
            self._entries[word] = tuple(dict.fromkeys(ways))
            self._lower.setdefault(word.lower(), word)

    @classmethod
    def read(cls, path: PathLike, strip_stress: bool = False, encoding: str | None = None) -> Dictionary:
        """Read a file; ``strip_stress`` strips the digits 0, 1, 2 from the phones (``AH0`` to ``AH``)."""
        shown = os.fspath(path)
        entries: dict[str, list[Pronunciation]] = {}
        for where, line in read_lines(path, encoding, comment=";;;"):
            word, way = _parse(line, where)
            if not word:
                continue
            if strip_stress:
                way = Pronunciation(tuple(_STRESS.sub(r"\1", p) for p in way.phones), way.probability)
            entries.setdefault(word, []).append(way)
        if not entries:
            raise DataError(f"{shown}: the dictionary has no words; check the path")
        return cls(entries, shown)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, word: str) -> bool:
        return self._key(word) is not None

    def __getitem__(self, word: str) -> tuple[Pronunciation, ...]:
        key = self._key(word)
        if key is None:
            self.require([word])
        return self._entries[str(key)]

    def _key(self, word: str) -> str | None:
        return word if word in self._entries else self._lower.get(word.lower())

    @cached_property
    def phones(self) -> tuple[str, ...]:
        """The phones of all pronunciations, sorted."""
        return tuple(sorted({p for ways in self._entries.values() for way in ways for p in way.phones}))

    def missing(self, words: Iterable[str]) -> list[str]:
        """The words without an entry, each once, in order of first use."""
        return [word for word in dict.fromkeys(words) if word not in self]

    def require(self, words: Iterable[str]) -> None:
        """Raise a :class:`DataError` that lists all words without an entry, if there are any."""
        unknown = self.missing(words)
        if unknown:
            where = f"{self.source}: " if self.source else ""
            count = "1 word is" if len(unknown) == 1 else f"{len(unknown)} words are"
            raise DataError(f"{where}{count} not in the dictionary; add: {' '.join(unknown)}")


def _parse(line: str, where: str) -> tuple[str, Pronunciation]:
    """The word and one pronunciation of it; an empty word for a line that is only a comment."""
    word, probabilities, phones = _fields(line)
    if not word or word.startswith("#"):
        return "", Pronunciation(())
    if not phones:
        raise DataError(f"{where}: the word {word!r} has no phones; add them or delete the line")
    chance = probabilities[0] if probabilities else 1.0
    if not 0 <= chance <= 1:
        raise DataError(f"{where}: the probability {chance:g} of {word!r} is not between 0 and 1; correct it")
    variant = _VARIANT.fullmatch(word)
    return (variant[1] if variant else word), Pronunciation(tuple(phones), chance)


def _fields(line: str) -> tuple[str, list[float], list[str]]:
    if "\t" in line:
        word, *fields = (f.strip() for f in line.split("\t"))
        middle, rest = fields[:-1], fields[-1].split()
        if all(_number(f) is not None for f in middle):
            return word, [float(f) for f in middle], rest
        return word, [], " ".join(fields).split()
    words = line.split(" #", 1)[0].split() or [""]
    if len(words) > 2 and _PROBABILITY.fullmatch(words[1]):  # no phone is written 0.8
        return words[0], [float(words[1])], words[2:]
    return words[0], [], words[1:]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def split_words(text: str) -> list[str]:
    """The words of a text: split at blanks and dashes, punctuation around them stripped.

    Apostrophes stay (``don't``, ``'tis``), and so do the hyphens inside a word.
    """
    found = []
    for piece in re.split(r"[\s\u2013\u2014]+", text.replace("\u2019", "'")):
        start, end = 0, len(piece)
        while start < end and _punctuation(piece[start]):
            start += 1
        while end > start and _punctuation(piece[end - 1]):
            end -= 1
        word = piece[start:end]
        if word.strip("'"):
            found.append(word)
    return found


def _punctuation(character: str) -> bool:
    return character != "'" and unicodedata.category(character)[0] in "PS" and character not in "<>"

"""Text files as lists of words: readers that name the line of what is wrong, and writing such files.

Cutting a text into a list of strings is one pass in C. Lines are counted only for an error message: the text
is then cut once more, up to the word in question.
"""

from __future__ import annotations

import gzip
import math
import os
import re

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.output_files import PathLike, atomic_writer
from trellis.data.streams import Source, read_utf8, source_name

WORDS = re.compile(r"\S+")
# Some formats leave numbers out (defaults, zeros) and give no names to states: a short file could ask for any
# size. What is not spelled out may take this much, and more in proportion to the file.
FILLED, FILLED_PER_WORD = 2**22, 64  # numbers of all tables
NAMED = 2**16  # states of all variables


class Tokens:
    """``words`` ends with an empty string, which stands for the end of the file."""

    def __init__(self, name: str, text: str, pattern: re.Pattern[str] = WORDS) -> None:
        self.name = name
        self._text, self._pattern = text, pattern
        self.words: list[str] = text.split() if pattern is WORDS else pattern.findall(text)
        self.words.append("")

    @property
    def most_filled(self) -> int:
        """How many numbers tables may have that the file does not spell out."""
        return FILLED + FILLED_PER_WORD * len(self.words)

    @property
    def most_named(self) -> int:
        """How many states variables may have that the file does not name."""
        return NAMED + len(self.words)

    def line(self, number: int) -> int:
        """The line, from 1, of word ``number``; of the end of the text if there are fewer words."""
        for i, match in enumerate(self._pattern.finditer(self._text)):
            if i == number:
                return self._text.count("\n", 0, match.start()) + 1
        return self._text.rstrip().count("\n") + 1

    def error(self, number: int, message: str) -> DataError:
        """What is wrong at word ``number``, as an error that names the file and the line."""
        return DataError(f"{self.name}:{self.line(number)}: {message}")

    def found(self, number: int) -> str:
        """Word ``number`` as messages show it."""
        word = self.words[min(number, len(self.words) - 1)]
        shown = word if len(word) <= 40 else f"{word[:40]}..."
        return repr(shown) if word else "the end of the file"


class NumberReader(Tokens):
    """A file of words that are mostly numbers, read in order; ``at`` is the index of the next word."""

    def __init__(self, source: Source, encoding: str, comments: re.Pattern[str] | None = None) -> None:
        text = read_utf8(source, encoding).decode()
        super().__init__(source_name(source), comments.sub("", text) if comments else text)
        self.at = 0

    def count(self, what: str, below: int | None = None) -> int:
        """A whole number that is not negative (and less than ``below``)."""
        word = self.words[self.at]
        if not (word.isascii() and word.isdigit() and len(word) < 19):
            raise self.error(self.at, f"expected {what}, found {self.found(self.at)}")
        if below is not None and int(word) >= below:
            raise self.error(self.at, f"expected {what} below {below}, found {word}")
        self.at += 1
        return int(word)

    def weights(self, count: int) -> FloatArray:
        """``count`` numbers that are finite and not negative."""
        end = len(self.words) - 1
        if end - self.at < count:
            raise self.error(
                end, f"expected {count} values, found {end - self.at} before the end of the file"
            )
        words = self.words[self.at : self.at + count]
        numbers = parse_numbers(words)
        values = np.array([-1.0] if numbers is None else numbers)
        if not ((values >= 0) & (values < math.inf)).all():
            bad = next(i for i, word in enumerate(words, start=self.at) if not _is_weight(word))
            raise self.error(bad, f"expected a number that is not negative, found {self.found(bad)}")
        self.at += count
        return values

    def end(self) -> None:
        """Nothing may follow."""
        if self.words[self.at]:
            raise self.error(self.at, f"expected the end of the file, found {self.found(self.at)}")


def parse_numbers(words: list[str]) -> list[float] | None:
    """The numbers that these words spell; None if one of them spells none. Underscores are not allowed."""
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        return None
    return None if "_" in "".join(words) else numbers


def _is_weight(word: str) -> bool:
    numbers = parse_numbers([word])
    return numbers is not None and 0 <= numbers[0] < math.inf


def write_text(path: PathLike, text: str) -> None:
    """Write a file whole or not at all, gzipped (without a date) if its name ends with ``.gz``."""
    content = text.encode()
    if os.fspath(path).lower().endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    with atomic_writer(path) as file:
        file.write(content)

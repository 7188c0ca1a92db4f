"""The words of a text file, and the line of each when something is wrong with it; and writing such files.

Cutting a text into a list of strings is one pass in C. Lines are counted only for an error message: the text
is then cut once more, up to the word in question.
"""

from __future__ import annotations

import gzip
import os
import re

from trellis.core.errors import DataError
from trellis.core.storage import PathLike, atomic_writer

WORDS = re.compile(r"\S+")


class Tokens:
    """``words`` ends with an empty string, which stands for the end of the file."""

    def __init__(self, name: str, text: str, pattern: re.Pattern[str] = WORDS) -> None:
        self.name = name
        self._text, self._pattern = text, pattern
        self.words: list[str] = text.split() if pattern is WORDS else pattern.findall(text)
        self.words.append("")

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


def write_text(path: PathLike, text: str) -> None:
    """Write a file whole or not at all, gzipped (without a date) if its name ends with ``.gz``."""
    content = text.encode()
    if os.fspath(path).lower().endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    with atomic_writer(path) as file:
        file.write(content)

"""Reading a file that is a row of words, most of them numbers, with the line of the first that is wrong."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.formats.tokens import Tokens
from trellis.core.errors import DataError


class WordReader:
    """``at`` is the number of the next word."""

    def __init__(self, name: str, text: str) -> None:
        self.tokens = Tokens(name, text)
        self.words, self.at = self.tokens.words, 0

    def count(self, what: str, below: int | None = None) -> int:
        """A whole number that is not negative (and less than ``below``)."""
        word = self.words[self.at]
        if not (word.isascii() and word.isdigit() and len(word) < 19):
            raise self.error(f"expected {what}, found {self.tokens.found(self.at)}")
        if below is not None and int(word) >= below:
            raise self.error(f"expected {what} below {below}, found {word}")
        self.at += 1
        return int(word)

    def numbers(self, count: int) -> NDArray[np.float64]:
        """``count`` weights: numbers that are finite and not negative."""
        end = len(self.words) - 1
        if end - self.at < count:
            raise self.tokens.error(
                end, f"expected {count} values, found {end - self.at} before the end of the file"
            )
        words = self.words[self.at : self.at + count]
        try:
            numbers = [float(word) for word in words]
            good = not numbers or (
                min(numbers) >= 0 and max(numbers) < math.inf and "_" not in "".join(words)
            )
        except ValueError:
            good = False
        if not good or math.isnan(sum(numbers)):  # min and max overlook NaN
            self.at += next(i for i, word in enumerate(words) if not _is_weight(word))
            raise self.error(f"expected a number that is not negative, found {self.tokens.found(self.at)}")
        self.at += count
        return np.array(numbers)

    def end(self) -> None:
        if self.words[self.at]:
            raise self.error(f"expected the end of the file, found {self.tokens.found(self.at)}")

    def error(self, message: str) -> DataError:
        return self.tokens.error(self.at, message)


def _is_weight(word: str) -> bool:
    try:
        return 0 <= float(word) < math.inf and "_" not in word
    except ValueError:
        return False

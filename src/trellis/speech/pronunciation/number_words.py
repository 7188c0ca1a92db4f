"""Numbers in digits as English words: whole numbers below a million million, ordinals, decimals."""

from __future__ import annotations

import re

_BELOW_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_ONES = _BELOW_TWENTY.split()
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred"))
_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
LARGEST = 10**12 - 1
_WHOLE = re.compile(r"\d+|\d{1,3}(?:,\d{3})+")
_ORDINAL = re.compile(r"(\d+|\d{1,3}(?:,\d{3})+)(?:st|nd|rd|th)")
_DECIMAL = re.compile(r"(\d+)\.(\d+)")


def number_words(written: str) -> list[str] | None:
    """``42`` -> forty two; ``3rd`` -> third; ``2.5`` -> two point five; None for anything else."""
    text = written.lower()
    if _WHOLE.fullmatch(text):
        return _whole(text)
    if found := _ORDINAL.fullmatch(text):
        words = _whole(found[1])
        return None if words is None else [*words[:-1], _ordinal(words[-1])]
    if found := _DECIMAL.fullmatch(text):
        words = _whole(found[1])
        return None if words is None else [*words, "point", *(_ONES[int(digit)] for digit in found[2])]
    return None


def _whole(digits: str) -> list[str] | None:
    value = int(digits.replace(",", ""))
    if digits.startswith("0") and len(digits) > 1:
        return [_ONES[int(digit)] for digit in digits]  # a code or a telephone number
    return None if value > LARGEST else _cardinal(value)


def _cardinal(value: int) -> list[str]:
    if value < 20:
        return [_ONES[value]]
    if value < 100:
        rest = [_ONES[value % 10]] if value % 10 else []
        return [_TENS[value // 10 - 2], *rest]
    size, name = next((size, name) for size, name in _SCALES if value >= size)
    rest = _cardinal(value % size) if value % size else []
    return [*_cardinal(value // size), name, *rest]


def _ordinal(word: str) -> str:
    if word in _ORDINALS:
        return _ORDINALS[word]
    return f"{word[:-1]}ieth" if word.endswith("y") else f"{word}th"

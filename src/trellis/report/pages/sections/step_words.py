"""What stands for a step when a sequence is shown: its word, if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from trellis.data.attributes import AttributeData
from trellis.data.columns import ColumnData

_KEYS = ("word", "token", "form", "text", "w", "w[0]", "word.lower()", "word.lower")


def step_words(X: Any, lengths: list[int]) -> list[list[str]]:
    """A text for each step: a string itself, the word among features, or the number of the step."""
    if isinstance(X, ColumnData):
        return X.sequences(0)
    if isinstance(X, AttributeData):
        starts, codes = X.indptr.tolist(), X.codes
        flat = [X.names[codes[a]] if b > a else "" for a, b in pairwise(starts)]
        return [flat[a:b] for a, b in pairwise(X.offsets.tolist())]
    if isinstance(X, list | tuple):
        return [
            [_word(step, t) for t, step in enumerate(sequence)]
            if isinstance(sequence, list | tuple | str)
            else _numbers(n)
            for sequence, n in zip(X, lengths, strict=True)
        ]
    return [_numbers(n) for n in lengths]


def _word(step: Any, t: int) -> str:
    if isinstance(step, str):
        return step
    if isinstance(step, Mapping):
        named = [step[key] for key in _KEYS if key in step]
        texts = [value for value in (*named, *step.values()) if isinstance(value, str)]
        return texts[0] if texts else str(next(iter(step), t + 1))
    if isinstance(step, list | tuple) and step and isinstance(step[0], str):
        return step[0]
    return str(t + 1)


def _numbers(n: int) -> list[str]:
    return [str(t + 1) for t in range(n)]

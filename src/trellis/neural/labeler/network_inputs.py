"""Sentences as numbers for a network: codes of words, attributes and characters, or the user's own rows.

    words        ["The", "cat"]                            one column of codes
    attributes   [{"word": "The", "shape": "Xx"}, ...]      one column per attribute, "word" first
    arrays       (T, D) of numbers, or tensors              as they are, in single precision

Code 0 is padding and code 1 anything that training saw fewer than ``min_count`` times. With characters, each
word has ``SPELLING`` more columns, the codes of its characters; a longer word is cut in the middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.registration import register
from trellis.data.sequences import offsets_from_lengths, step_name
from trellis.data.user_input import as_arrays
from trellis.data.vocabulary import Vocabulary

SPELLING = 20  # characters of a word that a network sees
RESERVED = 2  # the codes of padding and of unknown strings


@dataclass(frozen=True)
class InputShape:
    """What a network reads. ``sizes``: the number of codes of each attribute; ``characters``: the number of
    codes of characters, 0 if they are not read; ``width``: the columns of arrays, 0 for codes."""

    sizes: tuple[int, ...] = ()
    characters: int = 0
    width: int = 0


@dataclass(frozen=True, eq=False)
class Inputs:
    """``rows``: (N, columns), codes in int32 or values in float32, packed."""

    rows: NDArray[Any]
    offsets: IntArray


@register
@dataclass(frozen=True, eq=False)
class InputEncoder:
    """Made by :meth:`learn`. ``names``: the attributes, one vocabulary each, or none for arrays of ``width``
    columns. ``alphabet``: the characters, where they are read."""

    names: tuple[str, ...] = ()
    vocabularies: tuple[Vocabulary, ...] = ()
    alphabet: Vocabulary | None = None
    width: int = 0

    def __post_init__(self) -> None:
        if (self.width > 0) == bool(self.names) or len(self.names) != len(self.vocabularies):
            raise DataError("the inputs of a network are either words or arrays that have columns")

    @classmethod
    def learn(cls, X: Any, min_count: int = 2, *, characters: bool = False) -> InputEncoder:
        """The attributes and vocabularies of sentences."""
        sentences = _sentences(X)
        first = next((step for sentence in sentences for step in sentence), None)
        if first is None:
            raise DataError("there is no word in X to learn from; give at least one sentence that has words")
        if isinstance(first, str):
            names: tuple[str, ...] = ("word",)
        elif isinstance(first, dict):
            found = dict.fromkeys(chain.from_iterable(chain.from_iterable(sentences)))
            names = tuple(sorted(found, key=lambda name: (name != "word", str(name))))
        elif characters:
            raise UnsupportedError("arrays have no characters; use encoder='bilstm', 'cnn' or 'embedding'")
        else:
            width = next(np.shape(s)[1] if np.ndim(s) == 2 else 0 for s in sentences if len(s))
            _check_widths(sentences, width)
            return cls(width=width)
        if characters and "word" not in names:
            raise DataError(
                "a network that reads characters needs the attribute 'word'; give it in each dict"
            )
        columns = _columns(sentences, names)
        vocabularies = []
        for column in columns:
            seen = Vocabulary()
            count = np.bincount(seen.add(column), minlength=len(seen))
            vocabularies.append(seen.reordered(np.flatnonzero(count >= min_count)))
        alphabet = Vocabulary() if characters else None
        if alphabet is not None:
            alphabet.add([sorted(set().union(*map(set, chain.from_iterable(columns[0]))))])
        return cls(names, tuple(vocabularies), alphabet)

    @property
    def shape(self) -> InputShape:
        sizes = tuple(len(vocabulary) + RESERVED for vocabulary in self.vocabularies)
        characters = 0 if self.alphabet is None else len(self.alphabet) + RESERVED
        return InputShape(sizes, characters, self.width)

    def transform(self, X: Any) -> Inputs:
        sentences = _sentences(X)
        offsets = offsets_from_lengths([len(sentence) for sentence in sentences])
        if not self.names:
            return Inputs(self._array_rows(sentences, offsets), offsets)
        columns = _columns(sentences, self.names)
        found = [v.find(column) for v, column in zip(self.vocabularies, columns, strict=True)]
        rows = np.stack([np.maximum(codes + RESERVED, 1) for codes in found], axis=1)
        if self.alphabet is not None:
            rows = np.concatenate([rows, _spell(columns[0], self.alphabet)], axis=1)
        return Inputs(rows.astype(np.int32), offsets)

    def _array_rows(self, sentences: list[Any], offsets: IntArray) -> NDArray[np.float32]:
        _check_widths(sentences, self.width)
        filled = [np.asarray(s, dtype=np.float32) for s in sentences if len(s)]
        rows = np.concatenate(filled) if filled else np.zeros((0, self.width), np.float32)
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if bad.size:
            raise DataError(f"{step_name(offsets, int(bad[0]))} holds NaN or an infinity")
        return rows


def _check_widths(sentences: list[Any], width: int) -> None:
    for i, sentence in enumerate(sentences):
        shape = np.shape(sentence)
        if len(sentence) and (len(shape) != 2 or shape[1] != width or not width):
            raise DataError(
                f"sequence {i} has shape {shape}; each must be a list of words, a list of dicts, or an "
                f"array (steps, {width or 'columns'})"
            )


def _columns(sentences: list[Any], names: tuple[str, ...]) -> list[list[list[str]]]:
    """The strings of each attribute, sentence by sentence."""
    if names == ("word",) and all(isinstance(step, str) for step in chain.from_iterable(sentences)):
        return [sentences]
    for i, sentence in enumerate(sentences):
        for t, step in enumerate(sentence):
            if not isinstance(step, dict):
                dicts = f"dicts with {', '.join(map(str, names))}"
                reads = "strings, or else dicts throughout" if names == ("word",) else dicts
                raise DataError(
                    f"step {t} of sequence {i} is a {type(step).__name__}; this labeller reads {reads}"
                )
    return [[[str(step.get(name, "")) for step in s] for s in sentences] for name in names]


def _spell(words: list[list[str]], alphabet: Vocabulary) -> NDArray[np.int32]:
    """(N, SPELLING) codes of characters."""
    distinct = Vocabulary()
    codes = distinct.add(words)
    half = SPELLING // 2
    kept = [w if len(w) <= SPELLING else w[:half] + w[-half:] for w in distinct.strings()]
    letters = np.maximum(alphabet.find([list(word) for word in kept]) + RESERVED, 1)
    lengths = np.array([len(word) for word in kept], dtype=np.int64)
    table = np.zeros((len(kept), SPELLING), np.int32)
    table[np.arange(SPELLING) < lengths[:, None]] = letters
    return table[codes]


def _arrayed(values: Any) -> Any:
    """Tensors, frames and series as arrays."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else as_arrays(values)


def _sentences(X: Any) -> list[Any]:
    X = _arrayed(X)
    if isinstance(X, str) or not isinstance(X, Sequence | np.ndarray):
        raise DataError(f"X is a {type(X).__name__}; give a list of sentences, each a list of words")
    sentences = [_arrayed(sentence) for sentence in X]
    for i, sentence in enumerate(sentences):
        if isinstance(sentence, str) or not isinstance(sentence, Sequence | np.ndarray):
            raise DataError(
                f"sequence {i} is a {type(sentence).__name__}; give a list of words, a list of dicts, or an "
                "array (steps, columns)"
            )
    return sentences

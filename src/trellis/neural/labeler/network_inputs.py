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

from trellis.core.arguments import is_number, to_floats
from trellis.core.arrays import IntArray
from trellis.core.errors import DataError, UnsupportedError, shown
from trellis.core.registration import register
from trellis.data.row_checks import LARGEST
from trellis.data.sequences import offsets_from_lengths, step_name
from trellis.data.user_input import as_arrays, frame_rows, has_text
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
            names = _attribute_names(sentences)
        elif characters:
            raise UnsupportedError("arrays have no characters; use encoder='bilstm', 'cnn' or 'embedding'")
        else:
            shapes = _shapes(sentences)
            width = next(shape[1] if len(shape) == 2 else 0 for shape in shapes if shape[0])
            _check_widths(shapes, width)
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
        _check_widths(_shapes(sentences), self.width)
        filled = [_numbers(s, i) for i, s in enumerate(sentences) if len(s)]
        rows = np.concatenate(filled) if filled else np.zeros((0, self.width), np.float32)
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if bad.size:
            raise DataError(f"{step_name(offsets, int(bad[0]))} holds NaN or an infinity")
        return rows


def _shapes(sentences: list[Any]) -> list[tuple[int, ...]]:
    """The shapes of sequences of rows of numbers."""
    shapes = []
    for i, sentence in enumerate(sentences):
        try:
            shapes.append(np.shape(sentence))
        except ValueError as error:
            raise DataError(f"sequence {i} of X is ragged; every step must have the same shape") from error
    return shapes


def _numbers(sentence: Any, index: int) -> NDArray[np.float32]:
    """The rows of one sequence; anything but a number is refused, although NumPy would convert some of it."""
    if np.ma.is_masked(sentence):
        raise DataError(f"sequence {index} of X has masked entries; fill them, or leave their columns out")
    try:
        values = to_floats(sentence)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"sequence {index} of X must hold real numbers ({error})") from error
    with np.errstate(over="ignore"):  # an infinity is refused with its place
        return values.astype(np.float32)


def _attribute_names(sentences: list[Any]) -> tuple[str, ...]:
    """Those that any step has, "word" first."""
    _check_steps(sentences, dict, "dicts throughout")
    found = dict.fromkeys(chain.from_iterable(chain.from_iterable(sentences)))
    odd = next((name for name in found if not isinstance(name, str)), None)
    if odd is not None:
        raise DataError(f"an attribute has the name {odd!r}; the names of attributes are strings")
    return tuple(sorted(found, key=lambda name: (name != "word", name)))


def _check_widths(shapes: list[tuple[int, ...]], width: int) -> None:
    for i, shape in enumerate(shapes):
        if shape[:1] != (0,) and (len(shape) != 2 or shape[1] != width or not width):
            raise DataError(
                f"sequence {i} has shape {shape}; each must be a list of words, a list of dicts, or an "
                f"array (steps, {width or 'columns'})"
            )


def _columns(sentences: list[Any], names: tuple[str, ...]) -> list[list[list[str]]]:
    """The strings of each attribute, sentence by sentence."""
    first = next(chain.from_iterable(sentences), None)
    if names == ("word",) and not isinstance(first, dict):
        if not all(isinstance(step, str) for step in chain.from_iterable(sentences)):
            _check_steps(sentences, str, "strings, or else dicts throughout")
        return [sentences]
    _check_steps(sentences, dict, f"dicts with {', '.join(names)}")
    kinds = {type(value) for step in chain.from_iterable(sentences) for value in step.values()}
    if not kinds <= {str, bool, int}:
        _check_values(sentences)
    return [[[str(step.get(name, "")) for step in s] for s in sentences] for name in names]


def _check_steps(sentences: list[Any], kind: type, reads: str) -> None:
    for i, sentence in enumerate(sentences):
        for t, step in enumerate(sentence):
            if not isinstance(step, kind):
                raise DataError(
                    f"step {t} of sequence {i} is a {type(step).__name__}; this labeller reads {reads}"
                )


def _check_values(sentences: list[Any]) -> None:
    """Attributes are strings, and numbers stand for theirs."""
    for i, sentence in enumerate(sentences):
        for t, step in enumerate(sentence):
            for name, value in step.items():
                number = is_number(value) and abs(value) <= LARGEST
                if not number and not isinstance(value, str | bool | np.bool_):
                    raise DataError(
                        f"step {t} of sequence {i}: attribute {name!r} has the value {shown(value)}; values "
                        "are strings, booleans or finite numbers (leave out missing values)"
                    )


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
    """Tensors, frames and series as arrays; frames with text as lists of rows."""
    if not isinstance(values, Tensor):
        return frame_rows(values) if has_text(values) else as_arrays(values)
    values = values.detach().cpu()
    return (values.float() if values.is_floating_point() else values).numpy()  # NumPy has no bfloat16


def _sentences(X: Any) -> list[Any]:
    X = _arrayed(X)
    if not _is_sequence(X):
        raise DataError(f"X is a {type(X).__name__}; give a list of sentences, each a list of words")
    sentences = [_arrayed(sentence) for sentence in X]
    for i, sentence in enumerate(sentences):
        if not _is_sequence(sentence):
            raise DataError(
                f"sequence {i} is a {type(sentence).__name__}; give a list of words, a list of dicts, or an "
                "array (steps, columns)"
            )
    return sentences


def _is_sequence(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.ndim > 0
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)

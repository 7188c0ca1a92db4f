"""Sentences as numbers for a network: codes of words, attributes and characters, or the user's own rows.

    words        ["The", "cat"]                            one column of codes
    attributes   [{"word": "The", "shape": "Xx"}, ...]      one column per attribute, "word" first
    arrays       (T, D) of numbers, or tensors              as they are, in single precision

Code 0 is padding and code 1 anything that training saw fewer than ``min_count`` times. With characters, each
word brings ``SPELLING`` more columns, the codes of its characters; a longer word keeps its beginning and its
end.
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
from trellis.core.errors import DataError, ModelFileError, UnsupportedError
from trellis.data.sequences import offsets_from_lengths
from trellis.data.user_input import as_arrays
from trellis.data.vocabulary import Vocabulary

SPELLING = 20  # characters of a word that a network sees
RESERVED = 2  # the codes of padding and of unknown strings
State = tuple[dict[str, Any], dict[str, NDArray[Any]]]


@dataclass(frozen=True)
class InputShape:
    """What a network reads. ``sizes``: the number of codes of each attribute; ``characters``: that of
    characters, 0 where they are not read; ``width``: the columns of arrays, 0 for codes."""

    sizes: tuple[int, ...] = ()
    characters: int = 0
    width: int = 0


@dataclass(frozen=True, eq=False)
class Inputs:
    """``rows``: (N, columns), codes in int32 or values in float32, packed."""

    rows: NDArray[Any]
    offsets: IntArray


class InputEncoder:
    """Learns the vocabularies in ``fit``. ``names``: the attributes, empty for arrays."""

    def __init__(self, min_count: int = 2, characters: bool = False) -> None:
        self.min_count = min_count
        self.characters = characters
        self.names: tuple[str, ...] = ()
        self.vocabularies: list[Vocabulary] = []
        self.alphabet = Vocabulary()
        self.width = 0

    @property
    def shape(self) -> InputShape:
        sizes = tuple(len(vocabulary) + RESERVED for vocabulary in self.vocabularies)
        return InputShape(sizes, len(self.alphabet) + RESERVED if self.characters else 0, self.width)

    def fit(self, X: Any) -> Inputs:
        sentences = _sentences(X)
        first = next((step for sentence in sentences for step in sentence), None)
        if first is None:
            raise DataError("there is no word in X to learn from; give at least one sentence that has words")
        if isinstance(first, str):
            self.names = ("word",)
        elif isinstance(first, dict):
            found = dict.fromkeys(chain.from_iterable(chain.from_iterable(sentences)))
            self.names = tuple(sorted(found, key=lambda name: (name != "word", str(name))))
        else:
            return self._fit_arrays(sentences)
        if self.characters and "word" not in self.names:
            raise DataError(
                "a network that reads characters needs the attribute 'word'; give it in each dict"
            )
        for column in self._columns(sentences):
            seen = Vocabulary()
            count = np.bincount(seen.add(column), minlength=len(seen))
            self.vocabularies.append(seen.reordered(np.flatnonzero(count >= self.min_count)))
        if self.characters:
            words = chain.from_iterable(self._columns(sentences)[0])
            self.alphabet.add([sorted(set().union(*map(set, words)))])
        return self.transform(X)

    def _fit_arrays(self, sentences: list[Any]) -> Inputs:
        if self.characters:
            raise UnsupportedError("arrays have no characters; use encoder='bilstm', 'cnn' or 'embedding'")
        self.names = ()
        self.width = next(np.shape(s)[1] if np.ndim(s) == 2 else 0 for s in sentences if len(s))
        return self._arrays(sentences)

    def transform(self, X: Any) -> Inputs:
        sentences = _sentences(X)
        if not self.names:
            return self._arrays(sentences)
        offsets = offsets_from_lengths([len(sentence) for sentence in sentences])
        columns = self._columns(sentences)
        found = [v.find(column) for v, column in zip(self.vocabularies, columns, strict=True)]
        rows = np.stack([np.maximum(codes + RESERVED, 1) for codes in found], axis=1)
        if self.characters:
            rows = np.concatenate([rows, self._spelled(columns[0])], axis=1)
        return Inputs(rows.astype(np.int32), offsets)

    def _columns(self, sentences: list[Any]) -> list[list[list[str]]]:
        """The strings of each attribute, sentence by sentence."""
        if self.names == ("word",) and all(isinstance(step, str) for step in chain.from_iterable(sentences)):
            return [sentences]
        for i, sentence in enumerate(sentences):
            for t, step in enumerate(sentence):
                if not isinstance(step, dict):
                    names = ", ".join(map(str, self.names))
                    reads = "strings, or else dicts throughout" if names == "word" else f"dicts with {names}"
                    raise DataError(
                        f"step {t} of sequence {i} is a {type(step).__name__}; this labeller reads {reads}"
                    )
        return [[[str(step.get(name, "")) for step in s] for s in sentences] for name in self.names]

    def _spelled(self, words: list[list[str]]) -> NDArray[np.int32]:
        """(N, SPELLING) codes of characters."""
        distinct = Vocabulary()
        codes = distinct.add(words)
        kept = [
            w if len(w) <= SPELLING else w[: SPELLING // 2] + w[-SPELLING // 2 :] for w in distinct.strings()
        ]
        letters = np.maximum(self.alphabet.find([list(word) for word in kept]) + RESERVED, 1)
        lengths = np.array([len(word) for word in kept], dtype=np.int64)
        table = np.zeros((len(kept), SPELLING), np.int32)
        table[np.arange(SPELLING) < lengths[:, None]] = letters
        return table[codes]

    def _arrays(self, sentences: list[Any]) -> Inputs:
        for i, sentence in enumerate(sentences):
            shape = np.shape(sentence)
            if len(sentence) and (len(shape) != 2 or shape[1] != self.width or not self.width):
                raise DataError(
                    f"sequence {i} has shape {shape}; each must be a list of words, a list of dicts, or an "
                    f"array (steps, {self.width or 'columns'})"
                )
        filled = [np.asarray(s, dtype=np.float32) for s in sentences if len(s)]
        rows = np.concatenate(filled) if filled else np.zeros((0, self.width), np.float32)
        offsets = offsets_from_lengths([len(sentence) for sentence in sentences])
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if bad.size:
            i = int(np.searchsorted(offsets, bad[0], side="right")) - 1
            raise DataError(f"step {bad[0] - offsets[i]} of sequence {i} holds NaN or an infinity")
        return Inputs(rows, offsets)

    def to_state(self) -> State:
        meta = {
            "min_count": self.min_count,
            "characters": self.characters,
            "names": list(self.names),
            "width": self.width,
        }
        arrays: dict[str, NDArray[Any]] = {}
        for i, vocabulary in enumerate([self.alphabet, *self.vocabularies]):
            arrays[f"strings{i}"], arrays[f"bounds{i}"] = vocabulary.packed()
        return meta, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> InputEncoder:
        encoder = cls(int(meta["min_count"]), bool(meta["characters"]))
        encoder.names = tuple(str(name) for name in meta["names"])
        encoder.width = int(meta["width"])
        stored = [
            Vocabulary.from_packed(arrays[f"strings{i}"], arrays[f"bounds{i}"])
            for i in range(len(encoder.names) + 1)
        ]
        encoder.alphabet, encoder.vocabularies = stored[0], stored[1:]
        if (encoder.width > 0) == bool(encoder.names):
            raise ModelFileError("its inputs are neither words nor arrays")
        return encoder


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

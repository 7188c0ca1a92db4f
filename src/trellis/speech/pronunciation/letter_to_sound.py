"""How a word that no dictionary has is pronounced: a chain over its letters.

Every letter is labelled with the phones that it stands for, none, one or two (``x``: ``k+s``), so that the
phones of a word are the labels of its letters in order:

    c h e c k i n g        ch _ eh k _ ih ng _

Features of a letter are the strings of one to five letters around it in ``WINDOWS``, with ``^`` and ``$`` for
the beginning and the end. The weights were learned by a :class:`trellis.SequenceLabeler`; here they are in a
form that takes little room: the small ones are left out, the others are whole multiples of a step, one byte
each. Their file is an ordinary ``.npz``, with features in the order of their names and compressed by LZMA.
Prediction is Viterbi's, with the same oracle.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import AnyArray, FloatArray
from trellis.core.output_files import atomic_writer
from trellis.core.storage import PathLike
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.scores.chain_scores import ChainScores

NONE, JOIN = "_", "+"
REACH = 4
# first and last letter of each string, relative to the letter
WINDOWS = (
    *((i, i) for i in range(-3, 4)),
    *((i, i + 1) for i in range(-3, 3)),
    *((i, i + 2) for i in range(-3, 2)),
    (-3, 0),
    (-2, 1),
    (-1, 2),
    (0, 3),
    (-2, 2),
    (-4, 0),
    (0, 4),
)


def letter_features(word: str) -> list[list[str]]:
    """The features of every letter of a word."""
    padded = "^" * REACH + word + "$" * REACH
    return [[f"{i}{padded[t + i + REACH : t + j + REACH + 1]}" for i, j in WINDOWS] for t in range(len(word))]


@dataclass(frozen=True, eq=False)
class LetterToSound:
    """``rows``: number of each feature; its weights are entries ``pointer[r]`` to ``pointer[r + 1]`` of
    ``label`` and ``weight``. ``transitions``: (K, K), ``start`` and ``end``: (K,)."""

    labels: tuple[str, ...]
    rows: dict[str, int]
    pointer: AnyArray
    label: AnyArray
    weight: FloatArray
    transitions: FloatArray
    start: FloatArray
    end: FloatArray

    def pronounce(self, words: Iterable[str]) -> list[tuple[str, ...]]:
        """The phones of every word, given in lower case; none for a word that it takes to be silent."""
        given = list(words)
        if not given:
            return []
        offsets = np.concatenate([[0], np.cumsum([len(word) for word in given])])
        unary = np.concatenate([self._scores(word) for word in given])
        found = Chain().best(ChainScores.of(unary, self.transitions, self.start, self.end, offsets=offsets))
        return [spoken_phones([self.labels[k] for k in row]) for row in np.split(found.labels, offsets[1:-1])]

    def _scores(self, word: str) -> FloatArray:
        scores = np.zeros((len(word), len(self.labels)))
        for t, features in enumerate(letter_features(word)):
            for row in (self.rows[name] for name in features if name in self.rows):
                part = slice(self.pointer[row], self.pointer[row + 1])
                scores[t, self.label[part]] += self.weight[part]
        return scores

    def save(self, path: PathLike, step: float) -> None:
        """Weights as multiples of ``step``; those below half of it are left out, with their features."""
        rounded = np.clip(np.rint(self.weight / step), -127, 127).astype(np.int8)
        entries = {name: slice(self.pointer[row], self.pointer[row + 1]) for name, row in self.rows.items()}
        kept = {name: part.start + np.flatnonzero(rounded[part]) for name, part in entries.items()}
        names = sorted(name for name, found in kept.items() if found.size)
        order = np.concatenate([kept[name] for name in names])
        _write_arrays(
            path,
            labels=_packed(self.labels),
            names=_packed(names),
            counts=np.array([kept[name].size for name in names], dtype=np.uint8),
            label=self.label[order].astype(np.uint8),
            weight=rounded[order],
            step=np.asarray(step, dtype=np.float32),
            transitions=self.transitions.astype(np.float16),
            start=self.start.astype(np.float16),
            end=self.end.astype(np.float16),
        )

    @classmethod
    def load(cls, path: PathLike) -> LetterToSound:
        with np.load(path, allow_pickle=False) as stored:
            return cls(
                labels=_unpacked(stored["labels"]),
                rows={name: i for i, name in enumerate(_unpacked(stored["names"]))},
                pointer=np.concatenate([[0], np.cumsum(stored["counts"], dtype=np.int64)]),
                label=stored["label"].astype(np.int64),
                weight=stored["weight"] * np.float64(stored["step"]),
                transitions=stored["transitions"].astype(np.float64),
                start=stored["start"].astype(np.float64),
                end=stored["end"].astype(np.float64),
            )


def spoken_phones(labels: Sequence[str]) -> tuple[str, ...]:
    """The phones that labels of letters stand for."""
    return tuple(p for label in labels if label != NONE for p in label.split(JOIN))


def _write_arrays(path: PathLike, **arrays: AnyArray) -> None:
    """As ``numpy.savez_compressed``, by LZMA: it finds what neighbouring names share."""
    with atomic_writer(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        for name, array in arrays.items():
            # a fixed date: the same model is the same bytes
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_LZMA
            with archive.open(member, "w") as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def _packed(names: Sequence[str]) -> AnyArray:
    return np.frombuffer("\n".join(names).encode(), dtype=np.uint8)


def _unpacked(content: AnyArray) -> tuple[str, ...]:
    return tuple(content.tobytes().decode().split("\n"))

"""Phones as a model sees them: the class of each label, its descriptor, and the kind whose durations it
shares.

A *fold* maps labels to classes: a name of ``FOLDINGS`` or a dict. Frame classifiers tell classes apart. The
*descriptor* of a phone is its class as a one-hot vector and, for folds by articulation, its articulatory
features: the boundary classifier sees more than the class. Durations are kept per class, separately for
phones marked as long and for silences (TIMIT's 39 classes put closures and silence into one).

A phone whose class was not in training is an error. With a fold by articulation, the most similar class
stands in for it instead (:meth:`PhoneSet.stand_in`), and the alignment says so in a flag. Such a fold also
reads labels in another alphabet than those in training (:meth:`PhoneSet.reading`).

Noise (:mod:`trellis.speech.phones.noise`) may be of any length, as silence. Its code is that of its class if
noise was in training, else one more than the last (``noise_code``); in both cases any sound can fill it. Its
descriptor is then the mean of those of the spoken classes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from trellis.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.speech.phones.alphabets import check_alphabet, guess_alphabet
from trellis.speech.phones.articulation import FEATURE_NAMES, articulatory_features
from trellis.speech.phones.folding import Folding
from trellis.speech.phones.nearest_phones import describe_unknown
from trellis.speech.phones.noise import NOISE, is_noise
from trellis.speech.phones.silence import SILENCE, is_silence

Fold = str | Mapping[str, str]
ARTICULATED = ("broad", "voiced", "detailed")  # folds by articulation
_LONG = FEATURE_NAMES.index("long")
_KINDS = 3  # of durations per class: plain, long, silent
_NO_PHONES = ("silence", SILENCE, NOISE, "other")  # classes that stand in for no phone


@dataclass(frozen=True, eq=False)
class EncodedPhones:
    """``codes``: (K,) classes. ``kinds``: (K,), of durations. ``descriptors``: (K, V)."""

    codes: IntArray
    kinds: IntArray
    descriptors: Float32Array


@register
@dataclass(frozen=True, eq=False)
class PhoneSet:
    """``classes`` in the order of their codes; ``alphabet`` in which the labels are written; ``centroids``:
    (C, F), the mean articulatory features of the labels of each class, for folds by articulation;
    ``unknown``: what becomes of labels that are no phones (``noise.UNKNOWN_PHONES``)."""

    fold: Fold
    classes: tuple[str, ...]
    alphabet: str = "ipa"
    centroids: FloatArray | None = None
    unknown: str = "error"

    def __post_init__(self) -> None:
        if not self.classes or len(set(self.classes)) < len(self.classes):
            raise DataError("the phone classes are not different names")
        size = (len(self.classes), len(FEATURE_NAMES))
        if self.centroids is not None and self.centroids.shape != size:
            raise DataError("the articulatory features do not fit the phone classes")

    @classmethod
    def of(
        cls, labels: Iterable[str], fold: Fold, alphabet: str = "auto", unknown: str = "error"
    ) -> PhoneSet:
        """The classes of the labels of a corpus; their alphabet is guessed by all of them unless given."""
        found = list(dict.fromkeys(labels))
        alphabet = guess_alphabet(found) if alphabet == "auto" else check_alphabet(alphabet)
        fold_label = fold_function(fold, alphabet, unknown)
        members: dict[str, list[str]] = {}
        for label in found:
            members.setdefault(fold_label(label), []).append(label)
        classes = tuple(sorted(members))
        if fold not in ARTICULATED:
            return cls(fold, classes, alphabet, None, unknown)
        rows = [
            np.mean([articulatory_features(x, alphabet, unknown) for x in members[c]], axis=0)
            for c in classes
        ]
        return cls(fold, classes, alphabet, np.array(rows), unknown)

    def reading(self, alphabet: str) -> PhoneSet:
        """The same classes for labels in another alphabet, if the fold is by articulation."""
        check_alphabet(alphabet)
        return self if alphabet == self.alphabet or not self.articulated else replace(self, alphabet=alphabet)

    @property
    def noise_code(self) -> int:
        """The code of noise, whether it was in training or not."""
        return self._codes.get(NOISE, len(self.classes))

    @property
    def has_silence(self) -> bool:
        return SILENCE in self.classes or "silence" in self.classes

    @property
    def articulated(self) -> bool:
        return self.centroids is not None

    @property
    def n_descriptors(self) -> int:
        return len(self.classes) + (len(FEATURE_NAMES) if self.articulated else 0)

    @property
    def n_kinds(self) -> int:
        return _KINDS * len(self.classes)

    @property
    def spoken_classes(self) -> BoolArray:
        """(C,): not silence, nor noise."""
        return np.array([name not in _NO_PHONES for name in self.classes], dtype=np.bool_)

    @property
    def silent_kinds(self) -> BoolArray:
        return np.asarray(np.arange(self.n_kinds) % _KINDS == _KINDS - 1)

    def kinds(self, codes: IntArray, descriptors: Float32Array, silent: BoolArray) -> IntArray:
        """The kinds of phones with these classes and descriptors, of which some are silence."""
        long = descriptors[:, len(self.classes) + _LONG].astype(np.int64) if self.articulated else 0
        return np.asarray(_KINDS * codes + np.where(silent, _KINDS - 1, long))

    def encode(self, labels: Sequence[str], where: str = "") -> EncodedPhones:
        """Codes and descriptors of a sequence of labels; an error names all unknown ones at once."""
        known = self._rows
        unknown = []
        for label in dict.fromkeys(labels):
            if label not in known:
                try:
                    known[label] = self._row(label)
                except (DataError, KeyError):
                    unknown.append(label)
        if unknown:
            raise DataError(self._unknown(unknown, where))
        rows = [known[label] for label in labels]
        return EncodedPhones(
            np.array([row[0] for row in rows], dtype=np.int64),
            np.array([row[1] for row in rows], dtype=np.int64),
            np.array([row[2] for row in rows], dtype=np.float32),
        )

    @cached_property
    def _rows(self) -> dict[str, tuple[int, int, Float32Array]]:
        """Code, kind and descriptor of the labels seen so far."""
        return {}

    def stand_in(self, label: str) -> str | None:
        """The class that stands in for that of ``label``, which was not in training; None if it was."""
        name = self._fold_label(label)
        if name in self._codes or name in _NO_PHONES or self.centroids is None:
            return None
        distance = np.abs(self.centroids - articulatory_features(label, self.alphabet)).sum(axis=1)
        distance[~self.spoken_classes] = np.inf
        return self.classes[int(np.argmin(distance))] if np.isfinite(distance).any() else None

    def _fold_label(self, label: str) -> str:
        return fold_function(self.fold, self.alphabet, self.unknown)(label)

    def _row(self, label: str) -> tuple[int, int, Float32Array]:
        name = self.stand_in(label) or self._fold_label(label)
        if name == NOISE or (name == "other" and name not in self._codes):
            return self._noise_row
        code = self._codes[name]
        descriptor = np.zeros(self.n_descriptors, dtype=np.float32)
        descriptor[code] = 1.0
        kind = 0
        if self.articulated:
            descriptor[len(self.classes) :] = articulatory_features(label, self.alphabet, self.unknown)
            kind = int(descriptor[len(self.classes) + _LONG])
        return code, _KINDS * code + (_KINDS - 1 if is_silence(label) else kind), descriptor

    @cached_property
    def _noise_row(self) -> tuple[int, int, Float32Array]:
        code = self.noise_code
        descriptor = np.zeros(self.n_descriptors, dtype=np.float32)
        if code < len(self.classes):
            descriptor[code] = 1.0
            return code, _KINDS * code + _KINDS - 1, descriptor
        spoken = np.flatnonzero(self.spoken_classes)
        descriptor[spoken] = 1.0 / max(1, len(spoken))
        if self.centroids is not None and len(spoken):
            descriptor[len(self.classes) :] = self.centroids[spoken].mean(axis=0)
        return code, _KINDS - 1, descriptor

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    def _unknown(self, labels: Sequence[str], where: str) -> str:
        known = tuple(self.fold) if isinstance(self.fold, Mapping) else self.classes
        return describe_unknown(labels, known, self.alphabet, self.articulated, where)


def fold_function(fold: Fold, alphabet: str, unknown: str = "error") -> Callable[[str], str]:
    """The class of a label; a :class:`DataError` where it has none."""
    if isinstance(fold, str):
        return Folding(fold, alphabet, unknown)
    table = {unicodedata.normalize("NFC", label): str(name) for label, name in fold.items()}

    def look_up(label: str) -> str:
        composed = unicodedata.normalize("NFC", label)
        if composed in table:
            return table[composed]
        if is_silence(label):
            return SILENCE
        if is_noise(label):
            return NOISE
        if unknown != "error":
            return unknown
        raise DataError(f"the fold has no class for the phone {label!r}; add it to the dict")

    return look_up

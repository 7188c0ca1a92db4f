"""Phones as a model sees them: the class of each label, its descriptor, and the kind whose durations it
shares.

A *fold* maps labels to classes: a name of ``FOLDINGS`` or a dict. Frame classifiers tell classes apart. The
*descriptor* of a phone is its class as a one-hot vector and, for folds by articulation, its articulatory
features: the boundary classifier sees more than the class. Durations are kept per class, separately for
phones marked as long and for silences (TIMIT's 39 classes put closures and silence into one).

A phone whose class was not in training is an error. With a fold by articulation, the most similar class
stands in for it instead (:meth:`PhoneSet.stand_in`), and the alignment says so in a flag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trellis.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.speech.phones.articulation import FEATURE_NAMES, articulatory_features, guess_alphabet
from trellis.speech.phones.folding import Folding
from trellis.speech.phones.silence import SILENCE, is_silence

Fold = str | Mapping[str, str]
ARTICULATED = ("broad", "voiced", "detailed")  # folds by articulation
_LONG = FEATURE_NAMES.index("long")
_KINDS = 3  # of durations per class: plain, long, silent


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
    (C, F), the mean articulatory features of the labels of each class, for folds by articulation."""

    fold: Fold
    classes: tuple[str, ...]
    alphabet: str = "ipa"
    centroids: FloatArray | None = None

    def __post_init__(self) -> None:
        if not self.classes or len(set(self.classes)) < len(self.classes):
            raise DataError("the phone classes are not different names")
        size = (len(self.classes), len(FEATURE_NAMES))
        if self.centroids is not None and self.centroids.shape != size:
            raise DataError("the articulatory features do not fit the phone classes")

    @classmethod
    def of(cls, labels: Iterable[str], fold: Fold) -> PhoneSet:
        """The classes of the labels of a corpus."""
        found = list(dict.fromkeys(labels))
        alphabet = guess_alphabet(found)
        fold_label = _folding(fold, alphabet)
        members: dict[str, list[str]] = {}
        for label in found:
            members.setdefault(fold_label(label), []).append(label)
        classes = tuple(sorted(members))
        if fold not in ARTICULATED:
            return cls(fold, classes, alphabet)
        rows = [np.mean([articulatory_features(x, alphabet) for x in members[c]], axis=0) for c in classes]
        return cls(fold, classes, alphabet, np.array(rows))

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
        name = _folding(self.fold, self.alphabet)(label)
        if name in self._codes or self.centroids is None:
            return None
        distance = np.abs(self.centroids - articulatory_features(label, self.alphabet)).sum(axis=1)
        distance[[c in ("silence", SILENCE) for c in self.classes]] = np.inf
        return self.classes[int(np.argmin(distance))]

    def _row(self, label: str) -> tuple[int, int, Float32Array]:
        name = self.stand_in(label) or _folding(self.fold, self.alphabet)(label)
        code = self._codes[name]
        descriptor = np.zeros(self.n_descriptors, dtype=np.float32)
        descriptor[code] = 1.0
        kind = 0
        if self.articulated:
            descriptor[len(self.classes) :] = articulatory_features(label, self.alphabet)
            kind = int(descriptor[len(self.classes) + _LONG])
        return code, _KINDS * code + (_KINDS - 1 if is_silence(label) else kind), descriptor

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    def _unknown(self, labels: Sequence[str], where: str) -> str:
        place, plural = f"{where}: " if where else "", "s" * (len(labels) > 1)
        return (
            f"{place}the model does not know the phone{plural} {' '.join(map(repr, labels))}; "
            f"its {len(self.classes)} classes are {', '.join(self.classes)} (fold={_name(self.fold)})"
        )


def _folding(fold: Fold, alphabet: str) -> Callable[[str], str]:
    if isinstance(fold, str):
        return Folding(fold, alphabet)
    table = dict(fold)

    def look_up(label: str) -> str:
        if label in table:
            return str(table[label])
        if is_silence(label):
            return SILENCE
        raise DataError(f"the fold has no class for the phone {label!r}; add it to the dict")

    return look_up


def _name(fold: Fold) -> str:
    return repr(fold) if isinstance(fold, str) else "a dict"

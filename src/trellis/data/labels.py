"""Labels: any hashable values in the public interface, codes ``0..K-1`` below it.

The label ``None`` is unknown, and a ``set`` of labels means one of its members. Both have code ``-1``;
``allowed`` (N, K) then says which labels each step may have. It is ``None`` when every label is known.

Labels are sorted if they can be compared, otherwise kept in the order of first appearance.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError, shown
from trellis.core.registration import register
from trellis.data.answers import Answers
from trellis.data.flatten import flatten
from trellis.data.sequences import check_same_lengths, step_name, take_runs
from trellis.data.user_input import as_arrays


class FlatLabels(NamedTuple):
    """Label sequences end to end; whatever reads label sequences takes these too."""

    labels: list[Any]
    offsets: IntArray


def flatten_labels(y: Any, lengths: ArrayLike | None = None) -> FlatLabels:
    """A list of label sequences, or one flat list with ``lengths``. Do it once where ``y`` is read twice."""
    if isinstance(y, FlatLabels):
        return y
    y = as_arrays(y)
    some = isinstance(y, Sequence) or (isinstance(y, np.ndarray) and y.ndim > 0)
    nested = some and len(y) > 0 and isinstance(y[0], list | tuple | np.ndarray)
    flat = FlatLabels(*flatten("y", y, None if nested else lengths, item="label", strings=True))
    if len(flat.offsets) == 1:
        raise DataError("y has no sequences; give a list of labels for each sequence of X")
    return flat


@dataclass(frozen=True, eq=False)
class EncodedLabels:
    """``codes``: int32 (N,), -1 if not known exactly. ``allowed``: bool (N, K), ``None`` if all are known.

    Examples
    --------
    >>> from trellis.data import LabelSet
    >>> encoded = LabelSet(["D", "N"]).encode([["D", None], ["N"]])
    >>> encoded.codes.tolist(), encoded.offsets.tolist()
    ([0, -1, 1], [0, 2, 3])
    """

    codes: NDArray[np.int32]
    allowed: NDArray[np.bool_] | None
    offsets: IntArray

    def take(self, sequences: IntArray) -> EncodedLabels:
        """Some of the sequences, in the given order."""
        steps, offsets = take_runs(self.offsets, sequences)
        allowed = None if self.allowed is None else self.allowed[steps]
        return EncodedLabels(self.codes[steps], allowed, offsets)

    @property
    def ambiguous(self) -> NDArray[np.bool_]:
        """(S,) whether the sequence has an unknown label."""
        unknown = np.concatenate([[0], np.cumsum(self.codes < 0)])
        return np.asarray(unknown[self.offsets[1:]] > unknown[self.offsets[:-1]])


@register
class LabelSet:
    """The K labels of a task, in the order of their codes.

    Examples
    --------
    >>> from trellis.data import LabelSet
    >>> labels = LabelSet(["D", "N", "V"])
    >>> len(labels), labels.encode([["V", "D"]]).codes.tolist()
    (3, [2, 0])
    """

    def __init__(self, labels: Iterable[Hashable]) -> None:
        self.labels: tuple[Any, ...] = tuple(_plain(label) for label in labels)
        self._index: dict[Hashable, int] = {label: code for code, label in enumerate(self.labels)}
        if not self.labels:
            raise DataError("there are no labels; at least one step must have a known label")
        if len(self._index) != len(self.labels):
            raise DataError("the labels are not all different")

    @classmethod
    def of(cls, y: Any, lengths: ArrayLike | None = None) -> LabelSet:
        """The labels that occur in ``y``, members of sets included."""
        return cls(_occurring(*flatten_labels(y, lengths)))

    @classmethod
    def of_parts(cls, parts: Iterable[Iterable[Hashable]]) -> LabelSet:
        """The labels of data in parts, from those of each part (:func:`labels_in`), in the order of parts."""
        return cls(_sorted(list(dict.fromkeys(chain.from_iterable(parts)))))

    def extended(self, y: Any, lengths: ArrayLike | None = None) -> LabelSet:
        """These labels, and after them those in ``y`` that are none of them. No prediction has one of the
        new codes, so where ``y`` is what predictions are compared with, labels never seen count as wrong."""
        new = [label for label in _occurring(*flatten_labels(y, lengths)) if label not in self._index]
        return LabelSet((*self.labels, *new)) if new else self

    def __len__(self) -> int:
        return len(self.labels)

    def find(self, label: Any, parameter: str) -> int | None:
        """The code of a label that a parameter names; None, with a warning, where no data have it: a part of
        the data, such as a fold of a cross-validation, may lack a rare label."""
        try:
            return self._index[label]
        except KeyError:
            warnings.warn(
                f"{parameter} names the label {label!r}, which does not occur in the data and is ignored; "
                f"the labels are {self._listing()}",
                stacklevel=3,
            )
            return None
        except TypeError:
            raise DataError(
                f"{parameter} names {shown(label)}, which cannot be a label; labels are strings, numbers or "
                "tuples"
            ) from None

    def encode(
        self, y: Any, lengths: ArrayLike | None = None, *, like: IntArray | None = None
    ) -> EncodedLabels:
        """Codes of a list of label sequences (or of flat labels with ``lengths``).

        ``like`` are the offsets of the inputs, which ``y`` must match.
        """
        flat, offsets = flatten_labels(y, lengths)
        if like is not None:
            check_same_lengths(like, offsets, "y")
        table = {**self._index, None: -1}
        try:
            codes = np.fromiter(map(table.__getitem__, flat), np.int32, len(flat))
        except (KeyError, TypeError):
            return self._encode_sets(flat, offsets)
        if not len(codes) or codes.min() >= 0:
            return EncodedLabels(codes, None, offsets)
        return EncodedLabels(codes, self._allowed(codes), offsets)

    def decode(self, codes: NDArray[np.integer], offsets: IntArray) -> list[list[Any]]:
        """Lists of labels, one for each sequence."""
        names = np.empty(len(self.labels), dtype=object)
        names[:] = self.labels
        flat = names[codes].tolist()
        return Answers(flat[a:b] for a, b in pairwise(offsets.tolist()))

    def to_state(self) -> dict[str, Any]:
        """What the constructor takes."""
        for label in self.labels:
            _check_storable(label)
        return {"labels": list(self.labels)}

    def _encode_sets(self, flat: list[Any], offsets: IntArray) -> EncodedLabels:
        """The slow path: for sets of labels, and to find the label that an error is about."""
        codes = np.full(len(flat), -1, np.int32)
        choices: list[tuple[int, list[int]]] = []
        for i, label in enumerate(flat):
            members = [m for m in _members(label, offsets, i) if m is not None]
            for member in members:
                if member not in self._index:
                    raise DataError(
                        f"label {shown(member)} of {step_name(offsets, i)} was not seen in training; "
                        f"the labels are {self._listing()}"
                    )
            if len(members) == 1:
                codes[i] = self._index[members[0]]
            elif members:
                choices.append((i, [self._index[m] for m in members]))
        if len(codes) and codes.min() < 0:
            allowed = self._allowed(codes)
            for i, choice in choices:
                allowed[i] = False
                allowed[i, choice] = True
            return EncodedLabels(codes, allowed, offsets)
        return EncodedLabels(codes, None, offsets)

    def _allowed(self, codes: NDArray[np.int32]) -> NDArray[np.bool_]:
        allowed: NDArray[np.bool_] = codes[:, None] == np.arange(len(self.labels), dtype=np.int32)
        allowed[codes < 0] = True
        return allowed

    def _listing(self) -> str:
        shown = ", ".join(repr(label) for label in self.labels[:10])
        return shown + (f", ... ({len(self.labels)} in all)" if len(self.labels) > 10 else "")


def _occurring(flat: list[Any], offsets: IntArray) -> list[Any]:
    """The different labels in the documented order, members of sets included."""
    return _sorted(labels_in(flat, offsets))


def _sorted(labels: list[Any]) -> list[Any]:
    with suppress(TypeError):  # not comparable: the order of first appearance is the documented one
        labels.sort()
    return labels


def labels_in(flat: list[Any], offsets: IntArray) -> list[Any]:
    """The different labels in the order of their first appearance, members of sets included."""
    try:
        seen = dict.fromkeys(flat)
        sets = any(isinstance(label, frozenset) for label in seen)
    except TypeError:  # sets, or anything else that cannot be hashed
        sets = True
    if sets:
        members = (_members(label, offsets, i) for i, label in enumerate(flat))
        seen = dict.fromkeys(chain.from_iterable(members))
    seen.pop(None, None)
    labels = [_plain(label) for label in seen]
    if not all(map(_equals_itself, labels)):
        odd = next(label for label in labels if not _equals_itself(label))
        name = "NaN" if isinstance(odd, float) else shown(odd)
        raise DataError(f"a label is {name}, which does not equal itself; use None for an unknown label")
    return labels


def _members(label: Any, offsets: IntArray, step: int) -> list[Any]:
    """The labels that a step may have: one, or those of a set."""
    members = sorted(label, key=repr) if isinstance(label, set | frozenset) else [label]
    if len(members) > 1 and None in members:
        raise DataError(
            f"{step_name(offsets, step)} has the set of labels {shown(label)}; None is not a label: use None "
            "instead of the set where nothing is known"
        )
    if not members:
        raise DataError(
            f"{step_name(offsets, step)} has an empty set of labels; use None where nothing is known"
        )
    for member in members:
        try:
            hash(member)
        except TypeError:
            raise DataError(
                f"label {shown(member)} of {step_name(offsets, step)} cannot be hashed; "
                "labels are strings, numbers or tuples (a set means: one of these)"
            ) from None
    return members


def _equals_itself(label: Any) -> bool:
    """Whether a label can be told from others: NaN, NaT and NA cannot, alone or in a tuple."""
    if isinstance(label, tuple):
        return all(map(_equals_itself, label))
    try:
        return bool(label == label)
    except (TypeError, ValueError):  # pandas' NA is neither true nor false
        return False


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _check_storable(label: Any) -> None:
    """A label of a model file is a string, a finite number, or a tuple of these."""
    if isinstance(label, tuple):
        for part in label:
            _check_storable(part)
    elif not (label is None or isinstance(label, str | bool | int | float)) or label in (math.inf, -math.inf):
        raise DataError(
            f"label {label!r} of type {type(label).__name__} cannot be saved; "
            "use strings, finite numbers, or tuples of these"
        )

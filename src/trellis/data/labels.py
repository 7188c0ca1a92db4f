"""Labels: any hashable values at the border of the library, codes ``0..K-1`` below it.

A step whose label is ``None`` is unknown, and a step labelled with a ``set`` is known to be one of its
members. Both have code ``-1``; ``allowed`` (N, K) then says which labels each step may take. It is ``None``
when every step is known.

Labels are sorted where they can be compared, else kept in the order in which they were first seen.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.data.sequences import offsets_from_lengths, step_name, take_runs
from trellis.data.user_input import as_arrays


@dataclass(frozen=True, eq=False)
class EncodedLabels:
    """``codes``: int32 (N,), -1 where not known exactly. ``allowed``: bool (N, K), or ``None`` if all are
    known.
    """

    codes: NDArray[np.int32]
    allowed: NDArray[np.bool_] | None
    offsets: IntArray

    def take(self, sequences: IntArray) -> EncodedLabels:
        """Some of the sequences, in the order asked for."""
        steps, offsets = take_runs(self.offsets, sequences)
        allowed = None if self.allowed is None else self.allowed[steps]
        return EncodedLabels(self.codes[steps], allowed, offsets)

    @property
    def ambiguous(self) -> NDArray[np.bool_]:
        """(S,) whether some label of the sequence is not known."""
        unknown = np.concatenate([[0], np.cumsum(self.codes < 0)])
        return np.asarray(unknown[self.offsets[1:]] > unknown[self.offsets[:-1]])


@register
class LabelSet:
    """The K labels of a task, in the order of their codes."""

    def __init__(self, labels: Iterable[Hashable]) -> None:
        self.labels: tuple[Any, ...] = tuple(_plain(label) for label in labels)
        self._index: dict[Hashable, int] = {label: code for code, label in enumerate(self.labels)}
        if not self.labels:
            raise DataError("no labels are known; at least one step must have a label")
        if len(self._index) != len(self.labels):
            raise DataError("the labels are not all different")

    @classmethod
    def of(cls, y: Any, lengths: ArrayLike | None = None) -> LabelSet:
        """The labels that occur in ``y``, members of sets included."""
        flat, offsets = _flatten(y, lengths)
        try:
            seen = dict.fromkeys(flat)
        except TypeError:  # sets (and anything else unhashable) must be looked into
            seen = dict.fromkeys(
                chain.from_iterable(_members(label, offsets, i) for i, label in enumerate(flat))
            )
        if any(isinstance(label, frozenset) for label in seen):
            seen = dict.fromkeys(
                chain.from_iterable(x if isinstance(x, frozenset) else (x,) for x in list(seen))
            )
        seen.pop(None, None)
        labels = [_plain(label) for label in seen]
        if any(isinstance(label, float) and math.isnan(label) for label in labels):
            raise DataError(
                "a label is NaN, which equals no label, not even itself; use None for unknown ones"
            )
        with suppress(TypeError):  # not comparable: the order of first appearance is the documented one
            labels.sort()
        return cls(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def code(self, label: Hashable) -> int:
        if label not in self._index:
            raise DataError(f"label {label!r} is not known; the labels are {self._listing()}")
        return self._index[label]

    def encode(
        self, y: Any, lengths: ArrayLike | None = None, *, like: IntArray | None = None
    ) -> EncodedLabels:
        """Codes of a list of label sequences (or of flat labels with ``lengths``).

        ``like`` are the offsets of the inputs: sequences of another length are an error that names the first
        one.
        """
        flat, offsets = _flatten(y, lengths)
        if like is not None:
            _check_same_lengths(offsets, like)
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
        return [flat[a:b] for a, b in pairwise(offsets.tolist())]

    def to_state(self) -> dict[str, Any]:
        """What the constructor takes."""
        for label in self.labels:
            _check_storable(label)
        return {"labels": list(self.labels)}

    def _encode_sets(self, flat: list[Any], offsets: IntArray) -> EncodedLabels:
        """The slow way, for labels that are sets; it also finds the label that is to blame in an error."""
        codes = np.full(len(flat), -1, np.int32)
        choices: list[tuple[int, list[int]]] = []
        for i, label in enumerate(flat):
            members = [m for m in _members(label, offsets, i) if m is not None]
            for member in members:
                if member not in self._index:
                    raise DataError(
                        f"label {member!r} of {step_name(offsets, i)} was not seen in training; "
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


def _flatten(y: Any, lengths: ArrayLike | None) -> tuple[list[Any], IntArray]:
    """All labels end to end, and the offsets of the sequences."""
    y = as_arrays(y)
    if lengths is not None and not _is_nested(y):
        flat = y.tolist() if isinstance(y, np.ndarray) else list(y)
        offsets = offsets_from_lengths(lengths)
        if offsets[-1] != len(flat):
            raise DataError(
                f"lengths add up to {offsets[-1]}, but there are {len(flat)} labels; they must be equal"
            )
        return flat, offsets
    sequences = list(y)
    if not sequences:
        raise DataError(
            "no labels were given; y must be a list with one sequence of labels for each sequence of X"
        )
    for index, sequence in enumerate(map(as_arrays, sequences)):
        if isinstance(sequence, np.ndarray) and sequence.ndim == 1:
            sequences[index] = sequence.tolist()  # Python values: they hash faster, and can be saved
        elif not isinstance(sequence, Sequence):
            raise DataError(
                f"the labels of sequence {index} are {sequence!r}; give a list with one label for each step "
                "(None where it is unknown)"
            )
    flat = list(chain.from_iterable(sequences))
    return flat, offsets_from_lengths([len(sequence) for sequence in sequences])


def _is_nested(y: Any) -> bool:
    return len(y) > 0 and isinstance(y[0], list | tuple | np.ndarray)


def _members(label: Any, offsets: IntArray, step: int) -> list[Any]:
    """The labels that a step may have: one, or those of a set. ``None`` stands for itself."""
    members = sorted(label, key=repr) if isinstance(label, set | frozenset) else [label]
    if len(members) > 1 and None in members:
        raise DataError(
            f"{step_name(offsets, step)} has the set of labels {label!r}; None is no label: use None in "
            "place of the set where nothing is known"
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
                f"label {member!r} of {step_name(offsets, step)} cannot be hashed; "
                "labels are strings, numbers or tuples (a set means: one of these)"
            ) from None
    return members


def _check_same_lengths(offsets: IntArray, like: IntArray) -> None:
    if len(offsets) != len(like):
        raise DataError(f"y has {len(offsets) - 1} sequences, but X has {len(like) - 1}; they must be equal")
    different = np.flatnonzero(np.diff(offsets) != np.diff(like))
    if different.size:
        i = int(different[0])
        raise DataError(
            f"sequence {i} has {int(np.diff(offsets)[i])} labels, but {int(np.diff(like)[i])} steps in X"
        )


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

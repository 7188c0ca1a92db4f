"""Hidden states inside labels: each label owns a run of states, and the chain runs over states.

    states  0 .. H-1        label_of[h]: the label that owns state h; the states of a label stand together

A labelling of steps by labels is then a *partial* labelling by states: the states of the gold label are
allowed, the others are not (``allowed`` of :class:`~trellis.data.labels.EncodedLabels`). What is given for
labels applies to each of their states: costs L(y*, (y, h)) = L(y*, y), legal transitions, unknown labels. The
state of a label with a single one has the name of the label; other states are named (label, 0), (label, 1),
... With one state for every label nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.errors import DataError
from trellis.core.file_checks import check_size
from trellis.core.registration import register
from trellis.data.constraints import LegalTransitions
from trellis.data.labels import EncodedLabels, LabelSet

LatentStates = int | Mapping[Any, int]


@register
@dataclass(frozen=True, eq=False)
class LatentLabels:
    """``counts`` (K,): how many states each label owns."""

    labels: LabelSet
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        counts = self.counts
        if counts.dtype != np.int64 or counts.shape != (len(self.labels),) or not (counts > 0).all():
            raise DataError("the numbers of latent states do not fit the labels")
        check_size("the number of latent states", sum(counts.tolist()))

    @classmethod
    def of(cls, labels: LabelSet, states: LatentStates) -> LatentLabels:
        """The same number of states for each label, or ``{label: number}``; labels not named have one."""
        counts = np.ones(len(labels), dtype=np.int64)
        if isinstance(states, Mapping):
            for label, number in states.items():
                number, code = (
                    _checked(number, f"latent_states of {label!r}"),
                    labels.find(label, "latent_states"),
                )
                if code is not None:
                    counts[code] = number
        else:
            counts[:] = _checked(states, "latent_states")
        return cls(labels, counts)

    @property
    def plain(self) -> bool:
        """Whether every label has one state: then states are labels."""
        return bool((self.counts == 1).all())

    @cached_property
    def label_of(self) -> NDArray[np.int32]:
        """(H,) the label of each state."""
        return np.repeat(np.arange(len(self.counts), dtype=np.int32), self.counts)

    @cached_property
    def states(self) -> LabelSet:
        """The names of the states."""
        if self.plain:
            return self.labels
        named = zip(self.labels.labels, self.counts.tolist(), strict=True)
        return LabelSet(
            name for label, n in named for name in ([label] if n == 1 else [(label, i) for i in range(n)])
        )

    def expand(self, encoded: EncodedLabels) -> EncodedLabels:
        """Labels as what they say about states: a known label with several states is a set of states."""
        if self.plain:
            return encoded
        first = np.cumsum(self.counts) - self.counts
        known = encoded.codes >= 0
        single = known & (self.counts[encoded.codes] == 1)
        codes = np.where(single, first[encoded.codes], -1).astype(np.int32)
        if encoded.allowed is not None:
            allowed = encoded.allowed[:, self.label_of]
        else:
            allowed = encoded.codes[:, None] == self.label_of
        return EncodedLabels(codes, None if single.all() else allowed, encoded.offsets)

    def expand_costs(self, costs: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N, K) to (N, H)."""
        return costs if self.plain else np.ascontiguousarray(costs[:, self.label_of])

    def expand_legal(self, legal: LegalTransitions) -> LegalTransitions:
        """States may follow each other as their labels may."""
        h = self.label_of
        return LegalTransitions(legal.start[h], legal.pair[np.ix_(h, h)], legal.end[h])

    def collapse(self, states: NDArray[np.int32]) -> NDArray[np.int32]:
        """The labels of states."""
        return states if self.plain else self.label_of[states]

    def sum_states(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N, H) to (N, K): sums over the states of each label."""
        if self.plain:
            return values
        first = np.cumsum(self.counts) - self.counts
        return np.asarray(np.add.reduceat(values, first, axis=1))


def _checked(number: Any, name: str) -> int:
    if isinstance(number, bool) or not isinstance(number, Integral) or number < 1:
        raise DataError(f"{name} is {number!r}; it must be a whole number of at least 1")
    return int(number)

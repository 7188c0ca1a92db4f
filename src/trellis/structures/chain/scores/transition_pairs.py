"""Which labels may follow which, as a list of allowed pairs: for chains of hundreds or thousands of labels.

The pairs are sorted by the label that they lead to, then by the label that they come from (CSR over
predecessors): those into label k are ``bounds[k]..bounds[k + 1] - 1``, and come from ``source[...]``. A
score, a weight or a marginal of transitions is then one vector (E,) in this order. Both directions of a
dynamic programme read this one list: what leaves a label is what the others gather from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, ModelFileError
from trellis.core.registration import register
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.sequences import step_name

MOST_LABELS = 0x7FFF  # what a label of a row of weights has room for


@register
@dataclass(frozen=True, eq=False)
class TransitionPairs:
    """``bounds`` (K + 1,) and ``source`` (E,), see above."""

    bounds: NDArray[np.uint32]
    source: NDArray[np.uint32]

    @classmethod
    def of(cls, previous: Any, following: Any, n_labels: int) -> TransitionPairs:
        """From codes of labels, in any order; a pair that is there twice counts once."""
        key = np.unique(np.asarray(following, np.int64) * n_labels + np.asarray(previous, np.int64))
        counts = np.bincount(key // n_labels, minlength=n_labels)
        bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
        return cls(bounds, (key % n_labels).astype(np.uint32))

    @property
    def n_labels(self) -> int:
        return len(self.bounds) - 1

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def target(self) -> NDArray[np.uint32]:
        """(E,) the label that each pair leads to."""
        counts = self.bounds[1:].astype(np.int64) - self.bounds[:-1]
        return np.repeat(np.arange(self.n_labels, dtype=np.uint32), counts)

    def places(self, previous: NDArray[Any], following: NDArray[Any]) -> IntArray:
        """Where pairs stand in the list; -1 for those that are not allowed."""
        keys = self.target.astype(np.int64) * self.n_labels + self.source
        wanted = np.asarray(following, np.int64) * self.n_labels + previous
        place = np.searchsorted(keys, wanted)
        found = np.append(keys, -1)[place] == wanted
        return np.where(found, place, -1)

    def expand(self, label_of: NDArray[np.int32]) -> TransitionPairs:
        """States may follow each other as their labels may; ``label_of`` (H,) rises."""
        counts = np.bincount(label_of, minlength=self.n_labels)
        if (counts == 1).all():
            return self
        first = np.cumsum(counts) - counts
        before, after = counts[self.source], counts[self.target]
        pair = np.repeat(np.arange(len(self)), before * after)
        within = np.arange(len(pair)) - np.repeat(np.cumsum(before * after) - before * after, before * after)
        previous = first[self.source[pair]] + within // after[pair]
        following = first[self.target[pair]] + within % after[pair]
        return TransitionPairs.of(previous, following, len(label_of))

    def to_matrix(self, values: FloatArray) -> csr_array:
        """(K, K) with row = previous label; what is not stored is forbidden."""
        return coo_array((values, (self.source, self.target)), shape=(self.n_labels,) * 2).tocsr()

    def to_dense(self, values: FloatArray) -> FloatArray:
        """(K, K), -inf where forbidden."""
        table = np.full((self.n_labels, self.n_labels), -np.inf)
        table[self.source, self.target] = values
        return table

    def to_state(self) -> dict[str, Any]:
        return {"bounds": self.bounds, "source": self.source}

    @classmethod
    def from_state(cls, state: Any) -> TransitionPairs:
        """Kernels index without bounds checks, so nothing in a file is trusted."""
        bounds, source = state["bounds"], state["source"]
        right = (
            all(isinstance(one, np.ndarray) and one.dtype == np.uint32 for one in (bounds, source))
            and bounds.ndim == source.ndim == 1
            and len(bounds) > 1
            and bounds[0] == 0
            and bounds[-1] == len(source)
            and bool((np.diff(bounds.astype(np.int64)) >= 0).all())
            and bool((source < len(bounds) - 1).all())
        )
        if not right:
            raise ModelFileError("its pairs of labels are not in order")
        pairs = cls(bounds, source)
        if (np.diff(pairs.target.astype(np.int64) * pairs.n_labels + source) <= 0).any():
            raise ModelFileError("its pairs of labels are not in order")
        return pairs


def allowed_pairs(transitions: Any, encoded: EncodedLabels, labels: LabelSet) -> TransitionPairs:
    """The parameter ``transitions`` of a labeller: "observed", pairs of labels, or a sparse matrix (K, K)."""
    k = len(labels)
    if k > MOST_LABELS:
        raise DataError(f"there are {k} labels; sparse transitions take at most {MOST_LABELS}")
    if isinstance(transitions, str) and transitions == "observed":
        return observed_pairs(encoded, k)
    if issparse(transitions):
        if transitions.shape != (k, k):
            raise DataError(
                f"transitions is a sparse matrix of shape {transitions.shape}; for {k} labels, in the order "
                f"of classes_, it must have shape ({k}, {k})"
            )
        stored = transitions.tocoo()
        return TransitionPairs.of(stored.row, stored.col, k)
    if isinstance(transitions, str) or not isinstance(transitions, Iterable):
        raise DataError(
            f"transitions is {transitions!r}; give 'all', 'observed', a list of (previous, next) pairs, or a "
            "sparse matrix of shape (labels, labels)"
        )
    previous, following = [], []
    for entry in transitions:
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise DataError(f"transition {entry!r} is not a pair (previous label, next label)")
        before, after = (labels.find(label, "transitions") for label in entry)
        if before is not None and after is not None:
            previous.append(before)
            following.append(after)
    return TransitionPairs.of(previous, following, k)


def observed_pairs(encoded: EncodedLabels, n_labels: int) -> TransitionPairs:
    """The pairs of labels at neighbouring steps, members of sets included; an unknown label adds none."""
    codes, offsets = encoded.codes, encoded.offsets
    inside = np.ones(len(codes), np.bool_)
    inside[offsets[:-1][np.diff(offsets) > 0]] = False
    steps = np.flatnonzero(inside)
    known = steps[(codes[steps] >= 0) & (codes[steps - 1] >= 0)]
    previous, following = codes[known - 1].astype(np.int64), codes[known].astype(np.int64)
    if encoded.allowed is not None:
        some = encoded.allowed & ~encoded.allowed.all(axis=1, keepdims=True)
        open_steps = steps[(codes[steps] < 0) | (codes[steps - 1] < 0)]
        together = (csr_array(some[open_steps - 1]).T.astype(np.int64) @ csr_array(some[open_steps])).tocoo()
        previous = np.concatenate([previous, together.row])
        following = np.concatenate([following, together.col])
    return TransitionPairs.of(previous, following, n_labels)


def check_pairs(encoded: EncodedLabels, pairs: TransitionPairs, labels: LabelSet) -> None:
    """Refuse labels that follow each other against the pairs, naming the first place."""
    codes, offsets = encoded.codes, encoded.offsets
    inside = np.ones(len(codes), np.bool_)
    inside[offsets[:-1][np.diff(offsets) > 0]] = False
    steps = np.flatnonzero(inside)
    known = steps[(codes[steps] >= 0) & (codes[steps - 1] >= 0)]
    bad = known[pairs.places(codes[known - 1], codes[known]) < 0]
    if bad.size:
        step = int(bad[0])
        raise DataError(
            f"{step_name(offsets, step)}: {labels.labels[codes[step]]!r} may not follow "
            f"{labels.labels[codes[step - 1]]!r} under the transitions; allow the pair, or correct the label",
            step,
        )

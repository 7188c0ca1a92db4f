"""Which pairs of feature and label, and which transitions, occur in data: what gets a weight. Sums over
shards are unions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from trellis.data.labels import EncodedLabels
from trellis.features.encoded import Encoded
from trellis.structures.chain.scores.linear_chain_kernels import mark_observed
from trellis.structures.chain.scores.transition_pairs import observed_pairs


@dataclass(frozen=True, eq=False)
class ObservedPairs:
    """``features``: feature * K + label, and ``transitions``: label before * K + label, of the pairs that
    occur, or may occur, sorted. ``open``: whether some label is not known."""

    features: NDArray[np.int64]
    transitions: NDArray[np.int64]
    open: bool = False

    @classmethod
    def of(
        cls, encoded: Encoded, labels: EncodedLabels, n_labels: int, *, sparse: bool = False
    ) -> ObservedPairs:
        """``sparse``: for labels that are many, without a table of transitions (K, K); then an unknown label
        is in no transition, and ``open`` says that there is one."""
        features = np.zeros(0, np.int64)
        for part in (encoded.nodes, encoded.zeros):
            if part is not None:
                features = united(features, occurring_pairs(part.indptr, part.indices, labels, n_labels))
        if sparse:
            found = observed_pairs(labels, n_labels)
            transitions = found.source.astype(np.int64) * n_labels + found.target
            return cls(features, np.sort(transitions), labels.allowed is not None)
        allowed = np.zeros((1, n_labels), np.bool_) if labels.allowed is None else labels.allowed
        table = observed_transitions(labels.codes, allowed, encoded.nodes.offsets, n_labels)
        return cls(features, np.flatnonzero(table), labels.allowed is not None)

    def __add__(self, other: ObservedPairs) -> ObservedPairs:
        return ObservedPairs(
            united(self.features, other.features),
            united(self.transitions, other.transitions),
            self.open or other.open,
        )


def occurring_pairs(
    indptr: NDArray[np.int64], indices: NDArray[np.uint32], labels: EncodedLabels, n_labels: int
) -> NDArray[np.int64]:
    """feature * K + label, of the pairs that occur, or may occur, sorted: by a table of the features that
    occur, where that takes no more memory than a code for each entry does, else by sorting these."""
    occurs = np.zeros(int(indices.max(initial=0)) + 1, np.bool_)
    occurs[indices] = True
    features = np.flatnonzero(occurs)
    if len(features) * n_labels <= 8 * len(indices):
        number = (np.cumsum(occurs) - 1).astype(np.uint32)
        allowed = np.zeros((1, n_labels), np.bool_) if labels.allowed is None else labels.allowed
        seen = np.zeros((len(features), n_labels), np.uint8)
        mark_observed(indptr, number[indices], labels.codes, allowed, seen)
        row, label = np.nonzero(seen)
        return features[row] * n_labels + label
    return sorted_pairs(indptr, indices, labels, n_labels)


def sorted_pairs(
    indptr: NDArray[np.int64], indices: NDArray[np.uint32], labels: EncodedLabels, n_labels: int
) -> NDArray[np.int64]:
    """The same for any number of labels."""
    gold, steps = labels.codes.astype(np.int64), np.diff(indptr)
    known = np.repeat(gold >= 0, steps)
    found = distinct(indices[known].astype(np.int64) * n_labels + np.repeat(gold, steps)[known])
    if labels.allowed is None:
        return found
    # features of open steps times what they may be: the pattern of a product of sparse matrices
    open_steps = gold < 0
    entries = np.repeat(open_steps, steps)
    bounds = np.concatenate([[0], np.cumsum(steps[open_steps])])
    n_features = int(indices.max(initial=0)) + 1
    ones = np.ones(int(bounds[-1]), np.int64)
    occurs = csr_array((ones, indices[entries].astype(np.int64), bounds), shape=(len(bounds) - 1, n_features))
    may_be = csr_array(labels.allowed[open_steps].astype(np.int64))
    together = (occurs.T @ may_be).tocoo()
    return united(found, together.row.astype(np.int64) * n_labels + together.col)


def distinct(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """``np.unique``, by sorting alone: its tables of hashes take several times as long for so many codes."""
    codes = np.sort(codes, kind="stable")  # quick where runs of it are sorted already
    return codes[np.concatenate([[True], codes[1:] != codes[:-1]])] if len(codes) else codes


def united(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    return distinct(np.concatenate([a, b]))


def observed_transitions(
    gold: NDArray[np.int32], allowed: NDArray[np.bool_], offsets: NDArray[np.int64], n_labels: int
) -> NDArray[np.bool_]:
    """Which label pairs occur, or may occur, at neighbouring steps."""
    inside = np.ones(len(gold), dtype=bool)
    inside[offsets[:-1][np.diff(offsets) > 0]] = False
    steps = np.flatnonzero(inside)
    known = steps[(gold[steps] >= 0) & (gold[steps - 1] >= 0)]
    pairs = np.zeros((n_labels, n_labels), dtype=bool)
    pairs[gold[known - 1], gold[known]] = True
    open_steps = steps[(gold[steps] < 0) | (gold[steps - 1] < 0)]
    if len(open_steps):
        before, here = allowed[open_steps - 1], allowed[open_steps]
        pairs |= (before.T.astype(np.float64) @ here.astype(np.float64)) > 0
    return pairs

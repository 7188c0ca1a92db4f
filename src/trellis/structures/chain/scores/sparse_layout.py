"""The layout of a linear chain model whose transitions are a list of allowed pairs.

    w = [ hot rows (H x K) | tail rows (ragged) | transitions (E) | start | end ]

Where :class:`.linear_chain.LinearLayout` has a table of K x K weights, this one has a weight for each
allowed pair (:class:`.transition_pairs.TransitionPairs`), and nothing in it, or on the way to it, grows
with K x K. All other pairs are forbidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from trellis.core.arrays import FloatArray
from trellis.core.errors import ModelFileError, UnsupportedError
from trellis.core.registration import register
from trellis.data.labels import EncodedLabels
from trellis.features.encoded import Encoded
from trellis.structures.chain.scores.linear_chain import FULL_FRACTION, LinearLayout, weight_rows
from trellis.structures.chain.scores.linear_chain_kernels import Design, Penalties, Rows, Weights
from trellis.structures.chain.scores.sparse_chain_scores import SparseChainScores
from trellis.structures.chain.scores.step_score_kernels import StepScores
from trellis.structures.chain.scores.transition_pairs import TransitionPairs, observed_pairs


@register
@dataclass(frozen=True, eq=False)
class SparseLayout(LinearLayout):
    """The layout with a weight for each of ``pairs``."""

    pairs: TransitionPairs

    @classmethod
    def of(
        cls, encoded: Encoded, labels: EncodedLabels | None, pairs: TransitionPairs, *, boundaries: bool
    ) -> SparseLayout:
        """Weights for the pairs of feature and label, and for those of the allowed transitions, that occur
        with ``labels``; without labels for all of them."""
        if encoded.edges is not None:
            raise UnsupportedError(
                "transition_features give every step its own transitions, which sparse ones cannot be; leave "
                "them out, or use transitions='all'"
            )
        k, n = pairs.n_labels, encoded.nodes.n_features
        if labels is None:
            rows = weight_rows(np.full(n, k, np.int64), n, k, np.zeros(0, np.uint16))
            order, hot_mask, pair_mask = np.arange(n), np.ones(n * k, np.uint8), np.ones(len(pairs), np.uint8)
            n_hot = n
        else:
            order, n_hot, rows, hot_mask = _observed_rows(encoded, labels, k)
            seen = observed_pairs(labels, k)
            pair_mask = np.zeros(len(pairs), np.uint8)
            place = pairs.places(seen.source.astype(np.int64), seen.target.astype(np.int64))
            pair_mask[place[place >= 0]] = 1
            if labels.allowed is not None:  # an unknown label may be any, and so may the pairs around it
                pair_mask[:] = 1
        row_of = np.empty(n, np.uint32)
        row_of[order] = np.arange(n, dtype=np.uint32)
        tail = np.ones(int(rows.pointer[-1]) - len(hot_mask), np.uint8)
        mask = np.concatenate([hot_mask, tail, pair_mask, np.full(2 * k, boundaries, np.uint8)])
        return cls(k, n_hot, 0, row_of, rows, mask, boundaries, pairs)

    @property
    def transition_shape(self) -> tuple[int, ...]:
        return (len(self.pairs),)

    @property
    def dimension(self) -> int:
        return self._n_rows_weights + len(self.pairs) + 2 * self.n_labels

    def views(self, flat: FloatArray) -> Weights:
        """The named parts of a flat vector, without copying; ``transitions`` is (E,)."""
        k, n = self.n_labels, self._n_rows_weights
        ends = n + len(self.pairs)
        hot, edge = flat[: self.n_hot * k].reshape(self.n_hot, k), np.zeros((0, k, k))
        return Weights(flat, hot, edge, flat[n:ends], flat[ends : ends + k], flat[ends + k :])

    def transition_table(self, transitions: FloatArray) -> FloatArray:
        return self.pairs.to_dense(transitions)

    def step_scores(self, design: Design, weights: FloatArray) -> StepScores:
        """Features and weights as the kernels of sparse chains take them."""
        w = self.views(weights)
        return StepScores(
            np.zeros((0, self.n_labels)), design.indptr, design.middle, design.indices, design.places,
            design.values, self.rows.pointer, self.rows.label, w.flat, w.hot,
        )  # fmt: skip

    def scores(self, design: Design, penalties: Penalties, weights: FloatArray) -> SparseChainScores:
        """The part scores of a batch; those of steps are computed when they are needed."""
        w, steps = self.views(weights), self.step_scores(design, weights)
        start, end = w.start + penalties.start, w.end + penalties.end
        return SparseChainScores(steps, self.pairs, w.transitions, start, end, design.offsets)

    def _check(self) -> None:
        super()._check()
        if self.n_edge or self.pairs.n_labels != self.n_labels:
            raise ModelFileError("its pairs of labels do not fit its labels")


def _observed_rows(
    encoded: Encoded, labels: EncodedLabels, n_labels: int
) -> tuple[NDArray[np.int64], int, Rows, NDArray[np.uint8]]:
    """Features in the order of their rows, how many of them are full, the rows, and the mask of the full
    ones."""
    n = encoded.nodes.n_features
    codes = np.zeros(0, np.int64)
    for part in (encoded.nodes, encoded.zeros):
        if part is not None:
            codes = np.union1d(codes, _occurring(part.indptr, part.indices, labels, n_labels))
    feature, label = codes // n_labels, codes % n_labels
    count = np.bincount(feature, minlength=n)
    full = count >= max(1, FULL_FRACTION * n_labels)
    order = np.lexsort((np.where(full, 0, -count), ~full))
    n_hot = int(full.sum())
    row_of = np.empty(n, np.int64)
    row_of[order] = np.arange(n)
    row = row_of[feature]
    hot_mask = np.zeros(n_hot * n_labels, np.uint8)
    in_hot = row < n_hot
    hot_mask[row[in_hot] * n_labels + label[in_hot]] = 1
    by_row = np.argsort(row[~in_hot] * n_labels + label[~in_hot])
    tail = label[~in_hot][by_row].astype(np.uint16)
    return order, n_hot, weight_rows(count[order], n_hot, n_labels, tail), hot_mask


def _occurring(
    indptr: NDArray[np.int64], indices: NDArray[np.uint32], labels: EncodedLabels, n_labels: int
) -> NDArray[np.int64]:
    """feature * K + label, of the pairs that occur, or may occur, sorted."""
    gold, steps = labels.codes.astype(np.int64), np.diff(indptr)
    known = np.repeat(gold >= 0, steps)
    found = np.unique(indices[known].astype(np.int64) * n_labels + np.repeat(gold, steps)[known])
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
    return np.union1d(found, together.row.astype(np.int64) * n_labels + together.col)


def sparse_penalties(start: NDArray[np.bool_], end: NDArray[np.bool_], pairs: TransitionPairs) -> Penalties:
    """What is forbidden about first and last labels; pairs that are there are allowed."""
    closed = (np.where(one, 0.0, -np.inf) for one in (start, end))
    first, last = closed
    return Penalties(first, np.zeros(len(pairs)), last)

"""The layout of a linear chain model whose transitions are a list of allowed pairs.

    w = [ hot rows (H x K) | tail rows (ragged) | transitions (E) | start | end ]

Where :class:`.linear_chain.LinearLayout` has a table of K x K weights, this one has a weight for each
allowed pair (:class:`.transition_pairs.TransitionPairs`), and nothing in it, or on the way to it, grows
with K x K. All other pairs are forbidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import ModelFileError, UnsupportedError
from trellis.core.registration import register
from trellis.data.labels import EncodedLabels
from trellis.features.encoded import Encoded
from trellis.structures.chain.scores.linear_chain import FULL_FRACTION, LinearLayout, weight_rows
from trellis.structures.chain.scores.linear_chain_kernels import Design, Penalties, Rows, Weights
from trellis.structures.chain.scores.observed_pairs import ObservedPairs
from trellis.structures.chain.scores.sparse_chain_scores import SparseChainScores
from trellis.structures.chain.scores.step_score_kernels import StepScores
from trellis.structures.chain.scores.transition_pairs import TransitionPairs


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
        cls.check_edges(encoded)
        k, n = pairs.n_labels, encoded.nodes.n_features
        if labels is None:
            rows = weight_rows(np.full(n, k, np.int64), n, k, np.zeros(0, np.uint16))
            order, hot_mask, pair_mask = np.arange(n), np.ones(n * k, np.uint8), np.ones(len(pairs), np.uint8)
            n_hot = n
            return cls._of_rows(order, n_hot, rows, hot_mask, pair_mask, pairs, boundaries)
        seen = ObservedPairs.of(encoded, labels, k, sparse=True)
        return cls.of_seen(seen, n, pairs, boundaries=boundaries)

    @classmethod
    def of_seen(
        cls, seen: ObservedPairs, n_features: int, pairs: TransitionPairs, *, boundaries: bool
    ) -> SparseLayout:
        """Weights for what was seen, in all shards."""
        k = pairs.n_labels
        order, n_hot, rows, hot_mask = _observed_rows(seen.features, n_features, k)
        pair_mask = np.zeros(len(pairs), np.uint8)
        place = pairs.places(seen.transitions // k, seen.transitions % k)
        pair_mask[place[place >= 0]] = 1
        if seen.open:  # an unknown label may be any, and so may the pairs around it
            pair_mask[:] = 1
        return cls._of_rows(order, n_hot, rows, hot_mask, pair_mask, pairs, boundaries)

    @classmethod
    def _of_rows(
        cls,
        order: NDArray[np.int64],
        n_hot: int,
        rows: Rows,
        hot_mask: NDArray[np.uint8],
        pair_mask: NDArray[np.uint8],
        pairs: TransitionPairs,
        boundaries: bool,
    ) -> SparseLayout:
        k, n = pairs.n_labels, len(order)
        row_of = np.empty(n, np.uint32)
        row_of[order] = np.arange(n, dtype=np.uint32)
        tail = np.ones(int(rows.pointer[-1]) - len(hot_mask), np.uint8)
        mask = np.concatenate([hot_mask, tail, pair_mask, np.full(2 * k, boundaries, np.uint8)])
        return cls(k, n_hot, 0, row_of, rows, mask, boundaries, pairs)

    @staticmethod
    def check_edges(encoded: Encoded) -> None:
        if encoded.edges is not None:
            raise UnsupportedError(
                "transition_features give every step its own transitions, which sparse ones cannot be; leave "
                "them out, or use transitions='all'"
            )

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
    codes: NDArray[np.int64], n: int, n_labels: int
) -> tuple[NDArray[np.int64], int, Rows, NDArray[np.uint8]]:
    """Features in the order of their rows, how many of them are full, the rows, and the mask of the full
    ones; ``codes``: feature * K + label of the pairs that were seen."""
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


def sparse_penalties(start: NDArray[np.bool_], end: NDArray[np.bool_], pairs: TransitionPairs) -> Penalties:
    """What is forbidden about first and last labels; pairs that are there are allowed."""
    closed = (np.where(one, 0.0, -np.inf) for one in (start, end))
    first, last = closed
    return Penalties(first, np.zeros(len(pairs)), last)

"""The linear scorer: the layout of its weights in one flat vector, and of the features that they score.

    w = [ hot rows (H x K) | tail rows (ragged) | edge rows (E x K x K) | transitions (K x K) | start | end ]

:meth:`LinearLayout.all_pairs` gives every feature a weight for every label. :meth:`LinearLayout.observed` has
weights only for (feature, label) pairs and transitions that occur in the training data, as CRFsuite does: a
much smaller model if there are many rare features. A row with at least a quarter of its labels observed is
still stored in full, for speed: its other weights are masked, and stay zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import ModelFileError
from trellis.core.registration import register
from trellis.features.encoded import Encoded, Features
from trellis.structures.chain.scores.linear_chain_kernels import (
    LABEL,
    LAST,
    Design,
    Penalties,
    Rows,
    Weights,
    arrange,
    mark_observed,
)
from trellis.structures.chain.scores.observed_pairs import ObservedPairs, observed_transitions

FULL_FRACTION = 0.25


register(Penalties)
register(Rows)


@register
@dataclass(frozen=True, eq=False)
class LinearLayout:
    """The layout of a linear chain model, made from the training features and saved with the model.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> X, y = [["the", "cat"], ["a", "dog"]], [["D", "N"], ["D", "N"]]
    >>> layout = SequenceLabeler("log").fit(X, y).layout_
    >>> layout.n_labels, layout.n_weights
    (2, 9)
    """

    n_labels: int
    n_hot: int
    n_edge: int
    row_of: NDArray[np.uint32]
    rows: Rows
    mask: NDArray[np.uint8]
    boundaries: bool

    shared_by_shards = True  # problems of one model have the same (trellis.core.backends.local_backend)

    @classmethod
    def observed(
        cls,
        encoded: Encoded,
        gold: NDArray[np.int32],
        allowed: NDArray[np.bool_] | None,
        n_labels: int,
        *,
        boundaries: bool,
    ) -> LinearLayout:
        nodes = encoded.nodes
        seen = np.zeros((nodes.n_features, n_labels), dtype=np.uint8)
        if allowed is None:
            allowed = np.zeros((1, n_labels), dtype=np.bool_)
        for part in (nodes, encoded.zeros):
            if part is not None:
                mark_observed(part.indptr, part.indices, gold, allowed, seen)
        pairs = observed_transitions(gold, allowed, nodes.offsets, n_labels)
        return cls._build(seen, pairs, _n_edge(encoded), boundaries)

    @classmethod
    def of_pairs(
        cls, seen: ObservedPairs, n_features: int, n_edge: int, n_labels: int, *, boundaries: bool
    ) -> LinearLayout:
        """What ``observed`` gives for all shards whose pairs were put together."""
        table = np.zeros((n_features, n_labels), dtype=np.uint8)
        table.reshape(-1)[seen.features] = 1
        pairs = np.zeros((n_labels, n_labels), dtype=bool)
        pairs.reshape(-1)[seen.transitions] = True
        return cls._build(table, pairs, n_edge, boundaries)

    @classmethod
    def all_pairs(cls, encoded: Encoded, n_labels: int, *, boundaries: bool) -> LinearLayout:
        n = encoded.nodes.n_features
        width = np.full(n, n_labels, dtype=np.int64)
        rows = weight_rows(width, n, n_labels, np.zeros(0, dtype=np.uint16))
        layout = cls(
            n_labels,
            n,
            _n_edge(encoded),
            np.arange(n, dtype=np.uint32),
            rows,
            np.zeros(0, np.uint8),
            boundaries,
        )
        return layout if boundaries else layout._with_mask(np.ones(layout.dimension, dtype=np.uint8))

    @classmethod
    def _build(
        cls, seen: NDArray[np.uint8], pairs: NDArray[np.bool_], n_edge: int, boundaries: bool
    ) -> LinearLayout:
        n_features, n_labels = seen.shape
        count = seen.sum(axis=1, dtype=np.int64)
        full = count >= max(1, FULL_FRACTION * n_labels)
        # Hot rows keep their order (by frequency); tail rows are grouped by width.
        order = np.lexsort((np.where(full, 0, -count), ~full))
        n_hot = int(full.sum())
        row_of = np.empty(n_features, dtype=np.uint32)
        row_of[order] = np.arange(n_features, dtype=np.uint32)
        tail = seen[order[n_hot:]]
        rows = weight_rows(count[order], n_hot, n_labels, np.nonzero(tail)[1].astype(np.uint16))
        layout = cls(n_labels, n_hot, n_edge, row_of, rows, np.zeros(0, np.uint8), boundaries)
        mask = np.ones(layout.dimension, dtype=np.uint8)
        mask[: n_hot * n_labels] = seen[order[:n_hot]].ravel()
        first, last = layout._sections()[3:5]
        mask[first:last] = pairs.ravel()
        return layout._with_mask(mask)

    def _with_mask(self, mask: NDArray[np.uint8]) -> LinearLayout:
        if not self.boundaries:
            mask[-2 * self.n_labels :] = 0
        return replace(self, mask=mask)

    def _sections(self) -> list[int]:
        k = self.n_labels
        sizes = [self.n_hot * k, self._n_rows_weights - self.n_hot * k, self.n_edge * k * k, k * k, k, k]
        return [0, *(int(x) for x in np.cumsum(sizes))]

    @property
    def _n_rows_weights(self) -> int:
        return int(self.rows.pointer[-1])

    def _widths(self) -> NDArray[np.int64]:
        return self.rows.pointer[1:].astype(np.int64) - self.rows.pointer[:-1]

    @property
    def dimension(self) -> int:
        k = self.n_labels
        return self._n_rows_weights + self.n_edge * k * k + k * k + 2 * k

    @property
    def transition_shape(self) -> tuple[int, ...]:
        """Of the weights of transitions."""
        return self.n_labels, self.n_labels

    def transition_table(self, transitions: FloatArray) -> FloatArray:
        """Scores of transitions, of that shape, as a table (K, K)."""
        return transitions

    @property
    def n_weights(self) -> int:
        """The number of weights that may differ from zero."""
        return int(self.mask.sum()) if len(self.mask) else self.dimension

    def masked(self, gradient: FloatArray) -> FloatArray:
        """Set the entries of masked weights to zero, in place."""
        if len(self.mask):
            gradient *= self.mask
        return gradient

    def views(self, flat: FloatArray) -> Weights:
        """The named parts of a flat vector, without copying."""
        k = self.n_labels
        s = self._sections()
        return Weights(
            flat,
            flat[: s[1]].reshape(self.n_hot, k),
            flat[s[2] : s[3]].reshape(self.n_edge, k, k),
            flat[s[3] : s[4]].reshape(k, k),
            flat[s[4] : s[5]],
            flat[s[5] : s[6]],
        )

    def design(self, encoded: Encoded, *, sort: bool) -> Design:
        """Arrange encoded features for this layout; ``sort`` pays off if the data are scored many times."""
        nodes, edges = encoded.nodes, encoded.edges
        n = len(nodes.indptr) - 1
        indptr, middle = np.empty(n + 1, np.int64), np.empty(n, np.int64)
        indices, places = np.empty(len(nodes.indices), np.uint32), np.empty(len(nodes.indices), np.uint32)
        given = _all_ones_or_long(nodes)
        values = given if len(given) == 1 else np.empty(len(given))
        kept = arrange(
            nodes.indptr, nodes.indices, given, self.row_of, self.n_hot, self.rows.pointer, sort,
            indptr, middle, indices, places, values,
        )  # fmt: skip
        if edges is None:
            nothing = np.zeros(1, np.int64)
            edges = Features(nothing, np.zeros(0, np.uint32), np.ones(1), 0, nothing)
        edge_values = _all_ones_or_long(edges)
        return Design(
            nodes.offsets,
            indptr,
            middle,
            indices[:kept],
            places[:kept],
            values,
            edges.indptr,
            edges.indices,
            edge_values,
        )

    def to_dense(self, flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Feature weights (n_features, K) in the encoder's order, and the rest of the vector."""
        return self.feature_weights(flat), flat[self._n_rows_weights :]

    def from_dense(self, features: FloatArray, rest: FloatArray) -> FloatArray:
        """The inverse of :meth:`to_dense`, perhaps of another layout; weights without a place are dropped."""
        width = self._widths()
        rows = np.empty_like(features)
        rows[self.row_of] = features
        flat = np.concatenate([rows[np.repeat(np.arange(len(width)), width), self.rows.label & LABEL], rest])
        return flat * self.mask if len(self.mask) else flat

    def feature_weights(self, flat: FloatArray) -> FloatArray:
        """Dense weights (n_features, K) in the encoder's order of features."""
        rows = np.zeros((len(self.row_of), self.n_labels))
        width = self._widths()
        row = np.repeat(np.arange(len(width)), width)
        rows[row, self.rows.label & LABEL] = flat[: self._n_rows_weights]
        return rows[self.row_of]

    def weight_entries(self, flat: FloatArray) -> tuple[NDArray[Any], NDArray[Any], FloatArray]:
        """(feature, label, weight) of the weights of features that are not 0."""
        feature_of = np.argsort(self.row_of)
        feature = np.repeat(feature_of, self._widths())
        weight = flat[: self._n_rows_weights]
        some = weight != 0.0
        return feature[some], (self.rows.label & LABEL)[some], weight[some]

    def to_state(self) -> dict[str, Any]:
        """The fields, without the labels of the hot rows, which are all labels in order."""
        tail = self.rows.label[self.n_hot * self.n_labels :]
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"rows": Rows(self.rows.pointer, tail)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> LinearLayout:
        """The inverse of :meth:`to_state`; checks that rows, labels and pointers stay inside the weights."""
        k, n_hot, n = state["n_labels"], state["n_hot"], len(state["row_of"])
        if not all(type(size) is int and size >= 0 for size in (k, n_hot, state["n_edge"])) or n_hot > n:
            raise ModelFileError("its numbers of weights do not fit its features")
        pointer, tail = state["rows"]
        if len(pointer) != n + 1 or n_hot * k > int(pointer[-1]):
            raise ModelFileError("its rows of weights do not fit its features")
        hot = np.tile(np.arange(k, dtype=np.uint16), n_hot)
        layout = cls(**{**state, "rows": Rows(pointer, np.concatenate([hot, tail]))})
        layout._check()
        return layout

    def _check(self) -> None:
        """Kernels index without bounds checks, so nothing in a file is trusted."""
        k, n_hot, n = self.n_labels, self.n_hot, len(self.row_of)
        pointer, label = self.rows
        types = [array.dtype.name for array in (self.row_of, pointer, label, self.mask)]
        if types != ["uint32", "uint32", "uint16", "uint8"]:
            raise ModelFileError(f"its rows of weights have the types {', '.join(types)}")
        bounds = pointer.astype(np.int64)
        width = np.diff(bounds)
        tail = label[n_hot * k :] if bounds[n_hot] == n_hot * k else label[:0]
        ends = bounds[n_hot + 1 :][width[n_hot:] > 0] - 1 - n_hot * k
        inside = (
            bounds[0] == 0
            and bool((width >= 0).all() and (width[:n_hot] == k).all())
            and label.shape == (bounds[-1],)
            and bool(((label & LABEL) < k).all())
            and np.array_equal(np.flatnonzero(tail & LAST), ends)
            and np.array_equal(np.sort(self.row_of), np.arange(n))
        )
        if not inside:
            raise ModelFileError("its rows of weights are not in order")
        if self.mask.shape not in ((0,), (self.dimension,)):
            raise ModelFileError("its mask does not fit its weights")


def _all_ones_or_long(features: Features) -> FloatArray:
    """Values for kernels, to which an array of one entry means that all values are 1."""
    if len(features.values) == 1 and len(features.indices) == 1 and features.values[0] != 1.0:
        return np.append(features.values, 0.0)
    return features.values


def _n_edge(encoded: Encoded) -> int:
    return 0 if encoded.edges is None else encoded.edges.n_features


def weight_rows(count: NDArray[np.int64], n_hot: int, n_labels: int, tail_labels: NDArray[np.uint16]) -> Rows:
    """``n_hot`` full rows, then rows of ``count`` weights with these labels."""
    width = np.where(np.arange(len(count)) < n_hot, n_labels, count)
    pointer = np.concatenate([[0], np.cumsum(width)]).astype(np.uint32)
    hot = np.tile(np.arange(n_labels, dtype=np.uint16), n_hot)
    label = np.concatenate([hot, tail_labels])
    ends = pointer[n_hot + 1 :][width[n_hot:] > 0] - 1
    label[ends] |= LAST
    return Rows(pointer, label)

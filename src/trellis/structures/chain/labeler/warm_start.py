"""Weights of one model as the start of another: carried over by the names of features and labels.

What both models have keeps its weight; what is new starts at zero; what is gone is dropped.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.data.labels import LabelSet
from trellis.features.encoded import FeatureEncoder
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.sparse_layout import SparseLayout

if TYPE_CHECKING:
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler


def carried_over(
    old: SequenceLabeler, layout: LinearLayout, states: LabelSet, encoder: FeatureEncoder
) -> FloatArray:
    """The weights of ``old``, arranged for a new layout, set of states and encoder."""
    before = old.layout_.views(old.weights_)
    label = _places(old.latent_.states.labels, states.labels)
    feature = _places(old.encoder_.feature_names(), encoder.feature_names())
    edge = _places(old.encoder_.edge_feature_names(), encoder.edge_feature_names())
    rest = [
        _moved(before.edge, edge, label, label),
        _moved_transitions(old.layout_, before.transitions, layout, label),
        _moved(before.start, label),
        _moved(before.end, label),
    ]
    features = _moved(old.layout_.feature_weights(old.weights_), feature, label)
    return layout.from_dense(features, np.concatenate([part.ravel() for part in rest]))


def _moved_transitions(
    old: LinearLayout, weights: FloatArray, new: LinearLayout, label: NDArray[np.int64]
) -> FloatArray:
    """Those of pairs, or of a table, as pairs or as a table; ``label``: where each new label was."""
    if not isinstance(new, SparseLayout):
        if isinstance(old, SparseLayout):
            weights = old.pairs.to_matrix(weights).toarray()
        return _moved(weights, label, label)
    j, k = label[new.pairs.source], label[new.pairs.target]
    known = (j < old.n_labels) & (k < old.n_labels)
    moved = np.zeros(len(new.pairs))
    if not isinstance(old, SparseLayout):
        moved[known] = weights[j[known], k[known]]
        return moved
    place = old.pairs.places(j[known], k[known])
    moved[known] = np.where(place >= 0, np.append(weights, 0.0)[place], 0.0)
    return moved


def _places(old: Sequence[Hashable], new: Sequence[Hashable]) -> NDArray[np.int64]:
    """Where each new name was among the old ones; the place past the end if it was not there."""
    place = {name: i for i, name in enumerate(old)}
    return np.array([place.get(name, len(old)) for name in new], dtype=np.int64)


def _moved(array: FloatArray, *places: NDArray[np.int64]) -> FloatArray:
    """``array[places[0]][:, places[1]]...``, with zeros for places past the end."""
    padded = np.pad(array, [(0, 1)] * array.ndim)
    return np.ascontiguousarray(padded[np.ix_(*places)])

"""Encoded inputs: the features of every step, as CSR.

An encoder learns its vocabulary in ``fit`` and turns inputs into :class:`Encoded`; the rooms above do not
know what kind of inputs the features came from.

Inputs in shards are counted shard by shard: ``count`` gives counts, the sum of counts (``+``, in the order of
the shards) is that of all shards, ``learn`` makes the vocabulary of it, and ``encode`` does for a shard what
``fit`` does for everything. Vocabulary and ids are exactly those of ``fit`` on all shards together, for every
``min_count``: counts are kept of every feature, also of rare ones, in the order of their first appearance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from trellis.core.arguments import check_int
from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.data.sequences import check_offsets, take_runs


@dataclass(frozen=True, eq=False)
class Features:
    """CSR over steps: step ``t`` has the features ``indices[indptr[t]:indptr[t + 1]]``.

    ``indptr``: int64 (N + 1,). ``indices``: uint32 (nnz,), so that kernels index without a wrap-around test.
    ``values``: float64 (nnz,), or ``[1.0]`` if all values are one. ``offsets``: int64 (S + 1,).

    Examples
    --------
    >>> from trellis.features import FeatureIndexer
    >>> nodes = FeatureIndexer().fit([["cat", "ran", "cat"]]).nodes
    >>> nodes.indices.tolist(), nodes.offsets.tolist()
    ([0, 1, 0], [0, 3])
    """

    indptr: IntArray
    indices: NDArray[np.uint32]
    values: NDArray[np.float64]
    n_features: int
    offsets: IntArray

    def __post_init__(self) -> None:
        check_offsets(self.offsets, self.n_steps)

    @property
    def n_steps(self) -> int:
        return len(self.indptr) - 1

    def take(self, sequences: IntArray) -> Features:
        """The features of some of the sequences, in the given order."""
        steps, offsets = take_runs(self.offsets, sequences)
        entries, indptr = take_runs(self.indptr, steps)
        values = self.values if self.values.shape == (1,) else self.values[entries]
        return Features(indptr, self.indices[entries], values, self.n_features, offsets)

    def to_csr(self) -> csr_array:
        """As a scipy matrix (steps, features)."""
        values = np.broadcast_to(self.values, self.indices.shape)
        return csr_array((values, self.indices, self.indptr), shape=(self.n_steps, self.n_features))


@dataclass(frozen=True, eq=False)
class Encoded:
    """``nodes`` score labels; ``edges`` (if any) score transitions *into* their step.

    ``zeros``: the features that were given the value 0, in training data that have any. They score nothing,
    but the label of their step was seen with them, so that the pair has a weight (as in CRFsuite).

    Examples
    --------
    >>> from trellis.features import FeatureIndexer
    >>> encoded = FeatureIndexer().fit([[{"word": "cat"}, {"word": "ran"}]])
    >>> encoded.nodes.n_features, encoded.edges is None
    (2, True)
    """

    nodes: Features
    edges: Features | None = None
    zeros: Features | None = None

    def take(self, sequences: IntArray) -> Encoded:
        """Some of the sequences, in the given order."""
        parts = (self.nodes, self.edges, self.zeros)
        nodes, edges, zeros = (None if part is None else part.take(sequences) for part in parts)
        return Encoded(cast(Features, nodes), edges, zeros)


class FeatureEncoder(Protocol):
    """Turns inputs into features; ``to_state`` and ``from_state`` are for model files.

    Examples
    --------
    >>> from trellis.features import FeatureEncoder, FeatureIndexer
    >>> encoder: FeatureEncoder = FeatureIndexer()
    >>> encoder.fit([["cat", "ran"]]).nodes.n_features
    2
    """

    @property
    def n_features(self) -> int: ...

    @property
    def n_edge_features(self) -> int: ...

    def fit(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        """Learn the vocabulary and encode."""

    def transform(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        """Encode; features that ``fit`` did not see are ignored."""

    def count(self, X: Any, lengths: ArrayLike | None = None) -> Any:
        """The counts of one shard; they can be added."""

    def learn(self, counts: Any) -> None:
        """The vocabulary of the shards whose counts were added."""

    def encode(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        """Like ``transform``, of data to learn from: with the features of value 0."""

    def feature_names(self) -> list[str]: ...

    def edge_feature_names(self) -> list[str]: ...

    def to_state(self) -> dict[str, Any]:
        """Values that :func:`trellis.core.codec.encode` can store."""

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self: ...


class CodedSteps(NamedTuple):
    """What every input becomes first: CSR over steps of codes that the encoder gave to its features.

    ``values``: one for each code, or ``[1.0]`` if all values are one. A code of -1 is no feature, and neither
    is a value of 0.
    """

    codes: NDArray[np.int32]
    values: NDArray[np.float64]
    indptr: IntArray
    offsets: IntArray

    @property
    def zero(self) -> NDArray[np.bool_] | None:
        """Which values are 0; None where none is."""
        if self.values.shape == (1,) and self.values[0] != 0.0:
            return None
        zero: NDArray[np.bool_] = np.broadcast_to(self.values == 0.0, self.codes.shape)
        return zero if zero.any() else None

    def to_features(self, id_of_code: NDArray[np.int32], n_features: int) -> Features:
        """Features with ids ``id_of_code[codes]``; a code or an id of -1 and a value of 0 are dropped."""
        return self._features(id_of_code, n_features, self.zero)

    def to_zeros(self, id_of_code: NDArray[np.int32], n_features: int) -> Features | None:
        """What :meth:`to_features` drops because its value is 0, if anything."""
        zero = self.zero
        if zero is None:
            return None
        return self._replace(values=np.ones(1))._features(id_of_code, n_features, ~zero)

    def _features(
        self, id_of_code: NDArray[np.int32], n_features: int, dropped: NDArray[np.bool_] | None
    ) -> Features:
        codes, values, indptr, offsets = self
        table = np.append(id_of_code, np.int32(-1))  # so that code -1 finds id -1
        ids = table[codes]
        if dropped is not None or (len(ids) and ids.min() < 0):
            kept = ids >= 0 if dropped is None else (ids >= 0) & ~dropped
            indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
            ids = ids[kept]
            if values.shape == codes.shape:
                values = values[kept]
        if values.shape != (1,) and (values == 1.0).all():
            values = np.ones(1)
        return Features(indptr.astype(np.int64, copy=False), ids.view(np.uint32), values, n_features, offsets)


class CodedEncoder:
    """What encoders of named features and of arrays share: ``min_count``, and the features of transitions.

    ``transition_features``: ``True`` for all features, or the keys of some of them.
    """

    _key: ClassVar[tuple[type, ...]]  # the types of a key
    _keys_are: ClassVar[str]  # what keys are, for an error message
    _edge_ids: NDArray[np.int32]  # (n_features,) the id that a feature has among those of transitions, or -1

    def __init__(self, min_count: int = 1, transition_features: bool | Iterable[Any] = ()) -> None:
        self.min_count = check_int("min_count", min_count, 1)
        if not isinstance(transition_features, bool | Iterable):
            raise DataError(
                f"transition_features is {transition_features!r}; give True, or a list of {self._keys_are}"
            )
        if not isinstance(transition_features, bool):
            single = isinstance(transition_features, str)
            transition_features = (transition_features,) if single else tuple(transition_features)
            for key in transition_features:
                if isinstance(key, bool) or not isinstance(key, self._key):
                    raise DataError(f"transition_features holds {key!r}; it must hold {self._keys_are}")
        self.transition_features: bool | tuple[Any, ...] = transition_features
        self._edge_ids = np.empty(0, np.int32)

    def feature_names(self) -> list[str]:
        raise NotImplementedError

    @property
    def n_features(self) -> int:
        return len(self._edge_ids)

    @property
    def n_edge_features(self) -> int:
        return int(self._edge_ids.max(initial=-1)) + 1

    def edge_feature_names(self) -> list[str]:
        names = zip(self.feature_names(), self._edge_ids.tolist(), strict=True)
        return [name for name, edge in names if edge >= 0]

    def _set_edges(self, chosen: NDArray[np.bool_]) -> None:
        """``chosen`` (n_features,): which features score transitions as well."""
        self._edge_ids = np.where(chosen, np.cumsum(chosen) - 1, -1).astype(np.int32)

    def _encode(self, steps: CodedSteps, ids: NDArray[np.int32]) -> Encoded:
        nodes = steps.to_features(ids, self.n_features)
        if not self.transition_features:
            return Encoded(nodes)
        coded = CodedSteps(nodes.indices.view(np.int32), nodes.values, nodes.indptr, nodes.offsets)
        return Encoded(nodes, coded.to_features(self._edge_ids, self.n_edge_features))


def ids_by_frequency(counts: NDArray[np.int64], min_count: int) -> NDArray[np.int32]:
    """New ids by decreasing count, so that frequent weight rows share cache lines; -1 for rare features."""
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] >= max(min_count, 1)]
    ids = np.full(len(counts), -1, np.int32)
    ids[order] = np.arange(len(order), dtype=np.int32)
    return ids


def no_steps(encoder: FeatureEncoder, n_sequences: int) -> Encoded:
    """Sequences of no steps, which encoders refuse."""
    nothing, offsets = np.zeros(1, np.int64), np.zeros(n_sequences + 1, np.int64)
    nodes = Features(nothing, np.zeros(0, np.uint32), np.ones(1), encoder.n_features, offsets)
    return Encoded(
        nodes, replace(nodes, n_features=encoder.n_edge_features) if encoder.n_edge_features else None
    )

"""Hashed features: the number of a feature is a hash of its name, so that no vocabulary has to be learned.

Features whose hashes agree share a *bucket*, and so their weights. With n features in m buckets,
m (1 - exp(-n / m)) buckets are used, and about n (1 - exp(-n / m)) features share theirs with another one:
with four times as many buckets as features, a fifth of these. Names are not kept.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.errors import DataError, UnsupportedError
from trellis.core.registration import register
from trellis.data.vocabulary import string_spans
from trellis.features.encoded import CodedSteps, Encoded
from trellis.features.hash_kernels import hash_spans
from trellis.features.indexer import code_steps

LEAST, MOST = 2, 2**30
_AT_ONCE = 1 << 13  # groups of strings whose text is joined: it stays in the cache


def check_buckets(hashing: Any) -> int:
    whole = isinstance(hashing, int | np.integer) and not isinstance(hashing, bool)
    if not whole or not LEAST <= hashing <= MOST or hashing & (hashing - 1):
        raise DataError(
            f"hashing is {hashing!r}; give a number of buckets that is a power of two, such as {2**20} "
            "(about four times the number of features), or None"
        )
    return int(hashing)


def refuse_counts(min_count: int, of_transitions: bool) -> None:
    """What needs the names of features, or how often they occur."""
    if min_count != 1:
        raise UnsupportedError(f"hashing does not count features, so min_count must be 1, not {min_count}")
    if of_transitions:
        raise UnsupportedError(
            "hashed features score labels, not transitions; leave out transition_features (or the B lines "
            "with macros of the template), or hashing"
        )


def string_hashes(groups: Sequence[Collection[str]]) -> NDArray[np.uint64]:
    """Hashes of all strings of all groups, end to end. ``TypeError`` if one is not a string."""
    parts = [
        np.asarray(hash_spans(*string_spans(groups[i : i + _AT_ONCE])))
        for i in range(0, len(groups), _AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


class HashedEncoder:
    """What encoders of hashed features share: they know all there is to know before they see any data."""

    n_edge_features = 0

    def __init__(self, buckets: int) -> None:
        self.buckets = check_buckets(buckets)

    @property
    def n_features(self) -> int:
        return self.buckets

    def fit(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        return self.encode(X, lengths)

    def transform(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        raise NotImplementedError

    def encode(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        return self.transform(X, lengths)

    def count(self, X: Any, lengths: ArrayLike | None = None) -> int:
        """There is nothing to count; a sum of nothing is nothing."""
        return 0

    def learn(self, counts: int) -> None:
        """There is nothing to learn."""

    def feature_names(self) -> list[str]:
        return [f"bucket {i}" for i in range(self.buckets)]

    def edge_feature_names(self) -> list[str]:
        return []


@register
class HashedNames(HashedEncoder):
    """Named features in all forms that :class:`~trellis.features.indexer.FeatureIndexer` takes, hashed.

    Examples
    --------
    >>> from trellis.features import HashedNames
    >>> HashedNames(16).fit([["cat", "ran"]]).nodes.n_features
    16
    """

    def transform(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        steps = code_steps(X, lengths, self._bucket)
        return Encoded(steps.to_features(self._ids(), self.buckets))

    def encode(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        steps: CodedSteps = code_steps(X, lengths, self._bucket)
        ids = self._ids()
        nodes = Encoded(steps.to_features(ids, self.buckets))
        return replace(nodes, zeros=steps.to_zeros(ids, self.buckets))

    def to_state(self) -> dict[str, Any]:
        return {"buckets": self.buckets}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        return cls(state["buckets"])

    def _bucket(self, groups: Sequence[Collection[str]]) -> NDArray[np.int32]:
        return (string_hashes(groups) & np.uint64(self.buckets - 1)).astype(np.int32)

    def _ids(self) -> NDArray[np.int32]:
        return np.arange(self.buckets, dtype=np.int32)


def shared_features(buckets: int, used: int) -> tuple[int, int]:
    """How many features there seem to be if so many of the buckets are used, and how many of them are likely
    to share a bucket with another one. (Both are at least ``buckets`` where all are used.)"""
    if used >= buckets:
        return buckets, buckets
    load = -math.log1p(-used / buckets)
    features = load * buckets
    return round(features), round(features * -math.expm1(-load))

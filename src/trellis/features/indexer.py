"""Named features: dictionaries, lists of strings, or one string per step, indexed by a vocabulary.

A feature dictionary is read as in sklearn-crfsuite: a string value makes the feature ``key=value``, a number
makes ``key`` with that value (``True`` is 1, ``False`` is 0), a list or set of strings one ``key=item`` each,
and a nested dictionary prefixes its features with ``key:``. A feature of value 0 adds nothing to a score, but
the label of its step has been seen with it (:class:`~trellis.features.encoded.Encoded`).

Strings are turned into ids in batches (:mod:`trellis.data.vocabulary`). Each distinct (key, value) pair of
dictionaries is formatted only once per call. The most frequent feature has id 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError, ModelFileError, shown
from trellis.core.registration import register
from trellis.data.attributes import AttributeData
from trellis.data.flatten import flatten
from trellis.data.row_checks import LARGEST
from trellis.data.sequences import offsets_from_lengths, step_name
from trellis.data.user_input import frames_as_rows
from trellis.data.vocabulary import Vocabulary
from trellis.data.vocabulary_kernels import gather
from trellis.features.count_sketch import CountSketch
from trellis.features.encoded import CodedEncoder, CodedSteps, Encoded, ids_by_frequency
from trellis.features.hash_kernels import hash_spans

Codes = NDArray[np.int32]
Lookup = Callable[[Sequence[Collection[str]]], Codes]

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
_COLLECTIONS = (list, tuple, set, frozenset)


@dataclass(frozen=True, eq=False)
class FeatureCounts:
    """Names of features in the order of their first appearance, as the arrays of a vocabulary, and how often
    each occurs."""

    pool: NDArray[np.uint8]
    bounds: IntArray
    counts: NDArray[np.int64]

    def __add__(self, other: FeatureCounts) -> FeatureCounts:
        names = Vocabulary.from_packed(self.pool, self.bounds)
        text = np.frombuffer(other.pool.tobytes(), np.uint8)
        codes = names.add_spans(text, other.bounds[:-1].copy(), other.bounds[1:].copy())
        counts = np.zeros(len(names), np.int64)
        counts[: len(self.counts)] = self.counts
        counts[codes] += other.counts  # each name once
        return FeatureCounts(*names.packed(), counts)

    def hashed(self) -> list[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
        """Hashes of the features with their counts, for a sketch."""
        return [(hash_spans(self.pool, self.bounds[:-1], self.bounds[1:]), self.counts)]

    def without_rare(self, sketch: CountSketch, least: int) -> FeatureCounts:
        """Without what occurs fewer than ``least`` times in all shards, as far as their sketch knows."""
        kept = np.flatnonzero(sketch.may_reach(self.hashed()[0][0], least))
        pool, bounds = gather(self.pool, self.bounds, kept)
        return FeatureCounts(pool, bounds, self.counts[kept])


@register
class FeatureIndexer(CodedEncoder):
    """Indexes named features, in any of the forms above; ``lengths`` cuts one flat list of steps.

    ``min_count``: features seen fewer times in ``fit`` are dropped. ``transition_features``: ``True`` for all
    features, or the keys of those that also score transitions; key ``k`` stands for the features ``k``,
    ``k=...`` and ``k:...``.

    Examples
    --------
    >>> from trellis.features import FeatureIndexer
    >>> indexer = FeatureIndexer()
    >>> indexer.fit([[{"word": "cat", "upper": True}, {"word": "ran"}]]).nodes.indptr.tolist()
    [0, 2, 3]
    """

    _key = (str,)
    _keys_are = "the keys of features (strings)"

    def __init__(self, min_count: int = 1, transition_features: bool | Iterable[str] = ()) -> None:
        super().__init__(min_count, transition_features)
        self._vocabulary = Vocabulary()

    def fit(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        seen = Vocabulary()
        steps = code_steps(X, lengths, seen.add)
        ids = self._learn(seen, _count(steps, len(seen)))
        return replace(self._encode(steps, ids), zeros=steps.to_zeros(ids, self.n_features))

    def transform(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        steps = code_steps(X, lengths, self._vocabulary.find)
        return self._encode(steps, np.arange(self.n_features, dtype=np.int32))

    def count(self, X: Any, lengths: ArrayLike | None = None) -> FeatureCounts:
        seen = Vocabulary()
        steps = code_steps(X, lengths, seen.add)
        return FeatureCounts(*seen.packed(), _count(steps, len(seen)))

    def learn(self, counts: FeatureCounts) -> None:
        self._learn(Vocabulary.from_packed(counts.pool, counts.bounds), counts.counts)

    def encode(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        steps = code_steps(X, lengths, self._vocabulary.find)
        ids = np.arange(self.n_features, dtype=np.int32)
        return replace(self._encode(steps, ids), zeros=steps.to_zeros(ids, self.n_features))

    def _learn(self, seen: Vocabulary, counts: NDArray[np.int64]) -> NDArray[np.int32]:
        """Make the vocabulary; returns the id of each string that was seen, or -1."""
        ids = ids_by_frequency(counts, self.min_count)
        by_id = np.empty(int(ids.max(initial=-1)) + 1, dtype=np.int64)
        by_id[ids[ids >= 0]] = np.flatnonzero(ids >= 0)
        self._set_vocabulary(seen.reordered(by_id))
        return ids

    def feature_names(self) -> list[str]:
        return self._vocabulary.strings()

    def to_state(self) -> dict[str, Any]:
        return {
            "min_count": self.min_count,
            "transition_features": self.transition_features,
            "vocabulary": self._vocabulary,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        encoder = cls(state["min_count"], state["transition_features"])
        if not isinstance(state["vocabulary"], Vocabulary):
            raise ModelFileError("its features are damaged")
        encoder._set_vocabulary(state["vocabulary"])
        return encoder

    def _set_vocabulary(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        keys = self.transition_features
        chosen = np.full(len(vocabulary), keys is True)
        if not isinstance(keys, bool) and keys:
            prefixes = tuple(f"{key}{mark}" for key in keys for mark in "=:")
            exact, names = set(keys), vocabulary.strings()
            chosen = np.fromiter((n in exact or n.startswith(prefixes) for n in names), np.bool_, len(names))
        self._set_edges(chosen)


def _count(steps: CodedSteps, n: int) -> NDArray[np.int64]:
    """How often each code 0..n-1 occurs with a value other than 0."""
    codes = steps.codes if steps.zero is None else steps.codes[~steps.zero]
    counts = np.zeros(n, np.int64)
    for first in range(0, len(codes), 1 << 18):  # bincount makes an int64 copy, so not of all at once
        counts += np.bincount(codes[first : first + (1 << 18)], minlength=n)
    return counts


def code_steps(X: Any, lengths: ArrayLike | None, lookup: Lookup) -> CodedSteps:
    """Codes of all features end to end, by the reader for the type of the steps."""
    if isinstance(X, AttributeData):
        return CodedSteps(lookup([X.names])[X.codes], X.values, X.indptr, X.offsets)
    steps, offsets = flatten("X", frames_as_rows(X, lengths), lengths)
    if not steps:
        raise DataError(f"X has {len(offsets) - 1} sequences and no steps; at least one step is needed")
    types = set(map(type, steps))
    if all(issubclass(t, str) for t in types):
        return CodedSteps(lookup([steps]), np.ones(1), np.arange(len(steps) + 1, dtype=np.int64), offsets)
    if all(issubclass(t, _COLLECTIONS) for t in types):
        if any(issubclass(t, set | frozenset) for t in types):
            # the order of a set of strings varies between processes; ids must not
            steps = [sorted(step, key=str) if isinstance(step, set | frozenset) else step for step in steps]
        indptr = offsets_from_lengths(np.fromiter(map(len, steps), np.int64, len(steps)))
        try:
            codes = lookup(steps)
        except TypeError:
            raise _not_a_string(steps, offsets) from None
        return CodedSteps(codes, np.ones(1), indptr, offsets)
    if all(issubclass(t, dict) for t in types):
        return _code_dicts(steps, offsets, lookup)
    raise _mixed_steps(steps, offsets)


def _code_dicts(steps: list[dict[str, Any]], offsets: IntArray, lookup: Lookup) -> CodedSteps:
    value_types = set(map(type, chain.from_iterable(map(dict.values, steps))))
    if all(issubclass(t, (str, *_NUMBERS)) for t in value_types):
        lengths = np.fromiter(map(len, steps), np.int64, len(steps))
        pairs: Iterable[tuple[Any, Any]] = chain.from_iterable(map(dict.items, steps))
    else:
        expanded = [list(_expand(step, "")) for step in steps]
        lengths = np.fromiter(map(len, expanded), np.int64, len(expanded))
        pairs = chain.from_iterable(expanded)
    indptr = offsets_from_lengths(lengths)
    table: defaultdict[tuple[Any, Any], int] = defaultdict()
    table.default_factory = table.__len__
    # 1, 1.0 and True are the same dictionary key, and the same feature
    pair_codes = np.fromiter(map(table.__getitem__, pairs), np.int32, int(indptr[-1]))

    names: list[str] = []
    values = np.zeros(len(table))
    for code, (key, value) in enumerate(table):
        name, number = _feature(key, value)
        if name is None:
            step = int(np.searchsorted(indptr, np.flatnonzero(pair_codes == code)[0], side="right")) - 1
            raise DataError(
                f"{step_name(offsets, step)}: feature {shown(key)} has the value {value!r}; keys must be "
                "strings, and values strings, finite numbers, booleans, lists of strings or dictionaries of "
                "these (leave out missing values)"
            )
        values[code] = number
        names.append(name)
    flat_values = np.ones(1) if (values == 1.0).all() else values[pair_codes]
    return CodedSteps(lookup([names])[pair_codes], flat_values, indptr, offsets)


def _expand(step: dict[str, Any], prefix: str) -> Iterator[tuple[Any, Any]]:
    """The (key, value) pairs of a dictionary, with collections and nested dictionaries expanded."""
    for key, value in step.items():
        name = f"{prefix}{key}" if isinstance(key, str) else key
        if isinstance(value, dict):
            yield from _expand(value, f"{name}:")
        elif isinstance(value, _COLLECTIONS):
            items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
            for item in items:
                yield (
                    (f"{name}={item}", True)
                    if isinstance(item, str)
                    else (name, _Invalid(f"[{shown(item)}]"))
                )
        else:
            yield name, value if isinstance(value, (str, *_NUMBERS)) else _Invalid(shown(value))


@dataclass(frozen=True)
class _Invalid:
    """Stands for an invalid value (which may not be hashable) until its step is known."""

    shown: str

    def __repr__(self) -> str:
        return self.shown


def _feature(key: Any, value: Any) -> tuple[str | None, float]:
    """Name and value of the feature of a (key, value) pair; the name is ``None`` if the pair is invalid."""
    if isinstance(key, str):
        if isinstance(value, str):
            return f"{key}={value}", 1.0
        if isinstance(value, _NUMBERS) and -LARGEST <= value <= LARGEST:
            return key, float(value)
    return None, 0.0


def _not_a_string(steps: list[Any], offsets: IntArray) -> DataError:
    for i, step in enumerate(steps):
        for item in step:
            if not isinstance(item, str):
                return DataError(f"{step_name(offsets, i)} holds {shown(item)}; features must be strings")
    return DataError("features must be strings")


def _mixed_steps(steps: list[Any], offsets: IntArray) -> DataError:
    groups = (str, _COLLECTIONS, dict)
    first = next((g for g in groups if isinstance(steps[0], g)), None)
    index = 0 if first is None else next(i for i, step in enumerate(steps) if not isinstance(step, first))
    return DataError(
        f"{step_name(offsets, index)} is of type {type(steps[index]).__name__}; every step must be "
        "a dictionary of features, every step a list of strings, or every step a string"
    )

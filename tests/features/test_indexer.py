"""Named features and arrays: against plain dictionaries and scipy, and every kind of bad input."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from codec_copy import through_codec
from trellis.core.codec import decode
from trellis.core.errors import DataError, ModelFileError, UnsupportedError
from trellis.features import ArrayEncoder, FeatureIndexer, Features, encoder_for
from trellis.features.encoded import FeatureEncoder

strings = st.lists(
    st.lists(st.lists(st.text(alphabet="ab=é\n", max_size=2), max_size=4), max_size=4), min_size=1
)
scalars = st.one_of(st.text(alphabet="ab", max_size=2), st.booleans(), st.sampled_from([0, 1, -2, 0.5, 1.0]))
values = st.one_of(
    scalars,
    st.lists(st.text(alphabet="ab", max_size=1), max_size=2),
    st.frozensets(st.text(alphabet="ab", max_size=1), max_size=2),
    st.dictionaries(st.sampled_from("uv"), scalars, max_size=2),
)
dicts = st.lists(st.lists(st.dictionaries(st.sampled_from("kl"), values, max_size=2), max_size=4), min_size=1)


def spelled(step: dict, prefix: str = "") -> Counter:
    """Features of a dictionary, written out the plain way."""
    features: Counter = Counter()
    for key, value in step.items():
        if isinstance(value, dict):
            features.update(spelled(value, f"{prefix}{key}:"))
        elif isinstance(value, list | frozenset):
            features.update(Counter(f"{prefix}{key}={item}" for item in value))
        elif isinstance(value, str):
            features[f"{prefix}{key}={value}"] += 1
        elif value != 0:
            features[f"{prefix}{key}"] += value
    return features


def named(features: Features, names: list[str]) -> list[Counter]:
    """Each step's features by name, with the values of repeated ones summed."""
    out = []
    flat = np.broadcast_to(features.values, features.indices.shape)
    for t in range(features.n_steps):
        step: Counter = Counter()
        for i in range(features.indptr[t], features.indptr[t + 1]):
            step[names[features.indices[i]]] += flat[i]
        out.append(step)
    return out


def through_a_file(encoder: FeatureEncoder) -> FeatureEncoder:
    copy: FeatureEncoder = through_codec(encoder)
    return copy


@given(strings.filter(lambda X: any(X)), strings.filter(lambda X: any(X)))
def test_lists_of_strings(X, other) -> None:
    indexer = FeatureIndexer()
    encoded = indexer.fit(X)
    assert encoded.edges is None
    names = indexer.feature_names()
    assert named(encoded.nodes, names) == [Counter(step) for s in X for step in s]
    assert encoded.nodes.offsets.tolist() == np.concatenate([[0], np.cumsum([len(s) for s in X])]).tolist()
    counts = Counter(f for s in X for step in s for f in step)
    assert names == [name for name, _ in counts.most_common()]  # falling frequency, ties as first seen
    for encoder in (indexer, through_a_file(indexer)):
        seen = [Counter({f: n for f, n in Counter(step).items() if f in counts}) for s in other for step in s]
        assert named(encoder.transform(other).nodes, names) == seen


@given(dicts.filter(lambda X: any(X)), dicts.filter(lambda X: any(X)))
def test_dictionaries(X, other) -> None:
    indexer = FeatureIndexer()
    encoded = indexer.fit(X)
    names = indexer.feature_names()
    assert named(encoded.nodes, names) == [spelled(step) for s in X for step in s]
    known = set(names)
    expected = [Counter({f: v for f, v in spelled(step).items() if f in known}) for s in other for step in s]
    assert named(through_a_file(indexer).transform(other).nodes, names) == expected


def test_one_string_per_step_and_lengths() -> None:
    indexer = FeatureIndexer()
    assert indexer.fit([["a", "b"], ["a"]]).nodes.indices.tolist() == [0, 1, 0]
    flat = indexer.transform(["a", "z", "b"], lengths=[1, 2]).nodes
    assert flat.indptr.tolist() == [0, 1, 1, 2]
    assert flat.offsets.tolist() == [0, 1, 3]
    assert flat.values.tolist() == [1.0]


def test_min_count_drops_what_is_rare() -> None:
    X = [[["a", "b"], ["a", "c"]], [["c"]]]
    indexer = FeatureIndexer(min_count=2)
    encoded = indexer.fit(X)
    assert indexer.feature_names() == ["a", "c"]
    assert encoded.nodes.indptr.tolist() == [0, 1, 3, 4]
    assert encoded.nodes.indices.dtype == np.uint32


def test_the_order_of_sets_does_not_matter() -> None:
    sets = [[{"b", "a", "c"}, {"d", "c"}]]
    assert FeatureIndexer().fit(sets).nodes.indices.tolist() == [1, 2, 0, 0, 3]


def test_transition_features() -> None:
    X = [[{"w": "x", "n": 2.0, "v": {"u": True}}, {"w": "y", "word": "x"}]]
    indexer = FeatureIndexer(transition_features=["w", "v"])
    encoded = indexer.fit(X)
    assert encoded.edges is not None
    assert indexer.edge_feature_names() == ["w=x", "v:u", "w=y"]
    assert indexer.n_edge_features == encoded.edges.n_features == 3
    assert encoded.edges.indptr.tolist() == [0, 2, 3]
    assert encoded.edges.indices.tolist() == [0, 1, 2]
    assert encoded.edges.values.tolist() == [1.0]
    again = through_a_file(indexer)
    assert again.transform(X).edges.indices.tolist() == [0, 1, 2]
    everything = FeatureIndexer(transition_features=True)
    assert everything.fit(X).edges.indices.tolist() == everything.transform(X).nodes.indices.tolist()


def test_bad_named_features() -> None:
    for X, message in [
        ([], "no steps"),
        ([[]], "X has 1 sequences and no steps"),
        ([{"a": 1}], "sequence 0 of X is {'a': 1}"),
        ([["a"], "ab"], "sequence 1 of X is 'ab'"),
        ([[{"a": None}]], "step 0 of sequence 0: feature 'a' has the value None"),
        ([[{"a": 1}], [{"a": float("nan")}]], "step 0 of sequence 1: feature 'a' has the value nan"),
        ([[{"a": 1}, {"b": [3]}]], r"step 1 of sequence 0: feature 'b' has the value \[3\]"),
        ([[{"a": np.zeros(2)}]], "step 0 of sequence 0: feature 'a' has the value array"),
        ([[{1: "x"}]], "feature 1 has the value 'x'"),
        ([[["a"], ["b", 3]]], "step 1 of sequence 0 holds 3; features must be strings"),
        ([[["a"], [["b"]]]], "step 1 of sequence 0 holds"),
        ([[["a"]], [{"a": 1}]], "step 0 of sequence 1 is of type dict"),
        ([[3.5]], "step 0 of sequence 0 is of type float"),
    ]:
        with pytest.raises(DataError, match=message):
            FeatureIndexer().fit(X)
    with pytest.raises(DataError, match="lengths add up to 3, but X has 1 steps"):
        FeatureIndexer().fit(["a"], lengths=[3])
    with pytest.raises(DataError, match="min_count is 0"):
        FeatureIndexer(min_count=0)
    with pytest.raises(DataError, match="must hold the keys"):
        FeatureIndexer(transition_features=[0])


matrices = st.integers(1, 4).flatmap(
    lambda d: st.lists(
        st.integers(0, 4).flatmap(
            lambda n: arrays(np.float64, (n, d), elements=st.sampled_from([0.0, 1.0, -2.5, 1e150]))
        ),
        min_size=1,
        max_size=4,
    )
)


@given(matrices.filter(lambda X: sum(map(len, X))))
def test_arrays_and_sparse_matrices(X) -> None:
    stacked, lengths = np.concatenate(X), [len(x) for x in X]
    inputs = [
        (X, None),
        ([csr_matrix(x) for x in X], None),
        (stacked, lengths),
        (csr_matrix(stacked), lengths),
    ]
    for data, given_lengths in inputs:
        encoder = ArrayEncoder(transition_features=[-1])
        for encoded in (
            encoder.fit(data, given_lengths),
            through_a_file(encoder).transform(data, given_lengths),
        ):
            assert np.array_equal(encoded.nodes.to_csr().toarray(), stacked)
            assert (encoded.nodes.values != 0).all()
            assert encoded.edges is not None
            assert np.array_equal(encoded.edges.to_csr().toarray(), stacked[:, -1:])
            assert np.diff(encoded.nodes.offsets).tolist() == lengths
    assert encoder.feature_names() == [f"x{j}" for j in range(stacked.shape[1])]
    assert encoder.edge_feature_names() == [f"x{stacked.shape[1] - 1}"]


@given(matrices.filter(lambda X: sum(map(len, X))), st.data())
def test_take_picks_sequences(X, data) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(X) - 1)))
    taken = ArrayEncoder(transition_features=True).fit(X).take(np.array(chosen, np.int64))
    expected = np.concatenate([np.empty((0, X[0].shape[1])), *(X[i] for i in chosen)])
    assert np.array_equal(taken.nodes.to_csr().toarray(), expected)
    assert taken.edges is not None
    assert np.array_equal(taken.edges.to_csr().toarray(), expected)
    assert np.diff(taken.nodes.offsets).tolist() == [len(X[i]) for i in chosen]


def test_binary_arrays_store_no_values() -> None:
    encoded = ArrayEncoder().fit([np.eye(3)])
    assert encoded.nodes.values.tolist() == [1.0]
    matrix = csr_matrix(np.array([[0.0, 1.0], [2.0, 1.0]]))
    matrix.data[0] = 0.0  # a stored zero
    assert ArrayEncoder().fit(matrix, lengths=[2]).nodes.indptr.tolist() == [0, 0, 2]
    assert matrix.nnz == 3  # the caller's matrix is left alone


def test_min_count_of_columns() -> None:
    encoder = ArrayEncoder(min_count=2)
    encoded = encoder.fit([np.array([[1.0, 1.0], [0.0, 1.0]])])
    assert encoder.n_features == 2
    assert encoded.nodes.to_csr().toarray().tolist() == [[0, 1], [0, 1]]


def test_bad_arrays() -> None:
    nan, inf = np.zeros((2, 3)), np.zeros((2, 3))
    nan[1, 2], inf[0, 1] = np.nan, np.inf
    for X, lengths, message in [
        ([np.zeros((1, 3)), nan], None, "step 1 of sequence 1 holds nan in column 2"),
        ([csr_matrix(inf)], None, "step 0 of sequence 0 holds inf in column 1"),
        (nan, [1, 1], "step 0 of sequence 1 holds nan in column 2"),
        (
            [np.zeros((1, 3)), np.zeros((1, 2))],
            None,
            r"sequence 1 of X has shape \(1, 2\); every sequence must have shape \(length, 3\)",
        ),
        ([[[1.0], [1.0, 2.0]]], None, "sequence 0 of X is ragged"),
        ([np.zeros(3)], None, r"X has rows of shape \(\)"),
        ([np.zeros((1, 1), complex)], None, "must hold real numbers"),
        (np.zeros((3, 2)), None, "pass lengths"),
        (np.zeros((3, 2)), [1, 1], "lengths add up to 2, but X has 3 rows"),
        ([], None, "no sequences"),
        ([np.zeros((0, 2))], None, "no steps"),
    ]:
        with pytest.raises(DataError, match=message):
            ArrayEncoder().fit(X, lengths)
    encoder = ArrayEncoder()
    encoder.fit([np.zeros((1, 3))])
    with pytest.raises(DataError, match="X has 2 columns, but there were 3 in training"):
        encoder.transform([np.zeros((1, 2))])
    with pytest.raises(DataError, match="names column 3, but X has 3 columns"):
        ArrayEncoder(transition_features=[3]).fit([np.zeros((1, 3))])
    with pytest.raises(DataError, match="must hold column numbers"):
        ArrayEncoder(transition_features=["w"])


def test_the_encoder_is_chosen_by_the_data() -> None:
    for X in (
        [np.zeros((2, 3))],
        [csr_matrix((2, 3))],
        [[[1.0, 2.0]]],
        [[(1, 2)]],
        np.zeros((2, 3, 4)),
        [[], [[1]]],
    ):
        assert isinstance(encoder_for(X), ArrayEncoder)
    for X in ([[{"a": 1}]], [[["a"]]], [["a"]], [[], [["a"]]], [[[], ["a"]]]):
        assert isinstance(encoder_for(X), FeatureIndexer)
    assert isinstance(encoder_for([{"a": 1}], flat=True), FeatureIndexer)
    assert isinstance(encoder_for([[1.0, 2.0]], flat=True), ArrayEncoder)


def test_a_damaged_state_is_named() -> None:
    with pytest.raises(ModelFileError, match="unknown kind 'x'"):
        decode({"@": "x"}, {})
    with pytest.raises(ModelFileError, match="min_count"):
        decode({"@": "features.ArrayEncoder"}, {})


def test_columns_take_no_transition_features() -> None:
    from trellis.data.columns import ColumnData

    with pytest.raises(UnsupportedError, match="B lines"):
        encoder_for(ColumnData.from_sequences([[("a", "b")]]), transition_features=True)

"""Counts of shards, added in their order, give exactly the vocabulary and the ids of a fit on everything."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from trellis.core.backends.shard_sums import fixed_order_sum
from trellis.core.codec import encode
from trellis.core.errors import DataError
from trellis.features import ArrayEncoder, FeatureIndexer, Template, TemplateEncoder
from trellis.features.count_sketch import CountSketch

WORDS = st.sampled_from(["a", "b", "ab", "é", "_B-1", "_B+2", "7", "x=y"])
VALUES = st.one_of(WORDS, st.integers(-1, 2), st.booleans(), st.lists(WORDS, max_size=2))
NAMED = st.dictionaries(WORDS, VALUES, max_size=4)
TEMPLATES = [
    "U00:%x[0,0]\nU01:%x[-1,0]/%x[0,0]\nU02:%x[0,0]/%x[1,0]\nB",
    "U00:%x[0,0]/%x[2,0]\nU01:%x[-1,0]/%x[0,0]\nU02:%x[-1,0]/%x[0,0]/%x[1,1]\nB01:%x[0,1]\nU03:%x[-2,1]",
]


def same(a: Any, b: Any) -> None:
    """Two encoders have the same state, to the bit; of templates, the same features: a table also has n-grams
    that begin beyond the end of one sequence and end before the next one, which are no feature of any."""
    assert a.feature_names() == b.feature_names()
    assert a.edge_feature_names() == b.edge_feature_names()
    if isinstance(a, TemplateEncoder):
        return
    arrays: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    assert encode(a, arrays[0], "e") == encode(b, arrays[1], "e")
    assert arrays[0].keys() == arrays[1].keys()
    for name, array in arrays[0].items():
        np.testing.assert_array_equal(array, arrays[1][name])


def same_features(a: Any, b: Any, offset: int, steps: int) -> None:
    """The features of a shard are those of its steps in the whole."""
    matrix = b.to_csr()[offset : offset + steps]
    assert (a.to_csr() != matrix).nnz == 0


def check(new: Any, X: list[Any], cuts: list[int]) -> None:
    whole, parts = new(), new()
    encoded = whole.fit(X)
    bounds = [0, *sorted(cuts), len(X)]
    shards = [X[a:b] for a, b in pairwise(bounds) if any(len(s) for s in X[a:b])]
    parts.learn(fixed_order_sum([new().count(shard) for shard in shards]))
    same(whole, parts)
    done = 0
    for shard in shards:
        steps = sum(map(len, shard))
        found = parts.encode(shard)
        same_features(found.nodes, encoded.nodes, done, steps)
        assert (found.edges is None) == (encoded.edges is None)
        if found.edges is not None:
            same_features(found.edges, encoded.edges, done, steps)
        if found.zeros is not None:
            same_features(found.zeros, encoded.zeros, done, steps)
        done += steps


def check_sketched(new: Any, X: list[Any], cuts: list[int], min_count: int, size: int) -> None:
    """Whatever the sketch confuses, the features are those of a fit on everything."""
    whole, parts = new(), new()
    whole.fit(X)
    bounds = [0, *sorted(cuts), len(X)]
    counts = [new().count(X[a:b]) for a, b in pairwise(bounds) if any(len(s) for s in X[a:b])]
    sketch = fixed_order_sum([CountSketch.of(one.hashed(), size) for one in counts])
    parts.learn(fixed_order_sum([one.without_rare(sketch, min_count) for one in counts]))
    assert parts.feature_names() == whole.feature_names()
    assert parts.edge_feature_names() == whole.edge_feature_names()
    found, expected = parts.encode(X), whole.encode(X)
    same_features(found.nodes, expected.nodes, 0, found.nodes.n_steps)
    if found.edges is not None:
        same_features(found.edges, expected.edges, 0, found.nodes.n_steps)


def sequences(step: Any) -> Any:
    return st.lists(st.lists(step, max_size=4), min_size=1, max_size=6).filter(any)


CUTS = st.lists(st.integers(0, 6), max_size=4)


@given(sequences(NAMED), CUTS, st.integers(1, 3), st.sampled_from([(), True, ("a", "é")]))
def test_named_features(X: Any, cuts: list[int], min_count: int, edges: Any) -> None:
    check(lambda: FeatureIndexer(min_count, edges), X, [min(c, len(X)) for c in cuts])


@given(
    sequences(st.tuples(WORDS, WORDS)),
    CUTS,
    st.integers(1, 3),
    st.sampled_from(TEMPLATES),
    st.sampled_from(["pad", "omit"]),
)
def test_templates(X: Any, cuts: list[int], min_count: int, text: str, beyond: Any) -> None:
    template = Template.parse(text, beyond)
    check(lambda: TemplateEncoder(template, min_count), X, [min(c, len(X)) for c in cuts])


SIZES = st.sampled_from([1, 8, 1 << 16])  # counters that all features share, that some do, and enough


@given(sequences(NAMED), CUTS, st.integers(1, 4), SIZES)
def test_a_sketch_leaves_out_no_named_feature(X: Any, cuts: list[int], min_count: int, size: int) -> None:
    cuts = [min(c, len(X)) for c in cuts]
    check_sketched(lambda: FeatureIndexer(min_count), X, cuts, min_count, size)


@given(
    sequences(st.tuples(WORDS, WORDS)),
    CUTS,
    st.integers(1, 4),
    st.sampled_from(TEMPLATES),
    st.sampled_from(["pad", "omit"]),
    SIZES,
)
def test_a_sketch_leaves_out_no_feature_of_a_template(
    X: Any, cuts: list[int], min_count: int, text: str, beyond: Any, size: int
) -> None:
    template, cuts = Template.parse(text, beyond), [min(c, len(X)) for c in cuts]
    check_sketched(lambda: TemplateEncoder(template, min_count), X, cuts, min_count, size)


def test_a_sketch_leaves_out_what_is_rare() -> None:
    X = [[(f"w{i // 3 if i < 300 else i}",) for i in range(1000)]]
    encoder = TemplateEncoder(Template.parse("U00:%x[0,0]\nU01:%x[0,0]/%x[1,0]"), 3)
    counts = encoder.count(X)
    left = counts.without_rare(CountSketch.of(counts.hashed()), 3)
    assert [len(bounds) - 1 for _, bounds in counts.strings.values()] == [802]
    assert [len(bounds) - 1 for _, bounds in left.strings.values()] == [102]  # and _B-1, _B+1
    assert [len(keys) for keys in left.tables.values()] == [0]
    hashes = np.arange(4, dtype=np.uint64)  # of which all share the place 0
    one, other = (CountSketch.of([(hashes[:3], np.array([200, 250, 9]))], 4) for _ in range(2))
    assert one.counters.tolist() == [255, 250, 9, 0]
    both = one + other
    assert both.counters.tolist() == [255, 255, 18, 0]
    assert one.counters.tolist() == [255, 250, 9, 0]  # a cluster may ask for the same sum again
    assert both.may_reach(hashes, 18).tolist() == [True, True, True, False]


def test_the_builtin_template() -> None:
    rng = np.random.default_rng(0)
    words = ["New", "york", "3", "B-2", "x", "Xx", "9a"]
    X = [[(str(rng.choice(words)), str(rng.choice(["N", "V"]))) for _ in range(n)] for n in (5, 1, 7, 3, 4)]
    check(lambda: TemplateEncoder(Template.builtin(2), 2), X, [1, 3])


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 4), st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any), CUTS, st.data())
def test_arrays(width: int, lengths: list[int], cuts: list[int], data: Any) -> None:
    values = st.sampled_from([0.0, 1.0, -2.5])
    X = [
        np.array([[data.draw(values) for _ in range(width)] for _ in range(n)]).reshape(n, width)
        for n in lengths
    ]
    check(lambda: ArrayEncoder(2), X, [min(c, len(X)) for c in cuts])


def test_columns_must_agree() -> None:
    counts = [ArrayEncoder().count([np.ones((2, n))]) for n in (2, 3)]
    with pytest.raises(DataError, match="2 and of 3 columns"):
        counts[0] + counts[1]
    sparse = ArrayEncoder().count([csr_array(np.eye(2))])
    np.testing.assert_array_equal((sparse + counts[0]).counts, [3, 3])

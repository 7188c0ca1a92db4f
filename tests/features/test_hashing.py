"""Hashed features: the same model as with an index where no two share a bucket; stable, saved, explained."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import SequenceLabeler, load
from trellis.core.errors import DataError, UnsupportedError
from trellis.data.attributes import parse_attributes
from trellis.data.columns import ColumnData
from trellis.features import FeatureIndexer, HashedNames, HashedTemplate, Template, TemplateEncoder
from trellis.features.encoded import Encoded
from trellis.features.hashed_names import shared_features, string_hashes
from trellis.structures.chain.labeler.inspection import said_of_hashing

WORDS = ["the", "a", "dog", "Cat", "runs", "sees", "ü", ""]


def _same_up_to_names(indexed: Encoded, hashed: Encoded) -> None:
    """One permutation of the features turns one into the other, step by step."""
    a, b = indexed.nodes, hashed.nodes
    np.testing.assert_array_equal(a.indptr, b.indptr)
    np.testing.assert_array_equal(a.offsets, b.offsets)
    np.testing.assert_array_equal(a.values, b.values)
    pairs = set(zip(a.indices.tolist(), b.indices.tolist(), strict=True))
    assert len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs})


def _rows(seed: int, n: int = 40) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        length = int(rng.integers(1, 8))
        words = [WORDS[i] or "x" for i in rng.integers(0, len(WORDS), length)]
        X.append([(w, "PQ"[int(rng.integers(2))]) for w in words])
        y.append(["AB"[(w[0].isupper() + int(rng.integers(4) == 0)) % 2] for w in words])
    return X, y


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(["pad", "omit"]))
def test_templates_are_hashed_as_they_are_indexed(seed: int, out_of_bounds: str) -> None:
    lines = "U00:%x[0,0]\nU01:%x[-2,0]/%x[1,1]\nU02:%x[-1,0]/%x[0,0]/%x[1,0]\nU:%x[-1,1]\nU:%x[1,1]\nU"
    lines += "\nU03:%suffix2[0,0]\nU04:%lower[0,0]%first\nU05:%last\nB"
    template = Template.parse(lines, out_of_bounds)
    X, _ = _rows(seed, 5)
    hashed = HashedTemplate(template, 2**30)
    found = hashed.fit(X)
    _same_up_to_names(TemplateEncoder(template).fit(X), found)
    again = HashedTemplate.from_state(hashed.to_state())
    np.testing.assert_array_equal(again.transform(X).nodes.indices, found.nodes.indices)
    # a hash is of the feature alone: the same for a part of the data, and for fewer buckets but for high bits
    part = hashed.transform(X[2:3]).nodes
    np.testing.assert_array_equal(part.indices, found.take(np.array([2])).nodes.indices)
    few = HashedTemplate(template, 16).transform(X).nodes
    np.testing.assert_array_equal(few.indices, found.nodes.indices % 16)


@pytest.mark.parametrize("kind", ["strings", "lists", "dictionaries", "attributes"])
def test_names_are_hashed_as_they_are_indexed(kind: str) -> None:
    X: Any = {
        "strings": [["a", "b"], ["b", "ü"]],
        "lists": [[["a", "b"], []], [["b", "c", "a"]]],
        "dictionaries": [[{"w": "a", "n": 2.0, "z": 0}, {"w": "b", "in": {"x": ["p", "q"]}}], [{"n": 1.5}]],
        "attributes": parse_attributes(b"L\ta\tb:2\nM\ta\n\nL\tc:0\tb\n", "x"),
    }[kind]
    indexed, hashed = FeatureIndexer().fit(X), HashedNames(2**20).fit(X)
    _same_up_to_names(indexed, hashed)
    assert (indexed.zeros is None) == (hashed.zeros is None)
    if hashed.zeros is not None:
        assert len(hashed.zeros.indices) == 1
        assert HashedNames(2**20).transform(X).zeros is None


@pytest.mark.parametrize("kind", ["columns", "names"])
def test_without_collisions_the_model_is_that_of_the_index(kind: str, tmp_path: Path) -> None:
    rows, y = _rows(3)
    X: Any = rows if kind == "columns" else [[{"w": w, "p": p} for w, p in steps] for steps in rows]
    options: dict[str, Any] = {"template": Template.builtin(2)} if kind == "columns" else {}
    indexed = SequenceLabeler(l2=0.5, tol=1e-9, **options).fit(X, y)
    buckets = 2**16 if kind == "columns" else 2**12
    hashed = SequenceLabeler(l2=0.5, tol=1e-9, hashing=buckets, **options).fit(X, y)
    used = np.unique(hashed.encoder_.transform(X).nodes.indices)
    assert len(used) == indexed.encoder_.n_features  # no two share a bucket
    assert hashed.layout_.n_weights == indexed.layout_.n_weights
    wanted = np.sort(indexed.layout_.weight_entries(indexed.weights_)[2])
    np.testing.assert_allclose(np.sort(hashed.layout_.weight_entries(hashed.weights_)[2]), wanted, atol=1e-6)
    for a, b in zip(indexed.predict_marginals(X), hashed.predict_marginals(X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    hashed.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.hashing == buckets
    assert [list(s) for s in again.predict(X)] == [list(s) for s in hashed.predict(X)]
    (state, top), *_ = again.strongest_weights(3).items()
    assert state in ("A", "B")
    assert all(name.startswith("bucket ") for name, _ in top)
    said = said_of_hashing(hashed)
    assert said is not None
    assert f"{len(used)} of {buckets} buckets are used" in said
    assert said_of_hashing(indexed) is None


def test_collisions_are_as_many_as_expected() -> None:
    names = [f"feature {i}" for i in range(20_000)]
    buckets = np.asarray(string_hashes([names]) % np.uint64(2**15)).astype(np.int64)
    count = np.bincount(buckets, minlength=2**15)
    features, shared = shared_features(2**15, int((count > 0).sum()))
    assert abs(features - 20_000) < 300
    assert abs(shared - count[count > 1].sum()) < 300
    assert count.max() < 10  # of a fair hash, the fullest of 32,768 buckets with 0.6 each has about 7
    assert shared_features(8, 8) == (8, 8)
    assert shared_features(8, 0) == (0, 0)


def test_hashes_never_change() -> None:
    found = [hex(h) for h in string_hashes([["", "a", "w[0]=dog", "a longer name, ü"]]).tolist()]
    assert found == PINNED
    code = "from trellis.features.hashed_names import string_hashes as f; print(f([['a']])[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert hex(int(done.stdout)) == PINNED[1]
    rows = ColumnData.from_sequences([[("dog", "N"), ("runs", "V")]])
    template = HashedTemplate(Template.parse("U0:%x[-1,0]/%x[0,1]\nU1:%shape[0,0]"), 2**20)
    assert template.transform(rows).nodes.indices.tolist() == PINNED_TEMPLATE


PINNED = ["0x1", "0xfb761138e1e0a78c", "0x7eaf12cb2bee0b48", "0x2809dfef0be75aba"]
PINNED_TEMPLATE = [684588, 90550, 87550, 90550]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"hashing": 1000}, DataError, "hashing is 1000; give a number of buckets that is a power of two"),
        ({"hashing": True}, DataError, "hashing is True"),
        ({"hashing": 0}, DataError, "hashing is 0"),
        ({"hashing": 16, "min_count": 2}, UnsupportedError, "min_count must be 1, not 2"),
        ({"hashing": 16, "transition_features": True}, UnsupportedError, "score labels, not transitions"),
        ({"hashing": 16, "template": Template.parse("B0:%x[0,0]")}, UnsupportedError, "B lines"),
    ],
)
def test_what_hashing_cannot_do(options: dict[str, Any], error: type[Exception], message: str) -> None:
    X = [[("a",), ("b",)]] if "template" in options else [["a", "b"]]
    with pytest.raises(error, match=message):
        SequenceLabeler(**options).fit(X, [["A", "B"]])
    with pytest.raises(UnsupportedError, match="columns of arrays are numbered already"):
        SequenceLabeler(hashing=16).fit([np.eye(2)], [["A", "B"]])


def test_a_hashed_chain_is_no_hmm() -> None:
    model = SequenceLabeler(hashing=16).fit([["a", "b"]], [["A", "B"]])
    with pytest.raises(UnsupportedError, match="without hashing"):
        model.to_hmm()

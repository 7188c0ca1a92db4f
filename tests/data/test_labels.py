"""Labels and codes: order, unknown labels and sets, errors that name the place, state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec_copy import through_codec
from trellis.core.errors import DataError
from trellis.data.labels import LabelSet
from trellis.data.sequences import offsets_from_lengths

hashables = st.one_of(
    st.text(max_size=3), st.integers(0, 5), st.tuples(st.integers(0, 2), st.text(max_size=1))
)


@given(st.lists(st.lists(hashables, max_size=5), min_size=1).filter(lambda y: any(y)))
def test_decode_inverts_encode(y: list[list[object]]) -> None:
    labels = LabelSet.of(y)
    encoded = labels.encode(y)
    assert encoded.allowed is None
    assert labels.decode(encoded.codes, encoded.offsets) == y
    assert through_codec(labels).labels == labels.labels


def test_order_is_sorted_where_possible() -> None:
    assert LabelSet.of([["b", "a"], ["c"]]).labels == ("a", "b", "c")
    assert LabelSet.of([["b", 3, "a"]]).labels == ("b", 3, "a")  # not comparable: as first seen
    assert LabelSet.of([np.array([2, 0]), np.array([1])]).labels == (0, 1, 2)
    assert LabelSet.of(["hello", "old"]).labels == tuple("dehlo")


def test_unknown_labels_and_sets() -> None:
    y = [["a", None], [{"a", "c"}, frozenset({"b"})], [None]]
    labels = LabelSet.of(y)
    assert labels.labels == ("a", "b", "c")
    encoded = labels.encode(y)
    assert encoded.codes.tolist() == [0, -1, -1, 1, -1]
    assert encoded.allowed is not None
    assert encoded.allowed.tolist() == [
        [True, False, False],
        [True, True, True],
        [True, False, True],
        [False, True, False],
        [True, True, True],
    ]
    only_none = labels.encode([["c", None]])
    assert only_none.allowed is not None
    assert only_none.allowed.tolist() == [[False, False, True], [True, True, True]]
    assert labels.encode([[{"a"}]]).allowed is None  # a set of one is known


def test_take_and_ambiguous() -> None:
    labels = LabelSet(["a", "b"])
    encoded = labels.encode([["a", None], ["b"], [], [{"a", "b"}]])
    assert encoded.ambiguous.tolist() == [True, False, False, True]
    taken = encoded.take(np.array([1, 0, 2]))
    assert taken.codes.tolist() == [1, 0, -1]
    assert taken.offsets.tolist() == [0, 1, 3, 3]
    assert taken.allowed is not None
    assert taken.allowed.tolist() == [[False, True], [True, False], [True, True]]
    assert encoded.take(np.empty(0, np.int64)).offsets.tolist() == [0]


def test_frozensets_alone_are_looked_into() -> None:
    assert LabelSet.of([[frozenset({"x", "y"}), "z"]]).labels == ("x", "y", "z")


def test_flat_labels_with_lengths() -> None:
    labels = LabelSet.of(np.array([1, 0, 1]), lengths=[2, 1])
    encoded = labels.encode(np.array([1, 0, 1]), lengths=[2, 1])
    assert encoded.codes.tolist() == [1, 0, 1]
    assert encoded.offsets.tolist() == [0, 2, 3]
    assert labels.encode([[1, 0], [1]], lengths=[2, 1]).offsets.tolist() == [0, 2, 3]
    with pytest.raises(DataError, match="lengths add up to 4, but y has 3 labels"):
        labels.encode([1, 0, 1], lengths=[4])


def test_errors_name_the_place() -> None:
    labels = LabelSet(["a", "b"])
    with pytest.raises(DataError, match=r"label 'z' of step 1 of sequence 2 was not seen in training"):
        labels.encode([["a"], [], ["b", "z"]])
    with pytest.raises(DataError, match="sequence 1 has 3 steps in X, but 2 in y"):
        labels.encode([["a"], ["a", "b"]], like=offsets_from_lengths([1, 3]))
    with pytest.raises(DataError, match="X has 2 sequences, but y has 1"):
        labels.encode([["a"]], like=offsets_from_lengths([1, 3]))
    with pytest.raises(DataError, match="sequence 1 of y is None"):
        labels.encode([["a"], None])
    with pytest.raises(DataError, match="step 0 of sequence 1 has an empty set"):
        labels.encode([["a"], [set()]])
    with pytest.raises(DataError, match="step 0 of sequence 0 cannot be hashed"):
        LabelSet.of([[["a"]]])
    with pytest.raises(DataError, match="there are no labels"):
        LabelSet.of([[None, None]])
    with pytest.raises(DataError, match="y has no sequences"):
        LabelSet.of([])


def test_more_labels_than_training_had() -> None:
    labels = LabelSet(["a", "b"])
    assert labels.extended([["a"], [None, {"a", "b"}]]) is labels
    more = labels.extended([["z", "b"], [{"y", "a"}, None]])
    assert more.labels == ("a", "b", "y", "z")
    encoded = more.encode([["z", "b"], [{"y", "a"}, None]])
    assert encoded.codes.tolist() == [3, 1, -1, -1]
    assert labels.extended([[None]]) is labels
    with pytest.raises(DataError, match="a label is NaN"):
        labels.extended([[float("nan")]])


def test_labels_that_cannot_be_saved() -> None:
    for label in (b"x", float("inf"), (1, b"x")):
        with pytest.raises(DataError, match="cannot be saved"):
            LabelSet([label, "a"]).to_state()

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.data.sequences import Sequences, check_offsets, offsets_from_lengths, shard_bounds

lengths = st.lists(st.integers(0, 7), min_size=1, max_size=12)


@given(lengths)
def test_lists_go_in_and_come_out(sizes: list[int]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 3)) for n in sizes]
    packed = Sequences.from_list(arrays)
    assert len(packed) == len(sizes)
    assert packed.lengths.tolist() == sizes
    for index, array in enumerate(arrays):
        np.testing.assert_array_equal(packed[index], array)
        np.testing.assert_array_equal(packed[index - len(sizes)], array)
    for ours, theirs in zip(packed.to_list(), arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(packed, arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_empty_list_takes_the_shape_of_the_others() -> None:
    packed = Sequences.from_list([[], [[1.0, 2.0]], []])
    assert packed.values.shape == (1, 2)
    assert packed.lengths.tolist() == [0, 1, 0]
    assert packed[0].shape == (0, 2)


def test_lengths_of_one_array() -> None:
    packed = Sequences.from_lengths(np.arange(6), [1, 0, 5])
    assert [part.tolist() for part in packed] == [[0], [], [1, 2, 3, 4, 5]]
    with pytest.raises(DataError, match="add up to 5, but there are 6 rows"):
        Sequences.from_lengths(np.arange(6), [2, 3])


@pytest.mark.parametrize("index", [2, -3])
def test_index_out_of_range(index: int) -> None:
    with pytest.raises(IndexError):
        Sequences.from_list([[1], [2]])[index]


def test_bad_lists_are_named() -> None:
    with pytest.raises(DataError, match="no sequences"):
        Sequences.from_list([])
    with pytest.raises(DataError, match=r"sequence 1 has shape \(1, 3\).*\(length, 2\)"):
        Sequences.from_list([[[1, 2]], [[1, 2, 3]]])
    with pytest.raises(DataError, match="sequence 0 has shape"):
        Sequences.from_list([np.float64(3.0)])


@pytest.mark.parametrize(
    ("bad", "message"),
    [([[1]], "whole numbers"), ([1.5], "whole numbers"), ([3, -1], r"lengths\[1\] is -1")],
)
def test_bad_lengths(bad: list[object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        offsets_from_lengths(bad)


@pytest.mark.parametrize("offsets", [[], [1, 3], [0, 2], [[0, 3]]])
def test_offsets_must_cover_the_values(offsets: list[object]) -> None:
    with pytest.raises(DataError, match=r"from 0 to the number of values \(3\)"):
        check_offsets(np.array(offsets, dtype=np.int64), 3)


def test_offsets_must_not_decrease() -> None:
    with pytest.raises(DataError, match="after sequence 1"):
        check_offsets(np.array([0, 3, 2, 3]), 3)
    with pytest.raises(DataError, match="after sequence 1"):
        Sequences(np.arange(3), np.array([0, 3, 2, 3]))


@given(lengths, st.integers(1, 6))
def test_shards_cover_every_sequence_once(sizes: list[int], n_shards: int) -> None:
    bounds = shard_bounds(offsets_from_lengths(sizes), n_shards)
    assert len(bounds) <= n_shards
    assert [i for first, last in bounds for i in range(first, last)] == list(range(len(sizes)))
    assert all(first < last for first, last in bounds)


def test_shards_balance_steps_not_sequences() -> None:
    offsets = offsets_from_lengths([100] + [1] * 100)
    assert shard_bounds(offsets, 2) == [(0, 1), (1, 101)]

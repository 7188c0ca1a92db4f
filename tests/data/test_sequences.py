from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.data.row_checks import check_rows
from trellis.data.sequences import (
    Sequences,
    append_steps,
    check_offsets,
    check_same_lengths,
    offsets_from_lengths,
    sum_by_sequence,
)

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
    with pytest.raises(DataError, match="add up to 5, but X has 6 rows"):
        Sequences.from_lengths(np.arange(6), [2, 3])


@pytest.mark.parametrize("index", [2, -3])
def test_index_out_of_range(index: int) -> None:
    with pytest.raises(IndexError):
        Sequences.from_list([[1], [2]])[index]


def test_bad_lists_are_named() -> None:
    with pytest.raises(DataError, match="no sequences"):
        Sequences.from_list([])
    with pytest.raises(DataError, match=r"sequence 1 of X has shape \(1, 3\).*\(length, 2\)"):
        Sequences.from_list([[[1, 2]], [[1, 2, 3]]])
    with pytest.raises(DataError, match="sequence 0 of X has shape"):
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


ROWS = [np.arange(6.0).reshape(3, 2), np.arange(2.0).reshape(1, 2)]


class Frame:
    """A data frame, as far as it matters: ``to_numpy``, and iteration over the names of its columns."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def to_numpy(self) -> np.ndarray:
        return self.values

    def __iter__(self) -> Iterator[str]:
        return iter("ab")


def as_objects(arrays: list[np.ndarray]) -> np.ndarray:
    packed = np.empty(len(arrays), object)
    packed[:] = arrays
    return packed


@pytest.mark.parametrize(
    "given",
    [ROWS, tuple(ROWS), iter(ROWS), as_objects(ROWS), [Frame(a) for a in ROWS], [a.tolist() for a in ROWS]],
)
def test_whatever_holds_sequences_is_packed(given: object) -> None:
    packed = Sequences.pack(given)
    np.testing.assert_array_equal(packed.values, np.concatenate(ROWS))
    assert packed.offsets.tolist() == [0, 3, 4]
    assert packed.as_list
    assert not packed.single
    assert [a.tolist() for a in packed.unpack(packed.values)] == [a.tolist() for a in ROWS]
    assert packed.unpack_each(np.array([5, 7])) == [5, 7]


@pytest.mark.parametrize("wrap", [np.asarray, Frame])
def test_one_array_is_one_sequence_or_has_lengths(wrap: Callable[[np.ndarray], object]) -> None:
    whole = np.concatenate(ROWS)
    one = Sequences.pack(wrap(whole))
    assert one.offsets.tolist() == [0, 4]
    assert one.unpack(one.values) is one.values
    assert one.unpack_each(["only"]) == "only"
    two = Sequences.pack(wrap(whole), [3, 1])
    assert two.offsets.tolist() == [0, 3, 4]
    np.testing.assert_array_equal(two.unpack_each(np.array([5, 7])), [5, 7])


def test_masks_stay() -> None:
    hidden = np.ma.array(ROWS[0], mask=ROWS[0] == 2.0)
    packed = Sequences.pack([hidden, ROWS[1]], check=check_rows)
    assert np.isnan(packed.values).sum() == 1
    assert np.isnan(packed[0][1, 0])


@pytest.mark.parametrize(
    ("given", "lengths", "message"),
    [
        (3.0, None, "X is 3.0; give a list of sequences"),
        (np.float64(3.0), None, "X is the single value 3.0"),
        ([1.0, 2.0], None, "X is a list of single values"),
        ([], None, "X has no sequences"),
        (ROWS, [3, 1], "lengths belong to one array of all sequences, but X is a list"),
        (ROWS[0], [2, 2], "lengths add up to 4, but X has 3 rows"),
        ([[[1.0, 2.0], [3.0]]], None, "sequence 0 of X is ragged"),
        ([ROWS[0], [["a", "b"]]], None, "X must contain numbers"),
        ([ROWS[0], [[1.0, -np.inf]]], None, "step 0 of sequence 1: column 1 of X is -inf; write NaN"),
        ([ROWS[0], [[1.0, 1e200]]], None, "step 0 of sequence 1: column 1 .* too large to be squared"),
        (np.zeros((2, 2, 2)), None, r"X has shape \(2, 2, 2\); it must have shape \(length, columns\)"),
        (np.zeros((2, 3)), None, "X has 3 columns, but the model has 2"),
    ],
)
def test_what_cannot_be_packed_is_named(given: object, lengths: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Sequences.pack(given, lengths, check=lambda values: check_rows(values, 2))


def test_what_must_be_known() -> None:
    check = partial(check_rows, name="inputs", missing=False)
    with pytest.raises(DataError, match="step 1 of sequence 1: column 0 of inputs is nan; every value"):
        Sequences.pack([[1.0], [2.0, np.nan]], name="inputs", check=check)


def test_batches_step_by_step() -> None:
    packed, other = Sequences.pack(ROWS), Sequences.pack([ROWS[0], ROWS[0]])
    check_same_lengths(packed.offsets, packed.offsets, "inputs")
    with pytest.raises(DataError, match="sequence 1 has 1 steps in X, but 3 in inputs"):
        check_same_lengths(packed.offsets, other.offsets, "inputs")
    with pytest.raises(DataError, match="X has 2 sequences, but inputs has 1"):
        check_same_lengths(packed.offsets, Sequences.pack(ROWS[0]).offsets, "inputs")
    assert packed.mean_per_step(np.array([3.0, 5.0])) == 2.0
    with pytest.raises(DataError, match="no steps to score"):
        Sequences.pack(np.zeros((0, 2))).mean_per_step(np.zeros(1))


@given(lengths, st.data())
def test_steps_appended_to_each_sequence(sizes: list[int], data: st.DataObject) -> None:
    more = data.draw(st.lists(st.integers(0, 4), min_size=len(sizes), max_size=len(sizes)))
    first, then = offsets_from_lengths(sizes), offsets_from_lengths(more)
    rows = np.concatenate([np.arange(sum(sizes)), -1 - np.arange(sum(more))])
    order, is_new, offsets = append_steps(first, then)
    joined = Sequences(rows[order], offsets)
    for i, own in enumerate(joined):
        expected = [*range(first[i], first[i + 1]), *(-1 - j for j in range(then[i], then[i + 1]))]
        assert own.tolist() == expected
    assert (rows[order][is_new] < 0).all()
    assert is_new.sum() == sum(more)


def test_arrays_the_wrong_way_round_are_recognised() -> None:
    with pytest.raises(DataError, match=r"lengths add up to 5, but X has 3 rows; .* give X\.T"):
        Sequences.from_lengths(np.zeros((3, 5)), [2, 3])
    with pytest.raises(DataError, match=r"they must be equal$"):
        Sequences.from_lengths(np.zeros((3, 4)), [2, 3])
    with pytest.raises(DataError, match=r"5 steps in X, but 2 in y; .* give X\.T"):
        check_same_lengths(np.array([0, 5]), np.array([0, 2]), "y")
    with pytest.raises(DataError, match=r"they must be equal$"):  # one of two fits: not a matter of direction
        check_same_lengths(np.array([0, 5, 6]), np.array([0, 2, 3]), "y")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_sums_by_sequence(lengths: list[int], seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=sum(lengths))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    expected = [values[a:b].sum() for a, b in pairwise(offsets)]
    np.testing.assert_allclose(sum_by_sequence(values, offsets), expected, atol=1e-12)

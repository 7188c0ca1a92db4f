from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.structures.chain.scores.chain_scores import ChainParts, ChainScores


def test_defaults_are_one_sequence_without_start_and_end_scores() -> None:
    scores = ChainScores.of([[1, 2], [3, 4], [5, 6]], [[0, 1], [2, 3]])
    assert scores.unary.dtype == np.float64
    assert scores.transitions.shape == (1, 2, 2)
    assert (scores.n_labels, scores.n_sequences) == (2, 1)
    assert scores.offsets.tolist() == [0, 3]
    assert scores.start.tolist() == scores.end.tolist() == [0.0, 0.0]


def test_lengths_and_per_step_transitions() -> None:
    scores = ChainScores.of(np.zeros((4, 3)), np.zeros((4, 3, 3)), lengths=[1, 0, 3])
    assert scores.offsets.tolist() == [0, 1, 1, 4]
    assert scores.n_sequences == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3), np.zeros((3, 3))), "unary scores must have 2 axes"),
        ((np.zeros((3, 0)), np.zeros((0, 0))), "no labels"),
        ((np.zeros((3, 2)), np.zeros((3, 3))), r"must have shape \(2, 2\) or \(3, 2, 2\)"),
        ((np.zeros((3, 2)), np.zeros((2, 2, 2))), r"must have shape \(2, 2\) or \(3, 2, 2\)"),
        ((np.zeros((3, 2)), np.zeros((2, 2)), np.zeros(3)), "start and end scores"),
        ((np.zeros((3, 2)), np.zeros((2, 2)), None, np.zeros(1)), "start and end scores"),
        (([[0, np.nan]], np.zeros((2, 2))), r"unary scores contain nan at \(0, 1\)"),
        (([[0, 1]], [[0, 0], [np.inf, 0]]), r"transitions scores contain inf at \(1, 0\)"),
    ],
)
def test_bad_scores_are_named(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ChainScores.of(*arguments)


def test_lengths_must_fit() -> None:
    with pytest.raises(DataError, match="number of values"):
        ChainScores.of(np.zeros((3, 2)), np.zeros((2, 2)), lengths=[1, 1])


def test_restricted_forbids_the_rest_and_leaves_the_original() -> None:
    scores = ChainScores.of([[1.0, 2.0], [3.0, 4.0]], np.zeros((2, 2)))
    allowed = np.array([[True, False], [True, True]])
    np.testing.assert_array_equal(scores.restricted(allowed).unary, [[1, -np.inf], [3, 4]])
    np.testing.assert_array_equal(scores.unary, [[1, 2], [3, 4]])
    with pytest.raises(DataError, match="allowed labels have shape"):
        scores.restricted(allowed[:1])


@given(st.integers(0, 4), st.integers(1, 3), st.integers(0, 2**31))
def test_dot_and_difference(n: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = [(n, k), (1, k, k), (k,), (k,)]
    scores = ChainScores.of(*(rng.normal(size=shape) for shape in shapes))
    one, two = (ChainParts(*(rng.normal(size=shape) for shape in shapes)) for _ in range(2))
    by_hand = sum(
        np.vdot(p, s)
        for p, s in zip(
            (one.unary, one.transitions, one.start, one.end),
            (scores.unary, scores.transitions, scores.start, scores.end),
            strict=True,
        )
    )
    np.testing.assert_allclose(one.dot(scores), by_hand, atol=1e-12)
    np.testing.assert_allclose((one - two).dot(scores), one.dot(scores) - two.dot(scores), atol=1e-12)


def test_absent_forbidden_parts_add_nothing_and_present_ones_forbid() -> None:
    scores = ChainScores.of([[-np.inf, 2.0]], np.zeros((2, 2)))
    none = np.zeros((1, 2, 2))
    assert ChainParts(np.array([[0.0, 1.0]]), none, np.zeros(2), np.zeros(2)).dot(scores) == 2.0
    assert ChainParts(np.array([[1.0, 0.0]]), none, np.zeros(2), np.zeros(2)).dot(scores) == -np.inf

"""Lists of answers are lists, and join to arrays of objects."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

from trellis.data.answers import Answers

ROWS = [["a", "b"], ["c"], []]


def test_they_are_lists() -> None:
    answers = Answers(ROWS)
    assert answers == ROWS
    assert repr(answers) == repr(ROWS)
    assert json.loads(json.dumps(answers)) == ROWS
    for again in (copy.deepcopy(answers), pickle.loads(pickle.dumps(answers))):
        assert type(again) is Answers
        assert again == ROWS


@pytest.mark.parametrize(
    "folds",
    [
        [ROWS, [["d"]]],
        [[["a", "b"], ["c", "d"]], [["e", "f"]]],  # of equal lengths
        [[["a"]], [["b", "c"]]],  # of equal lengths within each fold
        [[np.zeros((2, 3)), np.ones((1, 3))], [np.ones((2, 3))]],
        [[np.zeros((2, 3)), np.ones((2, 3))], [np.ones((2, 3))]],
    ],
)
def test_they_join_to_one_object_for_each_example(folds: list[list[object]]) -> None:
    joined = np.concatenate([Answers(fold) for fold in folds])
    assert joined.dtype == object
    rows = [row for fold in folds for row in fold]
    assert joined.shape == (len(rows),)
    assert all(a is b for a, b in zip(joined, rows, strict=True))


def test_other_functions_see_plain_lists() -> None:
    answers = Answers([["a", "b"], ["c", "d"]])
    assert np.concatenate(answers).tolist() == ["a", "b", "c", "d"]
    assert np.asarray(answers).shape == np.array(answers).shape == np.shape(answers) == (2, 2)
    assert np.array_equal(answers, [["a", "b"], ["c", "d"]])
    assert np.vstack([answers, answers]).shape == (4, 2)
    assert np.mean(Answers([[1, 3], [5, 7]]), axis=0).tolist() == [3.0, 5.0]

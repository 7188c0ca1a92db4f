"""Options of labellers: what cannot be used is named before any work is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis import SequenceLabeler, losses, solvers
from trellis.core.errors import DataError, TrellisError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "margin", "l1": 0.5}, "needs a smooth objective.*'margin' has kinks"),
        ({"objective": "margin", "solver": "owlqn"}, "'owlqn' needs a smooth objective; 'margin' has kinks"),
        ({"objective": "slack", "solver": "lbfgs"}, "'lbfgs' needs a smooth objective; 'slack' has kinks"),
        ({"objective": "perceptron", "solver": "lbfgs"}, "kinks.*use solver='perceptron'"),
        ({"loss": losses.Hamming}, "is not known.*an object"),
        ({"loss": ["hamming"]}, "is not known"),
        ({"solver": solvers.SGD}, "give a name or an object"),
        ({"tol": "small"}, "tol is 'small'; give a finite number of at least 0 or None"),
        ({"tol": -1.0}, "tol is -1.0; give a finite number of at least 0 or None"),
        ({"max_iter": True}, "max_iter is True; give a whole number of at least 1 or None"),
        ({"weights": np.zeros(3)}, "give 'auto', 'observed' or 'all'"),
        ({"constraints": 3}, "constraints is 3; give 'bio'"),
        ({"class_weight": [1, 2]}, "give 'balanced' or a dict"),
        ({"class_weight": {"A": "2"}}, "the class weight of 'A' is '2'"),
        ({"objective": "margin", "loss": lambda gold, found: "no"}, "the loss function returned 'no'"),
        ({"holdout": ([["a"]], [[None]])}, "no held-out step has a known label"),
    ],
)
def test_options_that_cannot_be_used_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TrellisError, match=message):
        SequenceLabeler(**options).fit([["a", "b"], ["b"]], [["A", "B"], ["B"]])


def test_transition_features_may_be_none() -> None:
    X, y = [["a", "b"], ["b"]], [["A", "B"], ["B"]]
    found = SequenceLabeler(transition_features=None).fit(X, y)
    np.testing.assert_array_equal(found.weights_, SequenceLabeler().fit(X, y).weights_)


def test_weights_and_numbers_of_labellings_must_be_numbers() -> None:
    X, y = [["a", "b"], ["b"]], [["A", "B"], ["B"]]
    with pytest.raises(DataError, match="sample_weight must hold numbers"):
        SequenceLabeler().fit(X, y, sample_weight=["a", "b"])
    with pytest.raises(DataError, match=r"k is 2\.5; give a whole number"):
        SequenceLabeler().fit(X, y).predict_k_best(X, 2.5)

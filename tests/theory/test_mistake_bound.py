"""The perceptron's mistake bound: by hand, and by enumeration of a chain's labellings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from trellis import SequenceLabeler
from trellis.core.errors import DataError
from trellis.theory import (
    measured_mistake_bound,
    perceptron_mistake_bound,
)


def test_perceptron_bound_by_hand() -> None:
    assert perceptron_mistake_bound(2.0, 0.5) == 16
    assert perceptron_mistake_bound([1, 3], [0.3, 1.0]).tolist() == [11, 9]


def test_no_perceptron_beats_the_measured_bound() -> None:
    """Two classes, by hand: R^2 = 5 (with the constant), u = (1, 0, 0), margin 1."""

    class Model:
        coef_, intercept_, classes_ = np.array([[1.0, 0.0]]), np.array([0.0]), np.array([-1, 1])
        fit_intercept = True

    found = measured_mistake_bound(Model(), [[2, 0], [1, 1], [-1, 1]], [1, 1, -1])
    assert (found.radius, found.margin, found.mistakes) == (pytest.approx(math.sqrt(5)), 1.0, 5)
    wrong = measured_mistake_bound(Model(), [[2, 0], [-1, 1]], [1, 1])
    assert wrong.mistakes == math.inf
    assert "do not separate" in str(wrong)


@pytest.mark.parametrize("signed", [False, True])
def test_the_bound_of_a_chain_holds(signed: bool) -> None:
    rng = np.random.default_rng(3)
    centres = np.eye(3) * 4 + (rng.normal(size=(3, 3)) if signed else 0)
    y = [(rng.integers(3) + np.arange(rng.integers(1, 5))) % 3 for _ in range(25)]
    X = [np.abs(centres[codes]) if not signed else centres[codes] for codes in y]
    labels = [codes.tolist() for codes in y]
    model = SequenceLabeler(objective="perceptron", solver="perceptron", max_iter=100).fit(X, labels)
    assert "separable" in str(model.status_)
    found = measured_mistake_bound(model, X, labels)
    assert sum(model.history_["mistakes"]) <= found.mistakes < math.inf
    assert found.radius >= _radius_by_enumeration(model, X, labels) > 0
    smallest = float(str(model.status_).split("smallest margin ")[1].split(")")[0])
    assert found.margin * np.linalg.norm(model.weights_) == pytest.approx(smallest, rel=1e-2)


def _radius_by_enumeration(model: SequenceLabeler, X: Any, y: Any) -> float:
    """max ||Phi(x, y*) - Phi(x, y)||: node features by label, transitions, start and end."""
    from itertools import product

    def phi(x: Any, labels: Any) -> Any:
        nodes, moves, ends = np.zeros((3, 3)), np.zeros((3, 3)), np.zeros((2, 3))
        for t, k in enumerate(labels):
            nodes[k] += x[t]
            if t:
                moves[labels[t - 1], k] += 1
        ends[0, labels[0]] += 1
        ends[1, labels[-1]] += 1
        parts = [nodes, moves, ends] if model.layout_.boundaries else [nodes, moves]
        return np.concatenate([part.ravel() for part in parts])

    return max(
        float(np.linalg.norm(phi(x, gold) - phi(x, other)))
        for x, gold in zip(X, y, strict=True)
        for other in product(range(3), repeat=len(gold))
    )


def test_the_margin_of_sparse_and_of_wrong_features() -> None:
    X, y = np.array([[2.0], [1.0], [-1.0], [-3.0]]), [1, 1, 0, 0]
    model = LogisticRegression(fit_intercept=False).fit(X, y)
    assert measured_mistake_bound(model, csr_array(X), y) == measured_mistake_bound(model, X, y)
    for rows, labels in ((X[:0], []), (X, y[:3]), (X[0], y[:1]), (np.ones((4, 2)), y)):
        with pytest.raises(DataError, match="X has shape"):
            measured_mistake_bound(model, rows, labels)
    assert perceptron_mistake_bound(1e200, 1e-200) == np.inf

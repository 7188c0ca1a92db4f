"""scikit-learn's cross-validation and searches with every labeller, on sequences of different lengths, and
with a label so rare that most folds lack it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score

from tagging import as_dicts, clouds, noisy_words, spans
from trellis import HMM, MEMM, Graph, GraphLabeler, SequenceLabeler, emissions, losses, metrics

FOLDS = KFold(3)


def with_rare_label(y: list[list[Any]], rare: Any) -> list[list[Any]]:
    """The last step of the first sequence has a label that no other has."""
    return [[*y[0][:-1], rare], *y[1:]]


def graphs(n: int = 12) -> tuple[list[Graph], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    images = [rng.normal(size=(int(rng.integers(1, 4)), 2, 2)) for _ in range(n)]
    return [Graph.grid(image) for image in images], [(image[..., 0] > 0).astype(int) for image in images]


WORDS, LABELS = noisy_words(30)
RARE = with_rare_label(LABELS, "rare")
CLOUDS, CODES = clouds(30)
SPANS, TAGS = spans(30)
GRAPHS, NODES = graphs()
NODES[0][0, 0] = 7

CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "words": (SequenceLabeler(max_iter=20), WORDS, RARE),
    "dicts": (SequenceLabeler("perceptron", random_state=0), as_dicts(WORDS), RARE),
    "arrays": (SequenceLabeler("margin", max_iter=20, random_state=0), CLOUDS, with_rare_label(CODES, 9)),
    "bio": (SequenceLabeler(constraints="bio", max_iter=20), SPANS, with_rare_label(TAGS, "B-X")),
    "all parameters": (
        SequenceLabeler(
            "margin",
            losses.WeightedHamming({("a", "rare"): 2.0, ("rare", "b"): 3.0}),
            constraints=[(a, b) for a in ("a", "b", "c", "rare") for b in ("a", "b", "c", "rare")],
            class_weight={"rare": 5.0, "a": 2.0},
            latent_states={"rare": 2},
            max_iter=5,
            random_state=0,
        ),
        WORDS,
        RARE,
    ),
    "held out": (
        SequenceLabeler(max_iter=5, holdout=(WORDS[:9], RARE[:9])),
        WORDS[9:],
        LABELS[9:],
    ),
    "memm": (MEMM(max_iter=20), WORDS, RARE),
    "graphs": (GraphLabeler("log", max_iter=10, random_state=0), GRAPHS, NODES),
    "held-out graphs": (
        GraphLabeler(max_iter=3, random_state=0, holdout=(GRAPHS[:4], NODES[:4])),
        GRAPHS[4:],
        NODES[4:],
    ),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Any, list[Any], list[Any]]:
    return CASES[request.param]


def passed_over() -> warnings.catch_warnings[None]:
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def test_scores_are_numbers_and_those_of_the_folds(case: tuple[Any, list[Any], list[Any]]) -> None:
    model, X, y = case
    with passed_over():
        found = cross_val_score(model, X, y, cv=FOLDS, error_score="raise")
        for score, (train, test) in zip(found, FOLDS.split(X), strict=True):
            fitted = clone(model).fit([X[i] for i in train], [y[i] for i in train])
            predicted = fitted.predict([X[i] for i in test])
            right = [
                np.ravel(np.array(y[i], object)) == np.ravel(row)
                for i, row in zip(test, predicted, strict=True)
            ]
            assert score == pytest.approx(np.concatenate(right).mean())


def test_predictions_of_folds_stand_in_the_order_of_the_data(case: tuple[Any, list[Any], list[Any]]) -> None:
    model, X, y = case
    with passed_over():
        found = cross_val_predict(model, X, y, cv=FOLDS)
        assert found.shape == (len(X),)
        for train, test in FOLDS.split(X):
            fitted = clone(model).fit([X[i] for i in train], [y[i] for i in train])
            for i, row in zip(test, fitted.predict([X[i] for i in test]), strict=True):
                np.testing.assert_array_equal(found[i], row)
    if not isinstance(model, GraphLabeler):
        assert 0.0 < metrics.token_accuracy(y, found) < 1.0


def test_a_grid_search_finds_a_model(case: tuple[Any, list[Any], list[Any]]) -> None:
    model, X, y = case
    with passed_over():
        search = GridSearchCV(model, {"l2": [0.1, 10.0]}, cv=FOLDS, error_score="raise").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(search.predict(X)) == len(X)


def test_a_label_that_training_did_not_see_is_wrong() -> None:
    model = SequenceLabeler().fit([["a", "b"]] * 4, [["A", "B"]] * 4)
    assert model.score([["a", "b"], ["a"]], [["A", "new"], [None]]) == 0.5
    assert model.score([["a", "b"]], [["new", {"other"}]]) == 0.0
    assert model.score([["a", "b"]], [["A", {"B", "new"}]]) == 1.0  # a set is not known exactly
    graph = GraphLabeler("log").fit(GRAPHS, NODES)
    right = [labels.copy() for labels in graph.predict(GRAPHS[:2])]
    right[0].flat[0] = 99
    assert graph.score(GRAPHS[:2], right) == pytest.approx(1 - 1 / sum(labels.size for labels in right))


@pytest.mark.parametrize("states", [False, True])
def test_hidden_markov_models(states: bool) -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(int(n), 1)) + 4 * (np.arange(n)[:, None] % 2) for n in rng.integers(2, 9, size=12)]
    known = [np.arange(len(x)) % 2 for x in X] if states else None
    model = HMM(2, emissions.Gaussian(), random_state=0, max_iter=20)
    assert np.isfinite(cross_val_score(model, X, known, cv=FOLDS, error_score="raise")).all()
    found = cross_val_predict(model, X, known, cv=FOLDS)
    assert [row.shape for row in found] == [(len(x),) for x in X]
    search = GridSearchCV(model, {"n_states": [2, 3]}, cv=FOLDS, error_score="raise").fit(
        X, None if not states else known
    )
    assert search.best_params_["n_states"] in (2, 3)


def test_neural_labellers() -> None:
    pytest.importorskip("torch")
    from trellis.neural import NeuralSequenceLabeler

    model = NeuralSequenceLabeler("embedding", max_epochs=2, random_state=0, constraints="bio")
    y = with_rare_label(TAGS, "B-X")
    assert np.isfinite(cross_val_score(model, SPANS, y, cv=FOLDS, error_score="raise")).all()
    found = cross_val_predict(model, SPANS, y, cv=FOLDS)
    assert [len(row) for row in found] == [len(x) for x in SPANS]
    search = GridSearchCV(model, {"hidden": [4, 8]}, cv=FOLDS, error_score="raise").fit(SPANS, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_parameters_that_name_absent_labels_warn() -> None:
    for options in (
        {"constraints": [("A", "B"), ("A", "Z")]},
        {"class_weight": {"Z": 2.0}},
        {"latent_states": {"Z": 2}},
        {"objective": "margin", "loss": losses.WeightedHamming({("A", "Z"): 2.0})},
    ):
        with pytest.warns(UserWarning, match=r"names the label 'Z', which does not occur in the data"):
            SequenceLabeler(max_iter=2, **options).fit([["a", "b"]] * 4, [["A", "B"]] * 4)

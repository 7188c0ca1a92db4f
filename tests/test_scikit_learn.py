"""scikit-learn's tools with every labeller, and its estimator checks as docs/scikit-learn.md has them."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RandomizedSearchCV,
    cross_validate,
    learning_curve,
    train_test_split,
    validation_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from one_step_classifier import OneStepClassifier
from tagging import clouds, noisy_words
from trellis import HMM, MEMM, Graph, GraphLabeler, SequenceLabeler, emissions

PAGE = Path(__file__).resolve().parent.parent / "docs" / "scikit-learn.md"
FOLDS = KFold(2)
Case = tuple[Any, list[Any], list[Any], str]


def neural() -> Any:
    pytest.importorskip("torch")
    from trellis.neural import NeuralSequenceLabeler

    return NeuralSequenceLabeler("embedding", max_epochs=1, random_state=0, verbose=False)


WORDS, LABELS = noisy_words(20)
CLOUDS, CODES = clouds(20)
IMAGES = [np.random.default_rng(i).normal(size=(2, 2, 2)) for i in range(10)]
CASES: dict[str, Callable[[], Case]] = {
    "words": lambda: (SequenceLabeler(max_iter=5, verbose=False), WORDS, LABELS, "l2"),
    "arrays": lambda: (SequenceLabeler(max_iter=5, verbose=False), CLOUDS, CODES, "l2"),
    "memm": lambda: (MEMM(max_iter=5, verbose=False), WORDS, LABELS, "l2"),
    "hmm": lambda: (HMM(3, emissions.Gaussian(), random_state=0, max_iter=5), CLOUDS, CODES, "n_states"),
    "graphs": lambda: (
        GraphLabeler("log", max_iter=5, random_state=0, verbose=False),
        [Graph.grid(image) for image in IMAGES],
        [(image[..., 0] > 0).astype(int) for image in IMAGES],
        "l2",
    ),
    "neural": lambda: (neural(), WORDS, LABELS, "hidden"),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def test_curves_searches_splits_and_pipelines(case: Case) -> None:
    model, X, y, name = case
    how: dict[str, Any] = {"cv": FOLDS, "error_score": "raise"}
    with warnings.catch_warnings(action="ignore"):
        found = cross_validate(model, X, y, return_train_score=True, return_estimator=True, **how)
        for fitted, (train, test), score in zip(
            found["estimator"], FOLDS.split(X), found["test_score"], strict=True
        ):
            assert fitted.score([X[i] for i in test], [y[i] for i in test]) == score
            again = clone(fitted).fit([X[i] for i in train], [y[i] for i in train])
            for ours, theirs in zip(again.predict(X), fitted.predict(X), strict=True):
                np.testing.assert_array_equal(ours, theirs)
        sizes, _, test_scores = learning_curve(model, X, y, train_sizes=[0.5, 1.0], **how)
        assert sizes.tolist() == [len(X) // 4, len(X) // 2]
        np.testing.assert_allclose(test_scores[-1], found["test_score"])
        values = [3, 4] if name != "l2" else [1.0, 2.0]
        _, scores = validation_curve(model, X, y, param_name=name, param_range=values, **how)
        search = RandomizedSearchCV(model, {name: values}, n_iter=2, random_state=0, **how).fit(X, y)
        np.testing.assert_allclose(search.best_score_, scores.mean(axis=1).max())
        groups = np.arange(len(X)) % 3
        grouped = cross_validate(model, X, y, cv=GroupKFold(2), groups=groups, error_score="raise")
        assert np.isfinite(grouped["test_score"]).all()
        piped = make_pipeline(FunctionTransformer(), clone(model)).fit(X, y)
        assert piped.score(X, y) == clone(model).fit(X, y).score(X, y)
    parts = train_test_split(X, y, test_size=0.5, random_state=0)
    assert [len(part) for part in parts] == [len(X) // 2] * 4


def test_the_importance_of_columns() -> None:
    rng = np.random.default_rng(0)
    y = [rng.integers(2, size=n) for n in rng.integers(2, 7, size=30)]
    X = [np.stack([3.0 * row, rng.normal(size=len(row))], axis=1) for row in y]
    lengths = [len(x) for x in X]
    for model in (SequenceLabeler(verbose=False), MEMM(verbose=False)):
        found = permutation_importance(
            model.fit(X, y),
            np.concatenate(X),
            np.concatenate(y),
            n_repeats=3,
            random_state=0,
            scoring=lambda model, X, y: model.score(X, y, lengths=lengths),
        )
        assert found.importances_mean[0] > 0.2 > abs(found.importances_mean[1])


@pytest.mark.skipif(
    "on_fail" not in inspect.signature(check_estimator).parameters, reason="needs scikit-learn 1.6"
)
def test_the_estimator_checks_fail_where_the_page_says_and_nowhere_else() -> None:
    documented = set(re.findall(r"^\| `(check_\w+)` \|", PAGE.read_text(), re.MULTILINE))
    with warnings.catch_warnings(action="ignore"):
        results = check_estimator(
            OneStepClassifier(SequenceLabeler(max_iter=100, verbose=False)), on_fail=None, on_skip=None
        )
    passed = {one["check_name"] for one in results if one["status"] == "passed"}
    failed = {one["check_name"] for one in results if one["status"] == "failed"}
    assert failed == documented
    assert len(passed) > 35

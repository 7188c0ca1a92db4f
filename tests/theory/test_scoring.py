"""Scores of models with intervals, and comparisons of two models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tagging import noisy_words
from trellis import SequenceLabeler
from trellis.core.errors import DataError, UnsupportedError
from trellis.losses.labelings import WeightedHamming
from trellis.theory import (
    compare_models,
    score_with_interval,
)


def test_scores_and_comparisons_of_models() -> None:
    X, y = noisy_words(80, seed=3)
    good = SequenceLabeler().fit(X[:60], y[:60])
    poor = SequenceLabeler(max_iter=1).fit(X[:3], y[:3])
    held_X, held_y = noisy_words(120, seed=4)
    whole = score_with_interval(good, held_X, held_y)
    wrong = sum(a != b for a, b in zip(good.predict(held_X), held_y, strict=True))
    assert (whole.value, whole.name) == (wrong / 120, "Clopper-Pearson")
    steps = score_with_interval(good, held_X, held_y, loss="hamming")
    assert steps.value == pytest.approx(1 - good.score(held_X, held_y))
    assert steps.name == "Korn-Graubard"
    assert score_with_interval(good, held_X, held_y, loss="hamming", method="bootstrap").name == "bootstrap"
    assert steps.low < steps.value < steps.high
    for method in ("bernstein", "hoeffding"):
        found = score_with_interval(good, held_X, held_y, loss="hamming", method=method)
        assert found.width > steps.width
    same = score_with_interval(good, held_X, held_y, loss=lambda g, p: float(g != p))
    assert same.value == whole.value
    costly = score_with_interval(
        good, held_X, held_y, loss=WeightedHamming(np.full((3, 3), 2.0) - 2 * np.eye(3))
    )
    assert costly.value == pytest.approx(2 * steps.value * sum(map(len, held_y)) / 120)
    for loss in ("zero_one", "hamming"):
        found = compare_models(good, poor, held_X, held_y, loss=loss)
        assert found.significant
        assert found.high < 0
    assert compare_models(good, good, held_X, held_y).p_value == 1
    with pytest.raises(UnsupportedError, match="exact interval is for the 0-1 loss"):
        score_with_interval(good, held_X, held_y, loss="hamming", method="exact")
    with pytest.raises(DataError, match="loss is 'f2'; give 'zero_one', 'hamming' or 'span_f1'"):
        score_with_interval(good, held_X, held_y, loss="f2")
    with pytest.raises(DataError, match="method is 'wald'; give 'auto', 'exact'"):
        score_with_interval(good, held_X, held_y, method="wald")  # type: ignore[arg-type]


def test_plain_classifiers_are_scored_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + rng.normal(size=200) > 0
    found = score_with_interval(LogisticRegression().fit(X, y), X, y, loss="hamming")
    assert found.name == "Clopper-Pearson"
    assert 0.1 < found.value < 0.4


class Series:
    """As a column of pandas: labels are asked for by name, and a part of a table has no row 0."""

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)

    def to_numpy(self) -> Any:
        return self._values


def test_labels_from_a_table() -> None:
    X = np.arange(20.0)[:, None]
    y = np.repeat([0, 1], 10)
    model = LogisticRegression().fit(X, y)
    assert score_with_interval(model, X, Series(y)) == score_with_interval(model, X, y)
    with pytest.raises(DataError, match="true labels are sequences and the predicted ones single labels"):
        score_with_interval(model, X, y[:, None])
    with pytest.raises(UnsupportedError, match="span_f1 is for sequences"):
        score_with_interval(model, X, y, loss="span_f1")

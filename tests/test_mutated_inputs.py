"""Inputs with something wrong in them: labellers fit them properly, or say in a sentence what is wrong."""

from __future__ import annotations

import copy
import datetime
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, issparse

from tagging import as_dicts, clouds, noisy_words
from trellis import MEMM, Graph, GraphLabeler, SequenceLabeler
from trellis.core.errors import DataError, TrellisError
from trellis.training.fit import TrainingWarning

WORDS, LABELS = noisy_words(6, longest=4)
ARRAYS, CODES = clouds(6)

JUNK: list[Callable[[], Any]] = [
    lambda: None,
    lambda: 3,
    lambda: True,
    lambda: 1j,
    lambda: float("nan"),
    lambda: -float("inf"),
    lambda: 1e300,
    lambda: 10**400,
    lambda: "x",
    lambda: "",
    lambda: b"x",
    list,
    lambda: (),
    dict,
    lambda: set(),
    lambda: {"a", "b"},
    lambda: {"word": None},
    lambda: {"word": [1, "x"]},
    lambda: {1: "x"},
    lambda: [[1.0], [2.0, 3.0]],
    lambda: [["a"], "b"],
    lambda: object(),
    lambda: datetime.date(2020, 1, 1),
    lambda: np.datetime64("2020-01-01"),
    lambda: pd.NaT,
    lambda: pd.NA,
    lambda: pd.DataFrame({"t": pd.date_range("2020", periods=2)}),
    lambda: pd.Series(["a", None]),
    lambda: np.zeros((2, 4), "M8[D]"),
    lambda: np.zeros((2, 4)) + 1j,
    lambda: np.full((2, 4), np.nan),
    lambda: np.full((2, 4), "1.5"),
    lambda: np.zeros((2, 4), object),
    lambda: np.zeros((0, 4)),
    lambda: np.zeros(3),
    lambda: np.zeros((2, 4, 1)),
    lambda: np.array(1.0),
    lambda: np.ma.masked_all((2, 4)),
    lambda: csr_array(np.eye(4)),
    lambda: csr_array(np.eye(4)).T + 1j * csr_array(np.eye(4)),
]


def mutate(data: Any, rng: np.random.Generator) -> Any:
    """A copy with junk in place of a random part: the whole, a sequence, a step, or a value of a step; or
    with a sequence or step too few."""
    if rng.random() < 0.25 or not isinstance(data, list | dict) or not data:
        return JUNK[rng.integers(len(JUNK))]()
    changed = copy.copy(data)
    keys = list(changed) if isinstance(changed, dict) else range(len(changed))
    key = keys[rng.integers(len(keys))]
    if rng.random() < 0.1:
        del changed[key]
    else:
        changed[key] = mutate(changed[key], rng)
    return changed


def answer(work: Callable[[], Any]) -> Any:
    """None after one of our errors, which is one sentence; warnings from below are errors of the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", TrainingWarning)  # two iterations are few
        try:
            return work()
        except TrellisError as error:
            message = str(error)
    assert "\n" not in message
    return None


def check(work: Callable[[], Any], X: Any) -> None:
    """An error of ours, or one label for each step."""
    found = answer(work)
    if found is not None:
        assert [len(row) for row in found] == [np.shape(x)[0] if issparse(x) else len(x) for x in X]


SEQUENCES: dict[str, tuple[Any, Any, Any]] = {
    "words": (SequenceLabeler(max_iter=2), WORDS, LABELS),
    "dicts": (SequenceLabeler("perceptron", max_iter=2, random_state=0), as_dicts(WORDS), LABELS),
    "arrays": (SequenceLabeler(max_iter=2), ARRAYS, [list(row) for row in CODES]),
    "numbers in lists": (SequenceLabeler(max_iter=2), [x.tolist() for x in ARRAYS], [list(r) for r in CODES]),
    "memm": (MEMM(max_iter=2), as_dicts(WORDS), LABELS),
}


@pytest.mark.parametrize("which", ["X", "y"])
@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences(name: str, which: str) -> None:
    model, X, y = SEQUENCES[name]
    rng = np.random.default_rng(0)
    for _ in range(120):
        given = (mutate(X, rng), y) if which == "X" else (X, mutate(y, rng))
        check(lambda given=given: model.fit(*given).predict(given[0]), given[0])


@pytest.mark.parametrize("name", ["words", "dicts", "arrays"])
def test_new_sequences(name: str) -> None:
    model, X, y = SEQUENCES[name]
    model.fit(X, y)
    rng = np.random.default_rng(1)
    for _ in range(80):
        given = mutate(X, rng)
        check(lambda given=given: model.predict(given), given)


@pytest.mark.parametrize("name", ["words", "dicts", "arrays"])
def test_sentences_of_networks(name: str) -> None:
    pytest.importorskip("torch")
    from trellis.neural import NeuralSequenceLabeler

    _, X, y = SEQUENCES[name]
    model = NeuralSequenceLabeler("embedding", max_epochs=1, embedding_dim=2, random_state=0)
    rng = np.random.default_rng(2)
    for i in range(80):
        given = (mutate(X, rng), y) if i % 2 else (X, mutate(y, rng))
        check(lambda given=given: model.fit(*given).predict(given[0]), given[0])


def test_graphs() -> None:
    rng = np.random.default_rng(3)
    nodes = [rng.normal(size=(6, 2)).tolist() for _ in range(4)]
    edges = [[[0, 1], [1, 2], [4, 5]] for _ in nodes]
    labels = [[[int(row[0] > 0) for row in x[:3]], [int(row[0] > 0) for row in x[3:]]] for x in nodes]
    model = GraphLabeler("log", max_iter=2)
    for i in range(150):
        parts = [
            mutate(part, rng) if i % 3 == which else part for which, part in enumerate((nodes, edges, labels))
        ]

        def work(parts: list[Any] = parts) -> Any:
            features, joined, y = parts
            if not all(isinstance(part, list) and len(part) == 4 for part in (features, joined)):
                raise DataError("the test makes no graphs of that")
            graphs = [Graph(x, e, shape=(2, 3)) for x, e in zip(features, joined, strict=True)]
            return model.fit(graphs, y).predict(graphs)

        found = answer(work)
        assert found is None or [labels.shape for labels in found] == [(2, 3)] * 4


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([x.astype("M8[s]") for x in ARRAYS], CODES, "datetime64"),
        ([x + 1j for x in ARRAYS], CODES, "complex128"),
        ([[[1.0, 2.0], [3.0]]], [["A", "B"]], "ragged"),
        ([x.T for x in ARRAYS], CODES, "shape|columns"),
        ([csr_array(x.T) for x in ARRAYS], CODES, "columns"),
        ([], [], "no sequences"),
        ([[], []], [[], []], "no steps"),
        (WORDS, LABELS[:-1], "X has 6 sequences, but y has 5"),
        (WORDS, [[float("nan")] * len(row) for row in LABELS], "a label is NaN"),
        (WORDS, [[pd.NaT] * len(row) for row in LABELS], "a label is NaT"),
    ],
)
def test_what_is_wrong_is_named(X: Any, y: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        SequenceLabeler().fit(X, y)

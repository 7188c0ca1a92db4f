"""``partial_fit``: passes over data that come in pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from tagging import clouds, noisy_words, spans
from trellis import SequenceLabeler, load, losses, objectives, solvers
from trellis.core.errors import DataError, NumericalError, TrellisError, UnsupportedError

X, Y = noisy_words(120, noise=0.15)
PIECES = [slice(i, i + 20) for i in range(0, 120, 20)]
WAYS: list[tuple[Any, Any]] = [
    ("perceptron", "auto"),
    ("log", "auto"),
    ("log", "sgd"),
    ("log", "adam"),
    ("margin", "auto"),
    ("margin", "adagrad"),
    (objectives.Direct(epsilon=0.5), "auto"),
    (objectives.Direct(epsilon="decay"), "sgd"),
]


def stream(model: SequenceLabeler, rounds: int = 1) -> SequenceLabeler:
    for _ in range(rounds):
        for piece in PIECES:
            model.partial_fit(X[piece], Y[piece], classes=["a", "b", "c"])
    return model


@pytest.mark.parametrize(("objective", "solver"), WAYS)
def test_a_stream_reaches_what_fit_reaches(objective: Any, solver: Any) -> None:
    test = noisy_words(200, seed=9, noise=0.15)
    model = stream(SequenceLabeler(objective, solver=solver, l2=0.5, random_state=0), rounds=4)
    options = {"solver": model.solver_, "max_iter": 4, "holdout": None, "weights": "all"}
    fitted = clone(model).set_params(**options).fit(X, Y)
    slack = 0.1 if isinstance(objective, objectives.Direct) else 0.03  # no convex start
    assert model.score(*test) > fitted.score(*test) - slack
    assert model.score(*test) > 0.75
    assert model.n_iter_ == 24
    assert {len(values) for values in model.history_.values()} == {24}
    assert "partial_fit has seen 480 sequences" in str(model.status_)
    assert not model.status_.converged


@pytest.mark.parametrize("solver", ["perceptron", "sgd", "adagrad", "adam", "subgradient"])
def test_one_call_is_the_first_pass_of_fit(solver: str) -> None:
    objective = "perceptron" if solver == "perceptron" else "margin"
    options = {"objective": objective, "solver": solver, "weights": "all", "random_state": 4}
    once = SequenceLabeler(**options).partial_fit(X, Y)
    assert_array_equal(once.weights_, SequenceLabeler(**options, max_iter=1).fit(X, Y).weights_)


@pytest.mark.parametrize("solver", ["perceptron", "sgd", "adagrad", "adam"])
def test_the_state_of_the_run_is_kept(solver: str) -> None:
    """Without a regulariser, calls on the same data are the passes of one fit: averages and all."""
    objective = "perceptron" if solver == "perceptron" else "log"
    options = {"objective": objective, "solver": solver, "weights": "all", "l2": 0.0, "random_state": 4}
    model = SequenceLabeler(**options)
    for _ in range(3):
        model.partial_fit(X, Y)
    fitted = SequenceLabeler(**options, max_iter=3).fit(X, Y)
    assert_allclose(model.weights_, fitted.weights_, atol=1e-12)


def test_the_first_call_fixes_features_and_labels() -> None:
    model = SequenceLabeler("perceptron").partial_fit([["x", "y"]], [["a", "b"]], classes=["c", "a", "b"])
    assert list(model.classes_) == ["a", "b", "c"]
    assert model.encoder_.feature_names() == ["x", "y"]
    model.partial_fit([["x", "unseen"]], [["a", "c"]])
    assert model.encoder_.feature_names() == ["x", "y"]
    with pytest.raises(DataError, match="label 'd' of step 0 of sequence 0 was not seen"):
        model.partial_fit([["x"]], [["d"]])
    with pytest.raises(DataError, match=r"classes are .* leave classes out"):
        model.partial_fit([["x"]], [["a"]], classes=["a", "z"])
    arrays = SequenceLabeler("perceptron").partial_fit(*clouds(5))
    with pytest.raises(DataError, match="columns"):
        arrays.partial_fit([np.zeros((1, 7))], [[0]])


def test_it_goes_on_from_a_fitted_and_from_a_loaded_model(tmp_path: Path) -> None:
    fitted = SequenceLabeler("perceptron", max_iter=2, random_state=0).fit(X[:60], Y[:60])
    before = fitted.weights_.copy()
    fitted.save(tmp_path / "m.trellis")
    loaded = load(tmp_path / "m.trellis")
    for model in (fitted, loaded):
        model.partial_fit(X[60:], Y[60:])
        assert not np.array_equal(model.weights_, before)
    assert_array_equal(fitted.weights_, loaded.weights_)


def test_saving_keeps_predictions(tmp_path: Path) -> None:
    model = stream(SequenceLabeler("log", solver=solvers.SGD(0.2), random_state=0))
    model.save(tmp_path / "m.trellis")
    loaded = load(tmp_path / "m.trellis")
    assert loaded.predict(X) == model.predict(X)
    assert loaded.status_ == model.status_
    loaded.partial_fit(X[:5], Y[:5])


def test_fit_begins_anew() -> None:
    model = stream(SequenceLabeler("perceptron", max_iter=2, random_state=0))
    fresh = clone(model).fit(X, Y)
    assert_array_equal(model.fit(X, Y).weights_, fresh.weights_)
    assert model.n_iter_ == fresh.n_iter_


def test_constraints_weights_and_partial_labels() -> None:
    words, tags = spans(30)
    model = SequenceLabeler("margin", losses.WeightedHamming(), constraints="bio", class_weight={"O": 0.5})
    for i in range(0, 30, 10):
        labels = [[None if t == 1 else tag for t, tag in enumerate(row)] for row in tags[i : i + 10]]
        model.partial_fit(words[i : i + 10], labels, sorted({t for row in tags for t in row}))
    assert model.score(words, tags) > 0.6
    heavy = SequenceLabeler("perceptron", random_state=0)
    heavy.partial_fit(X, Y, sample_weight=[0.0] * 119 + [1.0])
    light = SequenceLabeler("perceptron", random_state=0)
    light.partial_fit(X, Y)
    assert np.abs(heavy.weights_).sum() < np.abs(light.weights_).sum()


ERRORS: list[tuple[dict[str, Any], type[TrellisError], str]] = [
    ({"solver": "lbfgs"}, UnsupportedError, "solver 'lbfgs' needs all data at once; for partial_fit use"),
    ({"objective": "margin", "solver": "frank_wolfe"}, UnsupportedError, "needs all data at once"),
    ({"objective": "log", "solver": "sag"}, UnsupportedError, "solver 'sag' needs all data at once"),
    (
        {"objective": "margin", "class_weight": "balanced"},
        UnsupportedError,
        "class_weight='balanced' needs all",
    ),
    ({"objective": "perceptron", "holdout": 0.1}, UnsupportedError, "takes no holdout"),
    (
        {"objective": objectives.Direct(epsilon="holdout")},
        UnsupportedError,
        "epsilon='holdout' needs all data",
    ),
    ({"objective": "ramp"}, UnsupportedError, "flat around w = 0"),
    ({"objective": "perceptron", "l1": 1.0}, UnsupportedError, "L1 norm"),
    (
        {"objective": "log", "solver": solvers.SGD(1e300, "constant"), "l2": 0.0},
        NumericalError,
        "no longer finite",
    ),
]


@pytest.mark.parametrize(("options", "kind", "words"), ERRORS)
def test_errors(options: dict[str, Any], kind: type[TrellisError], words: str) -> None:
    with pytest.raises(kind, match=words):
        SequenceLabeler(**options).partial_fit(X, Y)


@pytest.mark.parametrize(
    "options",
    [{"solver": "minibatch"}, {"solver": "passive_aggressive"}, {"loss": lambda a, b: float(a != b)}],
    ids=["minibatch", "passive_aggressive", "candidates"],
)
def test_plain_runs_go_on_too(options: dict[str, Any]) -> None:
    model = stream(SequenceLabeler("margin", random_state=0, **options))
    assert model.n_iter_ > 1
    assert model.score(X, Y) > 0.6


def test_an_error_leaves_the_model_as_it_was() -> None:
    model = stream(SequenceLabeler("perceptron", random_state=0))
    other = stream(SequenceLabeler("perceptron", random_state=0))
    for data, options in (((X[:2], Y[:1]), {}), ((X, Y), {"solver": "sgd"}), ((X, Y), {"l1": 1.0})):
        with pytest.raises(TrellisError):
            model.set_params(**options).partial_fit(*data)
        model.set_params(solver="auto", l1=0.0)
    assert_array_equal(model.partial_fit(X, Y).weights_, other.partial_fit(X, Y).weights_)

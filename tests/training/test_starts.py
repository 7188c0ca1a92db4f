"""Objectives that are not convex start from one that is, and what comes to nothing is said."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from rare_labels import rare_names
from trellis import MEMM, Graph, GraphLabeler, SequenceLabeler
from trellis.objectives import OBJECTIVES, Direct
from trellis.solvers import SGD, MiniBatch
from trellis.training.fit import TrainingWarning

NOT_CONVEX = ("ramp", "direct", "risk")


def same_everywhere(n: int = 8) -> tuple[Any, Any]:
    """Nothing tells the two labels apart."""
    return [["w"]] * n, [["a"]] * (n // 2 + 1) + [["b"]] * (n // 2 - 1)


def test_every_objective_that_is_not_convex_starts_from_one_that_is() -> None:
    for name in ("perceptron", "margin", "log", "softmax_margin", "slack", "squared_margin", *NOT_CONVEX):
        first = OBJECTIVES[name]().starts_from
        assert (first is None) == (name not in NOT_CONVEX)
        assert first is None or first.convex
    assert Direct(sign="worse").starts_from == Direct().starts_from


@pytest.mark.parametrize("loss", ["hamming", "span_f1"])
@pytest.mark.parametrize("objective", NOT_CONVEX)
def test_one_label_in_twenty_is_not_lost(objective: str, loss: str) -> None:
    for seed in range(2):
        X, y = rare_names(seed, 40)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "no step brought", TrainingWarning)  # as good as the start
            model = SequenceLabeler(objective, loss, random_state=seed, l2=0.02, max_iter=10).fit(X, y)
        found = {label for labels in model.predict(X) for label in labels}
        assert found == {"B-NAME", "O"}, model.status_


@pytest.mark.parametrize("seed", range(3))
def test_risk_ends_below_the_crf_and_below_one_label(seed: int) -> None:
    X, y = rare_names(seed)
    ours = SequenceLabeler("risk", l2=0.02).fit(X, y).history_["objective"][-1]
    crf = SequenceLabeler("log", l2=0.02).fit(X, y)
    one_step = crf.set_params(objective="risk", warm_start=True, max_iter=1).fit(X, y)
    assert ours <= one_step.history_["objective"][0]
    assert ours < sum(label != "O" for labels in y for label in labels)


@pytest.mark.parametrize("objective", [*NOT_CONVEX, "log", "margin", "perceptron"])
def test_tiny_data_and_ties_end_well(objective: str) -> None:
    for X, y in (rare_names(0, 1), ([["a"]], [["x"]]), same_everywhere(2)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            model = SequenceLabeler(objective, random_state=0).fit(X, y)
        assert np.isfinite(model.weights_).all()


def chains(seed: int, n: int = 12) -> tuple[list[Graph], list[Any]]:
    """Chains of six nodes as graphs, whose features tell the labels most of the time."""
    rng = np.random.default_rng(seed)
    edges = [(i, i + 1) for i in range(5)]
    labels = [rng.integers(2, size=6) for _ in range(n)]
    return [Graph(2.0 * y[:, None] - 1 + rng.normal(size=(6, 1)), edges) for y in labels], labels


def test_a_model_of_one_label_is_said() -> None:
    X, y = same_everywhere()
    for model in (SequenceLabeler("log"), SequenceLabeler("log", latent_states=2), MEMM()):
        with pytest.warns(TrainingWarning, match="the label 'a' to each of the 8 steps of the training data"):
            model.fit(X, y)
    graphs = [Graph(np.ones((1, 1)))] * len(y)
    with pytest.warns(TrainingWarning, match="the label 'a' to each of .* although 2 labels occur"):
        GraphLabeler("log").fit(graphs, y)


def test_a_model_of_several_labels_is_not() -> None:
    graphs, labels = chains(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SequenceLabeler("log").fit([["a"], ["b"]] * 4, [["x"], ["y"]] * 4)
        SequenceLabeler("log").fit([["a"]] * 2000 + [["b"]] * 20, [["x"]] * 2000 + [["y"]] * 20)
        GraphLabeler("log").fit(graphs, labels)


def test_a_step_that_gains_nothing_is_said() -> None:
    X, y = rare_names(1, 40, 0.3)
    model = SequenceLabeler("margin", random_state=0, holdout=0.3).fit(X, y)
    model.set_params(objective=Direct(1.0), solver=SGD(learning_rate=1e6), warm_start=True, max_iter=3)
    before = model.weights_.copy()
    with pytest.warns(TrainingWarning, match=r"no step brought the loss .* learning_rate"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.weights_, before)
    assert "no step brought the loss" in str(model.status_)
    assert not model.status_.converged


@pytest.mark.parametrize("solver", ["sgd", "minibatch"])
@pytest.mark.parametrize("scale", [2.0**-20, 1.0, 2.0**20])
def test_the_first_direct_steps_do_not_depend_on_the_scale_of_the_start(solver: str, scale: float) -> None:
    """Scaling w (and epsilon with it) changes no prediction, so it must not change what is learned.

    Powers of two are exact, so that ties stay ties."""
    X, y = rare_names(2, 40, 0.3)
    found = []
    for factor in (1.0, scale):
        model = SequenceLabeler("margin", random_state=0, holdout=None, l2=0.1, max_iter=20).fit(X, y)
        start = model.weights_ * factor
        model.weights_ = start
        model.set_params(objective=Direct(epsilon=factor), solver=solver, warm_start=True, max_iter=2)
        found.append(model.fit(X, y).weights_ / factor)
        assert 0.0 < np.linalg.norm(model.weights_ - start) < np.linalg.norm(start)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-9)


def test_a_given_rate_is_kept() -> None:
    graphs, labels = chains(1)
    for rate in (0.01, 1.0):
        model = GraphLabeler("margin", random_state=0, verbose=False).fit(graphs, labels)
        start = model.weights_
        model.set_params(objective="direct", warm_start=True, holdout=None, max_iter=1)
        moved = []
        for factor in (1.0, 2.0):
            one = MiniBatch(rate * factor, batch_size=12, average=False)
            model.weights_ = start
            moved.append(model.set_params(solver=one).fit(graphs, labels).weights_ - start)
        np.testing.assert_allclose(moved[1], 2.0 * moved[0], atol=1e-12)


def impulses(seed: int, n: int) -> tuple[list[Graph], list[Any]]:
    """Chains with runs of labels, of which some nodes have a huge value of random sign: no linear score is
    right, and a hinge grows with each such node, while its loss is 1."""
    rng = np.random.default_rng(seed)
    graphs, labels = [], []
    for _ in range(n):
        y = np.repeat(rng.integers(2, size=5), rng.integers(1, 6, size=5))
        grey = 2.0 * y - 1.0 + rng.normal(0.0, 1.2, y.shape)
        grey = np.where(rng.random(y.shape) < 0.15, 8.0 * rng.choice([-1.0, 1.0], y.shape), grey)
        graphs.append(Graph(grey[:, None], [(i, i + 1) for i in range(len(y) - 1)]))
        labels.append(y)
    return graphs, labels


def test_direct_loss_on_graphs_gains_on_the_margin_with_its_default_step() -> None:
    gains = []
    for seed in (0, 2, 4, 5):
        train, held, test = (impulses(seed + shift, n) for shift, n in ((0, 40), (100, 30), (200, 60)))
        model = GraphLabeler("margin", random_state=0, verbose=False, l2=30.0).fit(*train)
        margin = model.score(*test)
        model.set_params(objective="direct", warm_start=True, holdout=held, max_iter=6)
        gains.append(model.fit(*train).score(*test) - margin)
    assert np.mean(gains) > 0.03, gains

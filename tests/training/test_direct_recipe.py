"""Direct loss by default: it starts from the CRF's weights, held-out examples choose what they can tell
apart, and what comes to nothing is said."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rare_labels import rare_names
from small_problems import make
from trellis import Graph, GraphLabeler, SequenceLabeler
from trellis.core.errors import DataError
from trellis.losses import WeightedHamming
from trellis.objectives import Direct
from trellis.solvers import FineTuning
from trellis.training.checkpoints import Checkpoints
from trellis.training.direct_recipe import proved_better, typical_gap
from trellis.training.driver import EarlyStopping, minimise, minimise_run
from trellis.training.holdout import MANY, MANY_STEPS, hold_out_in_turn

DEAR_NAMES = WeightedHamming({("B-NAME", "O"): 3.0, ("O", "B-NAME"): 1.0})


def noisy(seed: int, n: int, scale: float = 1.0) -> tuple[list[Graph], list[Any]]:
    """Chains of five nodes, whose one feature tells the label most of the time."""
    rng = np.random.default_rng(seed)
    edges = [(i, i + 1) for i in range(4)]
    labels = [np.repeat(rng.integers(2, size=2), [2, 3]) for _ in range(n)]
    inputs = [2.0 * y[:, None] - 1.0 + rng.normal(0.0, 1.2, (5, 1)) for y in labels]
    return [Graph(scale * x, edges, np.full((4, 1), scale)) for x in inputs], labels


def words(seed: int, n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = [rng.choice(list("abc"), rng.integers(2, 6)).tolist() for _ in range(n)]
    X = [[label + str(rng.integers(3)) if rng.random() < 0.7 else "x" for label in labels] for labels in y]
    return X, y


def fitted(*args: Any, data: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SequenceLabeler(*args, random_state=0, **options).fit(*data)


def predicted(model: Any, X: Any) -> set[str]:
    return {label for labels in model.predict(X) for label in labels}


@pytest.mark.parametrize("loss", ["hamming", DEAR_NAMES, "span_f1"], ids=["hamming", "weighted", "span_f1"])
@pytest.mark.parametrize("share", [0.2, 0.05, 0.01])
def test_a_rare_label_is_not_lost(share: float, loss: Any) -> None:
    sizes = ((20, 1), (40, 1)) if loss == "span_f1" else ((20, 4), (60, 3), (200, 1))
    for n, seeds in sizes:
        for seed in range(seeds):
            X, y = rare_names(seed + 10, n, share)
            crf = predicted(fitted("log", data=(X, y), l2=0.02), X)
            direct = fitted("direct", loss, data=(X, y), l2=0.02, max_iter=4)
            assert predicted(direct, X) >= crf, (n, seed, str(direct.status_))


def test_a_rare_label_costs_no_more_than_with_the_crf() -> None:
    """On average over data sets, on new data."""
    losses = []
    for seed in range(6):
        new = rare_names(seed + 100, 300)
        losses.append(
            [1.0 - fitted(one, data=rare_names(seed, 50), l2=0.02).score(*new) for one in ("log", "direct")]
        )
    crf, direct = np.mean(losses, axis=0)
    assert direct <= crf + 0.005, losses


def test_the_defaults() -> None:
    assert Direct() == Direct("auto", "central", start="log", refit=True)
    with pytest.raises(DataError, match="of which start='zero' has none"):
        Direct(start="zero")
    with pytest.raises(DataError, match="give 'log', 'margin' or 'zero'"):
        Direct(1.0, start="auto")  # type: ignore[arg-type]


def test_what_is_measured() -> None:
    model = fitted("direct", data=words(0, 60), max_iter=5)
    lengths = {
        key: len(model.history_[key]) for key in ("update_share", "relative_norm", "epsilon", "holdout_loss")
    }
    assert set(lengths.values()) == {5}
    assert model.history_["epsilon"][0] > 3 * model.history_["epsilon"][-1]
    assert "parts held out in turn" in str(model.status_)
    assert model.epsilon_ > 0


@pytest.mark.parametrize("holdout", ["auto", 0.3])
def test_tenfold_features_change_no_prediction(holdout: Any) -> None:
    """With l2 a hundredfold, w_0 is a tenth: all that is left of the features is their direction."""
    models = []
    for scale in (1.0, 10.0):
        graphs, labels = noisy(3, 40, scale)
        model = GraphLabeler(
            "direct", bias=False, l2=5.0 * scale**2, holdout=holdout, random_state=0, verbose=False
        )
        models.append(model.fit(graphs, labels))
    one, ten = models
    np.testing.assert_allclose(10.0 * ten.weights_, one.weights_, rtol=1e-3)
    for a, b in zip(one.predict(noisy(4, 30)[0]), ten.predict(noisy(4, 30, 10.0)[0]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("structure", ["chains", "segments", "graphs"])
@pytest.mark.parametrize("factor", [1e-4, 0.3, 50.0])
def test_the_typical_gap_grows_with_the_weights(structure: str, factor: float) -> None:
    problem = make(structure, Direct(), 3, l2=0.0)
    weights = np.random.default_rng(3).normal(size=problem.dimension)
    gap = typical_gap(problem, weights)
    assert gap is not None
    assert typical_gap(problem, factor * weights) == pytest.approx(factor * gap, rel=1e-7)


def test_threads_change_nothing() -> None:
    data = words(1, 80)
    one, two = (fitted("direct", data=data, n_jobs=n, max_iter=5) for n in (1, 2))
    np.testing.assert_allclose(two.weights_, one.weights_, rtol=1e-4, atol=1e-6)
    start = fitted("log", data=data)
    found = []
    for n in (1, 2):
        model = fitted("log", data=data).set_params(objective="direct", warm_start=True, n_jobs=n, max_iter=4)
        model.weights_ = start.weights_.copy()
        found.append(model.fit(*data).weights_)
    np.testing.assert_array_equal(found[0], found[1])


def test_given_weights_are_what_is_fine_tuned() -> None:
    data = words(2, 80)
    found = []
    for l2 in (1e-3, 1e3):
        model = fitted("log", data=data, l2=1.0)
        start = model.weights_.copy()
        model.set_params(objective="direct", warm_start=True, holdout=None, l2=l2, max_iter=3)
        found.append(model.fit(*data).weights_)
        assert 0.0 < np.linalg.norm(found[-1] - start) < np.linalg.norm(start)
    np.testing.assert_array_equal(found[0], found[1])  # nothing else was trained first


@pytest.mark.parametrize("early", [False, True])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path, early: bool) -> None:
    problem = make("compiled chains", Direct(), 2, l2=0.0)
    start = np.random.default_rng(0).normal(size=problem.dimension)
    problem = problem.with_(epsilon=typical_gap(problem, start))
    solver = FineTuning(batches=3, passes=8)
    stopping = EarlyStopping(problem.mean_loss, patience=100) if early else None
    rng = np.random.default_rng
    whole = minimise(solver, problem, start, max_iter=8, rng=rng(1), early_stopping=stopping)
    identity = {"kind": "test", "options": {}, "data": {}}
    for passes in (3, 5, 8):
        weights, trace = minimise_run(
            solver.start(problem, start.copy(), rng(1)),
            max_iter=passes,
            early_stopping=stopping,
            warm_start=start if early else None,
            checkpoints=Checkpoints(tmp_path, identity, extensible=True),
        )
    np.testing.assert_array_equal(weights, whole.weights)
    for key in ("update_share", "epsilon", "pass_objective"):
        assert trace.history[key] == whole.history[key]


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        ([["a"], ["b"]] * 10, [["x"], ["y"]] * 10, "predict every example right"),
        ([["a"], ["b"]] * 10, [["x"], ["x"]] * 10, "predict every example right"),
        ([["a"]], [["x"]], "predict every example right"),
        ([["a", "b"]], [["x", "y"]], "predict every example right"),
        ([[[]], [[]]] * 5, [["x"], ["y"]] * 5, "weights are 0, or all"),
    ],
    ids=["no wrong example", "one label", "one example", "one sequence", "no features"],
)
def test_degenerate_starts_end_in_a_sentence(X: Any, y: Any, said: str) -> None:
    for holdout in ("auto", None):
        model = fitted("direct", data=(X, y), boundaries=False, holdout=holdout)
        assert said in str(model.status_)
        assert np.isfinite(model.weights_).all()


@pytest.mark.parametrize(("epsilon", "said"), [(1e-9, "no example changes"), (1e9, "always the gold output")])
def test_an_epsilon_that_does_not_suit_the_scores_is_said(epsilon: float, said: str) -> None:
    data = words(5, 60)
    for sign in ("central", "better"):
        model = fitted(Direct(epsilon, sign=sign), data=data, max_iter=2)
        assert said in str(model.status_)
    typical = fitted("direct", data=data, max_iter=2).epsilon_
    assert said not in str(fitted(Direct(typical), data=data, max_iter=2).status_)


def test_parts_are_held_out_in_turn_where_examples_are_few() -> None:
    few = hold_out_in_turn("auto", 23, 100, "sequence", 0, Direct())
    assert len(few) == 5
    held = np.concatenate([part.held for part in few if part.held is not None])
    np.testing.assert_array_equal(np.sort(held), np.arange(23))
    for part in few:
        np.testing.assert_array_equal(np.union1d(part.kept, part.held), np.arange(23))  # type: ignore[arg-type]
    assert len(hold_out_in_turn("auto", 3, 9, "sequence", 0, Direct())) == 3
    for n, steps in ((MANY, 400), (23, MANY_STEPS)):
        assert len(hold_out_in_turn("auto", n, steps, "sequence", 0, Direct())) == 1
    assert len(hold_out_in_turn(0.5, 23, 100, "sequence", 0, Direct())) == 1
    assert len(hold_out_in_turn("auto", 23, 100, "sequence", 0, Direct(1.0))) == 1


def test_what_chance_makes_is_no_proof() -> None:
    """Of differences that mean nothing, about one in twenty passes."""
    rng = np.random.default_rng(0)
    proved = [proved_better(*rng.normal(size=(2, 40)), np.ones(40)) for _ in range(2000)]
    assert 0.03 < np.mean(proved) < 0.07
    assert proved_better(np.arange(9.0) + 1.0, np.arange(9.0), np.ones(9))
    assert not proved_better(np.ones(1), np.zeros(1), np.ones(1))


@pytest.mark.parametrize("holdout", ["auto", None])
def test_an_odd_weight_or_a_hidden_label_is_no_obstacle(holdout: Any) -> None:
    X, y = words(7, 12)
    y[0] = [None] * len(y[0])
    y[1][0] = {"a", "b"}
    model = fitted("direct", data=(X, y), holdout=holdout, max_iter=2)
    assert np.isfinite(model.weights_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, sample_weight=[0.0] * 11 + [1.0])
    assert np.isfinite(model.weights_).all()

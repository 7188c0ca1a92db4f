"""Training options of the estimator: hold-out sets, seeds, every kind of loss; and errors in clear words."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from tagging import clouds, noisy_words, spans
from trellis import SequenceLabeler, losses, objectives, solvers
from trellis.core.errors import DataError, InfeasibleError, TrellisError, UnsupportedError
from trellis.features import Template

X, Y = noisy_words(40)


# -- hold-out sets and seeds --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "solver"), [("perceptron", "auto"), ("direct", "auto"), ("log", "sgd"), ("margin", "auto")]
)
def test_the_same_seed_gives_the_same_weights(objective: str, solver: str) -> None:
    def weights(seed: Any) -> np.ndarray:
        model = SequenceLabeler(objective, solver=solver, max_iter=3, random_state=seed)
        return model.fit(X, Y).weights_

    assert_array_equal(weights(1), weights(1))
    assert_array_equal(weights(np.random.RandomState(1)), weights(np.random.RandomState(1)))
    assert not np.array_equal(weights(1), weights(2))


def test_a_fraction_is_held_out() -> None:
    model = SequenceLabeler("perceptron", holdout=0.25, patience=2, random_state=0).fit(X, Y)
    assert len(model.history_["holdout_loss"]) == model.n_iter_
    again = SequenceLabeler("perceptron", holdout=0.25, patience=2, random_state=0).fit(X, Y)
    assert_array_equal(model.weights_, again.weights_)
    assert np.min(model.history_["holdout_loss"]) * 10 == pytest.approx(
        round(np.min(model.history_["holdout_loss"]) * 10)
    )  # the mean number of wrong steps of ten sequences


def test_given_hold_out_data_choose_the_weights() -> None:
    other = noisy_words(30, seed=1)
    model = SequenceLabeler("perceptron", holdout=other, patience=3, max_iter=12, random_state=0).fit(X, Y)
    wrong = sum(
        a != b
        for p, q in zip(model.predict(other[0]), other[1], strict=True)
        for a, b in zip(p, q, strict=True)
    )
    assert wrong / 30 == pytest.approx(min(model.history_["holdout_loss"]))
    stop = int(np.argmin(model.history_["holdout_loss"])) + 1
    assert model.n_iter_ in (min(stop + 3, 12), stop)


def test_direct_holds_out_a_tenth_by_itself() -> None:
    assert "holdout_loss" in SequenceLabeler("direct", max_iter=2).fit(X, Y).history_
    assert "holdout_loss" not in SequenceLabeler("direct", max_iter=2, holdout=None).fit(X, Y).history_
    assert "holdout_loss" not in SequenceLabeler("log", max_iter=2).fit(X, Y).history_


def test_epsilon_is_chosen_on_the_hold_out_set() -> None:
    objective = objectives.Direct(epsilon="holdout", candidates=(0.1, 1.0, 30.0))
    model = SequenceLabeler(objective, holdout=0.3, max_iter=4, random_state=0).fit(X, Y)
    assert set(model.epsilon_losses_) == {0.1, 1.0, 30.0}
    assert model.epsilon_losses_[model.epsilon_] == min(model.epsilon_losses_.values())
    alone = SequenceLabeler(
        objectives.Direct(epsilon=model.epsilon_), holdout=0.3, max_iter=4, random_state=0
    )
    assert_array_equal(alone.fit(X, Y).weights_, model.weights_)


def test_weighted_losses_also_count_on_the_hold_out_set() -> None:
    positions = [np.full(len(x), 1.0 + i) for i, x in enumerate(X)]
    loss = losses.WeightedHamming(position_weight=positions)
    model = SequenceLabeler("direct", loss, holdout=0.25, max_iter=2, random_state=0).fit(X, Y)
    plain = SequenceLabeler("direct", holdout=0.25, max_iter=2, random_state=0).fit(X, Y)
    assert model.history_["holdout_loss"][0] > 2 * plain.history_["holdout_loss"][0]


# -- losses -----------------------------------------------------------------------------------------------


def edit_cost(gold: list[str], found: list[str]) -> float:
    """Wrong moves count, not wrong labels."""
    return float(sum(a != b for a, b in zip(pairwise(gold), pairwise(found), strict=True)))


@pytest.mark.parametrize(
    "loss",
    [
        "hamming",
        "zero_one",
        "span_f1",
        losses.WeightedHamming(class_weight="balanced"),
        losses.SpanF1(n_candidates=4),
    ],
)
@pytest.mark.parametrize("objective", ["margin", "direct", "softmax_margin"])
def test_losses(loss: Any, objective: str) -> None:
    words, tags = spans(40)
    model = SequenceLabeler(objective, loss, constraints="bio", max_iter=10, l2=0.3, random_state=0)
    if objective == "softmax_margin" and loss == "zero_one":
        model.set_params(solver="lbfgs")
    # from zero weights, a few passes over re-ranked candidates do not take the direct objective all the way
    slow = objective == "direct" and losses.get_loss(loss).kind == "candidates"
    assert model.fit(words, tags).score(words, tags) > (0.6 if slow else 0.75)


@pytest.mark.parametrize("candidates", ["k_best", "samples"])
def test_a_function_is_a_loss(candidates: Any) -> None:
    loss = losses.Custom(edit_cost, candidates=candidates, n_candidates=6)
    for given in (edit_cost, loss):
        model = SequenceLabeler("margin", given, max_iter=10, random_state=0).fit(X, Y)
        assert model.solver_ == "minibatch"
        assert model.score(X, Y) > 0.7


def test_costs_move_the_decision() -> None:
    """Where the words do not tell, the label whose mistakes are dear is the one to predict."""
    rng = np.random.default_rng(0)
    y = [["a" if rng.random() < 0.7 else "b"] for _ in range(200)]
    x = [["same"]] * 200
    assert SequenceLabeler("risk").fit(x, y).predict([["same"]]) == [["a"]]
    dear = losses.WeightedHamming({("b", "a"): 8.0})
    assert SequenceLabeler("risk", dear).fit(x, y).predict([["same"]]) == [["b"]]


def test_frank_wolfe_and_cutting_planes_certify_the_same_optimum() -> None:
    found = [
        SequenceLabeler("margin", loss, solver, tol=1e-4, random_state=0).fit(X, Y)
        for loss in ("hamming", "zero_one")
        for solver in ("frank_wolfe", "cutting_plane")
    ]
    assert all(model.status_.converged for model in found)
    for one, other in (found[:2], found[2:]):
        ours, theirs = one.history_["objective"][-1], other.history_["objective"][-1]
        assert ours == pytest.approx(theirs, rel=3e-4)
        assert one.history_["gap"][-1] <= 2e-4 * ours


# -- errors -----------------------------------------------------------------------------------------------


def fitting(*data: Any, **options: Any) -> Callable[[], Any]:
    x, y = data if data else (X[:4], Y[:4])
    more = {key: options.pop(key) for key in ("lengths", "sample_weight") if key in options}
    return lambda: SequenceLabeler(**options).fit(x, y, **more)


ROWS = [np.zeros((2, 3)), np.zeros((1, 3))]
ERRORS: list[tuple[Callable[[], Any], type[TrellisError], str]] = [
    (fitting(objective="crf"), DataError, "objective='crf' is not known; choose one of perceptron"),
    (
        fitting(objective="margin", loss="f1"),
        DataError,
        "loss='f1' is not known; choose one of hamming",
    ),
    (fitting(solver="newton"), DataError, "solver='newton' is not known; choose one of auto"),
    (fitting(solver=3), DataError, "solver=3: give a name or an object of trellis.solvers"),
    (fitting(constraints="iob"), DataError, "constraints is 'iob'; give 'bio'"),
    (fitting(constraints=[("a", ["z"])]), DataError, "constraints names \\['z'\\], which cannot be a label"),
    (fitting(constraints=["ab", "abc"]), DataError, "'ab' is not a pair"),
    (fitting(l2=-1.0), DataError, "l2 is -1.0; give a finite number of at least 0"),
    (fitting(l1=float("nan")), DataError, "l1 is nan; give a finite number"),
    (fitting(l2="1"), DataError, "l2 is '1'; give a finite number"),
    (fitting(max_iter=0), DataError, "max_iter is 0; give a whole number of at least 1"),
    (fitting(patience=0), DataError, "patience is 0; give a whole number of at least 1"),
    (fitting(n_jobs=0), DataError, "n_jobs is 0"),
    (fitting(weights="some"), DataError, "weights is 'some'; give 'auto', 'observed' or 'all'"),
    (fitting(min_count=0), DataError, "min_count is 0"),
    (fitting(l1=1.0, solver="lbfgs"), UnsupportedError, "l1"),
    (fitting(objective="margin", l1=1.0), UnsupportedError, "L1 norm"),
    (fitting(objective="log", solver="frank_wolfe"), UnsupportedError, "log"),
    (
        fitting(objective="log", solver="perceptron"),
        UnsupportedError,
        "works only with objective='perceptron'",
    ),
    (fitting(objective="perceptron", solver="cutting_plane"), UnsupportedError, "minimum at w = 0"),
    (fitting(solver="sgd", tol=0.1), UnsupportedError, "solver 'sgd' has no tolerance"),
    (
        fitting(objective="margin", loss="zero_one", class_weight="balanced"),
        UnsupportedError,
        "class_weight cannot",
    ),
    (fitting(class_weight="even"), DataError, "class_weight is 'even'"),
    (fitting(class_weight={"a": -1.0}), DataError, "class weight of 'a' is -1.0"),
    (fitting(holdout=1.5), DataError, "holdout is 1.5; give a fraction between 0 and 1"),
    (fitting(holdout="some"), DataError, "holdout is some; give a fraction"),
    (fitting(holdout=(X,)), DataError, "holdout is a tuple; give a fraction"),
    (fitting(holdout=0.01), DataError, "holdout=0.01 of 4 sequences leaves 4 to learn from and 0"),
    (
        fitting(holdout=(X[:2], [["z"] for x in X[:2]])),
        DataError,
        "sequence 0 has . steps in X, but 1 in y",
    ),
    (
        fitting(objective=objectives.Direct(epsilon="holdout")),
        UnsupportedError,
        "epsilon='holdout' needs a hold-out set",
    ),
    (fitting(X[:4], Y[:3]), DataError, "X has 4 sequences, but y has 3"),
    (fitting([["w"], ["w", "w"]], [["a"], ["b"]]), DataError, "sequence 1 has 2 steps in X, but 1 in y"),
    (fitting([], []), DataError, "y has no sequences"),
    (fitting([[], []], [[], []]), DataError, "no steps"),
    (fitting([["w"]], [[None]]), DataError, "at least one step must have a known label"),
    (fitting([["w"]], [[set()]]), DataError, "step 0 of sequence 0 has an empty set"),
    (fitting([["w"]], ["a"], lengths=[2]), DataError, "lengths add up to 2"),
    (fitting(ROWS, [["a", "b"], ["c"]], sample_weight=[1.0]), DataError, r"sample_weight has shape \(1,\)"),
    (fitting(sample_weight=[1, 1, -2, 1]), DataError, r"sample_weight\[2\] is -2.0"),
    (
        fitting([*ROWS, np.zeros((1, 4))], [["a"] * 2, ["a"], ["b"]]),
        DataError,
        r"sequence 2 of X has shape \(1, 4\)",
    ),
    (fitting([np.array([[1.0, np.nan]])], [["a"]]), DataError, "step 0 of sequence 0 holds nan in column 1"),
    (fitting([[[1.0, 2.0], [3.0]]], [["a", "b"]]), DataError, "sequence 0 of X is ragged"),
    (fitting(np.zeros((3, 2)), [["a"]]), DataError, "pass lengths"),
    (
        fitting([[{"x": float("inf")}]], [["a"]]),
        DataError,
        "step 0 of sequence 0: feature 'x' has the value inf",
    ),
    (fitting([["w", {"x": 1}]], [["a", "b"]]), DataError, "step 1 of sequence 0 is of type dict"),
    (fitting([["w", "w"]], [["O", "I-x"]], constraints="bio"), DataError, "'I-x' may not follow 'O'"),
    (fitting([["w"] * 2], [["O", {"I-x", "I-y"}]], constraints="bio"), InfeasibleError, "sequence 0"),
    (fitting([["w"]], [["x"]], constraints="bio"), DataError, "label 'x' does not fit constraints='bio'"),
    (
        fitting([[("w",)]], [["a"]], template=Template.parse("U0:%x[0,0]"), transition_features=True),
        UnsupportedError,
        "transition_features do not apply to a template",
    ),
    (
        fitting([["w", "w"]], [["a", None]], objective="margin", loss="span_f1"),
        UnsupportedError,
        "needs every",
    ),
    (
        fitting(objective="margin", loss=lambda gold, found: -1.0),
        DataError,
        "a finite number of at least 0",
    ),
    (
        fitting(*spans(4), objective="margin", loss="span_f1", solver="frank_wolfe"),
        UnsupportedError,
        "solver='minibatch'",
    ),
]


@pytest.mark.parametrize(("attempt", "kind", "words"), ERRORS)
def test_errors_say_what_and_where(attempt: Callable[[], Any], kind: type[TrellisError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        attempt()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 320


@pytest.fixture(scope="module")
def fitted() -> SequenceLabeler:
    return SequenceLabeler(max_iter=3).fit(*clouds(10))


def test_errors_of_predictions(fitted: SequenceLabeler) -> None:
    good = [np.zeros((2, 4))]
    for attempt, words in (
        (
            lambda: fitted.predict([np.zeros((2, 5))]),
            "X has 5 columns, but there were 4 in training",
        ),
        (lambda: fitted.predict([["w"]]), "must hold real numbers"),
        (lambda: fitted.predict([]), "no sequences"),
        (
            lambda: fitted.predict(good, decoding="worst"),
            "decoding is 'worst'; give 'best' or 'minimum_risk'",
        ),
        (lambda: fitted.predict_k_best(good, k=0), "k"),
        (lambda: fitted.score(good, [[0, float("nan")]]), "a label is NaN"),
        (lambda: fitted.score(good, [[0]]), "sequence 0 has 2 steps in X, but 1 in y"),
        (lambda: fitted.score(good, [[None, None]]), "nothing to score: no step has a known label"),
        (lambda: fitted.score(good, [[0, 1]], sample_weight=[1, 2]), "sample_weight has shape"),
        (lambda: fitted.predict_log_proba(good, [[0, "x"]]), "label 'x' of step 1 of sequence 0"),
    ):
        with pytest.raises(TrellisError, match=words):
            attempt()


def test_nothing_is_predicted_before_fit(tmp_path: Any) -> None:
    model = SequenceLabeler()
    for attempt in (
        lambda: model.predict(X),
        lambda: model.predict_marginals(X),
        lambda: model.predict_k_best(X, 2),
        lambda: model.predict_log_proba(X),
        lambda: model.score(X, Y),
        lambda: model.strongest_weights(),
        lambda: model.transition_table(),
        lambda: model.to_hmm(),
        lambda: model.save(tmp_path / "m.trellis"),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            attempt()


def test_a_failed_fit_leaves_the_model_as_it_was() -> None:
    model = SequenceLabeler(max_iter=3).fit(X, Y)
    before = model.predict(X)
    with pytest.raises(DataError):
        model.fit([["x"]], [["a", "b"]])
    assert model.predict(X) == before


def test_running_out_of_iterations_is_not_convergence() -> None:
    model = SequenceLabeler(max_iter=2, l2=0.01).fit(X, Y)
    assert not model.status_.converged
    assert "max_iter=2 was reached" in str(model.status_)
    assert isinstance(model.status_, solvers.Status)

"""``SequenceLabeler``: what goes in, what comes out, and what each parameter promises."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import (
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
)

from tagging import as_dicts, clouds, noisy_words, spans
from trellis import SequenceLabeler, losses, objectives, solvers
from trellis.data.columns import ColumnData
from trellis.features import Template


def exact(**options: Any) -> SequenceLabeler:
    """A model at its optimum, so that two ways to the same problem agree to many digits."""
    return SequenceLabeler(tol=1e-9, **options)


# -- inputs -----------------------------------------------------------------------------------------------


def test_input_kinds_of_the_same_features_are_one_model() -> None:
    X, y = noisy_words(30)
    names = sorted({w for x in X for w in x})
    dense = [np.array([[float(w == name) for name in names] for w in x]) for x in X]
    lengths = [len(x) for x in X]
    flat_y = [label for labels in y for label in labels]
    kinds: list[tuple[Any, Any, dict[str, Any]]] = [
        ([[{w: True} for w in x] for x in X], y, {}),
        ([[{w: 1.0} for w in x] for x in X], y, {}),
        ([[[w] for w in x] for x in X], y, {}),
        (X, y, {}),
        ([w for x in X for w in x], flat_y, {"lengths": lengths}),
        (dense, y, {}),
        ([csr_array(x) for x in dense], y, {}),
        ([csr_matrix(x) for x in dense], y, {}),
        (np.concatenate(dense), np.array(flat_y), {"lengths": lengths}),
        (csr_array(np.concatenate(dense)), y, {"lengths": lengths}),
        ([x.tolist() for x in dense], y, {}),
    ]
    reference = None
    for data, labels, more in kinds:
        model = exact(weights="all", l2=0.3).fit(data, labels, **more)
        marginals = np.concatenate(model.predict_marginals(data, **more))
        if reference is None:
            reference = marginals
        assert_allclose(marginals, reference, atol=1e-6)
        assert model.score(data, labels, **more) == pytest.approx(
            np.mean(model.classes_[marginals.argmax(axis=1)] == flat_y), abs=0.1
        )


def test_string_values_of_dicts_are_features_of_their_own() -> None:
    X, y = noisy_words(20)
    spelled = [[[f"word={w}"] for w in x] for x in X]
    a = exact().fit([[{"word": w} for w in x] for x in X], y).predict_marginals([[{"word": "w00"}]])
    b = exact().fit(spelled, y).predict_marginals([[["word=w00"]]])
    assert_allclose(a[0], b[0], atol=1e-6)


def test_columns_with_a_template() -> None:
    X, y = noisy_words(40)
    rows = [[(w, w[:2]) for w in x] for x in X]
    template = Template.parse("U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\nB")
    model = SequenceLabeler(template=template).fit(ColumnData.from_sequences(rows), y)
    assert model.predict(ColumnData.from_sequences(rows)) == model.predict(rows)
    assert model.score(rows, y) > 0.8
    builtin = SequenceLabeler().fit(ColumnData.from_sequences(rows), y)  # the built-in template
    assert builtin.score(ColumnData.from_sequences(rows), y) > 0.8


def test_unseen_features_are_ignored() -> None:
    X, y = noisy_words(20)
    model = SequenceLabeler().fit(as_dicts(X), y)
    seen = [[{"word": "w00", "first": True}]]
    assert_array_equal(
        model.predict_marginals(seen)[0],
        model.predict_marginals([[{"word": "w00", "first": True, "never": "seen", "nor this": 3.0}]])[0],
    )
    assert len(model.predict([[{"nothing": "known"}] * 3])[0]) == 3


def test_sequences_of_no_steps_stay_in_their_place() -> None:
    X, y = noisy_words(10)
    model = SequenceLabeler().fit([X[0], [], *X[1:]], [y[0], [], *y[1:]])
    assert model.predict([[], X[0], []])[::2] == [[], []]
    assert [m.shape for m in model.predict_marginals([[], X[0]])] == [(0, 3), (len(X[0]), 3)]
    assert model.predict_log_proba([[], X[0]], [[], y[0]])[0] == pytest.approx(0.0)


# -- labels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [(3, 1, 2), (("x", 1), ("x", 2), ("y", 1)), ("a", 2, (1, "z"))])
def test_labels_may_be_anything_hashable(labels: tuple[Any, ...]) -> None:
    X, y = noisy_words(40, labels=labels)
    model = SequenceLabeler().fit(X, y)
    assert set(model.classes_) == set(labels)
    assert {type(label) for row in model.predict(X) for label in row} <= {type(label) for label in labels}
    assert model.score(X, y) > 0.7


def test_labels_of_numpy_come_back_as_python_values() -> None:
    X, y = clouds(20)
    model = SequenceLabeler().fit(X, [np.array(row) for row in y])
    assert type(model.predict(X)[0][0]) is int


def test_unknown_labels_help_and_sets_help_more() -> None:
    X, y = noisy_words(60)
    hidden = [[label if (i + t) % 3 else None for t, label in enumerate(row)] for i, row in enumerate(y)]
    narrowed = [
        [({label, "a"} if (i + t) % 3 == 0 else label) for t, label in enumerate(row)]
        for i, row in enumerate(y)
    ]
    for labels in (hidden, narrowed):
        model = SequenceLabeler(l2=0.5).fit(X, labels)
        assert list(model.classes_) == ["a", "b", "c"]
        assert model.score(X, y) > 0.75
    # a set of one is a label; a set of all is None
    everything = [[{"a", "b", "c"} if label is None else {label} for label in row] for row in hidden]
    assert_allclose(exact().fit(X, everything).weights_, exact().fit(X, hidden).weights_, atol=1e-5)


def test_log_probability_of_partial_labels_is_that_of_all_that_agree() -> None:
    X, y = noisy_words(20)
    model = SequenceLabeler().fit(X, y)
    x = [["w00", "w11", "w20"]]
    total = [model.predict_log_proba(x, [[a, "b", c]])[0] for a in "ac" for c in "abc"]
    assert model.predict_log_proba(x, [[{"a", "c"}, "b", None]])[0] == pytest.approx(
        np.logaddexp.reduce(total)
    )


# -- scikit-learn's conventions -----------------------------------------------------------------------------


def test_init_only_stores() -> None:
    check_no_attributes_set_in_init("SequenceLabeler", SequenceLabeler())
    check_parameters_default_constructible("SequenceLabeler", SequenceLabeler())


def test_clone_and_parameters() -> None:
    model = SequenceLabeler(
        objectives.Direct(epsilon=0.5),
        losses.WeightedHamming({("a", "b"): 2.0}),
        solvers.LBFGS(memory=3),
        l2=0.1,
        constraints=[("a", "b")],
        class_weight={"a": 2.0},
        transition_features=("word",),
    )
    copy = clone(model)
    assert set(copy.get_params(deep=False)) == set(model.get_params(deep=False))
    assert (copy.l2, copy.constraints, copy.objective) == (0.1, [("a", "b")], model.objective)
    assert copy.set_params(l2=3.0).l2 == 3.0
    assert model.l2 == 0.1
    with pytest.raises(ValueError, match="Invalid parameter 'l3'"):
        model.set_params(l3=1)


def test_grid_search_and_cross_validation() -> None:
    X, y = noisy_words(40)
    search = GridSearchCV(SequenceLabeler(max_iter=30), {"l2": [0.1, 1000.0]}, cv=2).fit(X, y)
    assert search.best_params_ == {"l2": 0.1}
    assert search.predict(X) == search.best_estimator_.predict(X)
    found = cross_val_score(SequenceLabeler(max_iter=30), as_dicts(X), y, cv=3)
    assert found.shape == (3,)
    assert found.min() > 0.6


def test_fit_does_not_touch_its_parameters() -> None:
    X, y = spans(20)
    model = SequenceLabeler("margin", solver="cutting_plane", constraints="bio", class_weight="balanced")
    before = dict(model.get_params(deep=False))
    model.fit(X, y)
    assert model.get_params(deep=False) == before


# -- the optimum ------------------------------------------------------------------------------------------


def test_length_one_is_logistic_regression() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(3, size=60)
    model = exact(l2=2.0, boundaries=False).fit(X, y, lengths=np.ones(60, int))
    peer = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
    ours = np.concatenate(model.predict_marginals(X, lengths=np.ones(60, int)))
    assert_allclose(ours, peer.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("solver", ["frank_wolfe", "cutting_plane"])
def test_length_one_is_the_multiclass_svm(solver: str) -> None:
    rng = np.random.default_rng(1)
    X, y, ones = rng.normal(size=(60, 4)), rng.integers(3, size=60), np.ones(60, int)
    model = SequenceLabeler("margin", solver=solver, l2=2.0, boundaries=False, tol=1e-7, max_iter=5000)
    model.fit(X, y, lengths=ones)
    peer = LinearSVC(C=0.5, multi_class="crammer_singer", fit_intercept=False, tol=1e-9, max_iter=100_000)
    peer.fit(X, y)
    assert_allclose(model.scores(X, lengths=ones).unary, peer.decision_function(X), atol=1e-3)


def test_sample_weight_two_is_the_example_twice() -> None:
    X, y = noisy_words(15)
    weight = np.ones(15)
    weight[[2, 5]] = 2.0
    weight[7] = 0.0
    chosen = [i for i in range(15) for _ in range(int(weight[i]))]
    a = exact(weights="all").fit(X, y, sample_weight=weight)
    b = exact(weights="all").fit([X[i] for i in chosen], [y[i] for i in chosen])
    both = [x for x in X if set(x) <= set(b.encoder_.feature_names())]
    assert_allclose(
        np.concatenate(a.predict_marginals(both)), np.concatenate(b.predict_marginals(both)), atol=1e-5
    )
    assert a.score(X, y, sample_weight=weight) == pytest.approx(
        a.score([X[i] for i in chosen], [y[i] for i in chosen])
    )


def test_class_weight_of_an_objective_without_a_loss_weighs_sequences() -> None:
    X, y = noisy_words(15)
    by_label = {"a": 3.0, "c": 0.5}
    mean = [np.mean([by_label.get(label, 1.0) for label in row]) for row in y]
    a = exact(class_weight=by_label).fit(X, y)
    b = exact().fit(X, y, sample_weight=mean)
    assert_allclose(a.weights_, b.weights_, atol=1e-5)


def test_class_weight_of_an_objective_with_a_loss_multiplies_its_costs() -> None:
    X, y = noisy_words(15)
    by_label = {"a": 3.0, "c": 0.5}
    a = exact(objective="softmax_margin", class_weight=by_label).fit(X, y)
    b = exact(objective="softmax_margin", loss=losses.WeightedHamming(class_weight=by_label)).fit(X, y)
    c = exact(objective="softmax_margin").fit(X, y)
    assert_allclose(a.weights_, b.weights_, atol=1e-6)
    assert np.abs(a.weights_ - c.weights_).max() > 1e-3


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    y = np.where(rng.random(200) < 0.1, "rare", "often")
    X = np.where(y == "rare", 1.0, -1.0)[:, None] + rng.normal(size=(200, 2))
    ones = np.ones(200, int)
    model = exact(boundaries=False, class_weight="balanced").fit(X, y, lengths=ones)
    peer = LogisticRegression(fit_intercept=False, class_weight="balanced", tol=1e-10, max_iter=1000)
    # two classes: scikit-learn has one weight where a chain has two, w and -w, so half the penalty
    peer.set_params(C=2.0).fit(X, y)
    ours = np.concatenate(model.predict_marginals(X, lengths=ones))
    assert_allclose(ours, peer.predict_proba(X), atol=1e-6)
    found = [
        sum(
            row == ["rare"]
            for row in SequenceLabeler("softmax_margin", class_weight=weight)
            .fit(X, y, lengths=ones)
            .predict(X, lengths=ones)
        )
        for weight in (None, "balanced")
    ]
    assert found[0] < found[1]


def test_threads_agree_to_rounding() -> None:
    X, y = noisy_words(50)
    one, two = (exact(n_jobs=n, l2=0.5).fit(X, y) for n in (1, 2))
    assert_allclose(one.weights_, two.weights_, atol=1e-6)
    assert one.predict(X) == two.predict(X)
    assert_allclose(
        np.concatenate(one.predict_marginals(X)), np.concatenate(two.predict_marginals(X)), atol=1e-6
    )


# -- parameters of the model --------------------------------------------------------------------------------


def test_transition_features_solve_what_nothing_else_can() -> None:
    """The first label is free; each next one is the same if the input says "keep", else the other."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(60):
        state, words, labels = int(rng.integers(2)), [], []
        for t in range(6):
            word = "keep" if rng.random() < 0.5 else "flip"
            state = state if t == 0 or word == "keep" else 1 - state
            words.append({"word": word, "begin": f"s{state}" if t == 0 else "later"})
            labels.append(state)
        X.append(words)
        y.append(labels)
    plain = SequenceLabeler(l2=0.01).fit(X, y)
    edges = SequenceLabeler(l2=0.01, transition_features=["word"]).fit(X, y)
    assert plain.score(X, y) < 0.8
    assert edges.score(X, y) == 1.0
    numbers = [
        np.array([[s["word"] == "keep", s["begin"] == "s0", s["begin"] == "s1"] for s in x], float) for x in X
    ]
    assert SequenceLabeler(l2=0.01, transition_features=[0]).fit(numbers, y).score(numbers, y) == 1.0
    assert SequenceLabeler(l2=0.01, transition_features=True).fit(numbers, y).score(numbers, y) == 1.0


def legal_bio(labels: list[str]) -> bool:
    return all(
        not now.startswith("I-") or before in (f"B-{now[2:]}", now)
        for before, now in pairwise(["O", *labels])
    )


@pytest.mark.parametrize("objective", ["log", "margin", "perceptron"])
def test_constraints_hold_in_every_answer(objective: str) -> None:
    X, y = spans(30)
    model = SequenceLabeler(objective, constraints="bio", max_iter=40).fit(X, y)
    nonsense = [["P10", "L11", "noise", "P11"], ["L10"], ["never seen"] * 4]
    assert all(legal_bio(row) for row in model.predict([*X, *nonsense]))
    assert all(legal_bio(row) for found in model.predict_k_best(nonsense, 20) for row, _ in found)
    inside = [k for k, label in enumerate(model.classes_) if label.startswith("I-")]
    assert all((m[0, inside] == 0).all() for m in model.predict_marginals(nonsense))
    assert model.predict_log_proba([["P10"]], [["I-P"]])[0] == -np.inf
    assert model.transition_table()[list(model.classes_).index("O"), inside[0]] == -np.inf
    assert not all(legal_bio(row) for row in SequenceLabeler().fit(X, y).predict(nonsense))


def test_constraints_are_part_of_the_training() -> None:
    """What is minimised is the likelihood of a model that cannot make the forbidden moves at all."""
    X, y = spans(20)
    model = exact(constraints="bio").fit(X, y)
    free = exact().fit(X, y)
    free.penalties_ = model.penalties_
    objective = [0.5 * m.weights_ @ m.weights_ - m.predict_log_proba(X, y).sum() for m in (model, free)]
    assert objective[0] < objective[1] - 1e-3
    assert model.history_["objective"][-1] == pytest.approx(objective[0])


def test_allowed_pairs() -> None:
    X, y = noisy_words(30)
    seen = {pair for row in y for pair in pairwise(row)}
    model = SequenceLabeler(constraints=seen).fit(X, y)
    found = {pair for row in model.predict(noisy_words(60, seed=5)[0]) for pair in pairwise(row)}
    assert found <= seen
    assert ("c", "b") not in seen


def test_min_count_drops_rare_features() -> None:
    X, y = [["x", "x", "once"], ["x", "y", "y"]], [["a", "a", "b"], ["a", "b", "b"]]
    assert SequenceLabeler(min_count=2).fit(X, y).encoder_.feature_names() == ["x", "y"]


def test_observed_and_all_weights() -> None:
    X, y = [["x", "y"], ["x", "z"]], [["a", "b"], ["a", "a"]]
    observed = SequenceLabeler(weights="observed").fit(X, y)
    everything = SequenceLabeler(weights="all").fit(X, y)
    assert observed.layout_.n_weights == 3 + 2 + 4  # (x,a) (y,b) (z,a); a-b a-a; start and end
    assert everything.layout_.n_weights == 6 + 4 + 4
    assert SequenceLabeler().fit(*clouds(5)).layout_.n_weights == 4 * 3 + 9 + 6  # "auto": all, for arrays
    assert observed.transition_table()[1].tolist() == [0.0, 0.0]


def test_boundaries() -> None:
    X, y = [["x", "x"]] * 4, [["a", "b"]] * 4
    without = SequenceLabeler(l2=0.1, boundaries=False).fit(X, y)
    assert without.scores(X).start.tolist() == without.scores(X).end.tolist() == [0.0, 0.0]
    with_them = SequenceLabeler(l2=0.1).fit(X, y)
    assert with_them.predict_log_proba(X, y)[0] > without.predict_log_proba(X, y)[0]


def test_warm_start_goes_on_and_carries_weights_by_name() -> None:
    X, y = noisy_words(40)
    model = exact(warm_start=True).fit(X, y)
    first, weights = model.n_iter_, model.weights_.copy()
    assert model.fit(X, y).n_iter_ <= 2 < first
    assert_allclose(model.weights_, weights, atol=1e-5)

    # other data: the features come in another order, one is gone and one is new
    def renamed(x: list[str]) -> list[str]:
        return ["new" if w == "w00" else w for w in reversed(x)]

    other, labels = [renamed(x) for x in X[:30]], [row[::-1] for row in y[:30]]
    weight_of = dict(
        zip(model.encoder_.feature_names(), model.layout_.feature_weights(model.weights_), strict=True)
    )
    start = model.set_params(max_iter=1, weights="all", l2=1e12).fit(other, labels)
    assert start.encoder_.feature_names() != list(weight_of)
    from trellis.structures.chain.labeler.warm_start import carried_over

    model = exact(weights="all").fit(X, y)
    weight_of = dict(
        zip(model.encoder_.feature_names(), model.layout_.feature_weights(model.weights_), strict=True)
    )
    carried = carried_over(model, start.layout_, start.labels_, start.encoder_)
    rows = start.layout_.feature_weights(carried)
    for name, row in zip(start.encoder_.feature_names(), rows, strict=True):
        assert_allclose(row, weight_of.get(name, np.zeros(3)))
    assert_allclose(start.layout_.views(carried).transitions, model.transition_table())


# -- answers ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> SequenceLabeler:
    X, y = noisy_words(30)
    return SequenceLabeler(l2=0.5).fit(as_dicts(X), y)


def test_log_probabilities_sum_to_one(small: SequenceLabeler) -> None:
    x = as_dicts([["w01", "w10", "w22", "w00"]])
    labellings = [list(row) for row in product("abc", repeat=4)]
    logs = small.predict_log_proba(x * len(labellings), labellings)
    assert np.exp(logs).sum() == pytest.approx(1.0)
    best = int(logs.argmax())
    assert small.predict(x) == [labellings[best]]
    assert small.predict_log_proba(x)[0] == pytest.approx(logs[best])
    marginals = np.array(
        [[np.exp(logs)[[row[t] == k for row in labellings]].sum() for k in "abc"] for t in range(4)]
    )
    assert_allclose(small.predict_marginals(x)[0], marginals, atol=1e-12)
    assert small.predict(x, decoding="minimum_risk") == [["abc"[k] for k in marginals.argmax(axis=1)]]
    ranked = small.predict_k_best(x, k=100)[0]
    assert len(ranked) == 81
    order = np.argsort(-logs)
    assert [row for row, _ in ranked[:10]] == [labellings[i] for i in order[:10]]
    assert_allclose([s - ranked[0][1] for _, s in ranked], logs[order] - logs[best], atol=1e-9)


def test_k_best_of_short_sequences_is_short(small: SequenceLabeler) -> None:
    found = small.predict_k_best(as_dicts([["w01"], ["w01", "w10"]]), k=5)
    assert [len(f) for f in found] == [3, 5]
    assert all(a[1] >= b[1] for f in found for a, b in pairwise(f))


def test_score_is_the_fraction_of_known_steps(small: SequenceLabeler) -> None:
    X, y = noisy_words(10, seed=4)
    flat = [
        (a, b) for p, q in zip(small.predict(as_dicts(X)), y, strict=True) for a, b in zip(p, q, strict=True)
    ]
    assert small.score(as_dicts(X), y) == pytest.approx(np.mean([a == b for a, b in flat]))
    half = [[label if t % 2 == 0 else None for t, label in enumerate(row)] for row in y]
    known = [
        (a, b)
        for p, q in zip(small.predict(as_dicts(X)), half, strict=True)
        for a, b in zip(p, q, strict=True)
    ]
    assert small.score(as_dicts(X), half) == pytest.approx(
        np.mean([a == b for a, b in known if b is not None])
    )


# -- objectives, losses and solvers -------------------------------------------------------------------------

SMOOTH = ("log", "softmax_margin", "risk")
PATHS = ("perceptron", "margin", "squared_margin", "slack", "direct", "ramp")
WAYS = [
    *product((*SMOOTH, *PATHS), ["auto"]),
    *product(SMOOTH, ["lbfgs", "sgd", "adagrad", "adam", "minibatch"]),
    *product(SMOOTH[:2], ["owlqn", "sag"]),
    *product(PATHS, ["sgd", "adagrad", "adam"]),
    *product(["perceptron", "margin", "slack", "ramp"], ["minibatch"]),
    *product(["perceptron", "margin", "slack", "ramp"], ["subgradient"]),
    *product(["margin", "slack"], ["cutting_plane", "frank_wolfe"]),
    *product(["squared_margin"], ["cutting_plane", "minibatch"]),
    ("perceptron", "perceptron"),
]


@pytest.mark.parametrize(("objective", "solver"), WAYS)
def test_every_objective_by_every_solver_that_suits_it(objective: str, solver: str) -> None:
    X, y = noisy_words(40, noise=0.1)
    model = SequenceLabeler(objective, solver=solver, l2=0.5, max_iter=15, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert solver in ("auto", model.solver_)
    assert 1 <= model.n_iter_ <= 15
    assert str(model.status_).startswith(("converged after", "stopped after"))
    assert {len(values) for values in model.history_.values()} == {model.n_iter_}

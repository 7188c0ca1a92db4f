"""Latent states inside labels: against enumeration of all (y, h), finite differences, and the plain model."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import trellis
from scored_chains import value_and_gradient
from trellis import SequenceLabeler
from trellis.core.errors import DataError, TrellisError, UnsupportedError
from trellis.data.labels import LabelSet
from trellis.data.latent_labels import LatentLabels
from trellis.losses.labelings import Hamming
from trellis.objectives import Direct, Objective, get_objective
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.scores.chain_scores import ChainScores

ORDERS = {"A": "abc", "B": "cba"}  # the same symbols: only their order tells the labels apart


def stages(n: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Visits of labels, each a run through three stages of one to two steps with a symbol of their own."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        steps = [
            (symbol if rng.random() > 0.1 else str(rng.choice(list("abc"))), label)
            for label in rng.choice(list(ORDERS), rng.integers(2, 5)).tolist()
            for symbol in ORDERS[label]
            for _ in range(rng.integers(1, 3))
        ]
        X.append([symbol for symbol, _ in steps])
        y.append([label for _, label in steps])
    return X, y


# -- the map between labels and states ----------------------------------------------------------------------


def test_expansion_by_hand() -> None:
    names = LabelSet(["A", "B", "C"])
    latent = LatentLabels.of(names, {"A": 2, "C": 3})
    assert latent.states.labels == (("A", 0), ("A", 1), "B", ("C", 0), ("C", 1), ("C", 2))
    encoded = names.encode([["B", "A"], [None, {"B", "C"}]])
    over_states = latent.expand(encoded)
    assert over_states.codes.tolist() == [2, -1, -1, -1]
    assert over_states.allowed is not None
    assert over_states.allowed.astype(int).tolist() == [
        [0, 0, 1, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 1],
        [0, 0, 1, 1, 1, 1],
    ]
    costs = latent.expand_costs(Hamming().costs(encoded, names))
    assert costs[:2].tolist() == [[1, 1, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]]
    assert latent.collapse(np.array([0, 1, 2, 5], np.int32)).tolist() == [0, 0, 1, 2]
    assert latent.sum_states(np.arange(6.0)[None]).tolist() == [[1.0, 2.0, 12.0]]
    assert latent.expand(names.encode([["B"]])).allowed is None  # every state is known


def test_one_state_each_is_the_identity() -> None:
    names = LabelSet(["A", "B"])
    encoded = names.encode([["A", None]])
    for latent in (LatentLabels.of(names, 1), LatentLabels.of(names, {"A": 1})):
        assert latent.plain
        assert latent.states is names
        assert latent.expand(encoded) is encoded


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (0, "latent_states is 0"),
        (2.5, "whole number"),
        (True, "whole number"),
        ({"A": 0}, "latent_states of 'A' is 0"),
    ],
)
def test_wrong_numbers_of_states(states: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        SequenceLabeler(latent_states=states).fit([["a", "b"]], [["A", "B"]])


def test_states_of_a_label_that_does_not_occur() -> None:
    """A fold of a cross-validation may lack it."""
    with pytest.warns(UserWarning, match="latent_states names the label 'Z', which does not occur"):
        model = SequenceLabeler(latent_states={"Z": 2}).fit([["a", "b"]], [["A", "B"]])
    assert model.state_names_ == ["A", "B"]


# -- objectives, by enumeration ------------------------------------------------------------------------------


@st.composite
def latent_chains(draw: st.DrawFn) -> tuple[LatentLabels, ChainScores, list[int]]:
    counts = draw(st.lists(st.integers(1, 3), min_size=2, max_size=3))
    latent = LatentLabels(LabelSet(range(len(counts))), np.array(counts))
    n, h = draw(st.integers(1, 3)), sum(counts)
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    whole = draw(st.booleans())  # ties
    draw_scores = (lambda *s: rng.integers(-1, 2, s) * 1.0) if whole else (lambda *s: rng.normal(size=s))
    unary, pair = draw_scores(n, h), draw_scores(h, h)
    gold = rng.integers(0, len(counts), n).tolist()
    if draw(st.booleans()):  # forbid some states, never all of a label
        unary[rng.integers(n), np.flatnonzero(latent.counts[latent.label_of] > 1)[:1]] = -np.inf
    return latent, ChainScores.of(unary, pair, draw_scores(h), draw_scores(h)), gold


def enumerate_states(
    latent: LatentLabels, scores: ChainScores, gold: list[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[int, ...]]]:
    """Score, loss and whether the labels are the gold ones, of every sequence of states."""
    paths = list(product(range(scores.n_labels), repeat=len(scores.unary)))
    chain = Chain()
    s = np.array([chain.score(scores, np.array(p, np.int32))[0] for p in paths])
    labels = latent.label_of[np.array(paths)]
    loss = (labels != np.array(gold)).sum(axis=1).astype(float)
    return s, loss, loss == 0, paths


def expected_value(objective: Objective, s: np.ndarray, loss: np.ndarray, right: np.ndarray) -> float:
    if objective.name == "perceptron":
        return s.max() - s[right].max()
    if objective.name == "margin":
        return (s + loss).max() - s[right].max()
    if objective.name == "ramp":
        return (s + loss).max() - s.max()
    if objective.name == "log":
        return logsumexp(s) - logsumexp(s[right])
    return logsumexp(s + loss) - logsumexp(s[right])  # softmax_margin


@settings(max_examples=40, deadline=None)
@given(latent_chains(), st.sampled_from(["perceptron", "margin", "ramp", "log", "softmax_margin"]))
def test_values_are_those_of_all_states(case: Any, name: str) -> None:
    latent, scores, gold = case
    encoded = latent.labels.encode([gold])
    objective = get_objective(name)
    s, loss, right, _ = enumerate_states(latent, scores, gold)
    if not np.isfinite(s[right]).any():
        return
    value, gradient = _value(objective, latent, scores, encoded)
    assert value == pytest.approx(expected_value(objective, s, loss, right), abs=1e-9)
    if not objective.two_labelings:
        _check_differences(objective, latent, scores, encoded, gradient.unary)


def _value(objective: Objective, latent: LatentLabels, scores: ChainScores, encoded: Any) -> Any:
    """Through the loss of labels, expanded: as the estimator does it."""

    class LabelLoss(Hamming):
        def costs(self, gold: Any, labels: Any) -> np.ndarray:
            return latent.expand_costs(Hamming().costs(encoded, latent.labels))

    values, gradient = value_and_gradient(
        objective, scores, latent.expand(encoded), LabelLoss(), latent.states, epsilon=1.0
    )
    return values[0], gradient


def _check_differences(
    objective: Objective, latent: LatentLabels, scores: ChainScores, encoded: Any, gradient: np.ndarray
) -> None:
    step = 1e-5
    for t, h in [(0, 0), (len(scores.unary) - 1, scores.n_labels - 1)]:
        if not np.isfinite(scores.unary[t, h]):
            continue
        ends = []
        for sign in (1, -1):
            moved = scores.unary.copy()
            moved[t, h] += sign * step
            ends.append(_value(objective, latent, scores.with_unary(moved), encoded)[0])
        assert gradient[t, h] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(latent_chains(), st.sampled_from(["better", "worse"]), st.sampled_from([0.3, 2.0]))
def test_direct_moves_between_best_states(case: Any, sign: Any, epsilon: float) -> None:
    latent, scores, gold = case
    scores = scores.with_unary(scores.unary + np.random.default_rng(0).uniform(0, 1e-3, scores.unary.shape))
    s, loss, _, paths = enumerate_states(latent, scores, gold)
    objective = Direct(epsilon=epsilon, sign=sign)
    encoded = latent.labels.encode([gold])

    class LabelLoss(Hamming):
        def costs(self, gold: Any, labels: Any) -> np.ndarray:
            return latent.expand_costs(Hamming().costs(encoded, latent.labels))

    values, parts = value_and_gradient(objective, scores, latent.expand(encoded), LabelLoss(), latent.states)
    factor = -1.0 if sign == "better" else 1.0
    best, direct = paths[int(s.argmax())], paths[int((s + factor * epsilon * loss).argmax())]
    assert values[0] == loss[s.argmax()]
    expected = np.zeros_like(scores.unary)
    for t, (one, other) in enumerate(zip(best, direct, strict=True)):
        expected[t, other] += factor / epsilon
        expected[t, one] -= factor / epsilon
    np.testing.assert_allclose(parts.unary, expected, atol=1e-12)


# -- the estimator -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["log", "margin", "perceptron"])
def test_one_state_is_the_plain_model_exactly(objective: str) -> None:
    X, y = stages(20, 0)
    plain = SequenceLabeler(objective, random_state=3).fit(X, y)
    one = SequenceLabeler(objective, random_state=3, latent_states={"A": 1}).fit(X, y)
    assert np.array_equal(plain.weights_, one.weights_)
    assert one.state_names_ == ["A", "B"]
    assert one.predict_states(X) == one.predict(X)


@pytest.mark.parametrize(
    "objective",
    [
        "log",
        "softmax_margin",
        "perceptron",
        "margin",
        "ramp",
        *(Direct(sign=sign) for sign in ("better", "worse", "central")),
    ],
    ids=lambda o: o if isinstance(o, str) else f"{o.name}_{o.sign}",
)
def test_states_learn_what_labels_cannot(objective: Any) -> None:
    X, y = stages(60, 1)
    X_test, y_test = stages(60, 2)
    options = {"l2": 0.1, "random_state": 0, "max_iter": 60}
    plain = SequenceLabeler(objective, **options).fit(X, y)
    latent = SequenceLabeler(objective, latent_states=3, **options).fit(X, y)
    again = SequenceLabeler(objective, latent_states=3, **options).fit(X, y)
    assert latent.score(X_test, y_test) > plain.score(X_test, y_test) + 0.15
    assert np.array_equal(latent.weights_, again.weights_)


@pytest.fixture(scope="module")
def model() -> SequenceLabeler:
    return SequenceLabeler(latent_states={"A": 2, "B": 3}, random_state=1, max_iter=30).fit(*stages(30, 3))


def test_prediction_is_the_best_labelling_over_states(model: SequenceLabeler) -> None:
    X, _ = stages(6, 4)
    X = [x[:4] for x in X]
    for x, labels, states, marginals in zip(
        X, model.predict(X), model.predict_states(X), model.predict_marginals(X), strict=True
    ):
        scores = model.scores([x])
        s, _, _, paths = enumerate_states(model.latent_, scores, [0] * len(x))
        best = paths[int(s.argmax())]
        assert states == [model.state_names_[h] for h in best]
        assert labels == [name[0] for name in states]
        p = np.exp(s - logsumexp(s))
        by_label = model.latent_.label_of[np.array(paths)]
        for k in range(2):
            np.testing.assert_allclose(marginals[:, k], (p[:, None] * (by_label == k)).sum(axis=0), atol=1e-9)
        same = (by_label == model.latent_.label_of[np.array(best)]).all(axis=1)
        log_p = logsumexp(s[same]) - logsumexp(s)
        np.testing.assert_allclose(model.predict_log_proba([x]), log_p, atol=1e-9)
        np.testing.assert_allclose(model.predict_log_proba([x], [labels]), log_p, atol=1e-9)
    risk = model.predict(X, decoding="minimum_risk")
    assert [[model.classes_[k] for k in m.argmax(axis=1)] for m in model.predict_marginals(X)] == risk


def test_what_states_cannot_answer(model: SequenceLabeler) -> None:
    with pytest.raises(UnsupportedError, match="k best"):
        model.predict_k_best([["a"]], 2)
    with pytest.raises(UnsupportedError, match="span_f1"):
        SequenceLabeler("margin", "span_f1", latent_states=2).fit([["a"], ["b"]], [["A"], ["B"]])
    with pytest.raises(UnsupportedError, match="0-1"):
        SequenceLabeler("margin", "zero_one", "cccp", latent_states=2).fit([["a"], ["b"]], [["A"], ["B"]])


def test_save_and_load(model: SequenceLabeler, tmp_path: Any) -> None:
    X, y = stages(10, 5)
    model.save(tmp_path / "latent.trellis")
    loaded = trellis.load(tmp_path / "latent.trellis")
    assert loaded.latent_states == {"A": 2, "B": 3}
    assert loaded.state_names_ == model.state_names_
    assert loaded.predict_states(X) == model.predict_states(X)
    assert loaded.score(X, y) == model.score(X, y)


def test_constraints_and_partial_labels_hold_for_states() -> None:
    X, y = stages(20, 6)
    partial: list[list[Any]] = [[None if t % 5 == 0 else label for t, label in enumerate(row)] for row in y]
    names = {"A": "B-x", "B": "O"}
    partial = [[names.get(label) for label in row] for row in partial]
    partial[0][1] = {"B-x", "I-x"}
    found = SequenceLabeler(latent_states=2, constraints="bio", random_state=0, max_iter=20).fit(X, partial)
    assert found.classes_.tolist() == ["B-x", "I-x", "O"]
    table = found.transition_table()
    outside, inside = (found.latent_.label_of == k for k in (2, 1))
    assert np.isneginf(table[np.ix_(outside, inside)]).all()
    assert np.isfinite(table[np.ix_(inside, outside)]).all()


@pytest.mark.parametrize("objective", ["log", "margin", "perceptron"])
def test_partial_fit_with_states(objective: str) -> None:
    X, y = stages(60, 1)
    labeler = SequenceLabeler(objective, latent_states=3, l2=0.1, random_state=0)
    for _ in range(15):
        labeler.partial_fit(X, y)
    assert labeler.score(X, y) > 0.7


def test_warm_start_keeps_states_apart(model: SequenceLabeler) -> None:
    X, y = stages(30, 3)
    warm = SequenceLabeler(latent_states=2, random_state=1, max_iter=40, warm_start=True).fit(X, y)
    value = warm.history_["objective"][-1]
    warm.set_params(max_iter=1).fit(X, y)
    assert warm.history_["objective"][0] <= value + 1e-9
    warm.set_params(latent_states=3).fit(X, y)  # states that are new are told apart
    weights = warm.layout_.feature_weights(warm.weights_)
    assert not np.allclose(weights[:, 0], weights[:, 2])


def test_to_hmm_has_states() -> None:
    X, y = stages(30, 3)
    found = SequenceLabeler(latent_states=2, random_state=0, max_iter=30).fit(X, y).to_hmm()
    assert found.states == [("A", 0), ("A", 1), ("B", 0), ("B", 1)]
    np.testing.assert_allclose(found.emissions.sum(axis=1), 1.0)


def test_command_line(tmp_path: Any) -> None:
    from typer.testing import CliRunner

    from trellis.cli.app import app

    X, y = stages(12, 7)
    rows = [
        "".join(f"{a} {b}\n" for a, b in zip(x, labels, strict=True)) for x, labels in zip(X, y, strict=True)
    ]
    (tmp_path / "train.txt").write_text("\n".join(rows))
    run = CliRunner().invoke
    common = ["train", str(tmp_path / "train.txt"), "-o", str(tmp_path / "m"), "--max-iter", "5", "-q"]
    assert run(app, [*common, "--latent-states", "A=2"]).exit_code == 0
    loaded: Any = trellis.load(tmp_path / "m")
    assert loaded.state_names_ == [("A", 0), ("A", 1), "B"]
    shown = run(app, ["inspect", str(tmp_path / "m")])
    assert shown.exit_code == 0
    assert "A/1" in shown.output
    for wrong in ("0", "two", "=3"):
        failed = run(app, [*common, "--latent-states", wrong])
        assert failed.exit_code == 2 or isinstance(failed.exception, TrellisError)

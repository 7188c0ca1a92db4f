"""Labellers with sparse transitions: the model of ``constraints`` with the same pairs, in time and memory
by pairs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import coo_array

from codec_copy import through_codec
from trellis import SequenceLabeler, load
from trellis.core.errors import DataError, InfeasibleError, ModelFileError, UnsupportedError
from trellis.data.labels import LabelSet
from trellis.features.encoders import encoder_for
from trellis.losses import WeightedHamming
from trellis.losses.labelings import Hamming, Loss
from trellis.objectives import get_objective
from trellis.structures.chain.labeler.chain_training import Examples, linear_problem, weighted_examples
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.structures.chain.scores.sparse_layout import SparseLayout, sparse_penalties
from trellis.structures.chain.scores.transition_pairs import TransitionPairs, observed_pairs

OBJECTIVES = ["log", "softmax_margin", "margin", "squared_margin", "perceptron", "ramp", "direct"]


def sentences(n: int, k: int, seed: int = 0, successors: int = 3, length: int = 8) -> tuple[Any, Any]:
    """Walks through a graph in which each label has few successors, with words that tell most of the
    label."""
    rng, graph = np.random.default_rng(seed), np.random.default_rng(k)
    follow = np.stack([graph.choice(k, successors, replace=False) for _ in range(k)])
    X, y = [], []
    for _ in range(n):
        states = [int(rng.integers(k))]
        for _ in range(int(rng.integers(0, length))):
            states.append(int(rng.choice(follow[states[-1]])))
        words = [s if rng.random() < 0.7 else int(rng.integers(k)) for s in states]
        X.append([[f"w{w}", f"m{w % 3}", "bias"] for w in words])
        y.append([f"L{s:04d}" for s in states])
    return X, y


def pairs_of(y: Any) -> list[tuple[str, str]]:
    return sorted({pair for labels in y for pair in pairwise(labels)})


def both_problems(
    y: list[list[Any]], X: Any, objective: str, loss: Loss, allowed: np.ndarray, weights: str
) -> tuple[Any, Any, Any]:
    """The same problem over a table and over pairs, and what takes weights of the first to the second."""
    encoder = encoder_for(X, 1, (), flat=False)
    inputs, names = encoder.fit(X), LabelSet.of(y)
    labels, k = names.encode(y), len(names)
    pairs = TransitionPairs.of(*np.nonzero(allowed), k)
    every = np.ones(k, np.bool_)
    sparse = SparseLayout.of(inputs, None if weights == "all" else labels, pairs, boundaries=True)
    if weights == "all":
        dense = LinearLayout.all_pairs(inputs, k, boundaries=True)
    else:
        dense = LinearLayout.observed(inputs, labels.codes, labels.allowed, k, boundaries=True)
    record = get_objective(objective)
    made = []
    for layout, penalties, table in (
        (dense, Penalties.where_not(every, allowed, every), True),
        (sparse, sparse_penalties(every, every, pairs), False),
    ):
        data = weighted_examples(
            Examples(inputs, labels), names, record, loss, 0.5 + np.arange(len(y)), None, hamming_table=table
        )
        made.append(
            linear_problem(
                data.examples, layout, penalties, names, record, loss, data.weight, data.cost, n_jobs=2
            )
        )

    def carry(flat: np.ndarray) -> np.ndarray:
        w = dense.views(flat)
        rest = [w.transitions[pairs.source, pairs.target], w.start, w.end]
        return sparse.from_dense(dense.feature_weights(flat), np.concatenate(rest))

    return made[0], made[1], carry


@given(
    st.integers(0, 2**31),
    st.sampled_from(OBJECTIVES),
    st.sampled_from(["hamming", "costs"]),
    st.booleans(),
    st.sampled_from(["all", "observed"]),
)
def test_values_and_gradients_are_those_of_the_table(
    seed: int, objective: str, loss_name: str, partial: bool, weights: str
) -> None:
    rng = np.random.default_rng(seed)
    X, y = sentences(5, 4, seed, successors=2, length=5)
    k = len({label for labels in y for label in labels})
    names = LabelSet.of(y).labels
    allowed = rng.random((k, k)) < 0.4
    for a, b in pairs_of(y):
        allowed[names.index(a), names.index(b)] = True
    if partial:
        y = [[label if rng.random() < 0.6 else {label, names[0]} for label in labels] for labels in y]
        y[0] = [None] * len(y[0])
        if LabelSet.of(y).labels != names:
            return
    matrix = {(a, b): float(rng.integers(1, 4)) for a in names for b in names if a != b}
    loss = Hamming() if loss_name == "hamming" else WeightedHamming(matrix=matrix)
    dense, sparse, carry = both_problems(y, X, objective, loss, allowed, weights)
    flat = rng.normal(size=dense.dimension)
    if len(dense.layout.mask):
        flat *= dense.layout.mask
    d = dense.layout.views(flat).transitions
    if weights == "observed":  # with unknown labels, more pairs have a weight here
        d *= (
            sparse.layout.transition_table(sparse.layout.views(sparse.layout.mask.astype(float)).transitions)
            > 0
        )
    value, gradient = dense.value_and_gradient(flat)
    found, slope = sparse.value_and_gradient(carry(flat))
    assert_allclose(found, value, rtol=1e-10, atol=1e-10)
    own = sparse.layout.mask > 0
    expected = np.where(own, carry(gradient), 0.0)
    w = sparse.layout.views(np.arange(sparse.dimension)).transitions.astype(int)
    same = np.ones(sparse.dimension, np.bool_)
    if partial and weights == "observed":
        same[w] = False
    assert_allclose(slope[same], expected[same], atol=1e-9)
    assert_allclose(sparse.score_gaps(carry(flat)), dense.score_gaps(flat), atol=1e-9)
    middle = sparse.n_examples // 2
    parts = [sparse.run_value_and_gradient(carry(flat), *run) for run in ((0, middle), (middle, 5))]
    assert_allclose(sum(part[1] for part in parts), slope, atol=1e-9)
    if dense.objective.uses_loss and not partial:
        assert_allclose(sparse.task_losses(carry(flat)), dense.task_losses(flat))


@pytest.mark.parametrize("objective", ["log", "softmax_margin"])
def test_gradients_are_finite_differences(objective: str) -> None:
    rng = np.random.default_rng(1)
    X, y = sentences(4, 5, 2)
    y[1][0] = None
    k = len(LabelSet.of(y))
    _, sparse, _ = both_problems(y, X, objective, Hamming(), np.ones((k, k), bool), "all")
    w = rng.normal(size=sparse.dimension)
    _, gradient = sparse.value_and_gradient(w)
    for i in rng.choice(sparse.dimension, 30, replace=False):
        step = np.zeros_like(w)
        step[i] = 1e-5
        difference = sparse.value_and_gradient(w + step)[0] - sparse.value_and_gradient(w - step)[0]
        assert_allclose(gradient[i], difference / 2e-5, atol=1e-5)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_model_of_constraints_with_the_same_pairs(objective: str) -> None:
    X, y = sentences(60, 8)
    options: dict[str, Any] = {"random_state": 0, "verbose": False, "l2": 0.1}
    sparse = SequenceLabeler(objective, transitions="observed", **options).fit(X, y)
    table = SequenceLabeler(objective, constraints=pairs_of(y), **options).fit(X, y)
    new, _ = sentences(30, 8, seed=9)
    agree = np.mean(np.concatenate(sparse.predict(new)) == np.concatenate(table.predict(new)))
    # a minimum without kinks fixes the predictions, to the tolerance of the solver; the others do not
    assert agree > (0.999 if objective in ("log", "softmax_margin", "squared_margin") else 0.85)
    if sparse.history_.get("objective"):
        assert_allclose(sparse.history_["objective"][-1], table.history_["objective"][-1], rtol=3e-3)
    if objective == "log":
        assert_allclose(
            np.concatenate(sparse.predict_marginals(new)),
            np.concatenate(table.predict_marginals(new)),
            atol=1e-3,
        )
        assert_allclose(sparse.predict_log_proba(X, y), table.predict_log_proba(X, y), atol=1e-2)
        assert_allclose(sparse.transition_table(), table.transition_table(), atol=1e-3)
        risk = sparse.predict(new, decoding="minimum_risk"), table.predict(new, decoding="minimum_risk")
        assert np.mean(np.concatenate(risk[0]) == np.concatenate(risk[1])) > 0.99
        strongest = sparse.strongest_weights(3), table.strongest_weights(3)
        assert [f for f, _ in strongest[0]["L0000"]] == [f for f, _ in strongest[1]["L0000"]]


def test_pairs_a_matrix_and_observed_are_one_model(tmp_path: Path) -> None:
    X, y = sentences(40, 6)
    names, pairs = sorted({label for labels in y for label in labels}), pairs_of(y)
    codes = np.transpose([(names.index(a), names.index(b)) for a, b in pairs])
    matrix = coo_array((np.zeros(len(pairs)), codes), shape=(len(names),) * 2)  # a stored zero is a pair
    models = [
        SequenceLabeler(transitions=given, verbose=False).fit(X, y) for given in ("observed", pairs, matrix)
    ]
    for number, model in enumerate(models):
        assert_array_equal(model.weights_, models[0].weights_)
        model.save(tmp_path / f"{number}.trellis")
        again = load(tmp_path / f"{number}.trellis")
        assert again.predict(X) == model.predict(X)
        again.fit(X, y)  # with the parameters of the file
        assert_array_equal(again.weights_, model.weights_)
    grammar = SequenceLabeler(transitions="observed", constraints=pairs, verbose=False).fit(X, y)
    assert_array_equal(grammar.weights_, models[0].weights_)


def test_what_was_not_observed_is_forbidden() -> None:
    """With transitions="all", pairs that do not occur score 0 and can be predicted; here they cannot."""
    X, y = [["a", "b"]] * 3 + [["c"]], [["A", "B"]] * 3 + [["C"]]
    model = SequenceLabeler(transitions="observed", l2=0.01, verbose=False).fit(X, y)
    assert np.isfinite(model.transition_table()).sum() == 1
    assert model.predict([["c", "c"]]) == [["A", "B"]]
    assert SequenceLabeler(l2=0.01, verbose=False).fit(X, y).predict([["c", "c"]]) == [["C", "C"]]
    with pytest.raises(InfeasibleError, match="no chain of allowed pairs of labels is as long as it"):
        model.predict([["a"], ["a", "b", "b"]])


def test_memory_is_by_pairs() -> None:
    """3,000 labels: nothing of 9 million entries, neither in the model nor on the way."""
    import tracemalloc

    X, y = sentences(150, 3000, successors=2, length=12)
    k = len({label for labels in y for label in labels})
    tracemalloc.start()
    model = SequenceLabeler(transitions="observed", max_iter=2, verbose=False).fit(X, y)
    model.score(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert k > 500
    assert len(model.weights_) < 40 * k
    assert peak < 0.5 * 8 * 3000 * 3000


def test_latent_states_weights_holdout_and_warm_start() -> None:
    X, y = sentences(60, 5)
    latent = SequenceLabeler(
        transitions="observed", latent_states=2, random_state=0, max_iter=20, verbose=False
    )
    latent.fit(X, y)
    assert latent.layout_.pairs.n_labels == 2 * len(latent.classes_)
    assert latent.score(X, y) > 0.7
    cccp = latent.set_params(objective="margin", solver="cccp").fit(X, y)
    assert cccp.score(X, y) > 0.7
    held = SequenceLabeler("margin", transitions="observed", holdout=0.2, random_state=0, verbose=False).fit(
        X, y
    )
    assert held.score(X, y) > 0.7
    first = SequenceLabeler(transitions="observed", warm_start=True, verbose=False).fit(X, y)
    assert first.fit(X, y).n_iter_ <= 2
    dense = first.set_params(transitions="all", max_iter=1).fit(X, y)
    assert dense.score(X, y) > 0.7
    back = dense.set_params(transitions="observed", max_iter=None).fit(X, y)
    assert back.layout_.transition_shape == (len(pairs_of(y)),)


def test_unknown_labels_and_sets() -> None:
    X, y = sentences(40, 5)
    partial = [[None if t == 1 else label for t, label in enumerate(labels)] for labels in y]
    model = SequenceLabeler(transitions=pairs_of(y), verbose=False).fit(X, partial)
    assert model.score(X, y) > 0.6
    names = LabelSet(["a", "b", "c"])
    encoded = names.encode([["a", {"b", "c"}, "a", None, "c"]])
    pairs = observed_pairs(encoded, 3)
    found = {(int(j), int(k)) for j, k in zip(pairs.source, pairs.target, strict=True)}
    assert found == {(0, 1), (0, 2), (1, 0), (2, 0)}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"transitions": "some"}, DataError, "transitions is 'some'"),
        ({"transitions": 3}, DataError, "transitions is 3"),
        ({"transitions": [("L0000",)]}, DataError, "is not a pair"),
        ({"transitions": coo_array(np.eye(2))}, DataError, r"shape \(2, 2\)"),
        ({"transitions": [("L0000", "L0001")]}, DataError, "may not follow"),
        ({"objective": "risk", "transitions": "observed"}, UnsupportedError, "'risk' is not available"),
        (
            {"loss": "zero_one", "objective": "margin", "transitions": "observed"},
            UnsupportedError,
            "zero_one",
        ),
        ({"loss": "span_f1", "objective": "margin", "transitions": "observed"}, UnsupportedError, "span_f1"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(options: Any, error: type[Exception], message: str) -> None:
    X, y = sentences(10, 4)
    with pytest.raises(error, match=message):
        SequenceLabeler(**options, verbose=False).fit(X, y)


def test_other_refusals() -> None:
    X, y = sentences(10, 4)
    with pytest.raises(UnsupportedError, match="partial_fit"):
        SequenceLabeler("perceptron", transitions="observed").partial_fit(X, y)
    dicts = [[{"a": 1.0}], [{"a": 1.0}, {"b": 1.0}]]
    with pytest.raises(UnsupportedError, match="transition_features"):
        SequenceLabeler(transitions="observed", transition_features=["a"]).fit(dicts, [["x"], ["x", "y"]])
    model = SequenceLabeler(transitions="observed", verbose=False).fit(X, y)
    with pytest.raises(UnsupportedError, match="k best"):
        model.predict_k_best(X, 2)


def test_files_are_not_trusted() -> None:
    X, y = sentences(20, 4)
    pairs = SequenceLabeler(transitions="observed", verbose=False).fit(X, y).layout_.pairs
    again = through_codec(pairs)
    assert_array_equal(again.source, pairs.source)
    state = pairs.to_state()
    for change in (
        {"source": pairs.source[::-1].copy()},
        {"source": pairs.source + np.uint32(50)},
        {"source": pairs.source.astype(np.int64)},
        {"bounds": pairs.bounds[:-1]},
        {"bounds": pairs.bounds[::-1].copy()},
    ):
        with pytest.raises(ModelFileError):
            TransitionPairs.from_state({**state, **change})

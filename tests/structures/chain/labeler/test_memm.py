"""The MEMM against multinomial logistic regression, finite differences and enumeration; its label bias."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from small_chains import small_problem
from tagging import as_dicts, clouds, noisy_words, spans
from trellis import MEMM, SequenceLabeler, load
from trellis.core.errors import DataError, InfeasibleError, ModelFileError, TrellisError, UnsupportedError
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.oracle.exhaustive import Enumeration
from trellis.structures.chain.problem.local_chain import LocalChainProblem
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.structures.chain.scores.linear_chain_scores import linear_chain_scores
from trellis.structures.chain.scores.local_chain_scores import local_chain_scores

VARIANTS: list[dict[str, Any]] = [
    {},
    {"edges": True, "weighted": True},
    {"observed": True, "boundaries": False, "binary": True},
    {"constrained": True},
    {"constrained": True, "edges": True, "observed": True},
]


def local_problem(seed: int = 0, **options: Any) -> LocalChainProblem:
    """The same data and layout as the chains of the other solvers' tests."""
    chain = small_problem("log", seed, **options)
    return LocalChainProblem(
        chain.layout, chain.design, chain.penalties, chain.task.gold, chain.task.weight, l2=chain.l2
    )


def some_weights(problem: LocalChainProblem, seed: int, scale: float = 1.0) -> np.ndarray:
    w = scale * np.random.default_rng(seed).normal(size=problem.dimension)
    return w * problem.layout.mask if len(problem.layout.mask) else w


def log_probability(problem: LocalChainProblem, w: np.ndarray, i: int, y: tuple[int, ...]) -> float:
    """log p(y | x) step by step, from the scores of the whole chain; labels without a legal rest get none."""
    s = linear_chain_scores(problem.layout, problem.design, problem.penalties, w)
    lo, hi = s.offsets[i], s.offsets[i + 1]
    n, k = hi - lo, s.n_labels
    a = np.broadcast_to(s.transitions, (len(s.unary), k, k))[lo:hi]
    may_end = [problem.penalties.end == 0]
    for _ in range(n - 1):
        may_end.insert(0, ((problem.penalties.transitions == 0) & may_end[0]).any(axis=1))
    total = 0.0
    for t in range(n):
        into = s.start if t == 0 else a[t, y[t - 1]]
        row = s.unary[lo + t] + into + np.where(may_end[t], 0.0, -np.inf)
        total += row[y[t]] - np.logaddexp.reduce(row)
    return float(total)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_probabilities_by_enumeration(options: dict[str, Any]) -> None:
    problem = local_problem(3, lengths=(3, 1, 4, 0), **options)
    w = some_weights(problem, 1)
    scores = local_chain_scores(problem.layout, problem.design, problem.penalties, w)
    for i in range(3):
        n, total = int(np.diff(scores.offsets)[i]), 0.0
        every = Enumeration.of(scores, i)
        for y, score in zip(every.labellings, every.scores, strict=True):
            if np.isfinite(score):
                assert score == pytest.approx(log_probability(problem, w, i, tuple(y)), abs=1e-10)
            total += np.exp(score)
        assert total == pytest.approx(1.0, abs=1e-12)
        allowed = [y for y in product(range(3), repeat=n) if _legal(problem, y)]
        assert np.isfinite(every.scores).sum() == len(allowed)
    np.testing.assert_allclose(Chain().log_partition(scores), 0.0, atol=1e-12)


def _legal(problem: LocalChainProblem, y: tuple[int, ...]) -> bool:
    p = problem.penalties
    return all(p.transitions[j, k] == 0 for j, k in pairwise(y)) and p.end[y[-1]] == 0


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_value_and_gradient(options: dict[str, Any]) -> None:
    problem = local_problem(5, **options)
    w = some_weights(problem, 2)
    value, gradient = problem.value_and_gradient(w)
    offsets = problem.design.offsets
    golds = [tuple(problem.gold[a:b]) for a, b in pairwise(offsets)]
    expected = -sum(
        c * log_probability(problem, w, i, y)
        for i, (c, y) in enumerate(zip(problem.weight, golds, strict=True))
    )
    assert value == pytest.approx(expected, rel=1e-12)
    step = 1e-6
    free = problem.layout.mask.astype(bool) if len(problem.layout.mask) else np.ones(len(w), bool)
    for q in np.flatnonzero(free):
        up, down = w.copy(), w.copy()
        up[q], down[q] = w[q] + step, w[q] - step
        slope = (problem.value_and_gradient(up)[0] - problem.value_and_gradient(down)[0]) / (2 * step)
        assert gradient[q] == pytest.approx(slope, abs=1e-6)
    assert not gradient[~free].any()


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=6).filter(lambda x: sum(x) > 0),
    scale=st.sampled_from([0.0, 1.0, 300.0]),
    edges=st.booleans(),
    n_jobs=st.sampled_from([1, 3]),
)
def test_scores_of_any_size_are_normalised(
    seed: int, lengths: list[int], scale: float, edges: bool, n_jobs: int
) -> None:
    problem = local_problem(seed, lengths=tuple(lengths), edges=edges, constrained=seed % 2 == 0)
    w = some_weights(problem, seed, scale)
    scores = local_chain_scores(problem.layout, problem.design, problem.penalties, w, n_jobs)
    size = 1.0 + np.abs(np.where(np.isfinite(scores.unary), scores.unary, 0.0)).sum()
    np.testing.assert_allclose(Chain().log_partition(scores), 0.0, atol=1e-13 * size)
    value, _ = problem.value_and_gradient(w)
    assert value == pytest.approx(-float(Chain().score(scores, problem.gold).sum()), abs=1e-13 * size)


def test_it_is_logistic_regression_on_features_and_previous_label() -> None:
    X, y = clouds(40)
    model = MEMM(l2=0.7, tol=1e-9).fit(X, y)
    before = np.concatenate([[3, *labels[:-1]] for labels in y])  # 3: there is no label before the first
    flat, labels = np.concatenate(X), np.concatenate(y)
    design = np.hstack([flat, np.eye(4)[before]])
    peer = LogisticRegression(C=1 / 0.7, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(design, labels)
    mine = model.layout_.views(model.weights_)
    np.testing.assert_allclose(mine.hot, peer.coef_[:, : flat.shape[1]].T, atol=1e-5)
    np.testing.assert_allclose(np.vstack([mine.transitions, mine.start]), peer.coef_[:, -4:].T, atol=1e-5)
    np.testing.assert_allclose(
        -model.predict_log_proba(X, y).sum() + 0.35 * float(model.weights_ @ model.weights_),
        model.history_["objective"][-1],
        rtol=1e-12,
    )
    assert model.status_.converged


def test_marginals_are_a_forward_pass_and_blind_to_what_follows() -> None:
    X, y = clouds(30, seed=2)
    model = MEMM(l2=0.1).fit(X, y)
    for x, found in zip(X, model.predict_marginals(X), strict=True):
        shorter = model.predict_marginals([x[: len(x) // 2 + 1]])[0]
        np.testing.assert_allclose(found[: len(shorter)], shorter, atol=1e-12)
        w = model.layout_.views(model.weights_)
        p = _softmax(x[0] @ w.hot + w.start)
        for t in range(len(x)):
            if t:
                p = p @ _softmax(x[t] @ w.hot + w.transitions)
            np.testing.assert_allclose(found[t], p, atol=1e-12)


def _softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_k_best_and_probabilities_of_labellings() -> None:
    X, y = noisy_words(30, longest=4)
    model = MEMM().fit(X, y)
    for x, ranked, best in zip(X, model.predict_k_best(X, 3), model.predict(X), strict=True):
        assert ranked[0][0] == best
        every = sorted(
            (
                float(model.predict_log_proba([x], [list(labels)])[0])
                for labels in product("abc", repeat=len(x))
            ),
            reverse=True,
        )
        np.testing.assert_allclose([score for _, score in ranked], every[:3], atol=1e-12)
    unknown = [[None, *labels[1:]] for labels in y]
    np.testing.assert_allclose(
        np.exp(model.predict_log_proba(X, unknown)),
        sum(np.exp(model.predict_log_proba(X, [[a, *labels[1:]] for labels in y])) for a in "abc"),
        rtol=1e-10,
    )


def test_constraints_hold_before_normalising() -> None:
    X, y = spans(40)
    free, bound = MEMM().fit(X, y), MEMM(constraints="bio").fit(X, y)
    illegal = [["O", "I-P"]]
    assert np.exp(free.predict_log_proba([["o00", "P10"]], illegal)[0]) > 0
    assert bound.predict_log_proba([["o00", "P10"]], illegal)[0] == -np.inf
    np.testing.assert_allclose(Chain().log_partition(bound.scores(X)), 0.0, atol=1e-12)
    with pytest.raises(DataError, match="may not follow"):
        MEMM(constraints="bio").fit([["a", "b"]], [["B-P", "I-L"]])


def test_no_probability_goes_into_a_dead_end() -> None:
    """Of the labels a, b, c only a -> b -> c is allowed, so that c can only be the last one of a sequence."""
    X, y = [["x", "x", "x"], ["x"], ["x", "x"]], [["a", "b", "c"], ["c"], ["a", "b"]]
    model = MEMM(constraints=[("a", "b"), ("b", "c")]).fit(X, y)
    assert np.exp(model.predict_log_proba([["x"] * 3], [["a", "b", "c"]])) == pytest.approx(1.0)
    np.testing.assert_allclose(model.predict_marginals([["x"] * 3])[0], np.eye(3), atol=1e-12)
    with pytest.raises(InfeasibleError, match="sequence 1 has no allowed"):
        model.predict([["x"], ["x"] * 4])


def test_the_same_answer_for_any_number_of_threads_and_input_form() -> None:
    X, y = clouds(25)
    one, three = MEMM().fit(X, y), MEMM(n_jobs=3).fit(X, y)
    np.testing.assert_allclose(three.weights_, one.weights_, atol=1e-6)
    flat = MEMM().fit(np.concatenate(X), np.concatenate(y), lengths=[len(x) for x in X])
    np.testing.assert_array_equal(flat.weights_, one.weights_)
    double = MEMM(l2=2.0).fit(X, y, sample_weight=[2.0] * len(X))
    np.testing.assert_allclose(double.weights_, one.weights_, atol=1e-5)


def test_l1_empties_weights() -> None:
    X, y = noisy_words(40)
    dense, sparse = MEMM(l2=0.01).fit(X, y), MEMM(l2=0.01, l1=3.0).fit(X, y)
    assert np.count_nonzero(sparse.weights_) < 0.5 * np.count_nonzero(dense.weights_)
    assert sparse.score(X, y) > 0.6


@pytest.mark.parametrize(
    ("X", "y", "options"),
    [
        (as_dicts(noisy_words(20)[0]), noisy_words(20)[1], {"transition_features": ["word"]}),
        (*clouds(15), {"weights": "all", "boundaries": False}),
        (*spans(20), {"constraints": "bio"}),
    ],
)
def test_save_and_load(tmp_path: Path, X: Any, y: Any, options: dict[str, Any]) -> None:
    model = MEMM(max_iter=20, **options).fit(X, y)
    model.save(tmp_path / "m.trellis")
    loaded = load(tmp_path / "m.trellis")
    assert isinstance(loaded, MEMM)
    assert loaded.get_params() | {"transition_features": None} == model.get_params() | {
        "transition_features": None
    }
    assert loaded.predict(X) == model.predict(X)
    np.testing.assert_array_equal(loaded.predict_log_proba(X, y), model.predict_log_proba(X, y))
    assert (loaded.status_, loaded.history_) == (model.status_, model.history_)
    assert loaded.strongest_weights(2) == model.strongest_weights(2)
    meta, arrays = model.to_state()
    with pytest.raises(ModelFileError, match="weights"):
        MEMM.from_state(meta, arrays | {"weights_": arrays["weights_"] * np.nan})


def test_what_it_cannot_use_is_said() -> None:
    X, y = noisy_words(5)
    with pytest.raises(UnsupportedError, match="step 0 of sequence 1 is not known"):
        MEMM().fit([["w"], ["w"]], [["a"], [None]])
    for bad, words in [
        ({"l2": -1.0}, "l2 is -1.0"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"weights": "?"}, "weights"),
    ]:
        with pytest.raises(TrellisError, match=words):
            MEMM(**bad).fit(X, y)
    problem = local_problem()
    closed = Penalties.where_not(np.zeros(3, bool), np.ones((3, 3), bool), np.ones(3, bool))
    with pytest.raises(InfeasibleError, match="sequence 0"):
        LocalChainProblem(
            problem.layout, problem.design, closed, problem.gold, problem.weight
        ).value_and_gradient(np.zeros(problem.dimension))


def test_a_chain_of_length_one_has_no_label_bias() -> None:
    """Without transitions the two normalisers are the same, and so are the models."""
    X = [x[:1] for x in clouds(60)[0]]
    y = [labels[:1] for labels in clouds(60)[1]]
    memm = MEMM(boundaries=False, tol=1e-8).fit(X, y)
    crf = SequenceLabeler(boundaries=False, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(memm.weights_, crf.weights_, atol=1e-6)

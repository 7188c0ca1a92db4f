"""Discriminative training of hidden Markov models: the features are the model, the chain is the labeller's,
and what comes back has the conditional distribution that was trained."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

from small_emissions import COVARIANCES, example, gaussian, mixture
from trellis import HMM, SequenceLabeler, load, objectives
from trellis.core.errors import DataError, NumericalError, UnsupportedError
from trellis.hmm import left_right
from trellis.hmm.emissions import Categorical, Emission, Gaussian, Poisson, Product
from trellis.hmm.hmm_parameters import HMMParameters
from trellis.hmm.learning.discriminative import LogLinearHMM, train_discriminatively
from trellis.hmm.observations import Observations
from trellis.hmm.transition_constraints import TransitionConstraints
from trellis.structures.chain.oracle.chain_oracle import Chain

K = 3
TRANSITIONS = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.25, 0.05, 0.7]])
FAMILIES = ("categorical", "poisson", *COVARIANCES, "product")


def complete(name: str) -> tuple[Emission, np.ndarray]:
    """An example without missing entries, K = 3 states."""
    emission, _ = example(name)
    rng = np.random.default_rng(1)
    return emission, emission.check(emission.sample(rng.integers(0, K, 60), rng))


def chain_of(emission: Emission) -> HMMParameters:
    return HMMParameters(np.array([0.5, 0.3, 0.2]), TRANSITIONS, emission)


def tailed(n: int, length: int, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What no Gaussian state emits: heavy tails in one column, two humps in the other."""
    rng = np.random.default_rng(seed)
    X, states = [], []
    for _ in range(n):
        s = [int(rng.integers(K))]
        while len(s) < length:
            s.append(int(rng.choice(K, p=TRANSITIONS[s[-1]])))
        y = np.array(s)
        humps = np.where(y == 1, rng.choice([-2.0, 2.0], length), 0.0)
        X.append(np.stack([y + rng.standard_t(3, length), humps + rng.normal(size=length)], axis=1))
        states.append(y)
    return X, states


def letters(n: int, length: int, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Symbols, of which every other one says the same as the one before it."""
    X, states = tailed(n, length, seed)
    symbols = [np.clip(2 * y + x[:, 1].round() + 1, 0, 7).astype(int) for x, y in zip(X, states, strict=True)]
    for x in symbols:
        x[1::2] = x[: 2 * (length // 2) : 2]
    return symbols, states


def conditional(hmm: HMM, X: Any, states: Any) -> float:
    return float((hmm.log_joint(X, states) - hmm.log_likelihood(X)).sum())


def errors(hmm: HMM, X: Any, states: Any) -> int:
    return sum(int((found != y).sum()) for found, y in zip(hmm.decode(X), states, strict=True))


def observations(X: Any, states: Any, emission: Emission) -> Observations:
    return Observations.pack(X, check=emission.check).with_states(states, K)


def trained(hmm: HMM, X: Any, states: Any, **options: Any) -> LogLinearHMM:
    """The chain behind ``fit_discriminative``."""
    source = hmm.fit(X, states).parameters()
    seen = observations(X, states, hmm.emission)
    return train_discriminatively(source, TransitionConstraints.from_options(K), seen, **options)


# -- natural parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_features_and_weights_are_the_likelihood(name: str) -> None:
    emission, values = complete(name)
    scores = emission.natural_features(values) @ emission.natural_weights()
    common = emission.log_likelihood(values) - scores
    assert_allclose(common, np.repeat(common[:, :1], K, axis=1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
@given(size=st.floats(0.0, 0.2), seed=st.integers(0, 1000))
def test_other_weights_are_another_record(name: str, size: float, seed: int) -> None:
    emission, values = complete(name)
    weights = emission.natural_weights()
    weights = weights + size * np.random.default_rng(seed).normal(size=weights.shape)
    weights = weights + emission.natural_shift(weights)[:, None]
    other, normalisers = emission.from_natural(weights)
    assert other.n_states == K
    features = emission.natural_features(values)
    reference = emission.log_likelihood(values) - features @ emission.natural_weights()
    assert_allclose(
        other.log_likelihood(values), features @ weights - normalisers + reference, rtol=1e-7, atol=1e-7
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_own_weights_come_back(name: str) -> None:
    emission, values = complete(name)
    back, normalisers = emission.from_natural(emission.natural_weights())
    assert_allclose(normalisers, 0.0, atol=1e-9)
    assert_allclose(back.log_likelihood(values), emission.log_likelihood(values), rtol=1e-8, atol=1e-8)
    assert_array_equal(emission.natural_shift(emission.natural_weights()), 0.0)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_weights_do_not_depend_on_units(kind: str) -> None:
    rng = np.random.default_rng(3)
    emission = gaussian(kind, rng)
    values = emission.sample(rng.integers(0, K, 20), rng)
    factor = 1000.0
    moved = Gaussian(kind, emission.means * factor - 7.0, np.asarray(emission.covariances) * factor**2)
    assert_allclose(moved.natural_weights(), emission.natural_weights(), rtol=1e-9, atol=1e-9)
    there, here = moved.natural_features(values * factor - 7.0), emission.natural_features(values)
    assert_allclose(there.toarray(), here.toarray(), rtol=1e-9, atol=1e-9)


def test_no_weights_are_one_distribution_for_all() -> None:
    rng = np.random.default_rng(0)
    emission = gaussian("full", rng)
    same, _ = emission.from_natural(np.zeros_like(emission.natural_weights()))
    means = emission.means
    spread = (means - means.mean(axis=0)).T @ (means - means.mean(axis=0)) / K
    assert_allclose(same.means, np.tile(means.mean(axis=0), (K, 1)), atol=1e-12)
    assert_allclose(same.covariances, np.tile(emission.covariances.mean(axis=0) + spread, (K, 1, 1)))


@pytest.mark.parametrize("kind", ["diag", "spherical", "full"])
def test_weights_of_no_gaussian(kind: str) -> None:
    emission, values = complete(kind)
    weights = emission.natural_weights()
    weights[len(emission.means[0]) : -1, 1] += 4.0
    with pytest.raises(NumericalError, match=r"precision of state 1 is not positive definite.*more l2"):
        emission.from_natural(weights)
    proper = weights + emission.natural_shift(weights)[:, None]
    other, normalisers = emission.from_natural(proper)
    found = other.log_likelihood(values) + normalisers
    asked = emission.natural_features(values) @ weights
    difference = found - asked  # the same for all states, whatever the observation
    assert_allclose(difference, np.repeat(difference[:, :1], K, axis=1), rtol=1e-9, atol=1e-7)


def test_rates_beyond_numbers() -> None:
    emission = Poisson([[1.0], [2.0]])
    with pytest.raises(NumericalError, match="rate learned for state 1"):
        emission.from_natural(np.array([[0.0, 2000.0], [0.0, 0.0]]))


def test_what_no_state_emits_stays_impossible() -> None:
    emission = Categorical(3, [[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
    weights = emission.natural_weights()
    assert weights[2, 1] == -np.inf
    assert_array_equal(weights[1], 0.0)
    other, _ = emission.from_natural(np.array([[1.0, -1.0], [5.0, 5.0], [0.3, 0.2]]))
    assert_array_equal(other.probabilities[:, 1], 0.0)
    assert (other.probabilities[:, [0, 2]] > 0).all()


def test_emissions_without_natural_parameters() -> None:
    rng = np.random.default_rng(0)
    emission = mixture("diag", rng)
    for question in (emission.natural_weights, lambda: emission.from_natural(np.zeros((1, K)))):
        with pytest.raises(UnsupportedError, match="GaussianMixture has no natural parameters"):
            question()
    with pytest.raises(UnsupportedError, match="GaussianMixture has no natural parameters"):
        LogLinearHMM.from_hmm(chain_of(emission), TransitionConstraints.from_options(K))


# -- missing values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_a_missing_row_has_no_features(name: str) -> None:
    emission, values = example(name)
    assert emission.natural_features(values[:1]).nnz == 0  # the first row of an example is missing


def test_rows_that_are_missing_in_part() -> None:
    X, states = tailed(4, 6)
    X[2][3, 1] = np.nan
    with pytest.raises(UnsupportedError, match=r"step 3 of sequence 2: the observation is missing in part"):
        HMM(K, Gaussian("diag")).fit_discriminative(X, states)


def test_a_part_of_a_product_may_be_missing() -> None:
    emission = Product({0: Categorical(2, [[0.9, 0.1], [0.2, 0.8]]), 1: Poisson([[1.0], [4.0]])})
    values = emission.check([[0, 3], [np.nan, 3], [1, np.nan]])
    scores = (emission.natural_features(values) @ emission.natural_weights()) @ np.array([1.0, -1.0])
    assert_allclose(scores, emission.log_likelihood(values) @ np.array([1.0, -1.0]), rtol=1e-9)


def test_training_with_missing_steps() -> None:
    X, states = tailed(20, 30)
    for x in X:
        x[::7] = np.nan
    counted = HMM(K, Gaussian("diag")).fit(X, states)
    found = HMM(K, Gaussian("diag")).fit_discriminative(X, states)
    assert conditional(found, X, states) > conditional(counted, X, states)


# -- the chain ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_the_chain_starts_as_the_hmm(name: str) -> None:
    """Scores are log p(x, y) up to what depends on x alone, also with missing steps."""
    emission, values = example(name) if name in ("categorical",) else complete(name)
    parameters = chain_of(emission)
    hmm = HMM(K, emission, initial=parameters.initial, transitions=TRANSITIONS)
    X = np.split(values[:18], [4, 5, 11])
    states = [np.arange(len(x)) % K for x in X]
    chain = LogLinearHMM.from_hmm(parameters, TransitionConstraints.from_options(K), max_iter=1)
    chain.fit(X, states)
    chain.weights_ = chain._start(chain.layout_, chain.labels_, chain.encoder_)
    scores, oracle = chain.scores(X), Chain()
    codes = np.concatenate(states)
    found = oracle.score(scores, codes) - oracle.log_partition(scores)
    assert_allclose(found, hmm.log_joint(X, states) - hmm.log_likelihood(X), rtol=1e-9, atol=1e-9)
    back = chain.to_parameters()
    assert_allclose(back.transitions, TRANSITIONS, rtol=1e-9)
    assert_allclose(back.initial, parameters.initial, rtol=1e-9)


def test_symbols_are_what_the_labeller_learns() -> None:
    """The same problem, written as a labeller with a feature for the first step: the same minimum."""
    X, states = letters(30, 12)
    chain = trained(HMM(K, Categorical(8)), X, states, l2=0.7)
    dicts = [[{"symbol": str(s), **({"first": True} if t == 0 else {})} for t, s in enumerate(x)] for x in X]
    labeller = SequenceLabeler(l2=0.7, boundaries=False, weights="all").fit(dicts, [list(y) for y in states])
    assert chain.history_["objective"][-1] == pytest.approx(labeller.history_["objective"][-1], rel=1e-8)
    for a, b in zip(chain.predict_marginals(X), labeller.predict_marginals(dicts), strict=True):
        assert_allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_single_steps_are_logistic_regression(kind: str) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    x = rng.normal(size=(400, 2)) * np.where(y == 1, 1.6, 1.0)[:, None] + y[:, None] * [0.8, -0.3]
    x[::9] += rng.standard_t(2, size=x[::9].shape)
    hmm = HMM(2, Gaussian(kind)).fit_discriminative(
        x, y, lengths=np.ones(400, int), l2=0.0, length=1, tol=1e-9
    )
    features = np.column_stack([x, x**2, *([x.prod(axis=1)] if kind == "full" else [])])
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(features, y)
    assert_allclose(hmm.smooth(x, lengths=np.ones(400, int)), reference.predict_proba(features), atol=1e-5)


# -- the way back ---------------------------------------------------------------------------------------


def joint_of(initial: np.ndarray, steps: np.ndarray, logs: np.ndarray, y: tuple[int, ...]) -> float:
    score = np.log(initial[y[0]]) + logs[0, y[0]]
    return float(score + sum(np.log(steps[t - 1, y[t - 1], y[t]]) + logs[t, y[t]] for t in range(1, len(y))))


@pytest.mark.parametrize("emission", [Gaussian("diag"), Gaussian("full"), Gaussian("tied")], ids=repr)
def test_the_exact_normalisation_has_the_trained_conditional(emission: Emission) -> None:
    X, states = tailed(20, 15)
    chain = trained(HMM(K, emission), X, states, l2=0.1)
    n = 4
    initial, steps, found = chain.normalise(n)
    assert steps.shape == (n - 1, K, K)
    assert_allclose(steps.sum(axis=2), 1.0)
    logs = found.log_likelihood(X[0][:n])
    labellings = list(product(range(K), repeat=n))
    joint = np.array([joint_of(initial, steps, logs, y) for y in labellings])
    scores = chain.scores([X[0][:n]])
    trained_scores = [Chain().score(scores, np.array(y))[0] for y in labellings]
    assert_allclose(
        joint - np.logaddexp.reduce(joint), trained_scores - np.logaddexp.reduce(trained_scores), atol=1e-8
    )


def test_long_sequences_have_the_trained_conditional() -> None:
    X, states = tailed(20, 200)
    chain = trained(HMM(K, Gaussian("diag")), X, states)
    hmm = HMM(K, Gaussian("diag")).fit_discriminative(X, states)
    ours, theirs = hmm.smooth(X[0]), chain.predict_marginals([X[0]])[0]
    assert_allclose(ours[:-30], theirs[:-30], atol=1e-6)
    last = np.abs(ours - theirs).max(axis=1)
    assert last[-1] > 1e-6  # the price of transitions that do not change is paid at the end
    around = HMM(K, Gaussian("diag")).fit_discriminative(X, states, length=2000)
    assert_allclose(around.transitions_, hmm.transitions_, atol=2e-3)
    assert_allclose(around.initial_, hmm.initial_, atol=1e-9)


def test_length_counts_expected_transitions() -> None:
    X, states = letters(20, 5)
    chain = trained(HMM(K, Categorical(8)), X, states)
    initial, steps, _ = chain.normalise(5)
    counts, at = np.zeros((K, K)), initial
    for step in steps:
        counts += at[:, None] * step
        at = at @ step
    found = chain.to_parameters(5)
    assert_allclose(found.initial, initial, rtol=1e-10)
    assert_allclose(found.transitions, counts / counts.sum(axis=1, keepdims=True), rtol=1e-10)
    with pytest.raises(DataError, match="length is 0; give a whole number of at least 1"):
        chain.to_parameters(0)


# -- what it is for -------------------------------------------------------------------------------------


@pytest.mark.parametrize("emission", [Gaussian("diag"), Gaussian("full"), Gaussian("tied")], ids=repr)
def test_the_true_states_become_more_probable(emission: Emission) -> None:
    X, states = tailed(30, 40)
    counted = HMM(K, emission).fit(X, states)
    found = HMM(K, emission).fit_discriminative(X, states)
    assert found.status_.converged
    assert conditional(found, X, states) > conditional(counted, X, states)
    assert found.score(X) < counted.score(X)  # which is the price
    assert found.history_["objective"][-1] < found.history_["objective"][0]


@pytest.mark.parametrize(
    ("objective", "solver"),
    [("perceptron", "auto"), ("margin", "subgradient"), (objectives.Direct(1.0), "auto")],
    ids=["perceptron", "margin", "direct"],
)
def test_objectives_make_fewer_errors(objective: Any, solver: str) -> None:
    X, states = tailed(40, 30)
    counted = HMM(K, Gaussian("diag")).fit(X, states)
    found = HMM(K, Gaussian("diag"), random_state=0)
    found.fit_discriminative(X, states, objective=objective, solver=solver, max_iter=60)
    assert errors(found, X, states) < 0.9 * errors(counted, X, states)
    assert_allclose(found.transitions_.sum(axis=1), 1.0)
    assert found.history_["seconds"]


def test_the_perceptron_comes_back_to_gaussians() -> None:
    """Weights of any size: scaled so that the true states are as probable as they can be."""
    X, states = tailed(20, 30)
    chain = trained(HMM(K, Gaussian("diag")), X, states, objective="perceptron")
    codes = np.concatenate(states)

    def value(factor: float) -> float:
        weights = chain.weights_
        chain.weights_ = factor * weights
        scores = chain.scores(X)
        chain.weights_ = weights
        data = (Chain().log_partition(scores) - Chain().score(scores, codes)).sum()
        return float(data + 0.5 * factor**2 * (weights @ weights))

    assert value(1.0) < min(value(0.9), value(1.1), value(5.0))


def test_some_states_are_unknown() -> None:
    X, states = letters(30, 20)
    partly = [np.where(np.arange(len(y)) % 3 == 0, -1, y) for y in states]
    found = HMM(K, Categorical(8), random_state=0).fit_discriminative(X, partly)
    assert conditional(found, X, states) > conditional(HMM(K, Categorical(8)).fit(X, partly), X, states)


# -- structure, storage, errors -------------------------------------------------------------------------


def test_forbidden_stays_forbidden() -> None:
    rng = np.random.default_rng(0)
    initial, transitions = left_right(K)
    true = HMM(K, Poisson([[2.0], [5.0], [3.0]]), initial=initial, transitions=transitions)
    X, states = true.sample([12] * 40, random_state=0)
    X = [x + rng.poisson(1.0, x.shape) * (rng.random(x.shape) < 0.2) for x in X]
    fresh = HMM(K, Poisson(), initial=initial, transitions=transitions)
    hmm = fresh.fit_discriminative(X, states, length=12)
    assert_array_equal(hmm.transitions_[transitions == 0], 0.0)
    assert_array_equal(hmm.initial_, initial)
    assert_allclose(hmm.transitions_.sum(axis=1), 1.0)
    assert conditional(hmm, X, states) > conditional(fresh.fit(X, states), X, states) - 1e-9


def test_no_limit_of_long_sequences_is_an_error() -> None:
    """State 0 is sure of itself and state 1 is not: long sequences would never leave state 0."""
    X, states = [np.array([0, 0, 0, 0, 1])] * 20, [np.array([0, 0, 0, 0, 1])] * 20
    hmm = HMM(2, Categorical(2), initial=[1.0, 0.0], transitions=[[0.5, 0.5], [0.0, 1.0]])
    with pytest.raises(UnsupportedError, match="give a length"):
        hmm.fit_discriminative(X, states, l2=0.01)
    assert not hasattr(hmm, "initial_")
    assert errors(hmm.fit_discriminative(X, states, l2=0.01, length=5), X, states) == 0


def test_one_seed_and_any_number_of_threads() -> None:
    X, states = letters(20, 10)
    runs = [
        HMM(K, Categorical(8), random_state=0, n_jobs=n).fit_discriminative(X, states, tol=1e-8)
        for n in (1, 2)
    ]
    assert_allclose(runs[0].transitions_, runs[1].transitions_, rtol=1e-4)


def test_save_and_load(tmp_path: Path) -> None:
    X, states = letters(10, 10)
    hmm = HMM(K, Categorical(8), random_state=0).fit_discriminative(
        X, states, objective="perceptron", max_iter=5
    )
    hmm.save(tmp_path / "m.trellis")
    again = load(tmp_path / "m.trellis")
    assert_allclose(again.transitions_, hmm.transitions_, rtol=1e-14)
    assert str(again.status_) == str(hmm.status_)
    assert again.history_ == hmm.history_


def test_one_array_is_as_good_as_a_list() -> None:
    X, states = letters(10, 10)
    a = HMM(K, Categorical(8)).fit_discriminative(X, states)
    b = HMM(K, Categorical(8)).fit_discriminative(
        np.concatenate(X), np.concatenate(states), lengths=[10] * 10
    )
    assert_array_equal(a.transitions_, b.transitions_)


def test_a_hold_out_set_as_lists() -> None:
    X, states = letters(30, 10)
    hmm = HMM(K, Categorical(8), random_state=0)
    hmm.fit_discriminative(X[:20], states[:20], objective="direct", holdout=(X[20:], states[20:]), max_iter=4)
    assert "holdout_loss" in hmm.history_


def test_what_cannot_be_trained() -> None:
    X, states = letters(5, 6)
    with pytest.raises(DataError, match="needs states"):
        HMM(K, Categorical(8)).fit_discriminative(X, None)
    with pytest.raises(UnsupportedError, match="cannot keep tied_transitions"):
        HMM(K, Categorical(8), tied_transitions=[0, 0, 1]).fit_discriminative(X, states)
    with pytest.raises(DataError, match="l2 is -1"):
        HMM(K, Categorical(8)).fit_discriminative(X, states, l2=-1)
    with pytest.raises(DataError, match="goes from state"):
        HMM(K, Categorical(8), transitions=np.eye(K)).fit_discriminative(X, states)

"""Learning: the textbook's Baum-Welch, hmmlearn, scikit-learn, known parameters, and the certificates of
EM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hmmlearn.hmm import CategoricalHMM, GaussianHMM, PoissonHMM
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.mixture import GaussianMixture as SklearnMixture

from small_emissions import NAMES, example
from trellis import HMM, load
from trellis.core.errors import DataError, InfeasibleError
from trellis.hmm import align_states, distance, left_right
from trellis.hmm.emissions import Categorical, Emission, Gaussian, GaussianMixture, Poisson, Product


def rows(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    return rng.dirichlet(np.full(k, 2.0), n)


def textbook(
    X: list[np.ndarray], pi: np.ndarray, A: np.ndarray, B: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """One iteration of Baum-Welch, in plain probabilities and loops; the log-likelihood is of the start."""
    K, M = B.shape
    first, pairs, counts, log_p = np.zeros(K), np.zeros((K, K)), np.zeros((K, M)), 0.0
    for x in X:
        T = len(x)
        alpha, beta = np.zeros((T, K)), np.ones((T, K))
        alpha[0] = pi * B[:, x[0]]
        for t in range(1, T):
            for k in range(K):
                alpha[t, k] = B[k, x[t]] * sum(alpha[t - 1, j] * A[j, k] for j in range(K))
        for t in range(T - 2, -1, -1):
            for j in range(K):
                beta[t, j] = sum(A[j, k] * B[k, x[t + 1]] * beta[t + 1, k] for k in range(K))
        p = alpha[-1].sum()
        log_p += np.log(p)
        gamma = alpha * beta / p
        first += gamma[0]
        for t in range(T):
            counts[:, x[t]] += gamma[t]
        for t in range(1, T):
            pairs += alpha[t - 1][:, None] * A * (B[:, x[t]] * beta[t]) / p
    return (
        log_p,
        first / first.sum(),
        pairs / pairs.sum(axis=1, keepdims=True),
        counts / counts.sum(axis=1, keepdims=True),
    )


def test_the_updates_are_those_of_the_textbook() -> None:
    rng = np.random.default_rng(0)
    pi, A, B = rows(rng, 1, 3)[0], rows(rng, 3, 3), rows(rng, 3, 4)
    X = [rng.integers(0, 4, n) for n in (7, 1, 12, 3)]
    model = HMM(3, Categorical(4, B), initial=pi, transitions=A, max_iter=4, tol=0.0).fit(X)
    expected = []
    for _ in range(4):
        log_p, pi, A, B = textbook(X, pi, A, B)
        expected.append(log_p)
    assert_allclose(model.history_["log_likelihood"][:4], expected, rtol=1e-12)
    assert_allclose(model.initial_, pi, atol=1e-12)
    assert_allclose(model.transitions_, A, atol=1e-12)
    assert_allclose(model.emission_.probabilities, B, atol=1e-12)
    assert model.n_iter_ == 4
    assert not model.status_.converged
    assert "max_iter=4 was reached" in str(model.status_)


def hmmlearn_peer(name: str, k: int, emission: Any) -> Any:
    options = {"init_params": "", "n_iter": 5, "tol": 0.0, "implementation": "log"}
    if name == "categorical":
        peer = CategoricalHMM(k, **options)
        peer.n_features, peer.emissionprob_ = emission.n_symbols, emission.probabilities
    elif name == "poisson":
        peer = PoissonHMM(k, **options)
        peer.lambdas_ = emission.rates
    else:
        peer = GaussianHMM(k, covariance_type=name, covars_prior=0.0, min_covar=0.0, **options)
        peer.means_, peer.covars_ = emission.means, emission.covariances
    return peer


@pytest.mark.parametrize("name", ["categorical", "poisson", "diag", "full", "spherical", "tied"])
def test_five_iterations_of_hmmlearn(name: str) -> None:
    rng = np.random.default_rng(3)
    emission, _ = example(name)
    k = 3
    pi, A = rows(rng, 1, k)[0], rows(rng, k, k)
    model = HMM(k, emission, initial=pi, transitions=A, max_iter=5, tol=0.0)
    x, _ = model.sample(400, random_state=1)
    lengths = [100, 250, 50]
    peer = hmmlearn_peer(name, k, emission)
    peer.startprob_, peer.transmat_ = pi, A
    peer.fit(x[:, None] if x.ndim == 1 else x, lengths)
    model.fit(x, lengths=lengths)
    assert_allclose(model.history_["log_likelihood"][:5], list(peer.monitor_.history), rtol=1e-8)
    assert_allclose(model.initial_, peer.startprob_, atol=1e-8)
    assert_allclose(model.transitions_, peer.transmat_, atol=1e-8)
    assert model.log_likelihood(x, lengths=lengths).sum() == pytest.approx(
        peer.score(x[:, None] if x.ndim == 1 else x, lengths), rel=1e-8
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("missing", [False, True])
def test_neither_certificate_rises(name: str, missing: bool) -> None:
    rng = np.random.default_rng(0)
    emission, values = example(name)
    if not missing:
        values = emission.sample(np.sort(rng.integers(0, 3, 150)), rng)
    k = 3
    model = HMM(
        k, emission, initial=rows(rng, 1, k)[0], transitions=rows(rng, k, k), initial_pseudocount=0.3,
        transition_pseudocount=rng.random((k, k)), max_iter=15, tol=0.0,
    )  # fmt: skip
    n = len(values)
    model.fit(values, lengths=[n // 2, n - n // 2])
    primal, dual = model.history_["primal"], model.history_["dual"]
    assert len(primal) == len(dual) + 1 == model.n_iter_ + 1
    interleaved = np.empty(2 * len(dual) + 1)
    interleaved[::2], interleaved[1::2] = primal, dual
    assert np.diff(interleaved).max() <= 1e-9 * np.abs(interleaved).max()
    assert primal[0] - primal[-1] > 1e-3


def test_independent_steps_are_a_mixture() -> None:
    """Sequences of length 1 leave only the initial probabilities: a mixture, from the same start."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(m, 1.0, (80, 2)) for m in (0.0, 3.0, 5.0)])
    means, weights = x[[0, 100, 200]], np.array([0.2, 0.5, 0.3])
    peer = SklearnMixture(
        3, covariance_type="full", reg_covar=0.0, tol=0.0, max_iter=20, weights_init=weights,
        means_init=means, precisions_init=np.stack([np.eye(2)] * 3),
    )  # fmt: skip
    with pytest.warns(match="did not converge"):
        peer.fit(x)
    start = Gaussian("full", means, np.stack([np.eye(2)] * 3))
    model = HMM(3, start, initial=weights, transitions=np.full((3, 3), 1 / 3), max_iter=20, tol=0.0)
    model.fit(x, lengths=[1] * len(x))
    assert_allclose(model.initial_, peer.weights_, atol=1e-8)
    assert_allclose(model.emission_.means, peer.means_, atol=1e-7)
    assert_allclose(model.emission_.covariances, peer.covariances_, atol=1e-7)
    assert_allclose(model.smooth(x, lengths=[1] * len(x)), peer.predict_proba(x), atol=1e-7)


def far_apart(k: int = 3) -> HMM:
    rng = np.random.default_rng(5)
    return HMM(
        k,
        Gaussian("full", 3.0 * rng.normal(size=(k, 2)), np.stack([np.eye(2)] * k)),
        initial=rows(rng, 1, k)[0],
        transitions=0.3 * rows(rng, k, k) + 0.7 * np.eye(k),
    )


def test_parameters_are_recovered_from_samples() -> None:
    true = far_apart()
    X, S = true.sample([500] * 20, random_state=0)
    for start in ("kmeans", "random"):
        found = HMM(3, Gaussian("full"), n_init=3, start=start, random_state=0).fit(X)
        found = found.permute(align_states(true, found, X))
        assert found.status_.converged
        assert_allclose(found.transitions_, true.transitions, atol=0.03)
        assert_allclose(found.emission_.means, true.emission.means, atol=0.1)
        assert_allclose(found.emission_.covariances, true.emission.covariances, atol=0.15)
        assert distance(true, found, n_steps=5000) < 0.01
        assert np.mean(np.concatenate(found.decode(X)) == np.concatenate(S)) > 0.9


def test_symbols_are_recovered_by_restarts() -> None:
    B = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]])
    true = HMM(2, Categorical(4, B), initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.2, 0.8]])
    x, _ = true.sample(20_000, random_state=0)
    found = HMM(2, Categorical(4), n_init=4, random_state=1).fit(x)
    found = found.permute(align_states(true, found, x))
    assert_allclose(found.transitions_, true.transitions, atol=0.03)
    assert_allclose(found.emission_.probabilities, B, atol=0.03)


@pytest.mark.parametrize("emission", [Categorical(3), Poisson(), Gaussian("full")], ids=str)
def test_known_states_are_counted(emission: Emission) -> None:
    rng = np.random.default_rng(0)
    S = [rng.integers(0, 3, n) for n in (50, 1, 30)]
    X = [rng.poisson(1.0 + s).clip(0, 2) for s in S]
    if not isinstance(emission, Categorical):
        X = [x[:, None] + (rng.random((len(x), 1)) if isinstance(emission, Gaussian) else 0) for x in X]
    model = HMM(3, emission, initial_pseudocount=0.5, transition_pseudocount=2.0).fit(X, S)
    first, pairs = np.full(3, 0.5), np.full((3, 3), 2.0)
    for s in S:
        first[s[0]] += 1
        np.add.at(pairs, (s[:-1], s[1:]), 1)
    assert_allclose(model.initial_, first / first.sum())
    assert_allclose(model.transitions_, pairs / pairs.sum(axis=1, keepdims=True))
    states, values = np.concatenate(S), np.concatenate(X)
    for k in range(3):
        own = values[states == k]
        if isinstance(emission, Categorical):
            assert_allclose(model.emission_.probabilities[k], np.bincount(own, minlength=3) / len(own))
        elif isinstance(emission, Poisson):
            assert_allclose(model.emission_.rates[k], own.mean(axis=0))
        else:
            assert_allclose(model.emission_.means[k], own.mean(axis=0))
            assert_allclose(model.emission_.covariances[k], np.cov(own.T, bias=True).reshape(1, 1))
    assert str(model.status_) == "converged after 1 iteration: all states are known, so they were counted"
    assert model.history_["log_likelihood"][0] == pytest.approx(model.log_joint(X, S).sum(), rel=1e-12)
    packed = HMM(3, emission).fit(values, states, lengths=[50, 1, 30])
    assert_array_equal(packed.transitions_, HMM(3, emission).fit(X, S).transitions_)


def test_known_states_with_hidden_components() -> None:
    """A mixture within each state is learned by EM although the states are known."""
    rng = np.random.default_rng(0)
    states = np.repeat([0, 1], 300)
    x = np.where(rng.random(600) < 0.5, -2.0, 2.0) + 8.0 * states + 0.3 * rng.normal(size=600)
    model = HMM(2, GaussianMixture(2), random_state=0).fit(x, states)
    assert_allclose(np.sort(model.emission_.means.ravel()), [-2, 2, 6, 10], atol=0.15)
    assert_array_equal(model.decode(x), states)
    assert model.status_.converged


def test_partly_known_states() -> None:
    """The known states name the hidden ones, and unknown steps add to what is learned."""
    true = far_apart()
    X, S = true.sample([200] * 10, random_state=2)
    partly: list[Any] = [None] * 8 + [S[8], np.where(np.arange(200) % 3 == 0, S[9], -1)]
    model = HMM(3, Gaussian("full"), random_state=0).fit(X, partly)
    assert np.mean(np.concatenate(model.decode(X)) == np.concatenate(S)) > 0.9
    assert_allclose(model.transitions_, true.transitions, atol=0.06)
    assert np.diff(model.history_["primal"]).max() < 1e-6
    # all but one state known, or all unknown: the ends of the scale meet counting and plain EM
    nearly = [s.copy() for s in S]
    nearly[0][5] = -1
    counted, clamped = HMM(3, Gaussian("full")).fit(X, S), HMM(3, Gaussian("full")).fit(X, nearly)
    assert_allclose(clamped.transitions_, counted.transitions_, atol=2e-3)
    free = HMM(3, Gaussian("full"), random_state=0).fit(X, [None] * 10)
    assert_array_equal(free.transitions_, HMM(3, Gaussian("full"), random_state=0).fit(X).transitions_)
    listed = HMM(3, Gaussian("full")).fit(X[:2], [[*S[0][:5].tolist(), *[None] * 195], S[1]])
    assert listed.transitions_.shape == (3, 3)


def test_known_states_clamp_the_posterior() -> None:
    """One iteration against the textbook's, over the state sequences that agree with what is known."""
    rng = np.random.default_rng(1)
    pi, A, B = rows(rng, 1, 2)[0], rows(rng, 2, 2), rows(rng, 2, 3)
    x, known = np.array([0, 2, 1, 1, 0]), np.array([-1, 1, -1, -1, 0])
    paths = np.array(np.meshgrid(*[[0, 1] if s < 0 else [s] for s in known], indexing="ij")).reshape(5, -1).T
    p = np.array([pi[y[0]] * np.prod(A[y[:-1], y[1:]]) * np.prod(B[y, x]) for y in paths])
    pairs = np.zeros((2, 2))
    for weight, y in zip(p / p.sum(), paths, strict=True):
        np.add.at(pairs, (y[:-1], y[1:]), weight)
    model = HMM(2, Categorical(3, B), initial=pi, transitions=A, max_iter=1).fit(x, known)
    assert model.history_["log_likelihood"][0] == pytest.approx(np.log(p.sum()), rel=1e-12)
    assert_allclose(model.transitions_, pairs / pairs.sum(axis=1, keepdims=True), atol=1e-12)


def test_a_left_right_chain_stays_one() -> None:
    rng = np.random.default_rng(0)
    initial, transitions = left_right(4, jump=2, stay=0.6)
    assert_allclose(transitions[0], [0.6, 0.2, 0.2, 0.0])
    assert_allclose(transitions[3], [0, 0, 0, 1])
    means = 4.0 * np.arange(4)[:, None]
    true = HMM(4, Gaussian("diag", means, np.ones((4, 1))), initial=initial, transitions=transitions)
    X, S = true.sample([25] * 60, random_state=0)
    model = HMM(4, Gaussian("diag", means + rng.normal(size=(4, 1)), np.ones((4, 1))), initial=initial,
                transitions=left_right(4, jump=2)[1], transition_pseudocount=1.0).fit(X)  # fmt: skip
    assert_array_equal(model.transitions_ > 0, transitions > 0)
    assert_array_equal(model.initial_, initial)
    assert_allclose(model.transitions_, transitions, atol=0.1)
    counted = HMM(4, Gaussian("diag"), initial=initial, transitions=transitions).fit(X, S)
    assert_array_equal(counted.transitions_ > 0, transitions > 0)
    S[3] = S[3].copy()
    S[3][7:9] = [3, 0]
    with pytest.raises(DataError, match=r"sequence 3 goes from state 3 to 0 at step 8, which the zeros"):
        HMM(4, Gaussian("diag"), initial=initial, transitions=transitions).fit(X, S)
    S[3] = S[3] * 0 + 1
    with pytest.raises(DataError, match="sequence 3 begins in state 1, which the zeros"):
        HMM(4, Gaussian("diag"), initial=initial, transitions=transitions).fit(X, S)
    impossible = [None] * 60
    impossible[3] = S[3]
    with pytest.raises(InfeasibleError, match=r"sequence 3 has probability zero .*, from step 0 on"):
        HMM(4, Gaussian("diag"), initial=initial, transitions=transitions).fit(X, impossible)


def test_tied_states_share_a_row() -> None:
    rng = np.random.default_rng(0)
    A = rows(rng, 3, 3)
    x = rng.integers(0, 4, 300)
    model = HMM(3, Categorical(4, rows(rng, 3, 4)), initial=[0.2, 0.5, 0.3], transitions=A[[0, 1, 1]],
                tied_transitions=["a", "b", "b"], max_iter=8, tol=0.0).fit(x)  # fmt: skip
    assert_allclose(model.transitions_[1], model.transitions_[2])
    assert abs(model.transitions_[0] - model.transitions_[1]).max() > 1e-3
    interleaved = np.empty(17)
    interleaved[::2], interleaved[1::2] = model.history_["primal"], model.history_["dual"]
    assert np.diff(interleaved).max() <= 1e-9
    states = rng.integers(0, 3, 300)
    counted = HMM(3, Categorical(4), tied_transitions=[0, 1, 1]).fit(x, states)
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (states[:-1], states[1:]), 1)
    both = pairs[1] + pairs[2]
    assert_allclose(counted.transitions_[1:], np.tile(both / both.sum(), (2, 1)))
    with pytest.raises(DataError, match=r"tied states \[1, 2\] have different fixed zeros"):
        HMM(3, Categorical(4), tied_transitions=[0, 1, 1], transitions=left_right(3)[1]).fit(x)


def test_online_em_learns_from_batches() -> None:
    true = far_apart()
    model = HMM(3, Gaussian("full"), random_state=0)
    for batch in range(30):
        X, _ = true.sample([100] * 3, random_state=batch)
        model.partial_fit(X)
    assert model.n_iter_ == 30
    assert len(model.history_["log_likelihood"]) == 30
    assert "no last batch" in str(model.status_)
    found = model.permute(align_states(true, model))
    assert_allclose(found.transitions_, true.transitions, atol=0.06)
    assert_allclose(found.emission_.means, true.emission.means, atol=0.2)


def test_the_first_online_step_is_one_iteration() -> None:
    rng = np.random.default_rng(0)
    pi, A, B = rows(rng, 1, 2)[0], rows(rng, 2, 2), rows(rng, 2, 3)
    options: dict[str, Any] = {"initial": pi, "transitions": A, "max_iter": 1, "transition_pseudocount": 1.0}
    x, z = rng.integers(0, 3, 40), rng.integers(0, 3, 60)
    online = HMM(2, Categorical(3, B), step_power=1.0, **options).partial_fit(x)
    whole = HMM(2, Categorical(3, B), **options).fit(x)
    assert_allclose(online.transitions_, whole.transitions_, rtol=1e-12)
    # the second: the mean per step of both batches, each under the parameters of its time
    online.partial_fit(z)
    now = whole.emission_, whole.initial_, whole.transitions_
    expected = 100 * (0.5 * _pairs(Categorical(3, B), pi, A, x) / 40 + 0.5 * _pairs(*now, z) / 60) + 1.0
    assert_allclose(online.transitions_, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)


def _pairs(emission: Emission, pi: np.ndarray, A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Expected numbers of transitions, in plain probabilities."""
    b = np.exp(emission.log_likelihood(x))
    alpha, beta = np.zeros((len(x), 2)), np.ones((len(x), 2))
    alpha[0] = pi * b[0]
    for t in range(1, len(x)):
        alpha[t] = alpha[t - 1] @ A * b[t]
    for t in range(len(x) - 1, 0, -1):
        beta[t - 1] = A @ (b[t] * beta[t])
    return A * (alpha[:-1].T @ (b[1:] * beta[1:])) / alpha[-1].sum()


def test_missing_values_are_marginalised_in_learning() -> None:
    true = far_apart()
    X, _ = true.sample([400] * 5, random_state=3)
    rng = np.random.default_rng(0)
    for x in X:
        x[rng.random(x.shape) < 0.2] = np.nan
    found = HMM(3, Gaussian("full"), n_init=2, random_state=0).fit(X)
    found = found.permute(align_states(true, found, X))
    assert_allclose(found.emission_.means, true.emission.means, atol=0.25)
    assert_allclose(found.transitions_, true.transitions, atol=0.08)
    masked = [np.ma.masked_invalid(x) for x in X]
    assert_array_equal(found.log_likelihood(masked), found.log_likelihood(X))


@pytest.mark.parametrize(
    "emission",
    [
        Categorical(4),
        Gaussian("full"),
        GaussianMixture(2, "diag"),
        Product({0: Poisson(), (1, 2): Gaussian("diag")}),
    ],
)
def test_online_em_goes_on_from_a_file(emission: Emission, tmp_path: Any) -> None:
    """A model that was saved between two batches learns what it would have learned without that."""
    rng = np.random.default_rng(3)
    if isinstance(emission, Categorical):
        batches = [rng.integers(4, size=60) for _ in range(4)]
    else:
        batches = [np.column_stack([rng.poisson(3, 60), rng.normal(size=(60, 2))]) for _ in range(4)]
    kept, stored = (HMM(2, emission, random_state=0) for _ in range(2))
    for i, batch in enumerate(batches):
        kept.partial_fit(batch)
        stored.partial_fit(batch)
        if i == 1:
            stored.save(tmp_path / "model")
            stored = load(tmp_path / "model")
    assert_allclose(stored.transitions_, kept.transitions_, rtol=1e-12)
    assert_allclose(stored.log_likelihood(batches[0]), kept.log_likelihood(batches[0]), rtol=1e-12)
    assert_allclose(stored.history_["log_likelihood"], kept.history_["log_likelihood"], rtol=1e-12)
    assert stored.status_ == kept.status_


def test_certificates_allow_for_terms_that_cancel() -> None:
    """Counts near 1e6 have log-likelihoods far smaller than their terms, and a state with fewer rows than
    columns a covariance at its floor: neither is a failure of EM."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        counts = rng.poisson(1e6 * (1 + 0.01 * (rng.random(2000) > 0.5)))
        assert HMM(2, Poisson(), random_state=0).fit(counts).status_.converged
    for seed in (1, 2, 3, 12):
        vectors = np.random.default_rng(seed).normal(size=(14, 3)) * 10.0 ** (seed % 4 + 1)
        model = HMM(4, Gaussian("full"), random_state=0).fit(vectors)
        assert np.isfinite(model.log_likelihood(vectors)).all()


def test_no_symbol_is_impossible_at_the_start() -> None:
    """Clusters of the other columns decide where EM starts; zeros they happen to leave would stay."""
    rng = np.random.default_rng(0)
    far = np.repeat([0.0, 50.0], 20)
    x = np.column_stack([np.repeat([0, 1], 20), far + rng.normal(size=40)])
    model = HMM(2, Product({0: Categorical(3), 1: Gaussian()}), max_iter=1, random_state=0).fit(x)
    emission = Categorical(3).initialise(np.array([0, 0, 1]), np.eye(2)[[0, 0, 1]], rng)
    assert (np.asarray(emission.probabilities)[:, :2] > 0).all()
    assert_array_equal(np.asarray(emission.probabilities)[:, 2], 0.0)  # seen nowhere
    assert model.status_.n_iter == 1


def test_a_start_that_the_prior_rules_out() -> None:
    table = [[0.9, 0.1, 0.0], [0.0, 0.1, 0.9]]
    for emission in (Categorical(3, table, pseudocount=1.0), Categorical(3, table, unseen="smooth")):
        model = HMM(2, emission, initial=[0.5, 0.5], transitions=np.full((2, 2), 0.5))
        with pytest.raises(DataError, match="probability of 0 where the prior"):
            model.fit(np.array([0, 1, 2, 0]))
        model.fit(np.array([0, 1, 2, 0]), [0, 0, 1, 1])  # counting needs no start

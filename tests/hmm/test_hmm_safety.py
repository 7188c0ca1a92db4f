"""Where scaled probabilities underflow the answer is still right: outliers, hopeless states, a million
steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.base import clone

from trellis import HMM
from trellis.core.errors import InfeasibleError, NumericalError
from trellis.hmm import left_right
from trellis.hmm.emissions import Categorical, Emission, Gaussian, Poisson
from trellis.hmm.hmm_chain import Block, Counts, HMMChain
from trellis.hmm.hmm_kernels import DENSE, LOG, SPARSE
from trellis.structures.chain.oracle.exhaustive import Enumeration
from trellis.structures.chain.scores.chain_scores import ChainScores


def scores_of(chain: HMMChain, logs: np.ndarray) -> Enumeration:
    return Enumeration.of(ChainScores.of(logs, chain.log_transitions, chain.log_initial))


def answers(chain: HMMChain, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Posterior, filter, expected transitions, and log p(x) by both, of one sequence."""
    offsets = np.array([0, len(logs)])

    def block() -> Block:
        return Block(*chain.scale(logs), offsets, lambda: logs)

    counts = Counts(len(chain.initial))
    posterior, log_p = chain.posterior(block(), counts)
    filtered, log_q = chain.filter(block())
    return posterior, filtered, chain.transition_counts(counts), np.concatenate([log_p, log_q])


@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 4),
    n=st.integers(1, 5),
    spread=st.sampled_from([1.0, 300.0, 3000.0]),
    zeros=st.sampled_from([0.0, 0.5]),
    tiny=st.sampled_from([1.0, 60.0, 400.0]),
)
def test_any_size_of_likelihoods_and_transitions(
    seed: int, k: int, n: int, spread: float, zeros: float, tiny: float
) -> None:
    rng = np.random.default_rng(seed)
    weights = np.exp(-tiny * rng.random((k + 1, k)))
    weights[rng.random((k + 1, k)) < zeros] = 0.0
    weights[weights.sum(axis=1) == 0] = 1.0
    weights /= weights.sum(axis=1, keepdims=True)
    chain = HMMChain(weights[0], weights[1:])
    logs = spread * rng.normal(size=(n, k))
    logs[rng.random((n, k)) < zeros / 3] = -np.inf
    every = scores_of(chain, logs)
    posterior, filtered, pairs, log_p = answers(chain, logs)
    if not (every.scores > -np.inf).any():
        assert_allclose(log_p, -np.inf)
        assert not posterior.any()
        return
    marginals = every.marginals()
    assert_allclose(log_p, every.log_partition(), rtol=1e-12, atol=1e-10)
    assert_allclose(posterior, marginals.unary, atol=1e-9)
    assert_allclose(pairs, marginals.transitions[0], atol=1e-9)
    for t in range(n):
        assert_allclose(filtered[t], scores_of(chain, logs[: t + 1]).marginals().unary[t], atol=1e-9)


def test_which_messages_are_used() -> None:
    half = np.array([0.5, 0.5])
    assert HMMChain(np.array([1.0, 0.0]), np.full((2, 2), 0.5)).kind == DENSE
    assert HMMChain(half, np.array([[1.0, 0.0], [0.5, 0.5]])).kind == SPARSE
    assert HMMChain(half, np.array([[1.0, 1e-60], [0.5, 0.5]])).kind == SPARSE
    assert HMMChain(half, np.array([[1.0, 1e-150], [0.5, 0.5]])).kind == LOG
    assert HMMChain(np.array([1.0, 1e-150]), np.array([[1.0, 0.0], [0.5, 0.5]])).kind == LOG


def test_a_hopeless_state_may_be_the_only_one_that_survives() -> None:
    """The first step is exp(-1000) against state 1; the second is against state 0, which never moves."""
    for second in (-np.inf, -1e5, -1010.0, -990.0):
        logs = np.array([[0.0, -1000.0], [second, 0.0], [0.0, 0.0]])
        chain = HMMChain(np.array([0.5, 0.5]), np.eye(2))
        posterior, filtered, pairs, log_p = answers(chain, logs)
        paths = np.log(0.5) + np.array([second, -1000.0])
        total = np.logaddexp(*paths)
        assert_allclose(log_p, total, rtol=1e-14)
        assert_allclose(posterior, np.tile(np.exp(paths - total), (3, 1)), atol=1e-10)
        assert_allclose(filtered[0], [1.0, 0.0], atol=1e-300)
        assert_allclose(np.diag(pairs), 2 * np.exp(paths - total), atol=1e-9)


@pytest.mark.parametrize("steps", [2, 5, 70])
@pytest.mark.parametrize("against", [-np.inf, -1e6, -60.0])
def test_a_state_may_be_hopeless_for_long(steps: int, against: float) -> None:
    """Each step is against state 1, until one step, or many small ones, are as much against state 0."""
    for each in (-50.0, -300.0, -1000.0):
        n = 1 if against < -1000.0 else int(1.01 * steps * each / against) + 1
        logs = np.array([[0.0, each]] * steps + [[against, 0.0]] * n)
        for stay in (1.0, 0.5):
            chain = HMMChain(np.array([0.5, 0.5]), np.array([[1.0, 0.0], [1.0 - stay, stay]]))
            total, posterior, filtered = in_log_space(chain, logs)
            found, forward, _, log_p = answers(chain, logs)
            assert_allclose(log_p, total, rtol=1e-12)
            assert_allclose(found, posterior, atol=1e-9)
            assert_allclose(forward, filtered, atol=1e-9)


def gaussian_chain(structure: str) -> HMM:
    rng = np.random.default_rng(0)
    k = 4
    initial, transitions = left_right(k)
    if structure == "dense":
        initial, transitions = np.full(k, 1 / k), rng.dirichlet(np.ones(k), k)
    means = 3.0 * np.arange(k)[:, None] + rng.normal(size=(k, 3))
    return HMM(k, Gaussian("diag", means, np.ones((k, 3))), initial=initial, transitions=transitions)


def in_log_space(chain: HMMChain, logs: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """log p(x), posterior and filter by recursions on logarithms, normalised at every step."""
    shift = logs.max(axis=1)
    logs, total = logs - shift[:, None], shift.sum()
    forward, backward = np.empty_like(logs), np.zeros_like(logs)
    for t in range(len(logs)):
        arrive = chain.log_initial
        if t:
            arrive = logsumexp(forward[t - 1][:, None] + chain.log_transitions, axis=0)
        c = logsumexp(arrive + logs[t])
        forward[t] = arrive + logs[t] - c
        total += c
    for t in range(len(logs) - 1, 0, -1):
        backward[t - 1] = logsumexp(chain.log_transitions + logs[t] + backward[t], axis=1)
        backward[t - 1] -= logsumexp(forward[t - 1] + backward[t - 1])
    return total, np.exp(forward + backward), np.exp(forward)


@pytest.mark.parametrize("structure", ["dense", "left-right"])
@pytest.mark.parametrize("size", [30.0, 1e3, 1e8])
def test_one_outlier_frame(structure: str, size: float) -> None:
    """What makes plain scaling underflow."""
    model = gaussian_chain(structure)
    x, _ = model.sample(60, random_state=1)
    x[2], x[20] = -size, size
    p = model.parameters()
    total, posterior, filtered = in_log_space(p.chain, p.emission.log_likelihood(x))
    assert model.log_likelihood(x)[0] == pytest.approx(total, rel=1e-12)
    assert_allclose(model.smooth(x), posterior, atol=1e-9)
    assert_allclose(model.filter(x), filtered, atol=1e-9)
    fitted = HMM(4, p.emission, initial=p.initial, transitions=p.transitions, max_iter=5).fit([x, x[:30]])
    assert np.isfinite(fitted.history_["primal"]).all()
    assert np.isfinite(fitted.transitions_).all()


def test_a_symbol_of_probability_zero() -> None:
    B, A = [[0.5, 0.5, 0], [0.1, 0.9, 0]], np.full((2, 2), 0.5)
    model = HMM(2, Categorical(3, B), initial=[1, 0], transitions=A)
    good, bad = np.array([0, 1, 1]), np.array([0, 2, 1])
    assert_allclose(model.log_likelihood([good, bad, good])[[0, 2]], model.log_likelihood(good)[0])
    assert model.log_likelihood([good, bad])[1] == -np.inf
    for ask in (model.smooth, model.filter, model.decode, model.fit):
        with pytest.raises(InfeasibleError, match=r"sequence 1 has probability zero .*, from step 1 on"):
            ask([good, bad])


@pytest.mark.parametrize("zeros", [False, True])
def test_a_million_steps(zeros: bool) -> None:
    """Every part of a very long sequence is answered as if it were short: windows around it agree."""
    transitions = np.array([[0.95, 0.05, 0.0], [0.0, 0.9, 0.1], [0.2, 0.0, 0.8]])
    if not zeros:
        transitions = 0.9 * transitions + 0.1 / 3
    means = np.array([[0.0], [1.0], [4.0]])
    model = HMM(3, Gaussian("diag", means, np.ones((3, 1))), initial=[1, 0, 0], transitions=transitions)
    x, _ = model.sample(1_000_000, random_state=0)
    smoothed, filtered = model.smooth(x), model.filter(x)
    assert_allclose(smoothed.sum(axis=1), 1.0, atol=1e-12)
    for place in (0, 64, 499_990, 999_900):
        a, b = max(0, place - 300), min(len(x), place + 400)
        initial = [1, 0, 0] if a == 0 else filtered[a - 1] @ transitions
        part = HMM(3, model.emission, initial=initial, transitions=transitions).smooth(x[a:b])
        assert_allclose(smoothed[place : place + 50], part[place - a : place - a + 50], atol=1e-10)
    front = model.log_likelihood(x[:500_000])[0]
    rest = HMM(3, model.emission, initial=filtered[499_999] @ transitions, transitions=transitions)
    total = front + rest.log_likelihood(x[500_000:])[0]
    assert model.log_likelihood(x)[0] == pytest.approx(total, rel=1e-12)
    assert np.mean(model.decode(x) == smoothed.argmax(axis=1)) > 0.9


def test_em_survives_transitions_that_die_out() -> None:
    """Deterministic data drive probabilities to 0 through all sizes of numbers; the certificates hold."""
    x = np.tile([0, 1, 2], 200)
    model = HMM(3, Categorical(3), max_iter=300, tol=0.0, random_state=1, start="random").fit(x)
    assert model.log_likelihood(x)[0] == pytest.approx(0.0, abs=1e-3)
    assert np.diff(model.history_["primal"]).max() <= 1e-9
    assert_allclose(model.transitions_.max(axis=1), 1.0, atol=1e-6)


class Likelihoods(Emission):
    """Any table of log-likelihoods: rows are indices into it."""

    def __init__(self, table: np.ndarray) -> None:
        self.table, self.n_states = table, table.shape[1]

    def log_likelihood(self, values: np.ndarray) -> np.ndarray:
        return self.table[values[:, 0].astype(int)]

    def statistics(self, values: np.ndarray, posterior: np.ndarray) -> dict[str, np.ndarray]:
        return {"weight": posterior.sum(axis=0)}

    def maximise(self, statistics: object) -> Likelihoods:
        return self

    def expected_log_likelihood(self, statistics: object) -> float:
        return 0.0

    def sample(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.zeros((len(states), 1))


@pytest.mark.parametrize("transitions", [[[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5]]])
def test_fast_and_log_space_sequences_share_a_batch(transitions: list[list[float]]) -> None:
    table = np.array([[0.0, -1.0], [-2.0, 0.0], [0.0, -1e4], [-1e4, 0.0]])
    model = HMM(2, Likelihoods(table), initial=[0.0, 1.0], transitions=transitions)
    X = [np.array(s, float)[:, None] for s in ([0, 1, 0], [3, 2, 3, 3], [1], [2, 2, 3, 0], [0, 1])]
    smoothed, p = model.smooth(X), model.parameters()
    for x, own, log_p in zip(X, smoothed, model.log_likelihood(X), strict=True):
        every = scores_of(p.chain, p.emission.log_likelihood(x))
        assert_allclose(own, every.marginals().unary, atol=1e-12)
        assert log_p == pytest.approx(every.log_partition(), rel=1e-13)


@pytest.mark.parametrize("least", [1e-3, 0.0, 1e-150])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_sequences_without_steps(least: float, n_jobs: int) -> None:
    """In each kind of chain they are as good as not there; in log space they were read beyond their end."""
    emission = Categorical(3, [[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]])
    model = HMM(
        2, emission, initial=[1 - least, least], transitions=[[0.5, 0.5], [least, 1 - least]], n_jobs=n_jobs
    )
    kind = HMMChain(np.array([1 - least, least]), np.array([[0.5, 0.5], [least, 1 - least]])).kind
    assert kind == {1e-3: DENSE, 0.0: SPARSE, 1e-150: LOG}[least]
    some = [np.array([0, 1, 1]), np.array([2, 0, 2, 1])]
    none = np.zeros(0, int)
    padded = [none, some[0], none, none, some[1], none]
    assert_allclose(model.log_likelihood(padded)[[1, 4]], model.log_likelihood(some))
    assert_allclose(model.log_likelihood(padded)[[0, 2, 3, 5]], 0.0)
    for ask in (model.smooth, model.filter):
        answers = ask(padded)
        assert [len(a) for a in answers] == [0, 3, 0, 0, 4, 0]
        assert_allclose(np.concatenate(answers), np.concatenate(ask(some)))
    fits = [clone(model).set_params(max_iter=3, tol=0.0).fit(x) for x in (padded, some)]
    assert_allclose(fits[0].initial_, fits[1].initial_, atol=1e-15)
    assert_allclose(fits[0].transitions_, fits[1].transitions_, atol=1e-15)


def test_rates_too_large_to_draw_from() -> None:
    model = HMM(1, Poisson(rates=[[1e300]]), initial=[1.0], transitions=[[1.0]])
    with pytest.raises(NumericalError, match="too large to draw counts"):
        model.sample([3], random_state=0)

"""What users of hmmlearn look for: ``learn``, rows of counts, priors on means, one covariance per state of a
mixture, paths drawn from the posterior, samples that go on from a state, log p(x, y) with ``decode``."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hmmlearn.hmm import GMMHMM, CategoricalHMM, GaussianHMM, MultinomialHMM
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, multinomial

from small_emissions import example, gaussian, mixture
from trellis import HMM, IOHMM, load
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.hmm import left_right
from trellis.hmm.emissions import Categorical, Gaussian, GaussianMixture, Multinomial

LENGTHS = [100, 250, 50]


def rows(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    return rng.dirichlet(np.full(k, 2.0), n)


def chain(k: int = 3, seed: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"initial": rows(rng, 1, k)[0], "transitions": rows(rng, k, k)}


def peer_of(peer: Any, start: dict[str, np.ndarray], **parameters: Any) -> Any:
    peer.startprob_, peer.transmat_ = start["initial"], start["transitions"]
    for name, value in parameters.items():
        setattr(peer, name, value)
    return peer


def options(params: str = "stmcwe") -> dict[str, Any]:
    return {"init_params": "", "params": params, "n_iter": 5, "tol": -np.inf, "implementation": "log"}


LEARN = {
    "e": "emission",
    "s": "initial",
    "t": ("transitions",),
    "st": ["initial", "transitions"],
    "te": {"transitions", "emission"},
    "": (),
}


@pytest.mark.parametrize("params", LEARN)
def test_learn_is_hmmlearns_params(params: str, tmp_path: Any) -> None:
    start, emission = chain(), example("categorical")[0]
    model = HMM(3, emission, **start, learn=LEARN[params], max_iter=5, tol=0.0)
    x, _ = HMM(3, emission, **chain(seed=4)).sample(400, random_state=1)
    peer = peer_of(
        CategoricalHMM(3, **options(params)), start, n_features=5, emissionprob_=emission.probabilities
    )
    peer.fit(x[:, None], LENGTHS)
    model.fit(x, lengths=LENGTHS)
    assert_allclose(model.initial_, peer.startprob_, atol=1e-9)
    assert_allclose(model.transitions_, peer.transmat_, atol=1e-9)
    assert_allclose(model.emission_.probabilities, peer.emissionprob_, atol=1e-9)
    for part, letter, before, after in (
        ("initial", "s", start["initial"], model.initial_),
        ("transitions", "t", start["transitions"], model.transitions_),
        ("emission", "e", emission.probabilities, model.emission_.probabilities),
    ):
        assert np.allclose(before, after, rtol=1e-14) == (letter not in params), part
    free = {"s": 2, "t": 6, "e": 12}
    assert model.n_parameters == sum(free[letter] for letter in params)
    primal, dual = np.array(model.history_["primal"]), np.array(model.history_["dual"])
    assert (primal[:-1] >= dual - 1e-9).all()
    assert (dual >= primal[1:] - 1e-9).all()
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").learn == LEARN[params]


def test_what_is_not_learned_has_no_prior_and_stays() -> None:
    """Also when states are known, online, and where the start sets it from the data."""
    start, (emission, _) = chain(), example("categorical map")
    x, s = HMM(3, emission, **start).sample([60] * 5, random_state=0)
    fixed = HMM(
        3, emission, **start, learn="transitions", initial_pseudocount=3.0, transition_pseudocount=1.0
    )
    for model in (fixed.fit(x), fixed.fit(x, s), fixed.partial_fit(x).partial_fit(x)):
        assert_allclose(model.initial_, start["initial"], rtol=1e-14)
        assert_array_equal(model.emission_.probabilities, emission.probabilities)
        assert abs(model.transitions_ - start["transitions"]).max() > 1e-3
    counted = fixed.fit(x, s)
    value = counted.log_joint(x, s).sum() + np.log(counted.transitions_).sum()
    assert -counted.history_["primal"][0] == pytest.approx(value, rel=1e-12)
    free = HMM(3, Gaussian("diag"), learn=("initial", "emission"), random_state=0)
    signal = [np.repeat([[0.0], [5.0], [9.0]], 20, axis=0) + 0.1 * np.arange(60)[:, None] % 1.0]
    assert abs(free.fit(signal).transitions_ - 1 / 3).max() > 0.1  # from k-means, and kept
    with pytest.raises(DataError, match="learn names 'means'; choose from initial, transitions, emission"):
        HMM(3, emission, learn="means").fit(x)
    with pytest.raises(UnsupportedError, match="moves all parameters"):
        HMM(3, emission, learn="emission").fit_discriminative(x, s)


def test_rows_of_counts_are_multinomial() -> None:
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(4), 3)
    emission = Multinomial(4, table)
    counts = np.concatenate([rng.multinomial(n, table[n % 3], 5) for n in (0, 1, 7, 1000)]).astype(float)
    expected = [[multinomial.logpmf(x, int(x.sum()), p) for p in table] for x in counts]
    assert_allclose(emission.log_likelihood(emission.check(counts)), expected, rtol=1e-9, atol=1e-9)
    # one symbol a row is one symbol
    symbols = rng.integers(0, 4, 30)
    assert_allclose(
        emission.log_likelihood(np.eye(4)[symbols]), Categorical(4, table).log_likelihood(symbols)
    )
    impossible = Multinomial(2, [[1.0, 0.0], [0.5, 0.5]])
    assert_array_equal(impossible.log_likelihood(np.array([[2.0, 1.0]])) == -np.inf, [[True, False]])
    assert np.isfinite(impossible.log_likelihood(np.array([[2.0, 0.0]]))).all()


def test_five_iterations_of_hmmlearns_multinomial() -> None:
    start, emission = chain(), Multinomial(4, rows(np.random.default_rng(5), 3, 4), n_trials=8)
    model = HMM(3, emission, **start, max_iter=5, tol=0.0)
    x, _ = model.sample(400, random_state=1)
    assert_array_equal(x.sum(axis=1), 8)
    peer = peer_of(
        MultinomialHMM(3, n_trials=8, **options("ste")),
        start,
        n_features=4,
        emissionprob_=emission.probabilities,
    )
    peer.fit(x.astype(int), LENGTHS)
    model.fit(x, lengths=LENGTHS)
    assert_allclose(model.history_["log_likelihood"][:5], list(peer.monitor_.history), rtol=1e-9)
    assert_allclose(model.transitions_, peer.transmat_, atol=1e-9)
    assert_allclose(model.emission_.probabilities, peer.emissionprob_, atol=1e-9)


def test_multinomial_learns_counts_of_any_sum_and_draws_them_again(tmp_path: Any) -> None:
    table = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    true = HMM(
        2, Multinomial(3, table, n_trials=20), initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.2, 0.8]]
    )
    x, s = true.sample(2000, random_state=0)
    found = HMM(2, Multinomial(3), random_state=0).fit(x)
    assert found.emission_.n_trials == 20
    order = np.argsort(-found.emission_.probabilities[:, 0])
    assert_allclose(found.permute(order).emission_.probabilities, table, atol=0.02)
    assert found.sample(5, random_state=0)[0].sum() == 100
    x[::7] = np.nan
    x[::5] *= 2
    mixed = HMM(2, Multinomial(3), random_state=0).fit(x)
    assert mixed.emission_.n_trials is None
    with pytest.raises(DataError, match="give Multinomial its n_trials"):
        mixed.sample(3)
    told = HMM(2, Multinomial(3), random_state=0).fit_discriminative(x, s)
    assert np.mean(told.decode(x) == s) > 0.9
    mixed.save(tmp_path / "m")
    assert_array_equal(load(tmp_path / "m").decode(x), mixed.decode(x))
    for bad, words in (
        ([[1.0, np.nan, 2.0]], "step 0 of sequence 0: some counts are missing"),
        ([[1.0, -1.0, 2.0]], "column 1 is -1.0; counts are whole numbers"),
        ([[0.5, 1.0, 2.0]], "column 0 is 0.5; counts are whole numbers"),
        ([[1.0, 2.0]], "X has 2 columns, but the model has 3"),
    ):
        with pytest.raises(DataError, match=words):
            mixed.decode(np.array(bad))


@pytest.mark.parametrize("kind", ["diag", "spherical", "full", "tied"])
def test_priors_on_means_are_hmmlearns(kind: str) -> None:
    """Five iterations; a ``covars_weight`` of 1 and a ``covars_prior`` of 0 are no prior on covariances."""
    rng = np.random.default_rng(3)
    start, emission = chain(), gaussian(kind, rng)
    prior_mean = rng.normal(size=(3, 3))
    x, _ = HMM(3, emission, **start).sample(400, random_state=1)
    ours = replace(emission, min_variance=0.0, prior_mean=prior_mean, prior_mean_weight=30.0)
    model = HMM(3, ours, **start, max_iter=5, tol=0.0).fit(x, lengths=LENGTHS)
    peer = GaussianHMM(
        3, kind, min_covar=0.0, covars_prior=0.0, covars_weight=1.0, means_prior=prior_mean,
        means_weight=30.0,
        **options("stmc"),
    )  # fmt: skip
    peer_of(peer, start, means_=emission.means, covars_=emission.covariances).fit(x, LENGTHS)
    assert_allclose(model.emission_.means, peer.means_, rtol=1e-6, atol=1e-8)
    assert_allclose(model.transitions_, peer.transmat_, atol=1e-6)


@pytest.mark.parametrize("kind", ["diag", "spherical", "full", "tied"])
def test_a_prior_on_means_holds_them(kind: str) -> None:
    """From no weight to all of it: maximum likelihood, the weighted average, and the prior itself."""
    rng = np.random.default_rng(0)
    x, states = rng.normal(5.0, 1.0, size=(60, 2)), np.repeat([0, 1], 30)
    average = np.array([x[:30].mean(axis=0), x[30:].mean(axis=0)])
    for weight in (0.0, 30.0, 1e9):
        for prior in (1.0, np.array([1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 4.0]])):
            emission = Gaussian(kind, prior_mean=prior, prior_mean_weight=weight)
            model = HMM(2, emission).fit(x, states)
            expected = (30 * average + weight * np.broadcast_to(prior, (2, 2))) / (30 + weight)
            assert_allclose(model.emission_.means, expected, rtol=1e-7)
            value = model.log_joint(x, states) + model.emission_.log_prior()
            assert -model.history_["primal"][0] == pytest.approx(value[0], rel=1e-9)
            precision = np.linalg.inv(model.emission_._matrices)
            away = model.emission_.means - prior
            expected = -0.5 * weight * np.einsum("kd,kde,ke", away, precision, away)
            assert model.emission_.log_prior() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    for make in (
        lambda: Gaussian(prior_mean_weight=1.0),
        lambda: Gaussian("diag", np.zeros((2, 2)), np.ones((2, 2)), prior_mean=np.zeros(3)),
        lambda: Gaussian("diag", np.zeros((2, 2)), np.ones((2, 2)), prior_mean=np.zeros((3, 2))),
        lambda: Gaussian(prior_mean=np.zeros((1, 1, 1))),
        lambda: Gaussian(prior_mean=np.nan),
        lambda: GaussianMixture(2, prior_mean=np.zeros((2, 2))),
    ):
        with pytest.raises(DataError, match="prior_mean"):
            make()


def test_one_covariance_per_state_is_hmmlearns_tied() -> None:
    """One iteration: hmmlearn takes the scatter about the means before it, so it adds their moves."""
    rng = np.random.default_rng(3)
    start, emission = chain(), mixture("state", rng, d=2)
    x, _ = HMM(3, emission, **chain(seed=8)).sample(400, random_state=1)
    model = HMM(3, emission, **start, max_iter=1, tol=0.0).fit(x, lengths=LENGTHS)
    peer = GMMHMM(3, n_mix=2, covariance_type="tied", min_covar=0.0, **{**options("stmcw"), "n_iter": 1})
    peer.n_features = 2
    peer._init_covar_priors()
    peer._fix_priors_shape()
    peer_of(peer, start, weights_=emission.weights, means_=emission.means, covars_=emission.covariances)
    peer.fit(x, LENGTHS)
    assert_allclose(model.history_["log_likelihood"][0], peer.monitor_.history[0], rtol=1e-9)
    assert_allclose(model.transitions_, peer.transmat_, atol=1e-9)
    assert_allclose(model.emission_.weights, peer.weights_, atol=1e-9)
    assert_allclose(model.emission_.means, peer.means_, atol=1e-9)
    move = model.emission_.means - emission.means
    added = np.einsum("kc,kcd,kce->kde", model.emission_.weights, move, move)
    assert_allclose(model.emission_.covariances + added, peer.covars_, atol=1e-9)


def test_a_mixture_with_one_covariance_per_state_finds_it() -> None:
    rng = np.random.default_rng(0)
    matrices = np.array([[[1.0, 0.8], [0.8, 1.0]], [[1.0, -0.8], [-0.8, 1.0]]])
    means = np.array([[[0.0, 0.0], [6.0, 0.0]], [[0.0, 8.0], [6.0, 8.0]]])
    true = GaussianMixture(2, "state", np.full((2, 2), 0.5), means, matrices)
    states = rng.integers(0, 2, 4000)
    x = true.sample(states, rng)
    x[::9, 0] = np.nan
    model = HMM(2, GaussianMixture(2, "state"), random_state=0, max_iter=300).fit(x, states)
    assert model.emission_.covariances.shape == (2, 2, 2)
    assert_allclose(model.emission_.covariances, matrices, atol=0.08)
    with pytest.raises(DataError, match="they must begin with"):
        GaussianMixture(2, "state", np.full((2, 2), 0.5), means, matrices[:1])


@pytest.mark.parametrize("method", ["viterbi", "max_marginal"])
def test_decode_with_its_log_probability(method: str) -> None:
    start, (emission, _) = chain(), example("categorical")
    model = HMM(3, emission, **start)
    x, _ = model.sample(400, random_state=1)
    peer = peer_of(CategoricalHMM(3), start, n_features=5, emissionprob_=emission.probabilities)
    states, log_joint = model.decode(x, method, lengths=LENGTHS, return_log_joint=True)
    assert_array_equal(states, model.decode(x, method, lengths=LENGTHS))
    assert_allclose(log_joint, model.log_joint(x, states, lengths=LENGTHS), rtol=1e-12)
    if method == "viterbi":
        theirs, path = peer.decode(x[:, None], LENGTHS)
        assert log_joint.sum() == pytest.approx(theirs, rel=1e-9)
        assert peer.score(x[:, None], LENGTHS) >= theirs
        assert len(path) == len(states)  # ties may be broken otherwise
    listed, each = model.decode(np.split(x, np.cumsum(LENGTHS)[:-1]), method, return_log_joint=True)
    assert isinstance(listed, list)
    assert_allclose(each, log_joint)
    single, one = model.decode(x[:7], method, return_log_joint=True)
    assert single.shape == (7,)
    assert one.shape == (1,)


def test_drawn_paths_have_the_posterior_of_paths() -> None:
    """All paths of short sequences, counted, against p(y | x) by enumeration; marginals of a long one."""
    rng = np.random.default_rng(0)
    model = HMM(2, Categorical(3, rows(rng, 2, 3)), initial=[0.3, 0.7], transitions=[[0.6, 0.4], [0.0, 1.0]])
    x = [np.array([0, 2, 1]), np.array([1]), np.array([-1, 0])]
    paths = model.sample_paths(x, 20_000, random_state=0)
    for own, drawn in zip(x, paths, strict=True):
        assert drawn.shape == (20_000, len(own))
        every = np.array(list(itertools.product([0, 1], repeat=len(own))))
        p = np.exp([model.log_joint(own, path)[0] for path in every] - model.log_likelihood(own)[0])
        code = drawn @ 2 ** np.arange(len(own))[::-1]
        counts = np.bincount(code, minlength=len(every))
        assert (counts[p == 0] == 0).all()
        kept = p > 0
        statistic = np.sum((counts[kept] - 20_000 * p[kept]) ** 2 / (20_000 * p[kept]))
        assert statistic < chi2.ppf(1 - 1e-6, kept.sum() - 1) + 1e-9
    assert_array_equal(
        paths[0], HMM(**{**model.get_params(), "n_jobs": 2}).sample_paths(x, 20_000, random_state=0)[0]
    )
    long, _ = model.sample(300, random_state=1)
    drawn = model.sample_paths(long, 4000, random_state=2)
    assert drawn.shape == (4000, 300)
    assert abs((drawn == 1).mean(axis=0) - model.smooth(long)[:, 1]).max() < 0.04
    blind = HMM(2, Categorical(2, [[1.0, 0.0], [1.0, 0.0]]), initial=[1, 0], transitions=np.eye(2))
    with pytest.raises(
        InfeasibleError, match="sequence 1 has probability zero under the model, from step 1 on"
    ):
        blind.sample_paths([np.array([0]), np.array([0, 1])])
    with pytest.raises(DataError, match="n_samples is 0"):
        model.sample_paths(long, 0)


def test_an_input_output_model_draws_paths_too() -> None:
    rng = np.random.default_rng(0)
    X, U = [rng.normal(size=(40, 1)) for _ in range(3)], [rng.normal(size=(40, 2)) for _ in range(3)]
    model = IOHMM(2, random_state=0, max_iter=3, n_init=1).fit(X, U)
    drawn = model.sample_paths(X, U, 3000, random_state=0)
    for paths, smoothed in zip(drawn, model.smooth(X, U), strict=True):
        assert paths.shape == (3000, 40)
        assert abs((paths == 1).mean(axis=0) - smoothed[:, 1]).max() < 0.05
    states, log_joint = model.decode(X, U, return_log_joint=True)
    assert_array_equal(states[0], model.decode(X, U)[0])
    assert (log_joint <= model.log_likelihood(X, U)).all()
    single, one = model.decode(X[0], U[0], "max_marginal", return_log_joint=True)
    assert one == pytest.approx(model.decode(X[0], U[0], return_log_joint=True)[1], abs=5.0)
    assert single.shape == (40,)


def test_samples_go_on_from_a_state() -> None:
    initial, transitions = left_right(3, stay=0.6)
    model = HMM(
        3,
        Gaussian("diag", [[0.0], [50.0], [100.0]], np.ones((3, 1))),
        initial=initial,
        transitions=transitions,
    )
    x, states = model.sample([4] * 3000, first_state=1, random_state=0)
    assert all(s[0] == 1 for s in states)
    assert abs(np.mean([s[1] == 1 for s in states]) - 0.6) < 0.05
    assert abs(np.mean([y[0, 0] for y in x]) - 50.0) < 0.2
    _, states = model.sample([2] * 3000, after=1, random_state=0)
    assert abs(np.mean([s[0] == 1 for s in states]) - 0.6) < 0.05
    assert all(s[0] in (1, 2) for s in states)
    _, states = model.sample([1, 1, 2], after=[2, 2, 2], random_state=0)
    assert_array_equal(np.concatenate(states), 2)
    _, one = model.sample(5, first_state=np.int64(2), random_state=0)
    assert_array_equal(one, 2)
    for options, words in (
        ({"after": 3}, "after is 3; give a state from 0 to 2"),
        ({"first_state": -1}, "first_state is -1; give a state"),
        ({"after": [0, 1]}, r"after is \[0, 1\]; give a state from 0 to 2, or one for each of 1 sequences"),
        ({"first_state": True}, "first_state is True"),
        ({"after": 0.0}, "after is 0.0"),
        ({"after": 0, "first_state": 0}, "give one of them"),
    ):
        with pytest.raises(DataError, match=words):
            model.sample(2, **options)

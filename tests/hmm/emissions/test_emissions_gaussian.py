"""Gaussian and mixture emissions against scipy.stats, explicit marginals, numeric optimisation and
scikit-learn."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as SklearnMixture

from small_emissions import COVARIANCES, covariances_of, definite, gaussian, mixture, posterior_of
from trellis.core.errors import DataError, NumericalError
from trellis.hmm.emissions import Categorical, Gaussian, GaussianMixture, Poisson, Product

each_covariance = pytest.mark.parametrize("kind", COVARIANCES)


def matrix(emission: Gaussian, k: int) -> np.ndarray:
    covariances = np.asarray(emission.covariances)
    d = emission.means.shape[1]
    return {
        "diag": lambda: np.diag(covariances[k]),
        "spherical": lambda: covariances[k] * np.eye(d),
        "full": lambda: covariances[k],
        "tied": lambda: covariances,
    }[emission.covariance]()


def explicit(emission: Gaussian, values: np.ndarray) -> np.ndarray:
    """log p of what is observed of each row, by scipy's density of the marginal."""
    out = np.zeros((len(values), emission.n_states))
    for (t, row), k in product(enumerate(values), range(emission.n_states)):
        there = np.flatnonzero(~np.isnan(row))
        if len(there):
            covariance = matrix(emission, k)[np.ix_(there, there)]
            out[t, k] = stats.multivariate_normal(emission.means[k, there], covariance).logpdf(row[there])
    return out


@settings(max_examples=40)
@given(
    kind=st.sampled_from(COVARIANCES),
    seed=st.integers(0, 10_000),
    n=st.integers(0, 70),
    k=st.integers(1, 5),
    d=st.integers(1, 6),
    missing=st.sampled_from([0.0, 0.3, 0.9]),
)
def test_densities_of_what_is_observed(kind: str, seed: int, n: int, k: int, d: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    emission = gaussian(kind, rng, k, d)
    values = rng.normal(scale=3.0, size=(n, d))
    values[rng.random(values.shape) < missing] = np.nan
    expected = explicit(emission, values)
    np.testing.assert_allclose(
        emission.log_likelihood(emission.check(values)), expected, rtol=1e-9, atol=1e-9
    )
    scaled, shift = emission.scaled_likelihood(emission.check(values))
    np.testing.assert_allclose(shift, expected.max(axis=1), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scaled, np.exp(expected - shift[:, None]), rtol=1e-8, atol=1e-12)


@each_covariance
def test_every_pattern_of_missing_entries_has_its_exact_moments(kind: str) -> None:
    """E[x], E[x x^T] and the entropy by conditioning with inverses, one row and state at a time."""
    rng = np.random.default_rng(0)
    emission = gaussian(kind, rng, 2, 3)
    patterns = np.array(list(product([False, True], repeat=3)) * 2)
    values = np.where(patterns, np.nan, rng.normal(size=patterns.shape))
    posterior = posterior_of(len(values), 2)
    weight, first, second = np.zeros(2), np.zeros((2, 3)), np.zeros((2, 3, 3))
    entropy = 0.0
    for (t, row), k in product(enumerate(values), range(2)):
        o, m = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
        if not len(o):
            continue
        C, q = matrix(emission, k), posterior[t, k]
        gain = C[np.ix_(m, o)] @ np.linalg.inv(C[np.ix_(o, o)])
        y, spread = np.zeros(3), np.zeros((3, 3))
        y[o] = row[o] - emission.means[k, o]
        y[m] = gain @ y[o]
        spread[np.ix_(m, m)] = C[np.ix_(m, m)] - gain @ C[np.ix_(o, m)]
        weight[k] += q
        first[k] += q * y
        second[k] += q * (np.outer(y, y) + spread)
        if len(m):
            entropy += q * 0.5 * np.linalg.slogdet(2 * np.pi * np.e * spread[np.ix_(m, m)])[1]
    found = emission.statistics(values, posterior)
    if kind in ("full", "tied"):
        np.testing.assert_allclose(found["weight"], weight, rtol=1e-12)
        np.testing.assert_allclose(found["first"], first, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found["second"], second, rtol=1e-10, atol=1e-12)
        assert found["entropy"] == pytest.approx(entropy, rel=1e-10)
    else:
        there = ~np.isnan(values)
        np.testing.assert_allclose(found["weight"], posterior.T @ there, rtol=1e-12)
        assert "entropy" not in found


@each_covariance
def test_the_m_step_is_the_weighted_covariance(kind: str) -> None:
    rng = np.random.default_rng(2)
    values, posterior = rng.normal(size=(80, 3)), posterior_of(80)
    fitted = Gaussian(kind, min_variance=0.0).initialise(values, posterior, rng)
    full = np.array([np.cov(values.T, aweights=posterior[:, k], ddof=0) for k in range(3)])
    expected = {
        "diag": np.diagonal(full, axis1=1, axis2=2),
        "spherical": np.trace(full, axis1=1, axis2=2) / 3,
        "full": full,
        "tied": np.tensordot(posterior.sum(axis=0), full, 1) / 80,
    }[kind]
    np.testing.assert_allclose(
        fitted.means, posterior.T @ values / posterior.sum(axis=0)[:, None], rtol=1e-12
    )
    np.testing.assert_allclose(fitted.covariances, expected, rtol=1e-11)


@each_covariance
@pytest.mark.parametrize("far", [1e6, -1e6, 1e8])
def test_large_means_lose_no_digits(kind: str, far: float) -> None:
    """The same problem far from zero, and with states far from each other, to the rounding of the data."""
    rng = np.random.default_rng(3)
    centres = np.array([[0.0, 0.0, 0.0], [far, -far, far], [2 * far, 0.0, 1.0]])
    near = Gaussian(kind, np.zeros((3, 3)), covariances_of(kind, rng, 3, 3))
    there = Gaussian(kind, centres, near.covariances)
    states = rng.integers(0, 3, 200)
    noise = near.sample(states, rng)
    values = centres[states] + noise
    noise = values - centres[states]  # as the data have it after rounding
    own = (np.arange(200), states)
    np.testing.assert_allclose(
        there.log_likelihood(values)[own], near.log_likelihood(noise)[own], atol=1e-15 * abs(far) * 1e2
    )
    hard = np.eye(3)[states]
    moved = Gaussian(kind, centres + 1.0, near.covariances)
    fitted, expected = (e.maximise(e.statistics(x, hard)) for e, x in ((moved, values), (near, noise)))
    np.testing.assert_allclose(fitted.means - centres, expected.means, atol=4e-16 * abs(far) * 2)
    np.testing.assert_allclose(fitted.covariances, expected.covariances, rtol=1e-10)
    statistics = moved.statistics(values, hard)
    assert fitted.expected_log_likelihood(statistics) == pytest.approx(
        expected.expected_log_likelihood(near.statistics(noise, hard)), rel=1e-7
    )


def test_em_for_missing_entries_finds_the_maximum_likelihood() -> None:
    """One state, full covariance: the optimum of the observed likelihood by BFGS on a Cholesky factor."""
    rng = np.random.default_rng(4)
    values = rng.multivariate_normal([1.0, -2.0], [[2.0, 1.2], [1.2, 1.0]], 60)
    values[rng.random(values.shape) < 0.3] = np.nan
    emission = Gaussian("full").initialise(values, np.ones((60, 1)), rng)
    for _ in range(300):
        emission = emission.maximise(emission.statistics(values, np.ones((60, 1))))

    def loss(p: np.ndarray) -> float:
        factor = np.array([[np.exp(p[2]), 0.0], [p[3], np.exp(p[4])]])
        return -Gaussian("full", p[None, :2], (factor @ factor.T)[None]).log_likelihood(values).sum()

    best = minimize(loss, [1.0, -2.0, 0.0, 0.0, 0.0], options={"gtol": 1e-7})
    assert -emission.log_likelihood(values).sum() == pytest.approx(best.fun, rel=1e-9)
    np.testing.assert_allclose(emission.means[0], best.x[:2], atol=1e-4)


def _start(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    values = np.concatenate([rng.normal(c, s, (60, 2)) for c, s in ((0.0, 1.0), (2.5, 0.7), (-2.0, 1.5))])
    covariances = covariances_of(kind, rng, 3, 2)
    precisions = 1.0 / covariances if kind in ("diag", "spherical") else np.linalg.inv(covariances)
    return values, rng.normal(size=(3, 2)), covariances, precisions


@each_covariance
def test_em_with_independent_steps_is_scikit_learns_mixture(kind: str) -> None:
    values, means, covariances, precisions = _start(kind, np.random.default_rng(5))
    theirs = SklearnMixture(
        3, covariance_type=kind, reg_covar=0.0, tol=0.0, max_iter=12, weights_init=np.full(3, 1 / 3),
        means_init=means, precisions_init=precisions,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(values)
    emission, weights = Gaussian(kind, means, covariances, min_variance=0.0), np.full(3, 1 / 3)
    for _ in range(12):
        joint = emission.log_likelihood(values) + np.log(weights)
        posterior = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
        emission, weights = emission.maximise(emission.statistics(values, posterior)), posterior.mean(axis=0)
    np.testing.assert_allclose(weights, theirs.weights_, rtol=1e-7)
    np.testing.assert_allclose(emission.means, theirs.means_, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(emission.covariances, theirs.covariances_, rtol=1e-7, atol=1e-9)
    # The same mixture as the emission of one state.
    shape = covariances if kind == "tied" else covariances[None]
    mixed = GaussianMixture(3, kind, np.full((1, 3), 1 / 3), means[None], shape, min_variance=0.0)
    for _ in range(12):
        mixed = mixed.maximise(mixed.statistics(values, np.ones((len(values), 1))))
    np.testing.assert_allclose(mixed.weights[0], theirs.weights_, rtol=1e-7)
    np.testing.assert_allclose(mixed.means[0], theirs.means_, rtol=1e-7, atol=1e-7)
    assert mixed.log_likelihood(values).mean() == pytest.approx(theirs.score(values), rel=1e-9)


@each_covariance
def test_mixture_densities_and_shares_against_the_definition(kind: str) -> None:
    rng = np.random.default_rng(6)
    emission = mixture(kind, rng, 2, 3, 2)
    values = rng.normal(scale=3.0, size=(40, 2))
    values[rng.random(values.shape) < 0.2] = np.nan
    flat = explicit(emission.components, values).reshape(40, 2, 3) + np.log(emission.weights)
    expected = np.logaddexp.reduce(flat, axis=2)
    np.testing.assert_allclose(emission.log_likelihood(values), expected, rtol=1e-10, atol=1e-12)
    posterior = posterior_of(40, 2)
    shares = posterior[:, :, None] * np.exp(flat - expected[:, :, None])
    observed = ~np.isnan(values).all(axis=1)
    np.testing.assert_allclose(
        emission.statistics(values, posterior)["components"], shares[observed].sum(axis=0), rtol=1e-10
    )


def test_a_dead_component_stays_dead_and_harmless() -> None:
    emission = GaussianMixture(2, "diag", [[1.0, 0.0]], np.zeros((1, 2, 1)), np.ones((1, 2, 1)))
    values = np.array([[0.5], [-1.0], [2.0]])
    single = Gaussian("diag", [[0.0]], [[1.0]])
    np.testing.assert_allclose(emission.log_likelihood(values), single.log_likelihood(values), rtol=1e-14)
    statistics = emission.statistics(values, np.ones((3, 1)))
    assert statistics["entropy"] == 0.0
    fitted = emission.maximise(statistics)
    np.testing.assert_array_equal(fitted.weights, [[1.0, 0.0]])
    assert np.isfinite(fitted.expected_log_likelihood(statistics))


def test_first_components_split_the_rows_of_their_state() -> None:
    rng = np.random.default_rng(7)
    values = np.concatenate([rng.normal(c, 0.1, (50, 1)) for c in (0.0, 5.0, 20.0, 30.0)])
    hard = np.repeat(np.eye(2), 100, axis=0)
    first = GaussianMixture(2).initialise(values, hard, rng)
    np.testing.assert_allclose(np.sort(first.means[..., 0], axis=1), [[0, 5], [20, 30]], atol=0.1)
    np.testing.assert_allclose(first.weights, 0.5, atol=0.02)
    few = GaussianMixture(3).initialise(
        np.array([[1.0], [1.0], [4.0]]), np.array([[1, 0], [1, 0], [0, 1.0]]), rng
    )
    assert np.isfinite(few.log_likelihood(values)).all()


def test_the_floor_is_the_constrained_maximum() -> None:
    """Two rows in three dimensions: eigenvalues at the floor, and no allowed neighbour is better."""
    rng = np.random.default_rng(8)
    values, posterior = rng.normal(size=(2, 3)), np.ones((2, 1))
    for kind in ("full", "tied"):
        start = Gaussian(kind, np.zeros((1, 3)), covariances_of(kind, rng, 1, 3), min_variance=0.1)
        statistics = start.statistics(values, posterior)
        best = start.maximise(statistics)
        eigenvalues, vectors = np.linalg.eigh(matrix(best, 0))
        largest = np.linalg.eigvalsh(np.cov(values.T, ddof=0))[-1]
        np.testing.assert_allclose(eigenvalues, [0.1, 0.1, largest], rtol=1e-9)
        top = best.expected_log_likelihood(statistics)
        for _ in range(50):
            turned = np.linalg.qr(vectors + 0.1 * rng.normal(size=(3, 3)))[0]
            raised = np.maximum(eigenvalues * np.exp(0.2 * rng.normal(size=3)), 0.1)
            other = (turned * raised) @ turned.T
            other = Gaussian(kind, best.means, other if kind == "tied" else other[None])
            assert other.expected_log_likelihood(statistics) <= top + 1e-12


@each_covariance
def test_a_singular_covariance_is_an_error_or_the_floor(kind: str) -> None:
    values, posterior = np.full((5, 2), 3.0), np.ones((5, 1))
    fitted = Gaussian(kind, min_variance=1e-4).initialise(values, posterior, np.random.default_rng(0))
    np.testing.assert_allclose(matrix(fitted, 0), 1e-4 * np.eye(2), rtol=1e-12)
    covariances = covariances_of(kind, np.random.default_rng(0), 1, 2)
    bare = Gaussian(kind, np.zeros((1, 2)), covariances, min_variance=0.0)
    with pytest.raises(NumericalError, match="state 0 has become singular; raise min_variance"):
        bare.maximise(bare.statistics(values, posterior))


def test_given_parts_are_kept_and_the_rest_is_fitted() -> None:
    rng = np.random.default_rng(9)
    values, posterior = rng.normal(size=(50, 2)), posterior_of(50, 2)
    first = Gaussian("full", means=[[0.0, 1.0], [2.0, 3.0]]).initialise(values, posterior, rng)
    np.testing.assert_array_equal(first.means, [[0.0, 1.0], [2.0, 3.0]])
    assert first.covariances.shape == (2, 2, 2)
    tied = Gaussian("tied", covariances=np.eye(2)).initialise(values, posterior, rng)
    np.testing.assert_array_equal(tied.covariances, np.eye(2))
    assert tied.n_states == 2


def test_an_empty_column_and_an_empty_state_are_survived() -> None:
    rng = np.random.default_rng(10)
    values = rng.normal(size=(20, 2))
    values[:, 1] = np.nan
    posterior = np.repeat([[1.0, 0.0]], 20, axis=0)
    for kind in COVARIANCES:
        first = Gaussian(kind).initialise(values, posterior, rng)
        assert np.isfinite(first.log_likelihood(values)).all()
        np.testing.assert_allclose(first.means[:, 0], values[:, 0].mean(), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Gaussian("round"), "covariance is 'round'; give 'diag', "),
        (lambda: Gaussian(min_variance=-1.0), "min_variance"),
        (lambda: Gaussian("diag", np.zeros((2, 3)), np.ones((2, 2))), r"need shape \(2, 3\)"),
        (lambda: Gaussian("diag", np.zeros((2, 1)), [[1.0], [0.0]]), "one of state 1 is 0"),
        (lambda: Gaussian("full", np.zeros((1, 2)), [[[1.0, 2.0], [2.0, 1.0]]]), "covariance 0 is not"),
        (lambda: Gaussian("tied", np.zeros((1, 2)), [[1.0, 0.5], [0.0, 1.0]]), "not symmetric"),
        (lambda: Gaussian("diag", [[np.inf]], [[1.0]]), "means has entries that are not finite"),
        (lambda: Gaussian("diag", [[0.0]], [[1.0]]).check([[1.0], [np.inf]]), "row 1: column 0 of X is inf"),
        (lambda: Gaussian("diag", [[0.0]], [[1.0]]).check(np.zeros((2, 2))), "2 columns"),
        (lambda: Gaussian().check(np.zeros((2, 2, 2))), "must have shape"),
        (lambda: GaussianMixture(0), "n_components"),
        (lambda: GaussianMixture(2, "round"), "covariance is 'round'; give 'diag', "),
        (lambda: GaussianMixture(2, weights=[[0.5, 0.5]]), "together"),
        (lambda: mixture("diag", np.random.default_rng(0)).check([np.inf]), "columns"),
        (lambda: GaussianMixture(2, "diag", [[1.0]], np.zeros((1, 1, 1)), np.ones((1, 1, 1))), "begin with"),
        (
            lambda: GaussianMixture(2, "diag", [[1.0, 1.0]], np.zeros((1, 2, 1)), np.ones((1, 2, 1))),
            "add up to 1",
        ),
        (lambda: Product({}), "exactly one part"),
        (lambda: Product({0: Poisson(), 2: Poisson()}), "exactly one part"),
        (lambda: Product({0: Poisson(), (0, 1): Gaussian()}), "exactly one part"),
        (lambda: Product({-1: Poisson()}), "from 0 on"),
        (lambda: Product({0: "words"}), "must have an emission"),
        (lambda: Product({0: Poisson([1.0]), 1: Poisson([1.0, 2.0])}), "different numbers of states"),
        (
            lambda: Product({0: Poisson(), 1: Categorical(2)}).check([[1, 0], [3, 7]]),
            r"row 1: symbol 7.* \(columns \(1,\) of X\)",
        ),
    ],
)
def test_bad_input_is_named(make: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        make()


def test_masked_entries_are_missing() -> None:
    emission = Gaussian("full", np.zeros((1, 2)), definite(np.random.default_rng(0), 1, 2))
    values = np.ma.masked_array([[1.0, 2.0]], mask=[[False, True]])
    np.testing.assert_allclose(
        emission.log_likelihood(emission.check(values)), explicit(emission, np.array([[1.0, np.nan]]))
    )


def test_a_product_is_the_sum_of_its_parts() -> None:
    rng = np.random.default_rng(11)
    parts = {2: Categorical(4, rng.dirichlet(np.ones(4), 3)), range(2): gaussian("full", rng, 3, 2)}
    emission = Product(parts)
    values = emission.check(emission.sample(rng.integers(0, 3, 30), rng))
    values[3, 2] = -1
    expected = parts[2].log_likelihood(values[:, 2]) + parts[range(2)].log_likelihood(values[:, :2])
    np.testing.assert_allclose(emission.log_likelihood(values), expected, rtol=1e-13)
    assert emission.n_states == 3
    assert emission.points(values).shape == (30, 2)

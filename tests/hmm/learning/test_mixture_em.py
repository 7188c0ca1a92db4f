"""EM for mixtures: scikit-learn's updates step by step, certificates, weights, missing values, priors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as SklearnMixture

from certificates import check_certificates
from trellis.core.errors import DataError, InfeasibleError
from trellis.hmm import fit_mixture
from trellis.hmm.emissions import Categorical, Gaussian, Poisson
from trellis.hmm.learning.mixture_em import MixtureEM
from trellis.training import minimise_dc

CENTRES = np.array([[0.0, 0.0], [4.0, 1.0], [-1.0, 3.0]])


def clouds(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows near one of three centres, and soft first responsibilities that are only half right."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    X = CENTRES[labels] + rng.normal(size=(n, 2)) @ np.array([[1.0, 0.3], [0.0, 0.7]])
    return X, 0.5 * np.eye(3)[labels] + 0.5 * rng.dirichlet(np.ones(3), n)


def precisions(kind: str, covariances: np.ndarray) -> np.ndarray:
    return np.linalg.inv(covariances) if kind in ("full", "tied") else 1 / covariances


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_the_updates_are_those_of_scikit_learn(kind: str) -> None:
    X, start = clouds(0, 300)
    emission = Gaussian(kind, min_variance=0.0)
    first = fit_mixture(X, emission, start, max_iter=0).point
    for n_iter in (1, 2, 5, 12):
        ours = fit_mixture(X, emission, start, max_iter=n_iter, tol=0.0)
        theirs = SklearnMixture(
            3, covariance_type=kind, reg_covar=0.0, max_iter=n_iter, tol=0.0,
            weights_init=np.exp(first.log_weights), means_init=first.components.means,
            precisions_init=precisions(kind, first.components.covariances),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs.fit(X)
        found = ours.point
        np.testing.assert_allclose(np.exp(found.log_weights), theirs.weights_, rtol=1e-8)
        np.testing.assert_allclose(found.components.means, theirs.means_, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found.components.covariances, theirs.covariances_, rtol=1e-7, atol=1e-9)
        assert ours.objective == pytest.approx(-len(X) * theirs.score(X), rel=1e-10)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["full", "tied", "diag", "spherical"]),
    missing=st.sampled_from([0.0, 0.2]),
    pseudocount=st.sampled_from([0.0, 2.0]),
    prior_weight=st.sampled_from([0.0, 3.0]),
)
def test_neither_certificate_rises(
    seed: int, kind: str, missing: float, pseudocount: float, prior_weight: float
) -> None:
    X, start = clouds(seed, 60)
    rng = np.random.default_rng(seed)
    X[rng.random(X.shape) < missing] = np.nan
    weight = rng.uniform(0, 3, size=60) * (rng.random(60) < 0.8)
    solution = fit_mixture(
        X, Gaussian(kind, prior_weight=prior_weight), start, sample_weight=weight, pseudocount=pseudocount,
        max_iter=30, tol=0.0,
    )  # fmt: skip
    check_certificates(solution)


def test_the_certificates_are_the_likelihood_and_its_lower_bound() -> None:
    """primal and dual from their definitions, with scipy's densities written out."""
    X, start = clouds(2, 80)
    points = [fit_mixture(X, Gaussian("diag"), start, max_iter=t, tol=0.0).point for t in range(4)]
    history = fit_mixture(X, Gaussian("diag"), start, max_iter=3, tol=0.0).history

    def joint(u: object) -> np.ndarray:
        means, variances = u.components.means, u.components.covariances
        z = (X[:, None] - means) ** 2 / variances + np.log(2 * np.pi * variances)
        return u.log_weights - 0.5 * z.sum(axis=2)

    for t in range(3):
        log_joint = joint(points[t])
        assert history["primal"][t] == pytest.approx(-logsumexp(log_joint, axis=1).sum(), rel=1e-12)
        log_q = log_joint - logsumexp(log_joint, axis=1, keepdims=True)
        bound = (np.exp(log_q) * (joint(points[t + 1]) - log_q)).sum()
        assert history["dual"][t] == pytest.approx(-bound, rel=1e-12)


def test_a_mixture_of_poissons_recovers_its_rates() -> None:
    rng = np.random.default_rng(0)
    labels = rng.random(4_000) < 0.3
    X = rng.poisson(np.where(labels, 12.0, 3.0))
    start = np.column_stack([X < 6, X >= 6]).astype(float)
    solution = fit_mixture(X, Poisson(), start, tol=1e-9)
    check_certificates(solution)
    assert solution.status.converged
    rates = np.ravel(solution.point.components.rates)
    np.testing.assert_allclose(rates, [3.0, 12.0], rtol=0.05)
    np.testing.assert_allclose(np.exp(solution.point.log_weights), [0.7, 0.3], atol=0.03)
    density = X[:, None] * np.log(rates) - rates - gammaln(X + 1.0)[:, None] + solution.point.log_weights
    assert solution.objective == pytest.approx(-logsumexp(density, axis=1).sum(), rel=1e-10)


def test_weights_are_repetitions() -> None:
    X, start = clouds(3, 60)
    times = np.random.default_rng(0).integers(0, 4, size=60)
    weighted = fit_mixture(X, Gaussian("full"), start, sample_weight=times, max_iter=10, tol=0.0)
    repeated = fit_mixture(
        np.repeat(X, times, axis=0), Gaussian("full"), np.repeat(start, times, axis=0), max_iter=10, tol=0.0
    )
    np.testing.assert_allclose(weighted.history["primal"], repeated.history["primal"], rtol=1e-10)
    np.testing.assert_allclose(weighted.point.components.means, repeated.point.components.means, rtol=1e-8)


def test_an_empty_component_is_no_obstacle() -> None:
    X, start = clouds(4, 50)
    start[:, 2] = 0.0
    solution = fit_mixture(X, Gaussian("diag"), start, max_iter=10, tol=0.0)
    check_certificates(solution)
    assert solution.point.log_weights[2] == -np.inf


def test_what_cannot_be_fitted_is_said() -> None:
    X, start = clouds(5, 20)
    for options, words in [
        ({"responsibilities": start[:5]}, "responsibilities"),
        ({"responsibilities": -start}, "responsibilities"),
        ({"responsibilities": start, "sample_weight": np.zeros(20)}, "sample_weight"),
        ({"responsibilities": start, "pseudocount": -1.0}, "pseudocount"),
    ]:
        with pytest.raises(DataError, match=words):
            fit_mixture(X, Gaussian(), **options)
    table = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    problem = MixtureEM(np.array([0, 1, 2, 0]), np.ones(4))
    first = problem.start(Categorical(3, probabilities=table), np.full((4, 2), 0.5), np.random.default_rng(0))
    with pytest.raises(InfeasibleError, match="row 2 is impossible under every component"):
        minimise_dc(problem, first, max_iter=5, tol=0.0)

"""The weighted regressions of the M-step: against scikit-learn, SciPy, differences and perturbation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.linear_model import LogisticRegression, Ridge

from trellis.core.errors import DataError
from trellis.hmm.input_output import GaussianRegression, SoftmaxEmission
from trellis.hmm.input_output import softmax_regression as softmax
from trellis.hmm.input_output.conditional_emission import WeightedData
from trellis.hmm.input_output.softmax_regression import Terms, _penalised, _Regression, fit_softmax


def features_of(n: int, width: int, seed: int) -> np.ndarray:
    """(P, N), the last row 1."""
    rng = np.random.default_rng(seed)
    return np.vstack([rng.normal(size=(width, n)) + 0.5, np.ones((1, n))])


def evaluated(x: np.ndarray, y: np.ndarray, l2: float, w: np.ndarray, *, second_order: bool = True) -> Any:
    """Value, gradient and Hessian of the negative of the objective."""
    shape = len(y), len(x)
    terms = softmax.regression_sums(x, lambda a, b: y[:, a:b], shape, Terms(w, second_order))
    return _penalised(terms, w, shape, l2)


def soft_targets(n: int, classes: int, seed: int) -> np.ndarray:
    """(C, N): weights that do not add up to 1; some steps have none."""
    rng = np.random.default_rng(seed)
    y = rng.gamma(0.5, size=(classes, n))
    y[:, rng.random(n) < 0.2] = 0.0
    return y


@pytest.mark.parametrize("l2", [1e-3, 2.0])
def test_softmax_is_weighted_logistic_regression(l2: float) -> None:
    x, y = features_of(80, 3, 0), soft_targets(80, 4, 1)
    found = fit_softmax(x, lambda a, b: y[:, a:b], np.zeros((4, 4)), l2)
    peer = LogisticRegression(C=1 / l2, tol=1e-12, max_iter=100_000).fit(
        np.repeat(x[:3].T, 4, axis=0), np.tile(np.arange(4), 80), sample_weight=y.T.ravel()
    )
    np.testing.assert_allclose(found[:, :3], peer.coef_, atol=2e-5)
    centred = found[:, 3] - found[:, 3].mean()
    np.testing.assert_allclose(centred, peer.intercept_ - peer.intercept_.mean(), atol=2e-5)


def test_softmax_gradient_and_hessian_by_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "_BLOCK", 64)  # several blocks
    x, y = features_of(100, 2, 2), soft_targets(100, 3, 3)
    w = np.random.default_rng(4).normal(size=9)
    value, gradient, hessian = evaluated(x, y, 0.7, w)
    problem = _Regression(
        lambda asked: softmax.regression_sums(x, lambda a, b: y[:, a:b], (3, 3), asked), 0.7, (3, 3)
    )
    assert problem.value_and_gradient(w)[0] == pytest.approx(value, rel=1e-12)
    for q, e in enumerate(1e-5 * np.eye(9)):
        up, down = evaluated(x, y, 0.7, w + e), evaluated(x, y, 0.7, w - e)
        assert gradient[q] == pytest.approx((up[0] - down[0]) / 2e-5, abs=1e-6)
        np.testing.assert_allclose(hessian[q], (up[1] - down[1]) / 2e-5, atol=1e-6)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 40),
    width=st.integers(0, 3),
    classes=st.integers(1, 5),
    l2=st.sampled_from([0.0, 1e-3, 1.0]),
    kind=st.sampled_from(["soft", "hard", "collinear", "large"]),
)
def test_softmax_ends_where_nothing_is_left_to_gain(
    seed: int, n: int, width: int, classes: int, l2: float, kind: str
) -> None:
    """Also for separable classes without a penalty, whose optimum is at infinity, and inputs that repeat."""
    x, y = features_of(n, width, seed), soft_targets(n, classes, seed + 1)
    if kind == "hard":
        y = (y == y.max(axis=0)).astype(float)
    if kind == "collinear" and width > 1:
        x[0] = 1.0
    if kind == "large":
        x[:width] *= 1e3
    start = np.random.default_rng(seed).normal(size=(classes, width + 1))
    found = fit_softmax(x, lambda a, b: y[:, a:b], start, l2)
    assert np.isfinite(found).all()
    value, gradient, hessian = evaluated(x, y, l2, found.ravel())
    assert value <= evaluated(x, y, l2, start.ravel())[0]
    size = np.sqrt(np.maximum(np.diagonal(hessian), 0.0))  # the scale of a slope that matters
    assert np.abs(gradient).max() <= 1e-5 * (1.0 + size.max())


def test_many_weights_take_the_quasi_newton_path(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = features_of(200, 3, 5), soft_targets(200, 4, 6)
    exact = fit_softmax(x, lambda a, b: y[:, a:b], np.zeros((4, 4)), 0.1)
    monkeypatch.setattr(softmax, "NEWTON_LIMIT", 0)
    near = fit_softmax(x, lambda a, b: y[:, a:b], np.zeros((4, 4)), 0.1)
    np.testing.assert_allclose(near - near.mean(axis=0), exact - exact.mean(axis=0), atol=1e-5)


def regression_data(covariance: str, seed: int, missing: float = 0.0) -> WeightedData[GaussianRegression]:
    rng = np.random.default_rng(seed)
    features = features_of(60, 2, seed).T
    emission = GaussianRegression(
        covariance,
        l2=0.3,
        weights=rng.normal(size=(2, 3, 3)),
        covariances=np.full((2, 3), 0.5)
        if covariance == "diag"
        else np.tile(0.5 * np.eye(3) + 0.2, (2, 1, 1)),
    )
    states = rng.integers(2, size=60)
    values = emission.sample(states, features, rng)
    values[rng.random(values.shape) < missing] = np.nan
    if missing:
        values[3] = np.nan
    posterior = rng.dirichlet([1.0, 1.0], size=60)
    return WeightedData(values, features, posterior, emission)


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_gaussian_slopes_are_weighted_ridge_regression(covariance: str) -> None:
    given_ = regression_data(covariance, 0)
    found = given_.at.maximise(given_)
    for k in range(2):
        q = given_.posterior[:, k]
        peer = Ridge(alpha=0.3, solver="cholesky").fit(given_.features[:, :2], given_.values, sample_weight=q)
        np.testing.assert_allclose(found.weights[k, :, :2], peer.coef_, atol=1e-9)
        np.testing.assert_allclose(found.weights[k, :, 2], peer.intercept_, atol=1e-9)
        away = given_.values - given_.features @ found.weights[k].T
        scatter = ((q[:, None] * away).T @ away + 0.3 * peer.coef_ @ peer.coef_.T) / q.sum()
        np.testing.assert_allclose(
            found.covariances[k], scatter if covariance == "full" else np.diagonal(scatter), atol=1e-9
        )


@pytest.mark.parametrize("covariance", ["diag", "full"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_gaussian_m_step_is_a_maximum(covariance: str, missing: float) -> None:
    given_ = regression_data(covariance, 1, missing)
    found = given_.at.maximise(given_)

    def objective(emission: GaussianRegression) -> float:
        return emission.expected_log_likelihood(given_) + emission.log_prior()

    top, rng = objective(found), np.random.default_rng(0)
    assert top > objective(given_.at)
    for size in (1e-4, 1e-2):
        for _ in range(20):
            table = found.weights + size * rng.normal(size=found.weights.shape)
            noise = size * rng.normal(size=found.covariances.shape)
            spread = found.covariances + (noise if covariance == "diag" else noise + noise.transpose(0, 2, 1))
            assert objective(replace(found, weights=table, covariances=spread)) < top
    assert found.expected_log_likelihood(given_) == pytest.approx(
        replace(found).expected_log_likelihood(given_), rel=1e-14
    )


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_gaussian_likelihood_marginalises_what_is_missing(covariance: str) -> None:
    given_ = regression_data(covariance, 2, 0.4)
    found = given_.at.log_likelihood(given_.values, given_.features)
    for t in range(60):
        seen = ~np.isnan(given_.values[t])
        for k in range(2):
            mean = given_.at.weights[k] @ given_.features[t]
            matrix = given_.at.covariances[k] if covariance == "full" else np.diag(given_.at.covariances[k])
            expected = (
                multivariate_normal.logpdf(given_.values[t][seen], mean[seen], matrix[np.ix_(seen, seen)])
                if seen.any()
                else 0.0
            )
            assert found[t, k] == pytest.approx(expected, abs=1e-10)


def test_filled_in_entries_lower_bound_the_likelihood() -> None:
    """Expected complete log density plus the entropy of the missing entries is the log-likelihood at ``at``;
    the same bound holds below it anywhere else.
    """
    given_ = regression_data("full", 3, 0.4)
    gone = np.isnan(given_.values)
    entropy = 0.0
    for t in np.flatnonzero(gone.any(axis=1) & ~gone.all(axis=1)):
        for k in range(2):
            matrix, (m, o) = given_.at.covariances[k], (gone[t], ~gone[t])
            rest = matrix[np.ix_(m, m)] - matrix[np.ix_(m, o)] @ np.linalg.solve(
                matrix[np.ix_(o, o)], matrix[np.ix_(o, m)]
            )
            entropy += 0.5 * given_.posterior[t, k] * np.linalg.slogdet(2 * np.pi * np.e * rest)[1]

    def likelihood(emission: GaussianRegression) -> float:
        return float(np.vdot(given_.posterior, emission.log_likelihood(given_.values, given_.features)))

    assert given_.at.expected_log_likelihood(given_) + entropy == pytest.approx(
        likelihood(given_.at), rel=1e-10
    )
    better = given_.at.maximise(given_)
    assert better.expected_log_likelihood(given_) + entropy <= likelihood(better)


def test_a_state_without_weight_keeps_what_it_has() -> None:
    given_ = regression_data("full", 4)
    given_.posterior[:, 1] = 0.0
    found = given_.at.maximise(given_)
    np.testing.assert_array_equal(found.weights[1], given_.at.weights[1])
    np.testing.assert_array_equal(found.covariances[1], given_.at.covariances[1])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SoftmaxEmission(l2=-1.0), "l2"),
        (lambda: SoftmaxEmission(weights=np.zeros((2, 3))), "weights must have 3 axes"),
        (lambda: GaussianRegression("tied"), "diag"),
        (lambda: GaussianRegression(min_variance=np.nan), "min_variance"),
        (lambda: GaussianRegression(weights=np.zeros((1, 1, 1))), "both or neither"),
        (lambda: GaussianRegression(weights=np.zeros((1, 1)), covariances=np.ones((1, 1))), "3 axes"),
        (lambda: GaussianRegression(weights=np.zeros((1, 1, 1)), covariances=-np.ones((1, 1))), "positive"),
        (lambda: SoftmaxEmission(3).check(np.array([0, 3])), "row 1"),
        (lambda: SoftmaxEmission(3).check(np.array([0.5])), "row 0"),
        (lambda: SoftmaxEmission(3).check(np.array(["a"])), "whole numbers"),
        (lambda: GaussianRegression().check(np.array([[np.inf]])), "is inf"),
    ],
)
def test_what_it_cannot_use_is_said(make: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        make()


def test_missing_symbols() -> None:
    checked = SoftmaxEmission(3).check(np.array([0.0, np.nan, 2.0, -1.0]))
    np.testing.assert_array_equal(checked, [0, -1, 2, -1])

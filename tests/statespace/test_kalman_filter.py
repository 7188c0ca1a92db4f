"""The filter and the smoother against the whole joint Gaussian, exact arithmetic, statsmodels."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_state_spaces import Dense, random_parameters
from trellis import LinearGaussian
from trellis.core.errors import NumericalError
from trellis.statespace import kalman_filter as kalman_module

CLOSE: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-9}


def drawn(rng: np.random.Generator, shape: tuple[int, ...], missing: float) -> np.ndarray:
    x = rng.normal(size=shape) * 2
    x[rng.random(shape) < missing] = np.nan
    return x


@settings(max_examples=40)
@given(
    n=st.integers(1, 5),
    m=st.integers(1, 4),
    p=st.integers(0, 2),
    lengths=st.lists(st.integers(0, 7), min_size=1, max_size=4),
    varying=st.booleans(),
    missing=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    singular=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_everything_against_the_joint_gaussian(
    n: int, m: int, p: int, lengths: list[int], varying: bool, missing: float, singular: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ahead = 2
    longest = max(lengths) + ahead
    rank = n // 2 if singular else None
    model = LinearGaussian(n, **random_parameters(rng, n, m, p, longest if varying else None, rank))
    X = [drawn(rng, (length, m), missing) for length in lengths]
    U = [rng.normal(size=(length, p)) for length in lengths]
    future = rng.normal(size=(ahead, p))
    asked = {"controls": U if p else None}
    filtered, smoothed = model.filter(X, **asked), model.smooth(X, **asked, lagged=True)
    log_likelihood = model.log_likelihood(X, **asked)
    filled, spreads = model.impute(X, **asked, return_covariances=True)
    forecast = model.forecast(X, ahead, **asked, future_controls=future if p else None)
    for i, (x, u, T) in enumerate(zip(X, U, lengths, strict=True)):
        longer = np.concatenate([x, np.full((ahead, m), np.nan)])
        dense = Dense(model, T + ahead, np.concatenate([u, future]))
        assert log_likelihood[i] == pytest.approx(dense.log_density(longer), rel=1e-9, abs=1e-8)
        means, covs = dense.states(longer)
        np.testing.assert_allclose(smoothed.means[i], means[:T], **CLOSE)
        for t in range(T):
            np.testing.assert_allclose(smoothed.covariances[i][t], covs[t, :, t], **CLOSE)
            if t + 1 < T:
                np.testing.assert_allclose(smoothed.lagged[i][t], covs[t, :, t + 1], **CLOSE)
            seen_means, seen_covs = dense.states(longer, t + 1)
            np.testing.assert_allclose(filtered.means[i][t], seen_means[t], **CLOSE)
            np.testing.assert_allclose(filtered.covariances[i][t], seen_covs[t, :, t], **CLOSE)
        x_means, x_covs = dense.observations(longer)
        np.testing.assert_allclose(filled[i], np.where(np.isnan(x), x_means[:T], x), **CLOSE)
        for t in range(T):
            np.testing.assert_allclose(spreads[i][t], x_covs[t, :, t], **CLOSE)
        for h in range(ahead):
            np.testing.assert_allclose(forecast.states[i, h], means[T + h], **CLOSE)
            np.testing.assert_allclose(forecast.state_covariances[i, h], covs[T + h, :, T + h], **CLOSE)
            np.testing.assert_allclose(forecast.observations[i, h], x_means[T + h], **CLOSE)
            np.testing.assert_allclose(
                forecast.observation_covariances[i, h], x_covs[T + h, :, T + h], **CLOSE
            )


def statsmodels_model(model: LinearGaussian, x: np.ndarray) -> Any:
    reference = pytest.importorskip("statsmodels.tsa.statespace.mlemodel")
    n = model.n_states
    other = reference.MLEModel(x, k_states=n, k_posdef=n)
    other["transition"], other["design"] = model.transition, model.observation
    other["selection"], other["state_cov"] = np.eye(n), model.transition_noise
    other["obs_cov"] = model.observation_noise
    other["obs_intercept"] = model.observation_offset
    other["state_intercept"] = model.transition_offset
    other.ssm.initialize_known(np.asarray(model.initial_mean), np.asarray(model.initial_covariance))
    return other


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_against_statsmodels(missing: float) -> None:
    rng = np.random.default_rng(3)
    model = LinearGaussian(4, **random_parameters(rng, 4, 2))
    x, _ = model.sample(400, random_state=1)
    x[rng.random(x.shape) < missing] = np.nan
    x[100:110] = np.nan if missing else x[100:110]
    result = statsmodels_model(model, x).ssm.smooth()
    assert model.log_likelihood(x)[0] == pytest.approx(result.llf_obs.sum(), rel=1e-10)
    filtered, smoothed, forecast = model.filter(x), model.smooth(x), model.forecast(x, 7)
    np.testing.assert_allclose(filtered.means, result.filtered_state.T, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(filtered.covariances, result.filtered_state_cov.transpose(2, 0, 1), atol=1e-9)
    np.testing.assert_allclose(smoothed.means, result.smoothed_state.T, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(smoothed.covariances, result.smoothed_state_cov.transpose(2, 0, 1), atol=1e-8)
    theirs = statsmodels_model(model, x).smooth([]).get_forecast(7)
    np.testing.assert_allclose(forecast.observations, theirs.predicted_mean, rtol=1e-8)
    np.testing.assert_allclose(forecast.observation_covariances, theirs.var_pred_mean, rtol=1e-8)


# -- the steady state ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 4, 12])
@pytest.mark.parametrize("pattern", ["complete", "gaps", "channel", "ragged"])
def test_the_steady_state_changes_nothing(n: int, pattern: str) -> None:
    """The shortcut needs constant matrices; the same matrices written once for each step do not have it."""
    rng = np.random.default_rng(n)
    m, T = 2, 600
    parameters = random_parameters(rng, n, m)
    fast = LinearGaussian(n, **parameters)
    each = {
        name: np.repeat(np.asarray(value)[None], T, axis=0) if "initial" not in name else value
        for name, value in parameters.items()
    }
    slow = LinearGaussian(n, **each)
    x, _ = fast.sample(T, random_state=2)
    if pattern == "gaps":
        x[200:204], x[400, 0], x[590:] = np.nan, np.nan, np.nan
    if pattern == "channel":
        x[150:, 1] = np.nan
    X = [x[:50], x, x[:300], x[100:]] if pattern == "ragged" else [x]
    np.testing.assert_allclose(fast.log_likelihood(X), slow.log_likelihood(X), rtol=1e-12)
    ours, theirs = fast.smooth(X, lagged=True), slow.smooth(X, lagged=True)
    for a, b in zip([*ours, *fast.filter(X)[:2]], [*theirs, *slow.filter(X)[:2]], strict=True):
        for one, other in zip(a, b, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("noise", [1.0, 1e-4, 1e-8])
def test_a_slow_steady_state_is_not_taken_too_early(noise: float) -> None:
    """A drifting trend whose covariance settles only after thousands of steps."""
    parameters: dict[str, Any] = {
        "transition": np.array([[1.0, 0.1], [0.0, 1.0]]),
        "observation": np.array([[1.0, 0.0]]),
        "transition_noise": noise * np.eye(2),
        "observation_noise": np.eye(1),
    }
    T, first = 10_000, {"initial_covariance": 1e4 * np.eye(2)}
    fast = LinearGaussian(2, **parameters, **first)
    slow = LinearGaussian(2, **{name: np.repeat(a[None], T, 0) for name, a in parameters.items()}, **first)
    x, _ = fast.sample(T, random_state=0)
    ours, theirs = fast.smooth(x), slow.smooth(x)
    deviation = np.sqrt(np.einsum("tii->ti", theirs.covariances))
    gap = np.abs(ours.covariances - theirs.covariances)
    assert (gap / (deviation[:, :, None] * deviation[:, None, :])).max() < 1e-10
    assert (np.abs(ours.means - theirs.means) / deviation).max() < 1e-8


def test_the_steady_state_is_reached() -> None:
    rng = np.random.default_rng(0)
    model = LinearGaussian(4, **random_parameters(rng, 4, 2))
    stream = model.streaming_filter()
    x, _ = model.sample(500, random_state=0)
    for row in x[:300]:
        stream.update(row)
    assert stream.steady
    stream.update([np.nan, 1.0])
    assert not stream.steady
    for row in x[300:]:
        stream.update(row)
    assert stream.steady


# -- numbers far apart -----------------------------------------------------------------------------------


def exact_filter(model: LinearGaussian, x: np.ndarray) -> tuple[list[list[Fraction]], list[Any]]:
    """The textbook filter for scalar observations, in rational arithmetic: no rounding at all."""

    def exact(a: Any) -> Any:
        return [[Fraction(float(v)) for v in row] for row in np.atleast_2d(a)]

    A, Q, P, R = (
        exact(a)
        for a in (
            model.transition,
            model.transition_noise,
            model.initial_covariance,
            model.observation_noise,
        )
    )
    c, n = exact(model.observation)[0], model.n_states
    m = [Fraction(0)] * n
    means, covariances = [], []
    for t, value in enumerate(x):
        if t:
            m = [sum(A[i][k] * m[k] for k in range(n)) for i in range(n)]
            AP = [[sum(A[i][k] * P[k][j] for k in range(n)) for j in range(n)] for i in range(n)]
            P = [[sum(AP[i][k] * A[j][k] for k in range(n)) + Q[i][j] for j in range(n)] for i in range(n)]
        Pc = [sum(P[i][k] * c[k] for k in range(n)) for i in range(n)]
        F = sum(c[i] * Pc[i] for i in range(n)) + R[0][0]
        v = Fraction(float(value[0])) - sum(c[i] * m[i] for i in range(n))
        m = [m[i] + Pc[i] * v / F for i in range(n)]
        P = [[P[i][j] - Pc[i] * Pc[j] / F for j in range(n)] for i in range(n)]
        means.append(m)
        covariances.append(P)
    return means, covariances


def joseph_filter(model: LinearGaussian, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The usual remedy for lost positivity: P = (I - K C) P (I - K C)' + K R K', in double precision."""
    A, C, Q, R = (
        np.asarray(a)
        for a in (model.transition, model.observation, model.transition_noise, model.observation_noise)
    )
    m, P = np.zeros(model.n_states), np.asarray(model.initial_covariance)
    means, covariances = [], []
    for t, value in enumerate(x):
        if t:
            m, P = A @ m, A @ P @ A.T + Q
        K = P @ C.T / (C @ P @ C.T + R)
        kept = np.eye(len(m)) - K @ C
        m, P = m + K @ (value - C @ m), kept @ P @ kept.T + K @ R @ K.T
        means.append(m)
        covariances.append(P)
    return np.array(means), np.array(covariances)


def test_diffuse_starts_and_tiny_noises_keep_their_digits() -> None:
    """P0 = 1e8, R = 1e-12, Q of rank one: twenty digits apart. Joseph's form loses its result here."""
    rng = np.random.default_rng(5)
    model = LinearGaussian(
        3,
        transition=[[1.0, 0.1, 0.0], [0.0, 1.0, 0.1], [0.0, 0.0, 0.9]],
        observation=[[1.0, 0.5, 0.25]],
        transition_noise=1e-8 * np.outer([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]),
        observation_noise=[[1e-12]],
        initial_covariance=1e8 * np.eye(3),
    )
    x = rng.normal(size=(12, 1))
    means, covariances = exact_filter(model, x)
    ours = model.filter(x)
    joseph = joseph_filter(model, x)

    def worst(found: np.ndarray, exact: Any) -> float:
        truth = np.array(exact, dtype=float)[4:]  # known well from the fourth observation on
        return float(np.abs((found[4:] - truth) / np.abs(truth).max(axis=0)).max())

    assert worst(ours.means, means) < 1e-6
    assert worst(ours.covariances, covariances) < 1e-6
    assert worst(joseph[1], covariances) > 1e-2
    smoothed = model.smooth(x)
    assert np.isfinite(smoothed.means).all()
    assert (np.linalg.eigvalsh(smoothed.covariances) > -1e-9).all()


def test_known_states_and_no_noise_at_all() -> None:
    """Q = 0 and P0 = 0: the states are certain, and everything is regression on a known curve."""
    model = LinearGaussian(
        2,
        transition=[[0.5, 0.2], [0.0, 0.9]],
        observation=np.eye(2),
        transition_noise=np.zeros((2, 2)),
        observation_noise=np.eye(2),
        initial_mean=[1.0, 2.0],
        initial_covariance=np.zeros((2, 2)),
    )
    x = np.random.default_rng(0).normal(size=(50, 2))
    curve = np.array([np.linalg.matrix_power(model.transition, t) @ model.initial_mean for t in range(50)])
    for laws in (model.filter(x), model.smooth(x)):
        np.testing.assert_allclose(laws.means, curve, atol=1e-14)
        np.testing.assert_array_equal(laws.covariances, 0.0)
    expected = -0.5 * ((x - curve) ** 2).sum() - 50 * np.log(2 * np.pi)
    assert model.log_likelihood(x)[0] == pytest.approx(expected)


def test_noise_free_observations() -> None:
    """R = 0 is fine as long as the state moves; a value that is certain beforehand has no density."""
    shared: dict[str, Any] = {"observation": [[1.0]], "observation_noise": [[0.0]], "transition": [[0.5]]}
    moving = LinearGaussian(1, **shared, transition_noise=[[1.0]], initial_covariance=[[1.0]])
    x = np.random.default_rng(0).normal(size=(20, 1))
    np.testing.assert_allclose(moving.smooth(x).means, x, atol=1e-14)
    frozen = LinearGaussian(1, **shared, transition_noise=[[0.0]], initial_covariance=[[1.0]])
    with pytest.raises(NumericalError, match="sequence 1, step 1: the observation has no noise"):
        frozen.log_likelihood([x[:1], x])


def test_states_that_explode_are_named() -> None:
    model = LinearGaussian(
        1,
        transition=[[1e30]],
        observation=[[0.0]],
        transition_noise=[[1.0]],
        observation_noise=[[1.0]],
        initial_mean=[1.0],
        initial_covariance=[[1.0]],
    )
    with np.errstate(all="ignore"), pytest.raises(NumericalError, match="sequence 0: its states grow"):
        model.log_likelihood(np.zeros((40, 1)))


@pytest.mark.parametrize("gaps", [False, True])
def test_a_million_steps(gaps: bool) -> None:
    """Pieces of a long sequence that forget their beginning agree with the whole."""
    rng = np.random.default_rng(1)
    model = LinearGaussian(2, **random_parameters(rng, 2, 1, rank=1))
    T = 1_000_000
    x, _ = model.sample(T, random_state=3)
    if gaps:
        x[rng.integers(T, size=2000)] = np.nan
    whole = model.smooth(x)
    assert np.isfinite(whole.means).all()
    assert (np.linalg.eigvalsh(whole.covariances[::1000]) > -1e-12).all()
    for start in (0, 499_000, T - 1000):
        piece = model.smooth(x[start : start + 1000])
        inner = slice(0 if start == 0 else 400, 1000 if start == T - 1000 else 600)
        np.testing.assert_allclose(piece.means[inner], whole.means[start:][inner], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(
            piece.covariances[inner], whole.covariances[start:][inner], rtol=1e-8, atol=1e-9
        )


# -- shards, blocks, streams -----------------------------------------------------------------------------


def test_blocks_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    parameters = random_parameters(rng, 3, 2, 1)
    X = [drawn(rng, (length, 2), 0.1) for length in (5, 0, 17, 3, 40, 1, 22)]
    U = [rng.normal(size=(len(x), 1)) for x in X]
    one = LinearGaussian(3, **parameters).smooth(X, controls=U, lagged=True)
    monkeypatch.setattr(kalman_module, "BLOCK", 10)
    other = LinearGaussian(3, **parameters, n_jobs=3).smooth(X, controls=U, lagged=True)
    for a, b in zip(one, other, strict=True):
        for left, right in zip(a, b, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("varying", [False, True])
def test_the_stream_is_the_filter(varying: bool) -> None:
    rng = np.random.default_rng(4)
    T = 120
    model = LinearGaussian(3, **random_parameters(rng, 3, 2, 1, T if varying else None))
    x, u = drawn(rng, (T, 2), 0.2), rng.normal(size=(T, 1))
    x[60:] = np.nan_to_num(x[60:])
    filtered = model.filter(x, controls=u)
    stream = model.streaming_filter()
    np.testing.assert_array_equal(stream.estimate().mean, model.initial_mean)
    for t in range(T):
        law = stream.update(x[t], u[t])
        np.testing.assert_allclose(law.mean, filtered.means[t], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(law.covariance, filtered.covariances[t], rtol=1e-9, atol=1e-11)
    assert stream.n_steps == T
    assert stream.log_likelihood == pytest.approx(model.log_likelihood(x, controls=u)[0])


def with_roots(monkeypatch: pytest.MonkeyPatch, ask: Any) -> Any:
    """What the smoother answers that keeps roots throughout."""
    with monkeypatch.context() as patch:
        patch.setattr(kalman_module, "tame_system", lambda model: None)
        return ask()


def watch_tame(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each block was smoothed without roots."""
    taken: list[bool] = []
    fast = kalman_module.Kalman._smooth_tame

    def watched(*given: Any) -> bool:
        taken.append(fast(*given))
        return taken[-1]

    monkeypatch.setattr(kalman_module.Kalman, "_smooth_tame", watched)
    return taken


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("m", [1, 3, 4, 6])
def test_tame_covariances_are_smoothed_without_roots(n: int, m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(10 * n + m)
    parameters = random_parameters(rng, n, m, 2, None, None)
    for name in ("transition_noise", "observation_noise", "initial_covariance"):
        parameters[name] = parameters[name] + np.eye(len(parameters[name]))
    model = LinearGaussian(n, **parameters)
    lengths = [60, 0, 1, 30]
    X = [drawn(rng, (length, m), 0.3) for length in lengths]
    asked = {"controls": [rng.normal(size=(length, 2)) for length in lengths]}
    taken = watch_tame(monkeypatch)
    found = model.smooth(X, **asked)
    assert taken == [True]
    expected = with_roots(monkeypatch, lambda: model.smooth(X, **asked))
    for i in range(len(X)):
        np.testing.assert_allclose(found.means[i], expected.means[i], rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(found.covariances[i], expected.covariances[i], rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(found.covariances[i], found.covariances[i].swapaxes(1, 2))


def test_whatever_is_smoothed_without_roots_keeps_its_digits_in_every_direction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Starts, noises and gaps of all sizes. What is not tame is left to the roots."""
    taken = watch_tame(monkeypatch)
    without = 0
    for seed in range(90):
        rng = np.random.default_rng(seed)
        n, m, span = int(rng.integers(1, 6)), int(rng.integers(1, 4)), (0.7, 1.5, 3.0)[seed % 3]
        parameters = random_parameters(rng, n, m, 0, None, None)
        for name in ("transition_noise", "observation_noise", "initial_covariance"):
            size = len(parameters[name])
            scale = np.diag(10.0 ** rng.uniform(-span, span, size=size)) * 10.0 ** rng.uniform(-span, span)
            parameters[name] = scale @ parameters[name] @ scale
        model = LinearGaussian(n, **parameters)
        x = drawn(rng, (60, m), 0.3)
        x[20:30] = np.nan
        taken.clear()
        found = model.smooth(x)
        if taken != [True]:
            continue
        without += 1
        expected = with_roots(monkeypatch, lambda: model.smooth(x))  # noqa: B023
        for t in range(len(x)):
            root = np.linalg.cholesky(expected.covariances[t])
            whitened = np.linalg.solve(root, np.linalg.solve(root, found.covariances[t]).T)
            np.testing.assert_allclose(whitened, np.eye(n), atol=1e-9)
            away = np.linalg.solve(root, found.means[t] - expected.means[t])
            np.testing.assert_allclose(away, 0.0, atol=1e-9)
    assert 20 < without < 70

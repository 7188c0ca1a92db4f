"""EM against a textbook EM on the dense joint Gaussian; certificates; recovery; what cannot be learned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from small_state_spaces import Dense, random_covariance, random_parameters
from trellis import LinearGaussian
from trellis.core.errors import DataError, UnsupportedError
from trellis.statespace.kalman_em import EM, TERMS, Statistics
from trellis.statespace.state_space import SHAPES, StateSpace
from trellis.statespace.time_series import TimeSeries

NAMES = tuple(SHAPES)


def started(rng: np.random.Generator, n: int, m: int, p: int, **options: Any) -> LinearGaussian:
    parameters = random_parameters(rng, n, m, p)
    for name in ("transition_noise", "initial_covariance"):
        parameters[name] = parameters[name] + 0.2 * np.eye(n)
    return LinearGaussian(n, **parameters, **{"tol": 0.0, **options})


def data_for(rng: np.random.Generator, m: int, p: int, missing: float) -> tuple[list[Any], list[Any]]:
    X = [rng.normal(size=(length, m)).cumsum(axis=0) for length in (6, 1, 9, 4)]
    for x in X:
        x[rng.random(x.shape) < missing] = np.nan
    return X, [rng.normal(size=(len(x), p)) for x in X]


def textbook_step(model: LinearGaussian, X: list[Any], U: list[Any], learn: set[str]) -> dict[str, Any]:
    """One EM update from the posterior of all states and missing values at once, regression by regression."""
    given_parameters = {name: getattr(model, name) for name in NAMES}
    sums: list[dict[str, Any]] = [{"N": 0, "yy": 0.0, "yw": 0.0, "ww": 0.0} for _ in TERMS]

    def add(
        sums: dict[str, Any], pick_y: np.ndarray, pick_w: np.ndarray, u: Any, mean: Any, cov: Any
    ) -> None:
        y, w = mean[pick_y], np.concatenate([mean[pick_w], u, [1.0]])
        ww = np.outer(w, w)
        ww[: len(pick_w), : len(pick_w)] += cov[np.ix_(pick_w, pick_w)]
        yw = np.outer(y, w)
        yw[:, : len(pick_w)] += cov[np.ix_(pick_y, pick_w)]
        sums["N"] += 1
        sums["yy"] = sums["yy"] + np.outer(y, y) + cov[np.ix_(pick_y, pick_y)]
        sums["yw"], sums["ww"] = sums["yw"] + yw, sums["ww"] + ww

    for x, u in zip(X, U, strict=True):
        dense = Dense(model, len(x), u)
        T, n, m = dense.shape
        joint_mean = np.concatenate([dense.z_mean, dense.x_mean])
        joint_cov = np.block([[dense.z_cov, dense.zx_cov], [dense.zx_cov.T, dense.x_cov]])
        seen = np.concatenate([np.zeros(T * n, bool), ~np.isnan(x.ravel())])
        gain = np.linalg.solve(joint_cov[np.ix_(seen, seen)], joint_cov[:, seen].T).T
        observed = np.concatenate([np.zeros(T * n), x.ravel()])[seen]
        mean = joint_mean + gain @ (observed - joint_mean[seen])
        cov = joint_cov - gain @ joint_cov[seen]
        for t in range(T):
            z, follows = np.arange(t * n, t * n + n), np.arange((t + 1) * n, (t + 2) * n)
            here = T * n + np.arange(t * m, t * m + m)
            if t == 0:
                add(sums[0], z, z[:0], [], mean, cov)
            if t + 1 < T:
                add(sums[1], follows, z, u[t], mean, cov)
            if not np.isnan(x[t]).all():
                add(sums[2], here, z, u[t], mean, cov)
    for term, s in zip(TERMS, sums, strict=True):
        rows = len(s["yy"])
        old = [np.asarray(given_parameters[name], float).reshape(rows, -1) for name in term.coefficients]
        learned = np.repeat([name in learn for name in term.coefficients], [a.shape[1] for a in old])
        W = np.concatenate(old, axis=1)
        rest = s["yw"] - W[:, ~learned] @ s["ww"][~learned]
        W[:, learned] = np.linalg.solve(s["ww"][np.ix_(learned, learned)], rest[:, learned].T).T
        noise = (s["yy"] - W @ s["yw"].T - s["yw"] @ W.T + W @ s["ww"] @ W.T) / s["N"]
        start = 0
        for name, a in zip(term.coefficients, old, strict=True):
            shape = np.shape(given_parameters[name])
            given_parameters[name] = W[:, start : start + a.shape[1]].reshape(shape)
            start += a.shape[1]
        if term.noise in learn:
            given_parameters[term.noise] = noise
    return given_parameters


@settings(max_examples=15)
@given(
    n=st.integers(1, 3),
    m=st.integers(1, 3),
    p=st.integers(0, 2),
    missing=st.sampled_from([0.0, 0.3]),
    everything=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_updates_are_those_of_textbook_em(
    n: int, m: int, p: int, missing: float, everything: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    learn = {name for name in NAMES if everything or rng.random() < 0.5}
    if p == 0:
        learn -= {"transition_control", "observation_control"}
    model = started(rng, n, m, p, learn=tuple(learn), max_iter=3)
    X, U = data_for(rng, m, p, missing)
    ours = model.fit(X, controls=U if p else None)
    plain = {name: getattr(model, name) for name in NAMES}
    for name, letters in (("transition_control", (n, p)), ("observation_control", (m, p))):
        plain[name] = np.zeros(letters) if plain[name] is None else plain[name]
    for _ in range(3):
        plain = textbook_step(LinearGaussian(n, **plain), X, U, learn)
    for name in NAMES:
        np.testing.assert_allclose(getattr(ours, f"{name}_"), plain[name], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_the_certificates_interleave(missing: float) -> None:
    rng = np.random.default_rng(7)
    model = started(rng, 3, 2, 1, max_iter=60)
    X, U = data_for(rng, 2, 1, missing)
    fitted = model.fit(X, controls=U)
    primal, dual = np.array(fitted.history_["primal"]), np.array(fitted.history_["dual"])
    assert len(primal) == len(dual) + 1 == fitted.n_iter_ + 1
    assert primal[-1] == pytest.approx(-fitted.log_likelihood(X, controls=U).sum(), rel=1e-12)
    slack = 1e-9 * np.abs(primal).max()
    assert (primal[:-1] >= dual - slack).all()
    assert (dual >= primal[1:] - slack).all()
    assert primal[0] - primal[-1] > 1.0


def test_the_dual_is_the_evidence_lower_bound() -> None:
    """E_q log p(x, z | new) + entropy of q, from the dense posterior, nothing missing."""
    rng = np.random.default_rng(1)
    n, m = 2, 2
    model = started(rng, n, m, 0, max_iter=1)
    x = rng.normal(size=(5, m))
    fitted = model.fit([x])
    old, new = Dense(model, 5, np.zeros((5, 0))), fitted.parameters_.arrays()
    mean, cov = old.states(x)
    size = 5 * n
    entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * cov.reshape(size, size))[1]
    after = Dense(LinearGaussian(n, **new), 5, np.zeros((5, 0)))
    # log p(x, z) is a quadratic in (z, x); its expectation is its value at the mean, plus a trace
    joint = np.block([[after.z_cov, after.zx_cov], [after.zx_cov.T, after.x_cov]])
    precision = np.linalg.inv(joint)
    gap = np.concatenate([mean.ravel() - after.z_mean, x.ravel() - after.x_mean])
    expected = -0.5 * (np.linalg.slogdet(2 * np.pi * joint)[1] + gap @ precision @ gap)
    expected -= 0.5 * np.trace(precision[:size, :size] @ cov.reshape(size, size))
    assert fitted.history_["dual"][0] == pytest.approx(-(expected + entropy), rel=1e-8)


def test_the_moments_are_the_gradient_of_the_likelihood() -> None:
    """Fisher's identity by finite differences: the E-step's <., v> touches log p(x) at the current point."""
    rng = np.random.default_rng(2)
    n, m, p = 2, 2, 1
    parameters = random_parameters(rng, n, m, p)
    X, U = data_for(rng, m, p, 0.2)
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in X])])
    data = TimeSeries(np.concatenate(X), offsets, np.concatenate(U))
    em = EM(data, frozenset(NAMES), 1e-9, 1)
    at = StateSpace.build(parameters, n, m, p)
    _, v = em.h(at)
    for name in ("transition", "observation", "initial_mean", "transition_control", "observation_offset"):
        base = getattr(at, name)

        def moved(flat: np.ndarray, name: str = name, shape: Any = base.shape) -> StateSpace:
            return replace(at, **{name: flat.reshape(shape)})

        def likelihood(flat: np.ndarray, moved: Any = moved) -> float:
            return em.h(moved(flat))[0]

        def expected(flat: np.ndarray, moved: Any = moved, v: Statistics = v) -> float:
            return em.inner(moved(flat), v)

        np.testing.assert_allclose(
            approx_fprime(base.ravel(), likelihood, 1e-6),
            approx_fprime(base.ravel(), expected, 1e-6),
            rtol=1e-3,
            atol=1e-3,
        )


def test_threads_learn_the_same() -> None:
    rng = np.random.default_rng(8)
    X, U = data_for(rng, 2, 1, 0.2)
    model = started(np.random.default_rng(9), 2, 2, 1, max_iter=5)
    one = model.fit(X, controls=U).parameters_
    two = model.set_params(n_jobs=2).fit(X, controls=U).parameters_
    for name, array in one.arrays().items():
        np.testing.assert_allclose(getattr(two, name), array, rtol=1e-9, atol=1e-11)


def test_a_model_is_recovered_from_its_samples() -> None:
    """From its own start EM gets at least the likelihood of the truth, and the same poles and forecasts."""
    angle = 0.4
    turn = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    truth = LinearGaussian(
        2,
        transition=0.95 * np.array(turn),
        observation=[[1.0, 0.3], [-0.5, 1.0], [0.2, 0.8]],
        transition_noise=0.3 * np.eye(2),
        observation_noise=random_covariance(np.random.default_rng(0), 3) + 0.2 * np.eye(3),
        observation_offset=[1.0, -2.0, 0.0],
        initial_covariance=np.eye(2),
    )
    X, _ = truth.sample(500, 6, random_state=1)
    for x in X:
        x[np.random.default_rng(2).random(x.shape) < 0.1] = np.nan
    fitted = LinearGaussian(2, random_state=0, max_iter=300, tol=1e-3).fit(X)
    assert fitted.status_.converged
    assert fitted.log_likelihood(X).sum() >= truth.log_likelihood(X).sum()
    poles = np.sort_complex(np.linalg.eigvals(fitted.transition_))
    np.testing.assert_allclose(poles, np.sort_complex(np.linalg.eigvals(truth.transition)), atol=0.03)
    fresh, _ = truth.sample(2000, random_state=5)
    assert fitted.score(fresh) == pytest.approx(truth.score(fresh), abs=0.02)
    ours, theirs = fitted.forecast(X, 3), truth.forecast(X, 3)
    np.testing.assert_allclose(ours.observations, theirs.observations, atol=0.4)


def test_only_what_is_named_is_learned() -> None:
    rng = np.random.default_rng(3)
    X, _ = data_for(rng, 2, 0, 0.0)
    model = started(rng, 2, 2, 0, learn=("observation_noise", "transition_offset"), max_iter=4)
    model.fit(X)
    for name in NAMES:
        if getattr(model, name) is not None:
            same = np.array_equal(getattr(model, f"{name}_"), getattr(model, name))
            assert same == (name not in model.learn), name


def test_parameters_that_vary_stay_and_the_rest_is_learned() -> None:
    """A regression with known, time-varying regressors: R is the mean squared residual, by hand."""
    rng = np.random.default_rng(4)
    T = 200
    H = rng.normal(size=(T, 1, 2))
    x = (H @ np.array([1.0, -2.0])) + 0.5 * rng.normal(size=(T, 1))
    model = LinearGaussian(
        2,
        transition=np.eye(2),
        observation=H,
        transition_noise=np.zeros((2, 2)),
        observation_noise=[[1.0]],
        initial_covariance=100 * np.eye(2),
        learn=("observation_noise",),
        tol=1e-9,
    ).fit([x])
    laws = model.smooth([x])
    mean, cov = laws.means[0][0], laws.covariances[0][0]
    by_hand = np.mean((x[:, 0] - H[:, 0] @ mean) ** 2 + np.einsum("ti,ij,tj->t", H[:, 0], cov, H[:, 0]))
    assert model.observation_noise_[0, 0] == pytest.approx(by_hand, rel=1e-6)
    assert model.learn == ("observation_noise",)
    np.testing.assert_array_equal(model.observation_, H)


def test_a_perfect_fit_stops_at_the_smallest_variance() -> None:
    """Without a bound the likelihood of noise-free data has none."""
    x = np.sin(0.3 * np.arange(200))[:, None]
    model = LinearGaussian(2, min_variance=1e-4, max_iter=100, random_state=0).fit(x)
    for name in ("transition_noise", "observation_noise", "initial_covariance"):
        assert np.linalg.eigvalsh(getattr(model, f"{name}_"))[0] >= 1e-4 * (1 - 1e-9)
    assert np.isfinite(model.history_["primal"]).all()


def test_collinear_regressors_are_no_obstacle() -> None:
    """A control that never changes says the same as the offset."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(100, 2)).cumsum(axis=0)
    model = LinearGaussian(1, max_iter=20, random_state=0).fit(x, controls=np.ones((100, 1)))
    assert np.isfinite(model.transition_control_).all()


@pytest.mark.parametrize(
    ("n", "m", "lengths"), [(1, 1, [3]), (4, 1, [200]), (3, 5, [40, 1, 20]), (6, 2, [5, 4])]
)
def test_every_size_finds_a_start(n: int, m: int, lengths: list[int]) -> None:
    rng = np.random.default_rng(n)
    X = [rng.normal(size=(length, m)) for length in lengths]
    X[0][0, 0] = np.nan
    model = LinearGaussian(n, max_iter=3, random_state=0).fit(X)
    assert model.history_["primal"][-1] <= model.history_["primal"][0]
    again = LinearGaussian(n, max_iter=3, random_state=0).fit(X)
    np.testing.assert_array_equal(model.transition_, again.transition_)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"learn": ("transition", "gain")}, DataError, "learn names 'gain'; choose from"),
        ({"learn": 3}, DataError, 'give "all" or a tuple'),
        ({"learn": "transitions"}, DataError, "learn names 'transitions'"),
        ({"min_variance": 0.0}, DataError, "min_variance is 0.0"),
        ({"n_states": 0}, DataError, "n_states is 0"),
        (
            {"transition_noise": np.zeros((2, 2)), "learn": ("transition",)},
            UnsupportedError,
            "transition cannot be learned while transition_noise is singular",
        ),
        ({"transition_noise": np.zeros((2, 2))}, DataError, "starts with an eigenvalue of 0"),
        (
            {"observation": np.ones((9, 1, 2)), "learn": ("observation",)},
            UnsupportedError,
            "observation varies with time and cannot be learned",
        ),
        (
            {"observation_noise": np.ones((9, 1, 1)), "learn": ("observation",)},
            UnsupportedError,
            "observation cannot be learned while observation_noise varies",
        ),
        ({"observation": np.ones((3, 1, 2))}, DataError, "is given for 3 steps, but sequence 0 has 9"),
        ({"learn": ("transition_control",)}, UnsupportedError, "cannot be learned without controls"),
    ],
)
def test_what_cannot_be_learned_is_said(options: dict, error: type[Exception], message: str) -> None:
    x = np.random.default_rng(0).normal(size=(9, 1))
    with pytest.raises(error, match=message):
        LinearGaussian(**{"n_states": 2, **options}).fit(x)


def test_nothing_observed_is_an_error() -> None:
    with pytest.raises(DataError, match="no observed value to learn from"):
        LinearGaussian(2).fit(np.full((5, 1), np.nan))


def short_series(seed: int) -> tuple[int, list[np.ndarray]]:
    """A few sequences of one to three steps: noise, walks, constants, in all units, some of it missing."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    X = []
    for _ in range(int(rng.choice([1, 1, 2, 5]))):
        x = rng.normal(size=(int(rng.integers(1, 4)), m))
        x = [x, x.cumsum(axis=0), np.ones_like(x)][seed % 3]
        x = x * 10.0 ** int(rng.integers(-3, 4)) + rng.choice([0.0, 10.0, 1e4])
        x[rng.random(x.shape) < 0.2 * rng.integers(0, 2)] = np.nan
        X.append(x)
    return n, X


@pytest.mark.parametrize("seed", range(40))
def test_a_few_steps_are_learned_or_refused_in_words_of_data(seed: int) -> None:
    n, X = short_series(seed)
    observed = sum(int((~np.isnan(x)).any(axis=1).sum()) for x in X)
    model = LinearGaussian(n, random_state=seed, max_iter=15)
    if observed < 2 or max(map(len, X)) < 2:
        with pytest.raises(DataError, match=r"no observed value|one observed step|no sequence of X has two"):
            model.fit(X)
        return
    model.fit(X)
    assert "certificate" not in str(model.status_)
    primal, dual = np.array(model.history_["primal"]), np.array(model.history_["dual"])
    slack = 1e-7 * (1.0 + np.abs(primal).max())
    assert (primal[:-1] >= dual - slack).all()
    assert (dual >= primal[1:] - slack).all()
    assert -model.log_likelihood(X).sum() == pytest.approx(primal[-1], rel=1e-9)


def test_one_step_is_enough_for_what_it_says_something_about() -> None:
    one = LinearGaussian(1, learn=("observation_offset",), random_state=0).fit(np.array([[3.0]]))
    assert one.observation_offset_ == pytest.approx([3.0], abs=1e-3)
    with pytest.raises(DataError, match="so transition_noise cannot be learned; give longer"):
        LinearGaussian(1, learn=("transition_noise", "initial_mean")).fit([np.ones((1, 1))] * 5)

"""The IO-HMM against enumeration of its paths, plain Baum-Welch, scikit-learn, and finite differences."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.linear_model import LinearRegression, LogisticRegression

from trellis import IOHMM, load
from trellis.core import storage
from trellis.core.errors import DataError, ModelFileError
from trellis.hmm.input_output import GaussianRegression, SoftmaxEmission
from trellis.hmm.input_output.io_em import EMProblem
from trellis.hmm.input_output.io_parameters import IOParameters

KINDS = ["categorical", "diag", "full"]


def random_model(kind: str, seed: int, k: int = 2, width: int = 2, **options: Any) -> IOHMM:
    rng = np.random.default_rng(seed)
    if kind == "categorical":
        emission: Any = SoftmaxEmission(weights=1.5 * rng.normal(size=(k, 3, width + 1)))
    else:
        root = rng.normal(size=(k, 2, 2))
        full = root @ root.transpose(0, 2, 1) + 0.3 * np.eye(2)
        emission = GaussianRegression(
            kind,
            weights=2.0 * rng.normal(size=(k, 2, width + 1)),
            covariances=full if kind == "full" else np.diagonal(full, axis1=1, axis2=2),
        )
    initial, transitions = rng.normal(size=(k, width + 1)), 1.5 * rng.normal(size=(k, k, width + 1))
    return IOHMM.from_parameters(initial, transitions, emission, **options)


def some_data(
    model: IOHMM, lengths: list[int], seed: int, missing: float = 0.0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    width = model.parameters_.n_inputs
    inputs = [rng.normal(size=(n, width)) for n in lengths]
    X, _ = model.sample(inputs, random_state=seed)
    if missing:
        X = [np.where(rng.random(x.shape) < missing, np.nan, x) for x in X]
    return X, inputs


def softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def paths_of(model: IOHMM, x: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every path of states, and p(x, path | inputs), from the definition."""
    p, k = model.parameters_, model.n_states
    f = np.hstack([inputs, np.ones((len(inputs), 1))])
    density = np.ones((len(x), k))
    for t, state in product(range(len(x)), range(k)):
        emission = model.emission_
        if isinstance(emission, SoftmaxEmission):
            if not np.isnan(x[t]) and x[t] >= 0:
                density[t, state] = softmax(emission.weights[state] @ f[t])[int(x[t])]
        else:
            spread = emission.covariances[state]
            matrix, seen = spread if emission.covariance == "full" else np.diag(spread), ~np.isnan(x[t])
            if seen.any():
                mean = (emission.weights[state] @ f[t])[seen]
                density[t, state] = multivariate_normal.pdf(x[t][seen], mean, matrix[np.ix_(seen, seen)])
    paths = np.array(list(product(range(k), repeat=len(x))))
    joint = softmax(p.initial @ f[0])[paths[:, 0]] * density[0, paths[:, 0]]
    for t in range(1, len(x)):
        joint *= softmax(p.transitions @ f[t])[paths[:, t - 1], paths[:, t]] * density[t, paths[:, t]]
    return paths, joint


def marginal(paths: np.ndarray, joint: np.ndarray, t: int, k: int) -> np.ndarray:
    return np.array([joint[paths[:, t] == state].sum() for state in range(k)]) / joint.sum()


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(KINDS),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    k=st.integers(1, 3),
    missing=st.sampled_from([0.0, 0.4]),
)
def test_every_answer_by_enumeration(
    seed: int, kind: str, lengths: list[int], k: int, missing: float
) -> None:
    model = random_model(kind, seed, k)
    X, inputs = some_data(model, lengths, seed, missing)
    future = [np.random.default_rng(seed + i).normal(size=(2, 2)) for i in range(len(X))]
    likelihood, smooth, filtered = (
        ask(X, inputs) for ask in (model.log_likelihood, model.smooth, model.filter)
    )
    decoded, forecasts = model.decode(X, inputs), model.predict_next(X, inputs, future)
    for i, (x, u) in enumerate(zip(X, inputs, strict=True)):
        paths, joint = paths_of(model, x, u)
        assert likelihood[i] == pytest.approx(np.log(joint.sum()), abs=1e-9)
        best = joint[(paths == decoded[i]).all(axis=1)][0]
        assert best == pytest.approx(joint.max(), rel=1e-9)
        for t in range(len(x)):
            np.testing.assert_allclose(smooth[i][t], marginal(paths, joint, t, k), atol=1e-9)
            now, so_far = paths_of(model, x[: t + 1], u[: t + 1])
            np.testing.assert_allclose(filtered[i][t], marginal(now, so_far, t, k), atol=1e-9)
        unseen = np.full((2, *x.shape[1:]), np.nan)
        later, to_come = paths_of(model, np.concatenate([x, unseen]), np.concatenate([u, future[i]]))
        for h in range(2):
            expected = marginal(later, to_come, len(x) + h, k)
            np.testing.assert_allclose(forecasts[i].states[h], expected, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_forecasts_of_observations(kind: str) -> None:
    """Against a large sample of what follows."""
    model = random_model(kind, 3)
    X, inputs = some_data(model, [4], 0)
    future = np.random.default_rng(1).normal(size=(3, 2))
    forecast = model.predict_next(X, inputs, [future])[0]
    p = forecast.states
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    states = np.array([np.random.default_rng(2).choice(2, size=40_000, p=row) for row in p])
    features = np.hstack([future, np.ones((3, 1))])
    for h in range(3):
        rows = np.repeat(features[h : h + 1], 40_000, axis=0)
        drawn = model.emission_.sample(states[h], rows, np.random.default_rng(10 + h))
        if kind == "categorical":
            np.testing.assert_allclose(
                forecast.probabilities[h], np.bincount(drawn, minlength=3) / 40_000, atol=0.01
            )
        else:
            scale = np.sqrt(np.diagonal(forecast.covariance[h]))
            assert (np.abs(drawn.mean(axis=0) - forecast.mean[h]) < 0.025 * scale).all()
            np.testing.assert_allclose(
                np.cov(drawn.T) / np.outer(scale, scale),
                forecast.covariance[h] / np.outer(scale, scale),
                atol=0.04,
            )
    one = model.predict_next(X[0], inputs[0], future)
    np.testing.assert_allclose(one.states, p, atol=1e-12)
    first = model.predict_next(X[0][:0], inputs[0][:0], future)  # nothing observed yet
    np.testing.assert_allclose(first.states[0], model.initial_distribution(future[:1])[0], atol=1e-12)
    expected = first.states[0] @ model.transition_matrix(future[1:2])[0]
    np.testing.assert_allclose(first.states[1], expected, atol=1e-12)


def baum_welch(
    pi: np.ndarray, A: np.ndarray, B: np.ndarray, X: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """One textbook iteration for a plain HMM with symbols, and the log-likelihood before it."""
    first, moves, emitted, total = np.zeros_like(pi), np.zeros_like(A), np.zeros_like(B), 0.0
    for x in X:
        n = len(x)
        alpha, beta, c = np.zeros((n, len(pi))), np.ones((n, len(pi))), np.zeros(n)
        for t in range(n):
            alpha[t] = (pi if t == 0 else alpha[t - 1] @ A) * B[:, x[t]]
            c[t] = alpha[t].sum()
            alpha[t] /= c[t]
        for t in range(n - 2, -1, -1):
            beta[t] = A @ (B[:, x[t + 1]] * beta[t + 1]) / c[t + 1]
        gamma = alpha * beta
        first += gamma[0]
        for t in range(1, n):
            moves += np.outer(alpha[t - 1], B[:, x[t]] * beta[t]) * A / c[t]
        np.add.at(emitted.T, x, gamma)
        total += np.log(c).sum()
    normed = [table / table.sum(axis=-1, keepdims=True) for table in (first, moves, emitted)]
    return normed[0], normed[1], normed[2], total


def test_constant_inputs_give_baum_welch() -> None:
    """Whatever l2 is: slopes of inputs that never change are not needed, and intercepts are free."""
    model = random_model("categorical", 5, k=3, width=1, warm_start=True, max_iter=1, l2=0.5)
    free = [
        a.copy() for a in (model.parameters_.initial, model.parameters_.transitions, model.emission_.weights)
    ]
    for array in free:
        array[..., :-1] = 0.0
    model.parameters_ = IOParameters(free[0], free[1], model.emission_.with_weights(free[2]))
    inputs = [np.ones((30, 1)) for _ in range(10)]
    X, _ = model.sample(inputs, random_state=0)
    pi, A = model.initial_distribution([[1.0]])[0], model.transition_matrix([[1.0]])[0]
    B = softmax(model.emission_.weights @ np.ones(2))
    for _ in range(3):
        pi, A, B, before = baum_welch(pi, A, B, X)
        assert model.log_likelihood(X, inputs).sum() == pytest.approx(before, rel=1e-8)
        model.fit(X, inputs)
        np.testing.assert_allclose(model.initial_distribution([[1.0]])[0], pi, atol=1e-6)
        np.testing.assert_allclose(model.transition_matrix([[1.0]])[0], A, atol=1e-6)
        np.testing.assert_allclose(softmax(model.emission_.weights @ np.ones(2)), B, atol=1e-6)


def test_one_state_is_logistic_or_linear_regression() -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(20, 3)) + 5.0 for _ in range(6)]
    u = np.concatenate(inputs)
    symbols = [(np.abs(x[:, 0] - 5 + 0.5 * rng.normal(size=20)) * 2).clip(0, 2).astype(int) for x in inputs]
    model = IOHMM(1, SoftmaxEmission(3, l2=0.2), random_state=0).fit(symbols, inputs)
    peer = LogisticRegression(C=5.0, tol=1e-10, max_iter=10_000).fit(u, np.concatenate(symbols))
    np.testing.assert_allclose(model.emission_.weights[0, :, :3], peer.coef_, atol=1e-5)
    assert model.status_.converged
    values = [x @ rng.normal(size=(3, 2)) + 1e4 + rng.normal(size=(20, 2)) for x in inputs]
    linear = IOHMM(1, GaussianRegression("full"), random_state=0).fit(values, inputs)
    line = LinearRegression().fit(u, np.concatenate(values))
    np.testing.assert_allclose(linear.emission_.weights[0, :, :3], line.coef_, atol=1e-8)
    np.testing.assert_allclose(linear.emission_.weights[0, :, 3], line.intercept_, rtol=1e-9)
    away = np.concatenate(values) - line.predict(u)
    np.testing.assert_allclose(linear.emission_.covariances[0], away.T @ away / len(u), rtol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_neither_certificate_rises_and_em_ends_where_the_gradient_vanishes(kind: str, missing: float) -> None:
    truth = random_model(kind, 11)
    X, inputs = some_data(truth, [40, 1, 25, 60], 1, missing)
    emission = SoftmaxEmission(3, l2=0.1) if kind == "categorical" else GaussianRegression(kind, l2=0.1)
    model = IOHMM(2, emission, l2=0.1, tol=1e-10, max_iter=2000, n_init=1, random_state=0).fit(X, inputs)
    primal, dual = np.array(model.history_["primal"]), np.array(model.history_["dual"])
    rounding = 1e-9 * abs(primal[0])
    assert (primal[:-1] >= dual - rounding).all()
    assert (dual >= primal[1:] - rounding).all()
    assert model.status_.converged

    p, u = model.parameters_, np.concatenate(inputs)
    problem = EMProblem(
        p.emission.check(np.concatenate(X)),
        np.hstack([u, np.ones((len(u), 1))]),
        np.cumsum([0, *map(len, X)]),
        l2=0.1,
    )

    def objective(parameters: Any) -> float:
        return problem.g(parameters) - problem.h(parameters)[0]

    assert objective(p) == pytest.approx(primal[-1], rel=1e-12)
    step = 1e-4
    for array, changed in [
        (p.initial, lambda a: replace(p, initial=a)),
        (p.transitions, lambda a: replace(p, transitions=a)),
        (p.emission.weights, lambda a: replace(p, emission=replace(p.emission, weights=a))),
    ]:
        for index in np.ndindex(array.shape):
            nudge = np.zeros_like(array)
            nudge[index] = step
            up, down = objective(changed(array + nudge)), objective(changed(array - nudge))
            # what is left to gain along this axis, slope^2 / (2 curvature), is next to nothing
            slope, curvature = (up - down) / (2 * step), (up + down - 2 * primal[-1]) / step**2
            assert abs(slope) < 5e-3 * (1.0 + np.sqrt(abs(curvature)))


def test_what_was_sampled_is_recovered() -> None:
    truth = IOHMM.from_parameters(
        [[0.0, 0.0], [0.0, 0.0]],
        [[[0.0, 1.0], [2.0, -1.0]], [[-2.0, -1.0], [0.0, 1.0]]],
        GaussianRegression(weights=[[[1.0, 0.0]], [[-1.0, 2.0]]], covariances=[[0.3], [0.6]]),
    )
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(150, 1)) for _ in range(30)]
    X, states = truth.sample(inputs, random_state=1)
    model = IOHMM(2, random_state=0, l2=1e-3).fit(X, inputs)
    order = np.argsort(-model.emission_.weights[:, 0, 0])
    np.testing.assert_allclose(model.emission_.weights[order][:, 0, 0], [1.0, -1.0], atol=0.05)
    np.testing.assert_allclose(model.emission_.covariances[order][:, 0], [0.3, 0.6], atol=0.06)
    at = np.array([[-1.0], [0.0], [1.0]])
    found = model.transition_matrix(at)[:, order][:, :, order]
    np.testing.assert_allclose(found, truth.transition_matrix(at), atol=0.06)
    named = np.concatenate(model.predict(X, inputs))
    assert (order[np.concatenate(states)] == named).mean() > 0.85
    risk = np.concatenate(model.decode(X, inputs, "max_marginal"))
    assert (order[np.concatenate(states)] == risk).mean() > 0.85
    assert max(model.objectives_) == pytest.approx(-model.history_["primal"][-1])
    # maximum likelihood beats the truth on the data it is made from
    assert model.log_likelihood(X, inputs).sum() > truth.log_likelihood(X, inputs).sum()


def test_samples_follow_the_inputs() -> None:
    model = random_model("categorical", 8)
    inputs = np.tile([[0.7, -0.3]], (40_000, 1))
    X, states = model.sample(inputs, random_state=0)
    A = model.transition_matrix(inputs[:1])[0]
    counts = np.zeros((2, 2))
    np.add.at(counts, (states[:-1], states[1:]), 1.0)
    np.testing.assert_allclose(counts / counts.sum(axis=1, keepdims=True), A, atol=0.03)
    for k in range(2):
        expected = softmax(model.emission_.weights[k] @ [0.7, -0.3, 1.0])
        np.testing.assert_allclose(
            np.bincount(X[states == k], minlength=3) / (states == k).sum(), expected, atol=0.02
        )
    again, _ = model.sample(inputs, random_state=0)
    np.testing.assert_array_equal(X, again)


def test_forms_of_data_and_threads_agree() -> None:
    truth = random_model("diag", 9)
    X, inputs = some_data(truth, [12, 7, 9], 0, 0.1)
    lengths = [len(x) for x in X]
    one = IOHMM(2, random_state=3, n_init=2, max_iter=15).fit(X, inputs)
    flat = IOHMM(2, random_state=3, n_init=2, max_iter=15, n_jobs=2).fit(
        np.concatenate(X), np.concatenate(inputs), lengths=lengths
    )
    np.testing.assert_allclose(flat.parameters_.transitions, one.parameters_.transitions, atol=1e-6)
    np.testing.assert_allclose(flat.emission_.weights, one.emission_.weights, atol=1e-6)
    packed = flat.smooth(np.concatenate(X), np.concatenate(inputs), lengths=lengths)
    np.testing.assert_allclose(packed, np.concatenate(one.smooth(X, inputs)), atol=1e-6)
    alone = one.filter(X[0], inputs[0])
    np.testing.assert_allclose(alone, one.filter(X, inputs)[0], atol=1e-12)
    assert one.n_parameters == 3 + 6 + 2 * (2 * 3 + 2)


@pytest.mark.parametrize("kind", KINDS)
def test_save_and_load(tmp_path: Path, kind: str) -> None:
    X, inputs = some_data(random_model(kind, 2), [10, 8], 0)
    emission = "categorical" if kind == "categorical" else GaussianRegression(kind, l2=0.5)
    model = IOHMM(2, emission, max_iter=3, n_init=1, random_state=np.int64(4)).fit(X, inputs)
    model.save(tmp_path / "m.trellis")
    loaded = load(tmp_path / "m.trellis")
    np.testing.assert_array_equal(loaded.log_likelihood(X, inputs), model.log_likelihood(X, inputs))
    assert (loaded.status_, loaded.history_) == (model.status_, model.history_)
    assert loaded.objectives_ == model.objectives_
    refitted = loaded.fit(X, inputs)
    np.testing.assert_array_equal(refitted.parameters_.transitions, model.parameters_.transitions)
    known = random_model(kind, 2)
    known.save(tmp_path / "k.trellis")
    np.testing.assert_array_equal(
        load(tmp_path / "k.trellis").log_likelihood(X, inputs), known.log_likelihood(X, inputs)
    )
    _, meta, arrays = storage.read(tmp_path / "m.trellis")
    weights = arrays["parameters_.emission.weights"]
    for bad in (
        {"parameters_.transitions": arrays["parameters_.transitions"][:1]},
        {"parameters_.initial": arrays["parameters_.initial"].astype(np.float32)},
        {"parameters_.emission.weights": weights[:1]},
        {"parameters_.emission.weights": np.full_like(weights, np.nan)},
    ):
        storage.save(tmp_path / "bad", "IOHMM", meta, arrays | bad)
        with pytest.raises(ModelFileError, match="damaged"):
            load(tmp_path / "bad")
    forged = {"fitted": {**meta["fitted"], "parameters_": {"@": "os.system"}}}
    storage.save(tmp_path / "bad", "IOHMM", meta | forged, arrays)
    with pytest.raises(ModelFileError, match="unknown kind"):
        load(tmp_path / "bad")


X3, U3 = [np.zeros((3, 1))], [np.zeros((3, 2))]


@pytest.mark.parametrize(
    ("options", "X", "inputs", "words"),
    [
        ({"n_states": 0}, X3, U3, "n_states is 0"),
        ({"n_init": 0}, X3, U3, "n_init is 0"),
        ({"tol": -1.0}, X3, U3, "tol is -1.0"),
        ({"emission": "poisson"}, X3, U3, "'gaussian'"),
        ({"emission": object()}, X3, U3, "depends on no input"),
        ({"emission": SoftmaxEmission(weights=np.zeros((2, 2, 3)))}, X3, U3, "from_parameters"),
        ({}, X3, [np.zeros((2, 2))], "sequence 0 has 3 steps in X, but 2 in inputs"),
        ({}, X3, [np.zeros((3, 2))] * 2, "1 sequences, but inputs has 2"),
        ({}, X3, [np.full((3, 2), np.nan)], "step 0 of sequence 0: column 0 of inputs is nan"),
        ({}, X3, [np.zeros((3, 2, 2))], "shape"),
        ({}, [np.full((3, 1), np.nan)], U3, "X has no observed value to learn from"),
        ({}, [np.c_[np.full(3, np.nan), np.arange(3)]], U3, "column 0 of the observations is never observed"),
        ({}, [np.zeros((0, 1))], [np.zeros((0, 2))], "no steps"),
        ({"emission": "categorical"}, [np.array([0.5, 1, 1])], U3, "step 0 of sequence 0: symbol 0.5"),
    ],
)
def test_what_it_cannot_use_is_said(options: dict[str, Any], X: Any, inputs: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        IOHMM(**{"n_states": 2, **options}).fit(X, inputs)


def test_questions_that_do_not_fit_are_said() -> None:
    model = random_model("diag", 0)
    X, inputs = some_data(model, [3], 0)
    with pytest.raises(DataError, match="inputs has 1 columns, but the model has 2"):
        model.smooth(X, [np.zeros((3, 1))])
    with pytest.raises(DataError, match="X has 5 columns, but the model has 2"):
        model.smooth([np.zeros((3, 5))], inputs)
    with pytest.raises(DataError, match="future inputs for 2"):
        model.predict_next(X, inputs, [np.zeros((1, 2))] * 2)
    with pytest.raises(DataError, match="method is 'best'"):
        model.decode(X, inputs, "best")
    with pytest.raises(DataError, match="transitions has shape"):
        IOHMM.from_parameters(np.zeros((2, 3)), np.zeros((2, 3, 3)), model.emission_)


def test_the_seed_of_the_model_is_that_of_its_samples() -> None:
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(20, 1)), rng.normal(size=(20, 1))
    model = IOHMM(2, max_iter=2, n_init=1, random_state=3).fit(x, u)
    assert_array_equal(model.sample(u)[0], model.sample(u)[0])
    assert_array_equal(model.sample(u)[0], model.sample(u, random_state=3)[0])
    assert model.score(x, u) == pytest.approx(model.log_likelihood(x, u).sum() / 20)
    with pytest.raises(DataError, match="too large to be squared"):
        model.fit(x, 1e200 * u)
    with pytest.raises(DataError, match="fitted with n_states=2"):
        model.set_params(warm_start=True, n_states=3).fit(x, u)


def test_certificates_allow_for_covariances_at_their_floor() -> None:
    rng = np.random.default_rng(18)
    lengths = [int(v) for v in rng.integers(0, 12, size=3)] + [6]
    x = rng.normal(size=(sum(lengths), 2)) * 1e3 + rng.choice([0, 1e4])
    x[rng.random(x.shape) < 0.3] = np.nan
    u = rng.normal(size=(sum(lengths), 1))
    model = IOHMM(3, GaussianRegression("full"), max_iter=30, n_init=1, random_state=0)
    assert np.isfinite(model.fit(x, u, lengths=lengths).objectives_[0])

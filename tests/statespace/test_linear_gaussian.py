"""The estimator at its border: forms of input and output, samples, streams, saving, clear errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import trellis
from small_state_spaces import random_parameters
from trellis import LinearGaussian, load
from trellis.core.errors import DataError, ModelFileError, TrellisError
from trellis.core.storage import read, save


@pytest.fixture
def model() -> LinearGaussian:
    return LinearGaussian(2, **random_parameters(np.random.default_rng(0), 2, 3))


def test_lists_in_lists_out_and_arrays_in_arrays_out(model: LinearGaussian) -> None:
    X, states = model.sample(20, 3, random_state=1)
    assert [x.shape for x in X] == [(20, 3)] * 3
    assert [z.shape for z in states] == [(20, 2)] * 3
    X[1] = X[1][:7]
    listed = model.smooth(X, lagged=True)
    packed = model.smooth(np.concatenate(X), lengths=[20, 7, 20], lagged=True)
    single = model.smooth(X[1], lagged=True)
    for in_list, flat, alone in zip(listed, packed, single, strict=True):
        np.testing.assert_array_equal(np.concatenate(in_list), flat)
        np.testing.assert_allclose(in_list[1], alone, atol=1e-14)
    assert model.smooth(X).lagged is None
    assert model.log_likelihood(X).shape == (3,)
    assert model.forecast(X, 4).observations.shape == (3, 4, 3)
    assert model.forecast(np.concatenate(X), 4, lengths=[20, 7, 20]).states.shape == (3, 4, 2)
    assert model.forecast(X[0], 4).observation_covariances.shape == (4, 3, 3)
    assert model.impute(X[0]).shape == (20, 3)


def test_one_number_a_step_needs_no_second_axis() -> None:
    one = LinearGaussian(1, **random_parameters(np.random.default_rng(0), 1, 1))
    x = np.arange(5.0)
    np.testing.assert_array_equal(one.filter(x).means, one.filter(x[:, None]).means)
    np.testing.assert_array_equal(one.filter([x, x[:2]]).means[1], one.filter(x[:2, None]).means)
    hidden = np.ma.masked_array(x, mask=x == 2)
    np.testing.assert_array_equal(one.filter(hidden).means, one.filter(np.where(x == 2, np.nan, x)).means)


def test_samples_have_the_moments_of_the_model() -> None:
    rng = np.random.default_rng(3)
    model = LinearGaussian(2, **random_parameters(rng, 2, 1, 1, rank=1))
    u = rng.normal(size=(3, 1))
    X, states = model.sample(3, 40_000, controls=u, random_state=4)
    nothing = model.smooth(np.full((3, 1), np.nan), controls=u, lagged=True)
    Z = np.array(states)
    np.testing.assert_allclose(Z.mean(axis=0), nothing.means, atol=0.04)
    for t in range(3):
        np.testing.assert_allclose(np.cov(Z[:, t].T), nothing.covariances[t], atol=0.05)
    mixed = np.cov(Z[:, 0].T, Z[:, 1].T)[:2, 2:]
    np.testing.assert_allclose(mixed, nothing.lagged[0], atol=0.05)
    filled, spread = model.impute(np.full((3, 1), np.nan), controls=u, return_covariances=True)
    np.testing.assert_allclose(np.array(X).mean(axis=0), filled, atol=0.05)
    np.testing.assert_allclose(np.array(X).var(axis=0), spread[..., 0], rtol=0.05)
    again, _ = model.sample(3, controls=u, random_state=4)
    np.testing.assert_array_equal(again, model.sample(3, controls=u, random_state=4)[0])


def test_saved_models_answer_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    X = [rng.normal(size=(30, 2)) for _ in range(3)]
    U = [rng.normal(size=(30, 1)) for _ in range(3)]
    fitted = LinearGaussian(2, max_iter=3, learn=("transition", "observation_noise"), random_state=0)
    fitted.fit(X, controls=U)
    fitted.save(tmp_path / "fitted.trellis")
    again = trellis.load(tmp_path / "fitted.trellis")
    assert isinstance(again, LinearGaussian)
    np.testing.assert_array_equal(again.log_likelihood(X, controls=U), fitted.log_likelihood(X, controls=U))
    assert again.history_ == fitted.history_
    assert str(again.status_) == str(fitted.status_)
    assert set(again.learn) == set(fitted.learn)
    again.fit(X, controls=U)  # its options came along
    np.testing.assert_array_equal(again.transition_, fitted.transition_)
    given = LinearGaussian(3, **random_parameters(rng, 3, 2, steps=9))
    given.save(tmp_path / "given.trellis")
    x = rng.normal(size=(9, 2))
    loaded = trellis.load(tmp_path / "given.trellis")
    np.testing.assert_array_equal(loaded.smooth(x).means, given.smooth(x).means)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("parameters_.transition", np.full((2, 2), np.nan)),
        ("parameters_.observation_noise", -np.eye(2)),
        ("parameters_.observation", np.zeros((2, 3))),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, name: str, damage: np.ndarray) -> None:
    path = tmp_path / "model.trellis"
    LinearGaussian(2, max_iter=1).fit(np.random.default_rng(0).normal(size=(20, 2))).save(path)
    kind, meta, arrays = read(path)
    assert name in arrays
    save(path, kind, meta, {**arrays, name: damage})
    with pytest.raises(ModelFileError, match=name.removeprefix("parameters_.")):
        trellis.load(path)


def test_scikit_learn_can_clone_it(model: LinearGaussian) -> None:
    copied = clone(model)
    np.testing.assert_array_equal(copied.transition, model.transition)
    assert not hasattr(copied, "parameters_")


X0 = np.zeros((4, 3))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.filter(np.zeros((4, 2))), "X has 2 columns, but the model has 3"),
        (
            lambda m: m.filter([X0, np.full((2, 3), np.inf)]),
            "step 0 of sequence 1: column 0 of X is inf; write NaN",
        ),
        (lambda m: m.filter([["a", "b", "c"]]), "X must contain numbers"),
        (lambda m: m.filter(np.zeros((2, 2, 3))), "X has shape"),
        (lambda m: m.filter([]), "X has no sequences"),
        (lambda m: m.filter(X0, lengths=[3]), "lengths add up to 3"),
        (lambda m: m.filter(X0, controls=X0), "made without controls"),
        (lambda m: m.forecast(X0, 0), "steps is 0; give a whole number"),
        (lambda m: m.sample(-1), "length is -1; give a whole number"),
        (lambda m: m.streaming_filter().update([1.0]), "step 0: the observation has 1 values, the model 3"),
        (lambda m: m.streaming_filter().update([1.0, 2.0, np.inf]), "step 0: the observation is infinite"),
        (
            lambda m: m.streaming_filter().update([1.0, 2.0, 3.0], [1.0]),
            "step 0: give control with 0 finite values",
        ),
        (lambda m: m.score(np.zeros((0, 3))), "X has no steps to score"),
    ],
)
def test_bad_data_are_named(model: LinearGaussian, ask: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ask(model)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"transition": np.eye(3)}, r"transition \(A\) has shape \(3, 3\); it must be \(n, n\) = \(2, 2\)"),
        ({"initial_mean": np.zeros((4, 2))}, r"initial_mean \(m0\) has shape"),
        ({"observation": "C"}, r"observation \(C\) must be an array of numbers"),
        ({"observation": np.full((3, 2), np.nan)}, r"observation \(C\) has values that are not finite"),
        ({"transition_noise": [[1.0, 2.0], [2.0, 1.0]]}, "not a covariance: its smallest eigenvalue is -1"),
        ({"transition_noise": [[1.0, 0.5], [0.0, 1.0]]}, "transition_noise is not symmetric"),
        ({"observation_noise": np.stack([np.eye(3)] * 4 + [-np.eye(3)])}, "_noise at step 4 is not"),
        ({"transition_noise": [[0.0, 1.0], [1.0, 1.0]]}, "not a covariance"),
        ({"transition": np.zeros((2, 2, 2))}, "for 2 steps, but sequence 0 has 4; give at least 3"),
    ],
)
def test_bad_parameters_are_named(model: LinearGaussian, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        model.set_params(**changed).filter(X0)


def test_controls_must_match() -> None:
    model = LinearGaussian(2, **random_parameters(np.random.default_rng(0), 2, 3, 1))
    u = np.zeros((4, 1))
    for ask, message in (
        (lambda: model.filter(X0), "the model has 1 controls; pass controls="),
        (lambda: model.filter([X0, X0], controls=[u]), "X has 2 sequences, but controls has 1"),
        (
            lambda: model.filter([X0, X0], controls=[u, u[:2]]),
            "sequence 1 has 4 steps in X, but 2 in controls",
        ),
        (
            lambda: model.filter(X0, controls=u * np.nan),
            "step 0 of sequence 0: column 0 of controls is nan; every value",
        ),
        (lambda: model.forecast(X0, 2, controls=u), "pass future_controls= of shape"),
        (lambda: model.forecast(X0, 2, controls=u, future_controls=u), "future_controls has shape"),
        (lambda: model.sample(3), "pass controls= of shape"),
    ):
        with pytest.raises(DataError, match=message):
            ask()


def test_unknown_parameters_ask_for_fit() -> None:
    with pytest.raises(NotFittedError, match="not fitted; call fit, or give transition, observation"):
        LinearGaussian(2).filter(X0)


def test_varying_parameters_end(model: LinearGaussian) -> None:
    model.set_params(observation_offset=np.zeros((2, 3)))
    stream = model.streaming_filter()
    stream.update(None)
    stream.update([1.0, np.nan, 2.0])
    with pytest.raises(DataError, match="step 2: observation_offset is given for 2 steps only"):
        stream.update(None)


def test_what_a_series_may_come_as(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(6, 2)) for _ in range(3)]
    model = LinearGaussian(1, max_iter=np.int64(2), tol=np.float64(0.0), random_state=0).fit(x)
    assert_array_equal(model.log_likelihood(row for row in x), model.log_likelihood(x))
    stream, masked = model.streaming_filter(), np.ma.array([1.0, 2.0], mask=[False, True])
    law = stream.update(masked)  # the value under a mask used to be taken
    assert_allclose(law.mean, model.filter(masked[None]).means[0])
    model.save(tmp_path / "model")  # numbers of numpy are numbers
    assert_array_equal(load(tmp_path / "model").log_likelihood(x), model.log_likelihood(x))
    model.set_params(random_state=rng).save(tmp_path / "model")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, x: m.forecast(x, 1.5), "steps is 1.5"),
        (lambda m, x: m.sample(2.5), "length is 2.5"),
        (lambda m, x: m.sample(2, n=-1), "n is -1"),
        (lambda m, x: m.streaming_filter().update("a"), "step 0: the observation must be 2 numbers"),
        (lambda m, x: m.fit(1e200 * x), "step 0 of sequence 0: column 0 of X is .*too large to be squared"),
        (lambda m, x: m.set_params(max_iter="many").fit(x), "max_iter is 'many'"),
        (lambda m, x: m.set_params(tol="small").fit(x), "tol is 'small'"),
        (lambda m, x: m.set_params(min_variance=np.inf).fit(x), "min_variance is inf"),
        (lambda m, x: m.set_params(n_observations="two").fit(x), "n_observations is 'two'"),
        (lambda m, x: m.set_params(n_states=2).filter(x), "fitted with n_states=1"),
    ],
)
def test_numbers_that_are_none(call: Any, words: str) -> None:
    x = np.random.default_rng(1).normal(size=(6, 2))
    model = LinearGaussian(1, max_iter=1, random_state=0).fit(x)
    with pytest.raises(TrellisError, match=words):
        call(model, x)

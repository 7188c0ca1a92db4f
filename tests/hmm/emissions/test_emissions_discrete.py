"""Categorical and Poisson emissions against tables, scipy.stats and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trellis.core.errors import DataError
from trellis.hmm.emissions import Categorical, Poisson

B = np.array([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]])


@pytest.mark.parametrize(
    "values",
    [
        [2, 0, -1, 1],
        np.array([2, 0, -1, 1], np.int8),
        np.array([[2.0], [0.0], [np.nan], [1.0]]),
        np.ma.masked_array([2, 0, 99, 1], mask=[0, 0, 1, 0]),
        np.ma.masked_array([[2.0], [0.0], [99.0], [1.0]], mask=[[0], [0], [1], [0]]),
    ],
    ids=["list", "int8", "nan", "masked", "masked column"],
)
def test_symbols_in_every_form(values: object) -> None:
    emission = Categorical(3, B)
    checked = emission.check(values)
    np.testing.assert_array_equal(checked, [2, 0, -1, 1])
    expected = np.array([[0.0, 0.7], [0.5, 0.1], [1.0, 1.0], [0.5, 0.2]])
    np.testing.assert_allclose(np.exp(emission.log_likelihood(checked)), expected, rtol=1e-14)
    assert emission.log_likelihood(checked)[0, 0] == -np.inf


def test_unchecked_symbols_never_reach_a_kernel() -> None:
    emission = Categorical(3, B)
    for values in (np.array([0, 3]), np.array([0, -2]), np.array([0, 2**40])):
        for question in (emission.log_likelihood, emission.scaled_likelihood):
            with pytest.raises(DataError, match="row 1: symbol"):
                question(values)
        with pytest.raises(DataError, match="row 1: symbol"):
            emission.statistics(values, np.ones((2, 2)))


def test_an_impossible_symbol_is_zero_and_minus_infinity() -> None:
    emission = Categorical(2, [[1.0, 0.0], [1.0, 0.0]])
    scaled, shift = emission.scaled_likelihood(emission.check([0, 1, -1]))
    np.testing.assert_array_equal(scaled, [[1, 1], [0, 0], [1, 1]])
    np.testing.assert_array_equal(shift, [0, -np.inf, 0])


@given(seed=st.integers(0, 10_000), k=st.integers(1, 5), m=st.integers(1, 7), n=st.integers(0, 30))
def test_counts_and_their_distribution(seed: int, k: int, m: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    emission = Categorical(m, pseudocount=0.25)
    symbols, posterior = rng.integers(-1, m, n), rng.dirichlet(np.ones(k), n)
    counts = emission.statistics(emission.check(symbols), posterior)["counts"]
    expected = np.array([[posterior[symbols == s, i].sum() for s in range(m)] for i in range(k)])
    np.testing.assert_allclose(counts, expected, atol=1e-13)
    table = emission.maximise({"counts": counts}).probabilities
    np.testing.assert_allclose(table, (expected + 0.25) / (expected + 0.25).sum(axis=1, keepdims=True))


def test_zero_counts_never_give_nan() -> None:
    values, posterior = np.array([0, 1, 0]), np.array([[1.0, 0.0]] * 3)
    kept = Categorical(3, B).maximise(Categorical(3, B).statistics(values, posterior))
    np.testing.assert_array_equal(kept.probabilities, [[2 / 3, 1 / 3, 0], B[1]])
    fresh = Categorical(3).initialise(values, posterior, np.random.default_rng(0))
    np.testing.assert_array_equal(fresh.probabilities, [[2 / 3, 1 / 3, 0]] * 2)
    nothing = Categorical(3).initialise(np.array([-1]), np.ones((1, 2)), np.random.default_rng(0))
    np.testing.assert_allclose(nothing.probabilities, 1 / 3)
    assert kept.expected_log_likelihood({"counts": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])}) < 0.0


def test_unseen_symbols_are_impossible_or_smoothed() -> None:
    values, posterior = np.array([0, 1, 0]), np.ones((3, 1))
    strict = Categorical(3).initialise(values, posterior, np.random.default_rng(0))
    smooth = Categorical(3, unseen="smooth").initialise(values, posterior, np.random.default_rng(0))
    assert strict.log_likelihood(np.array([2]))[0, 0] == -np.inf
    assert np.exp(smooth.log_likelihood(np.array([2])))[0, 0] == pytest.approx(0.01 / 3.03)
    assert Categorical(3, pseudocount=2.0, unseen="smooth").smoothing == 2.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Categorical(0), "n_symbols"),
        (lambda: Categorical(2.5), "n_symbols"),
        (lambda: Categorical(2, pseudocount=-1.0), "pseudocount"),
        (lambda: Categorical(2, unseen="skip"), "unseen"),
        (lambda: Categorical(2, B), r"\(n_states, 2\)"),
        (lambda: Categorical(3, B * 0.9), "row 0 .* add up to 1"),
        (lambda: Categorical(2, [[np.nan, 1.0]]), "not finite"),
        (lambda: Categorical(2, "words"), "array of numbers"),
        (lambda: Categorical(3, B).check([0, 1, 5]), "row 2: symbol 5 is not valid"),
        (lambda: Categorical(3, B).check([0.0, 0.5]), "row 1: symbol 0.5 is not valid"),
        (lambda: Categorical(3, B).check([0, np.inf]), "row 1: symbol inf is not valid"),
        (lambda: Categorical(3, B).check([[0, 1]]), "one column"),
        (lambda: Categorical(3, B).check(["a"]), "whole numbers"),
        (lambda: Poisson([1.0, 0.0]), "state 1, column 0"),
        (lambda: Poisson(prior_shape=0.5), "gamma prior"),
        (lambda: Poisson(min_rate=0.0), "min_rate"),
        (lambda: Poisson([1.0]).check([1, 2, -1]), "row 2: column 0 is -1"),
        (lambda: Poisson([1.0]).check([1, 0.5]), "row 1: column 0 is 0.5"),
        (lambda: Poisson([1.0]).check([np.inf]), "row 0: column 0 of X is inf"),
        (lambda: Poisson([1.0]).check([[1, 2]]), "2 columns"),
        (lambda: Poisson([1.0]).check(["x"]), "must contain numbers"),
    ],
)
def test_bad_input_is_named(make: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        make()


def test_poisson_against_scipy_with_missing_entries() -> None:
    rng = np.random.default_rng(0)
    rates = rng.gamma(3.0, 2.0, (4, 3))
    emission = Poisson(rates)
    values = rng.poisson(5.0, (50, 3)).astype(float)
    values[0, 0] = 3e5  # beyond the table of factorials
    values[rng.random(values.shape) < 0.3] = np.nan
    terms = stats.poisson.logpmf(np.nan_to_num(values)[:, None, :], rates[None])
    expected = np.where(np.isnan(values)[:, None, :], 0.0, terms).sum(axis=2)
    np.testing.assert_allclose(emission.log_likelihood(emission.check(values)), expected, rtol=1e-12)


def test_poisson_rates_are_weighted_means_and_prior_modes() -> None:
    rng = np.random.default_rng(1)
    values, posterior = rng.poisson(4.0, (30, 1)).astype(float), rng.dirichlet(np.ones(2), 30)
    plain = Poisson().initialise(values, posterior, rng)
    np.testing.assert_allclose(plain.rates[:, 0], posterior.T @ values[:, 0] / posterior.sum(axis=0))
    prior = Poisson(prior_shape=3.0, prior_rate=2.0).initialise(values, posterior, rng)
    np.testing.assert_allclose(
        prior.rates[:, 0], (posterior.T @ values[:, 0] + 2.0) / (posterior.sum(axis=0) + 2.0)
    )
    zeros = Poisson(min_rate=1e-3).initialise(np.zeros((4, 1)), np.ones((4, 1)), rng)
    assert zeros.rates[0, 0] == 1e-3

"""Intervals: by hand, against scipy, and above all their coverage over 2,000 simulated data sets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tagging import spans
from trellis.core.errors import DataError
from trellis.losses.metrics import span_report
from trellis.theory import (
    bootstrap_interval,
    clopper_pearson_interval,
    clopper_pearson_limits,
    empirical_bernstein_interval,
    hoeffding_interval,
    mcnemar_test,
    mean_interval,
    paired_loss_test,
    perceptron_mistake_bound,
    quantile_interval,
    share_interval,
)
from trellis.theory.example_losses import measure_losses
from trellis.theory.share_statistics import f1, ratio

DATA_SETS = 2000


def test_hoeffding_and_bernstein_by_hand() -> None:
    losses = np.array([0.0, 0.0, 1.0, 1.0] * 100)
    found = hoeffding_interval(losses)
    assert found.high - found.value == pytest.approx(math.sqrt(math.log(40) / 800))
    log = math.log(80)
    variance = 400 / 399 / 4
    found = empirical_bernstein_interval(losses)
    assert found.value - found.low == pytest.approx(math.sqrt(2 * variance * log / 400) + 7 * log / (3 * 399))
    scaled = empirical_bernstein_interval(10 * losses - 3, low=-3, high=7)
    assert scaled.width == pytest.approx(10 * found.width)
    alike = np.zeros(2000)
    assert empirical_bernstein_interval(alike).width < hoeffding_interval(alike).width


@given(m=st.integers(1, 300), share=st.floats(0, 1), delta=st.floats(0.001, 0.5))
def test_clopper_pearson_agrees_with_scipy(m: int, share: float, delta: float) -> None:
    k = round(share * m)
    found = clopper_pearson_interval(k, m, delta=delta)
    expected = stats.binomtest(k, m).proportion_ci(1 - delta, method="exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert found.value in found


def test_clopper_pearson_by_hand() -> None:
    """No error among m: the upper limit solves (1 - p)^m = delta / 2."""
    found = clopper_pearson_interval(0, 100)
    assert (found.low, found.high) == (0.0, pytest.approx(1 - 0.025**0.01))
    assert clopper_pearson_interval(100, 100).low == pytest.approx(0.025**0.01)
    assert str(found).startswith("0 (95% interval 0 to 0.03622")


@pytest.mark.parametrize("p", [0.0, 0.01, 0.1, 0.37, 0.5, 0.98])
@pytest.mark.parametrize("m", [10, 100])
def test_coverage_of_the_exact_interval(p: float, m: int) -> None:
    errors = np.random.default_rng([m, int(1000 * p)]).binomial(m, p, size=DATA_SETS)
    low, high = clopper_pearson_limits(errors, m)
    assert np.mean((low <= p) & (p <= high)) >= 0.94


@pytest.mark.parametrize("make", [hoeffding_interval, empirical_bernstein_interval])
@pytest.mark.parametrize("m", [2, 30, 400])
def test_coverage_of_the_bounded_ones(make: Any, m: int) -> None:
    losses = np.random.default_rng(m).beta(0.3, 2.0, size=(DATA_SETS, m))
    truth = 0.3 / 2.3
    assert np.mean([truth in make(row) for row in losses]) >= 0.95


def test_coverage_of_the_bootstrap() -> None:
    """Ratios of sums over sequences, whose steps go wrong together; right only in the limit, so 91%."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        steps = rng.integers(5, 30, size=150)
        wrong = rng.binomial(steps, rng.beta(2, 8, size=150))
        rows = np.stack([wrong, steps], axis=1)
        hits += 0.2 in bootstrap_interval(rows, ratio, n_resamples=200, seed=int(rng.integers(2**31)))
    assert hits / 200 >= 0.91


def test_means_of_losses_that_nothing_bounds() -> None:
    losses = np.random.default_rng(6).exponential(size=(300, 150))
    assert np.mean([1.0 in mean_interval(row) for row in losses]) >= 0.94
    with pytest.raises(
        DataError, match="the mean of fewer than 100 losses that nothing bounds has no interval"
    ):
        mean_interval(losses[0, :99])
    with pytest.raises(DataError, match="the mean of equal losses that nothing bounds"):
        mean_interval(np.full(200, 3.0))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_coverage_of_quantiles(level: float) -> None:
    values = np.random.default_rng(7).normal(size=(DATA_SETS, 120))
    truth = stats.norm.ppf(level)
    found = [quantile_interval(row, level) for row in values]
    assert np.mean([truth in interval for interval in found]) >= 0.94
    assert all(interval.value in interval for interval in found)


def test_quantiles_by_hand() -> None:
    values = np.arange(1.0, 101.0)
    found = quantile_interval(values, 0.95)
    below = stats.binom(100, 0.95)
    assert found.value == 95
    r, s = int(found.low), int(found.high) if np.isfinite(found.high) else 101
    assert below.cdf(r - 1) <= 0.025 < below.cdf(r)
    assert below.cdf(s - 1) >= 0.975 > below.cdf(s - 2)
    assert quantile_interval(np.arange(1.0, 21.0), 0.95).value == 19
    few = quantile_interval([0.1, 0.2], 0.95, low=-1, high=1)
    assert (few.low, few.high) == (0.1, 1.0)  # 0.95^2 > 0.025: even the largest may lie below


def test_the_interval_of_f1_is_that_of_the_metrics() -> None:
    _, gold = spans(60, seed=1)
    guess = [["O" if i % 5 == 0 else label for label in y] for i, y in enumerate(gold)]
    report = span_report(gold, guess)
    found = share_interval(*report.f1_parts())
    assert found.value == pytest.approx(report.overall.f1)
    assert (found.low, found.high) == pytest.approx(report.f1_interval(), rel=1e-12)
    boot = bootstrap_interval(report.counts, f1)
    assert found.low < boot.low < found.value < boot.high


def sequences(kind: str, m: int, error: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Units that are wrong and right, of m sequences."""
    if kind == "spans":
        gold = rng.integers(0, 6, size=m)
        correct = rng.binomial(gold, 1 - error)
        return gold + correct + rng.poisson(2 * error, size=m) - 2 * correct, 2 * correct
    if kind == "alike":
        sizes, share = rng.integers(1, 30, size=m), rng.beta(3 * error, 3 * (1 - error), size=m)
    else:  # some long ones, some spoilt
        sizes = np.minimum(np.ceil(np.exp(rng.normal(2.0, 1.2, size=m))), 400).astype(int)
        share = np.where(rng.random(m) < error, rng.random(m), error / 4)
    wrong = rng.binomial(sizes, share)
    return wrong, sizes - wrong


@pytest.mark.parametrize("error", [0.002, 0.02, 0.1, 0.4])
@pytest.mark.parametrize("kind", ["spans", "alike", "uneven"])
def test_shares_hold_their_level(kind: str, error: float) -> None:
    """From two sequences on, with few errors and with many: 95% of the intervals hold the truth, or more."""
    rng = np.random.default_rng(0)
    a, b = sequences(kind, 200_000, error, rng)
    truth = a.sum() / (a + b).sum()
    for m in (2, 5, 30, 300):
        held = [truth in share_interval(*sequences(kind, m, error, rng)) for _ in range(200)]
        assert np.mean(held) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 200), m


def test_nothing_wrong_is_worth_something() -> None:
    """Nothing wrong in m sequences of one step: Clopper and Pearson's; and 0 to 1 of nothing at all."""
    for m in (10, 100, 1000):
        exact, found = clopper_pearson_interval(0, m), share_interval(np.zeros(m), np.ones(m))
        assert (found.low, found.high) == (pytest.approx(0.0), pytest.approx(exact.high))
    empty = share_interval([0.0], [0.0])
    assert (empty.low, empty.high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clopper_pearson_interval(3, 2), "0 <= errors <= m"),
        (lambda: clopper_pearson_interval(0, 0), "m >= 1"),
        (lambda: clopper_pearson_interval(1.5, 3), "whole numbers"),  # type: ignore[arg-type]
        (lambda: clopper_pearson_interval(1, 3, delta=1.0), "delta is 1.0"),
        (lambda: hoeffding_interval([]), "no losses"),
        (lambda: hoeffding_interval([0.5, 2.0]), "loss 1 is 2.0, outside of 0.0 to 1.0"),
        (lambda: hoeffding_interval([0.5], low=1, high=1), "give low < high"),
        (lambda: empirical_bernstein_interval([0.5]), "at least two losses"),
        (lambda: bootstrap_interval(np.zeros((0, 2)), ratio), "at least one example"),
        (lambda: share_interval([], []), "one number of each for every example"),
        (lambda: share_interval([1.0, np.nan], [1.0, 1.0]), "example 1 has nan inside"),
        (lambda: share_interval([1.0], [-1.0]), "example 0 has 1.0 inside and -1.0 outside"),
        (lambda: quantile_interval([1.0], 1.0), "level is 1.0"),
        (lambda: mcnemar_test([0, 1], [0.5, 1]), "0 or 1"),
        (lambda: paired_loss_test([0, 1], [1]), "2 losses against 1"),
        (lambda: perceptron_mistake_bound(1.0, 0.0), "margin is 0.0; it must be positive"),
        (lambda: measure_losses([1, 2], [1]), "2 true labels"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()


def test_counts_are_whole() -> None:
    with pytest.raises(DataError, match="whole numbers"):
        clopper_pearson_limits(0.5, 10)
    with pytest.raises(DataError, match=r"losses is .*give a number"):
        hoeffding_interval(["much"])

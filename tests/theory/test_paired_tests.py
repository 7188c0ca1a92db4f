"""Paired tests: by hand, against scipy, and valid p-values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from trellis.core.errors import DataError
from trellis.theory import (
    bootstrap_interval,
    mcnemar_test,
    paired_loss_test,
    paired_test,
)
from trellis.theory.paired_tests import Comparison
from trellis.theory.share_statistics import f1, ratio


def test_mcnemar_by_hand() -> None:
    a = np.array([1] * 8 + [0] * 2 + [0] * 20 + [1] * 5)
    b = np.array([0] * 8 + [1] * 2 + [0] * 20 + [1] * 5)
    found = mcnemar_test(a, b)
    assert found.p_value == pytest.approx(2 * (1 + 10 + 45) / 1024)
    assert found.p_value == pytest.approx(stats.binomtest(2, 10).pvalue)
    assert (found.n, found.n_different) == (35, 10)
    assert found.difference == pytest.approx(6 / 35)
    assert not found.significant
    assert mcnemar_test(a, a).p_value == 1.0


def test_the_randomisation_test_is_exact_where_few_differ() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(9), rng.random(9)
    expected = stats.permutation_test(
        (a, b), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", vectorized=True
    ).pvalue
    found = paired_loss_test(np.append(a, 0.5), np.append(b, 0.5))
    assert found.p_value == pytest.approx(expected)
    assert found.n_different == 9


def test_the_drawn_randomisation_test_is_near_the_exact_one() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2, size=200)
    b = np.where(rng.random(200) < 0.15, 1 - a, a)
    b[:12] = 1
    exact, drawn = mcnemar_test(a, b), paired_loss_test(a, b)
    assert drawn.p_value == pytest.approx(exact.p_value, abs=0.02)
    assert drawn.low <= drawn.difference <= drawn.high


def test_p_values_are_uniform_or_larger_when_models_are_alike() -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 6, size=(150, 2, 25, 3))
    p = np.array([paired_test(pair[0], pair[1], f1, n_resamples=100).p_value for pair in counts])
    for level in (0.05, 0.2, 0.5):
        assert np.mean(p <= level) <= level + 3 * math.sqrt(level * (1 - level) / 150)


@pytest.mark.parametrize("unit", [1e-13, 1.0, 1e12])
@pytest.mark.parametrize("shift", [0.0, 1e9])
def test_the_unit_of_a_loss_does_not_change_the_p_value(unit: float, shift: float) -> None:
    """Every swap but that of none and of all lowers the difference: p = 2 / 2^7."""
    a = np.array([1.1, 2.3, 4.7, 3.1, 5.0, 6.0, 7.0])
    found = paired_loss_test((a + shift) * unit, np.full(7, shift) * unit)
    assert found.p_value == 2 / 2**7


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_losses_that_are_no_numbers_prove_nothing(bad: float) -> None:
    with pytest.raises(DataError, match=r"example 1 has .* needs finite numbers"):
        paired_loss_test([1.0, bad, 3.0], [1.0, 2.0, 3.0])
    with pytest.raises(DataError, match=r"the counts of example 0 are .*finite"):
        bootstrap_interval([[bad, 1.0], [0.0, 1.0]], lambda sums: sums[..., 0] / sums[..., 1])


def test_no_resamples_are_no_test() -> None:
    with pytest.raises(DataError, match="n_resamples is 0"):
        paired_loss_test(np.arange(20.0), np.zeros(20), n_resamples=0)
    with pytest.raises(DataError, match="n_resamples is 0"):
        bootstrap_interval([1.0, 2.0], lambda sums: sums[..., 0], n_resamples=0)


def _tokens(rng: np.random.Generator, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Wrong tokens and tokens of two models that mostly err alike; a has one sequence in thirty all wrong."""
    steps = 1 + rng.poisson(rng.gamma(2.0, 8.0, m))
    wrong_a = rng.binomial(steps, rng.beta(0.5, 15.0, m))
    wrong_b = np.where(rng.random(m) < 0.7, wrong_a, rng.binomial(steps, rng.beta(0.5, 15.0, m)))
    broken = rng.random(m) < 1 / 30
    wrong_a, wrong_b = np.where(broken, steps, wrong_a), np.where(broken, 0, wrong_b)
    return np.stack([wrong_a, steps], axis=1).astype(float), np.stack([wrong_b, steps], axis=1).astype(float)


def _spans(rng: np.random.Generator, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Correct, predicted and gold spans of two models; a third of the sequences have none."""
    gold = rng.poisson(2.0, m) * (rng.random(m) < 0.67)
    rows = []
    for skill in (0.9, 0.8):
        correct = rng.binomial(gold, skill)
        rows.append(np.stack([correct, correct + rng.poisson(0.1 * gold), gold], axis=1).astype(float))
    return rows[0], rows[1]


@pytest.mark.parametrize("m", [2, 5, 10, 20, 100])
@pytest.mark.parametrize(("draw", "statistic"), [(_tokens, ratio), (_spans, f1)], ids=["tokens", "F1"])
def test_coverage_of_differences_of_shares(draw: Any, statistic: Any, m: int) -> None:
    rng = np.random.default_rng(m)
    a, b = draw(rng, 400_000)
    truth = float(statistic(a.sum(axis=0)) - statistic(b.sum(axis=0)))
    limits = [statistic.difference_interval(*draw(rng, m), 0.05) for _ in range(120)]
    assert np.mean([low <= truth <= high for low, high in limits]) >= 0.92
    assert all(-1 <= low <= high <= 1 for low, high in limits)


def test_losses_that_nothing_bounds() -> None:
    rng = np.random.default_rng(0)
    few = paired_loss_test(rng.exponential(2.0, 50), rng.exponential(2.0, 50))
    assert not few.has_interval
    assert "no interval: too few losses that nothing bounds" in str(few)
    assert 0 < few.p_value <= 1
    many = paired_loss_test(rng.exponential(3.0, 400), rng.exponential(2.0, 400))
    assert 0 < many.low < many.difference < many.high


@pytest.mark.parametrize(
    ("p", "low", "words"),
    [
        (0.04, 0.1, "they differ"),
        (0.04, -0.1, "they differ by the test alone"),
        (0.06, -0.1, "no difference can be told"),
        (0.04, float("nan"), "they differ"),
    ],
)
def test_the_verdict_says_where_the_interval_is_wider_than_the_test(p: float, low: float, words: str) -> None:
    assert str(Comparison("a test", 0.5, 0.3, low, 0.4, 0.95, p, 40, 12)).endswith(f": {words}")

"""Intervals of signed sums: quantiles by hand, coverage with skewed and rare parts, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from trellis.core.arrays import FloatArray
from trellis.core.signed_sum_intervals import FEWEST, difference_quantile, signed_sum_interval

DATA_SETS = 120
Draw = Callable[[np.random.Generator, int], FloatArray]


@pytest.mark.parametrize("p", [1e-6, 0.025, 0.4, 0.6, 0.975, 1 - 1e-6])
def test_the_difference_of_two_exponential_variables_is_laplace(p: float) -> None:
    expected = math.log(2 * p) if p < 0.5 else -math.log(2 * (1 - p))
    assert difference_quantile((1.0, 1.0), (1.0, 1.0), p) == pytest.approx(expected, rel=1e-4)
    assert difference_quantile((3.0, 9.0), (3.0, 9.0), p) == pytest.approx(3 * expected, rel=1e-4)


@pytest.mark.parametrize("p", [0.025, 0.5, 0.975])
@pytest.mark.parametrize(
    ("x", "y"), [((3.0, 2.0), (1.0, 4.0)), ((0.1, 1.0), (5.0, 1.0)), ((9.0, 0.1), (2.0, 0.0))]
)
def test_quantiles_of_differences_against_samples(
    p: float, x: tuple[float, float], y: tuple[float, float]
) -> None:
    rng = np.random.default_rng(0)
    drawn = [rng.gamma(m * m / v, v / m, 400_000) if v else np.full(400_000, m) for m, v in (x, y)]
    assert np.mean(drawn[0] - drawn[1] <= difference_quantile(x, y, p)) == pytest.approx(p, abs=0.003)


def test_few_equal_differences_have_the_limits_of_a_poisson_count() -> None:
    d = np.zeros(10_000)
    d[:3] = 1e-4
    _, high = signed_sum_interval(d, d - d.mean(), 0.05, (1e-4, 1e-4))
    assert 1e4 * high == pytest.approx(
        8.767, rel=0.01
    )  # of 3 counts: half of chi-squared with 8 degrees of freedom
    _, high = signed_sum_interval(np.zeros(50), np.zeros(50), 0.05, (0.02, 0.02))
    assert high == pytest.approx(-math.log(0.025) / 50)


def test_the_other_side_is_the_mirror_image() -> None:
    d = np.random.default_rng(1).normal(0.01, 0.05, 40)
    e = d - d.mean()
    low, high = signed_sum_interval(d, e, 0.05, (0.1, 0.2))
    assert signed_sum_interval(-d, -e, 0.05, (0.2, 0.1)) == (pytest.approx(-high), pytest.approx(-low))
    assert low < d.sum() < high


def _binary(only_a: float, only_b: float) -> Draw:
    return lambda rng, m: (rng.random(m) < only_a).astype(float) - (rng.random(m) < only_b).astype(float)


# differences between -1 and 1, and their means
BOUNDED: dict[str, tuple[Draw, float]] = {
    "never": (lambda rng, m: np.zeros(m), 0.0),
    "rare": (_binary(0.03, 0.0), 0.03),
    "always": (lambda rng, m: np.where(rng.random(m) < 0.97, 1.0, -1.0), 0.94),
    "frequent": (_binary(0.3, 0.4), -0.1),
    "small, and rarely all": (
        lambda rng, m: np.where(rng.random(m) < 0.04, 1.0, 0.02 * rng.normal(size=m)),
        0.04,
    ),
    "skewed": (lambda rng, m: rng.beta(0.3, 6.0, m) - rng.beta(0.3, 2.0, m), 0.3 / 6.3 - 0.3 / 2.3),
}


@pytest.mark.parametrize("m", [2, 5, 10, 20, 100])
@pytest.mark.parametrize("name", BOUNDED)
def test_coverage_of_bounded_differences(name: str, m: int) -> None:
    draw, truth = BOUNDED[name]
    rng = np.random.default_rng(m)
    hits = 0
    for _ in range(DATA_SETS):
        x = draw(rng, m)
        mean = x.mean()
        low, high = signed_sum_interval(x / m, (x - mean) / m, 0.05, ((1 + mean) / m, (1 - mean) / m))
        hits += low <= truth <= high
    assert hits / DATA_SETS >= 0.92


UNBOUNDED: dict[str, tuple[Draw, float]] = {
    "exponential": (lambda rng, m: rng.exponential(1.0, m), 1.0),
    "log-normal": (lambda rng, m: np.exp(rng.normal(size=m)), math.exp(0.5)),
    "minus log-normal": (lambda rng, m: -np.exp(rng.normal(size=m)), -math.exp(0.5)),
    "one in twenty is thirty times larger": (
        lambda rng, m: rng.gamma(4.0, 0.25, m) * np.where(rng.random(m) < 0.05, 30.0, 1.0),
        2.45,
    ),
    "normal": (lambda rng, m: rng.normal(0.3, 1.0, m), 0.3),
}


@pytest.mark.parametrize("m", [FEWEST, 400])
@pytest.mark.parametrize("name", UNBOUNDED)
def test_coverage_of_means_that_nothing_bounds(name: str, m: int) -> None:
    draw, truth = UNBOUNDED[name]
    rng = np.random.default_rng(m)
    hits = 0
    for _ in range(DATA_SETS):
        x = draw(rng, m)
        low, high = signed_sum_interval(x / m, (x - x.mean()) / m, 0.05)
        hits += low <= truth <= high
    assert hits / DATA_SETS >= 0.92


def test_what_nothing_bounds_has_no_interval_if_it_is_little_or_all_alike() -> None:
    x = np.random.default_rng(0).exponential(size=FEWEST - 1)
    assert np.isnan(signed_sum_interval(x, x - x.mean(), 0.05)).all()
    assert np.isnan(signed_sum_interval(np.ones(200), np.zeros(200), 0.05)).all()
    assert signed_sum_interval(x[:1], np.zeros(1), 0.05, (1.0, 1.0)) == (-math.inf, math.inf)

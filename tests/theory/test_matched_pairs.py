"""Matched pairs: the coverage itself, by summing over all tables, and the agreement with McNemar's test."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy import stats

from trellis.theory.matched_pairs import matched_pairs_interval


@functools.cache
def _limits(m: int) -> dict[tuple[int, int], tuple[float, float]]:
    return {(a, b): matched_pairs_interval(a, b, m, 0.05) for a in range(m + 1) for b in range(m + 1 - a)}


@pytest.mark.parametrize("m", [1, 2, 5, 10])
def test_coverage_by_enumeration(m: int) -> None:
    shares = (0.0, 0.02, 0.1, 0.3, 0.5, 0.9, 1.0)
    for p, q in ((p, q) for p in shares for q in shares if p + q <= 1):
        covered = sum(
            stats.multinomial.pmf([a, b, m - a - b], m, [p, q, max(1 - p - q, 0.0)])
            for (a, b), (low, high) in _limits(m).items()
            if low - 1e-9 <= p - q <= high + 1e-9
        )
        assert covered >= 0.95, (p, q)


@pytest.mark.parametrize("m", [1, 2, 5, 10])
def test_zero_is_excluded_exactly_where_mcnemar_tells_a_difference(m: int) -> None:
    for (a, b), (low, high) in _limits(m).items():
        assert -1 <= low <= (a - b) / m <= high <= 1
        p = stats.binomtest(a, a + b).pvalue if a + b else 1.0
        assert (p < 0.05) == (low > 0 or high < 0), (a, b)
        assert (low, high) == tuple(pytest.approx(-end) for end in reversed(_limits(m)[b, a]))


def test_many_pairs() -> None:
    low, high = matched_pairs_interval(520, 480, 10_000, 0.05)
    half = 1.96 * np.sqrt(1000 / 10_000 - 0.004**2) / 100
    assert (low, high) == (pytest.approx(0.004 - half, abs=2e-4), pytest.approx(0.004 + half, abs=2e-4))
    assert matched_pairs_interval(0, 0, 100, 0.05)[1] == pytest.approx(1 - 0.025**0.01)

"""Log-sum-exp of arrays and of kernels, against SciPy, with rows that are impossible."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from trellis.core import logspace, logspace_kernels
from trellis.core.logspace_kernels import MAX, SUM


@st.composite
def score_rows(draw: st.DrawFn) -> np.ndarray:
    """Rows (n, k) of scores of any size, entries and whole rows of which are -inf."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, k = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    rows = draw(st.sampled_from([1.0, 100.0, 1e4])) * rng.normal(size=(n, k))
    rows[rng.random((n, k)) < 0.3] = -np.inf
    rows[rng.random(n) < 0.3] = -np.inf
    return rows


@given(score_rows(), st.sampled_from([0, 1, -1, (0, 1), None]))
def test_arrays(rows: np.ndarray, axis: int | tuple[int, ...] | None) -> None:
    wanted = logsumexp(rows, axis=axis, keepdims=True)
    found = logspace.log_sum_exp(rows, axis, keepdims=True)
    assert_allclose(found, wanted, rtol=1e-12)
    assert_allclose(logspace.log_sum_exp(rows, axis), logsumexp(rows, axis=axis), rtol=1e-12)
    shares, log_sums = logspace.softmax_and_log_sum(rows, axis)
    assert_allclose(shares, np.exp(rows - np.where(wanted > -np.inf, wanted, 0.0)), rtol=1e-9)
    assert_allclose(log_sums, wanted, rtol=1e-12)
    assert_allclose(shares.sum(axis=axis, keepdims=True), np.where(wanted > -np.inf, 1.0, 0.0), atol=1e-12)


def test_an_empty_axis_is_impossible() -> None:
    assert logspace.log_sum_exp(np.zeros((2, 0))).tolist() == [-np.inf, -np.inf]


def test_precision_is_kept() -> None:
    single = np.zeros((2, 3), dtype=np.float32)
    assert logspace.log_softmax(single).dtype == np.float32
    assert_allclose(logspace.log_softmax(single), -np.log(3), rtol=1e-6)


@given(score_rows())
def test_kernels(rows: np.ndarray) -> None:
    for row in rows:
        wanted = float(logsumexp(row))
        assert_allclose(logspace_kernels.log_sum_exp(row), wanted, rtol=1e-12)
        assert_allclose(logspace_kernels.log_dot_exp(row, row), logsumexp(2 * row), rtol=1e-12)
        out = np.empty_like(row)
        top, total = logspace_kernels.exp_and_sum(row, out)
        assert top == row.max()
        assert_allclose(total, np.exp(wanted - top) if top > -np.inf else 0.0, rtol=1e-12)
        assert_allclose(out, np.exp(row - top) if top > -np.inf else 0.0, rtol=1e-9)
        normalised = row.copy()
        assert_allclose(logspace_kernels.normalise_logs(normalised), wanted, rtol=1e-12)
        assert_allclose(normalised, row - wanted if top > -np.inf else row, rtol=1e-9, atol=1e-9)


@given(st.lists(st.sampled_from([-np.inf, -1e4, -1.5, 0.0, 3.0, 700.0]), min_size=2, max_size=2))
def test_two_numbers(pair: list[float]) -> None:
    a, b = pair
    assert logspace_kernels.semiring_add(MAX, a, b) == max(a, b)
    assert_allclose(logspace_kernels.semiring_add(SUM, a, b), np.logaddexp(a, b), rtol=1e-12)

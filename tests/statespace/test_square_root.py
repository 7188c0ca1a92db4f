"""The reduction that carries the Kalman filter, on matrices of any rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.statespace.square_root_kernels import covariance_roots, regression, triangularise


@given(
    k=st.integers(1, 6),
    extra=st.integers(0, 6),
    cols=st.integers(1, 10),
    rank=st.integers(0, 6),
    seed=st.integers(0, 1000),
)
def test_inner_products_stay_and_the_top_is_an_echelon(
    k: int, extra: int, cols: int, rank: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    top = rng.normal(size=(k, rank)) @ rng.normal(size=(rank, cols))
    M = np.concatenate([top, rng.normal(size=(extra, cols))])
    reduced, pivots = M.copy(), np.empty(k, np.int64)
    found = triangularise(reduced, k, k + extra, cols, pivots)
    expected = min(k, cols, rank)
    assert found >= expected
    for i in np.flatnonzero(pivots >= expected):  # rounding may pass for a rank: it is as small as rounding
        assert reduced[i, pivots[i]] <= 1e-12 * np.abs(top).max()
    np.testing.assert_allclose(reduced @ reduced.T, M @ M.T, atol=1e-10)
    np.testing.assert_array_equal(pivots[pivots >= 0], np.arange(found))
    for i in range(k):
        taken = int((pivots[: i + 1] >= 0).sum())
        np.testing.assert_array_equal(reduced[i, taken:], 0.0)
        if pivots[i] >= 0:
            assert reduced[i, pivots[i]] > 0
    J = np.empty((extra, k))
    regression(reduced, k, extra, k, pivots, J)
    # the regression of the lower rows on the upper ones: what is left is orthogonal to these
    scale = max(1.0, np.abs(J).max(initial=0.0))
    np.testing.assert_allclose((M[k:] - J @ top) @ top.T, 0.0, atol=1e-8 * scale)


@given(n=st.integers(1, 8), rank=st.integers(0, 8), spread=st.integers(0, 12), seed=st.integers(0, 1000))
def test_roots_of_covariances_of_any_rank_and_scale(n: int, rank: int, spread: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, rank)) * 10.0 ** rng.uniform(-spread, spread, size=(n, 1))
    P = root @ root.T
    L, bad = covariance_roots(P[None])
    assert bad == -1
    np.testing.assert_array_equal(L[0], np.tril(L[0]))
    scale = np.sqrt(np.outer(np.diag(P), np.diag(P))) + np.finfo(float).tiny
    assert (np.abs(L[0] @ L[0].T - P) / scale).max() < 1e-12


@pytest.mark.parametrize(
    "P",
    [[[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]], [[0.0, 1e-3], [1e-3, 1.0]]],
)
def test_what_is_no_covariance_is_found(P: list[list[float]]) -> None:
    assert covariance_roots(np.array([np.eye(2), P]))[1] == 1

"""Products in tiles are those of NumPy, for every number of tiles; roots leave out what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.numerics import kernel
from trellis.core.tile_kernels import (
    add_row,
    add_symmetric,
    add_transposed,
    mirror,
    product,
    transposed_symmetric,
)
from trellis.statespace.covariance_smoother_kernels import inverse_root


@kernel
def _answers(B, X, X_t, Y, x, b, depth, plain, added, added_symmetric, in_place, row):  # type: ignore[no-untyped-def]
    product(X, Y, depth, plain)
    add_transposed(B, X_t, Y, depth, -0.5, added)
    add_symmetric(B, X_t, Y, depth, 2.0, added_symmetric)
    add_transposed(in_place, X_t, Y, depth, 1.0, in_place)
    add_row(b, x, Y, depth, row)


@kernel
def _squares(X, depth, square):  # type: ignore[no-untyped-def]
    transposed_symmetric(X, X, depth, square)
    mirror(square, square.shape[0])


@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 6),
    columns=st.integers(1, 6),
    depth=st.integers(1, 20),
    beyond=st.integers(0, 3),
)
def test_products_in_tiles(seed: int, rows: int, columns: int, depth: int, beyond: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = 4 * rows, 4 * columns
    X, Y = rng.normal(size=(rows, depth + beyond)), rng.normal(size=(depth + beyond, columns))
    B, x, b = rng.normal(size=(rows, columns)), rng.normal(size=depth), rng.normal(size=columns)
    blank = np.full((rows, columns), np.nan)  # what is written must not depend on what was there
    plain, added, added_symmetric = blank.copy(), blank.copy(), blank.copy()
    in_place, row = B.copy(), np.full(columns, np.nan)
    _answers(
        B, X, np.ascontiguousarray(X.T), Y, x, b, depth, plain, added, added_symmetric,
        in_place, row,
    )  # fmt: skip
    expected = X[:, :depth] @ Y[:depth]
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(plain, expected, **close)
    np.testing.assert_allclose(added, B - 0.5 * expected, **close)
    np.testing.assert_allclose(in_place, B + expected, **close)
    np.testing.assert_allclose(row, b + x @ Y[:depth], **close)
    square = blank[:1, :1].repeat(rows, 0).repeat(rows, 1)
    _squares(np.ascontiguousarray(X.T), depth, square)
    np.testing.assert_allclose(square, X[:, :depth] @ X[:, :depth].T, **close)
    upper = np.triu_indices(rows, 0, columns)
    np.testing.assert_allclose(added_symmetric[upper], (B + 2.0 * expected)[upper], **close)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 9), share=st.floats(0.0, 1.0))
def test_an_inverse_root_leaves_out_what_is_missing(seed: int, m: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    size = (m + 3) // 4 * 4
    root, y = rng.normal(size=(m, m)), rng.normal(size=m)
    y[rng.random(m) < share] = np.nan
    seen = ~np.isnan(y)
    F, R, U, inverse = (
        np.zeros((size, size)),
        np.zeros((size, size)),
        np.empty((size, size)),
        np.zeros((size, size)),
    )
    F[:m, :m], R[:m, :m] = root @ root.T, np.diag(rng.uniform(0.5, 2.0, size=m))
    inverse[:m, :m] = np.tril(np.full((m, m), 7.0))  # of the step before
    assert inverse_root(y, R, np.full(m, 1e9), F, U, inverse)
    assert not inverse[:m][~seen].any()
    assert not inverse[:, :m][:, ~seen].any()
    assert not np.triu(inverse, 1).any()
    assert not inverse[m:].any()
    there = np.ix_(np.flatnonzero(seen), np.flatnonzero(seen))
    expected = np.linalg.inv(np.linalg.cholesky((F + R)[there])) if seen.any() else np.empty((0, 0))
    np.testing.assert_allclose(inverse[there], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("y", "fine"), [(1.0, False), (np.nan, True)])
def test_only_what_is_observed_has_a_limit(y: float, fine: bool) -> None:
    F, R = np.diag([2.0, 0.0, 0.0, 0.0]), np.diag([1.0, 1.0, 0.0, 0.0])
    U, inverse = np.empty((4, 4)), np.zeros((4, 4))
    assert inverse_root(np.array([y, 0.0]), R, np.array([2.5, 2.5]), F, U, inverse) == fine

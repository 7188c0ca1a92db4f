"""Vectors of eight numbers against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.core import simd_kernels as simd
from trellis.core.numerics import kernel


@kernel
def exponentials(x, out):
    for i in range(x.shape[0]):
        for k in range(0, x.shape[1], simd.WIDTH):
            simd.store(out, i, k, simd.exp_below(simd.load(x, i, k)))


@kernel
def folds(x, out):
    """The folds of the first row of ``x`` (2, 8), then what is done lane by lane, in rows."""
    a, b = simd.load(x, 0, 0), simd.load(x, 1, 0)
    out[0, 0], out[0, 1], out[0, 2] = simd.total(a), simd.largest(a), simd.smallest(a)
    simd.store(out, 1, 0, simd.add(a, b))
    simd.store(out, 2, 0, simd.multiply(a, b))
    simd.store(out, 3, 0, simd.fma(2.5, a, b))
    simd.store(out, 4, 0, simd.larger(a, b))
    simd.store(out, 5, 0, simd.smaller(a, b))
    simd.store(out, 6, 0, simd.where_positive(a, b))
    simd.store(out, 7, 0, simd.choose(x[0, 0] > 0.0, a, simd.splat(7.0)))


@pytest.mark.parametrize("low", [1e-300, 1e-12, 1e-3, 1.0, 50.0, 700.0])
def test_exp_is_right_to_the_last_place(low: float) -> None:
    rng = np.random.default_rng(0)
    x = -simd.aligned_zeros(500, 16) - low * rng.uniform(0.0, 1.0, (500, 16))
    out = simd.aligned_zeros(500, 16)
    exponentials(x, out)
    exact = np.exp(x.astype(np.longdouble))
    assert (np.abs(out - exact) <= 1.01 * np.spacing(exact.astype(np.float64))).all()


def test_exp_at_the_ends() -> None:
    x = simd.aligned_zeros(1, 8)
    x[0] = [0.0, -0.0, -np.inf, -708.0, -708.1, -1e300, -np.log(2.0), -5e-324]
    out = np.full((1, 8), np.nan)
    exponentials(x, out)
    np.testing.assert_allclose(out[0], [1.0, 1.0, 0.0, np.exp(-708.0), 0.0, 0.0, 0.5, 1.0], rtol=3e-16)


@pytest.mark.parametrize("seed", range(5))
def test_lanes_are_those_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, 8))
    x[rng.random((2, 8)) < 0.2] = 0.0
    x[1, seed] = -np.inf
    a, b = x
    out = np.zeros((8, 8))
    folds(x, out)
    np.testing.assert_allclose(out[0, :3], [a.sum(), a.max(), a.min()], rtol=1e-14)
    expected = [a + b, a * b, 2.5 * a + b, np.maximum(a, b), np.minimum(a, b), np.where(a > 0, b, 0)]
    np.testing.assert_allclose(out[1:7], expected, rtol=1e-14)
    np.testing.assert_array_equal(out[7], a if a[0] > 0 else np.full(8, 7.0))


@pytest.mark.parametrize("shape", [(1, 8), (3, 24), (2, 16, 16)])
def test_rows_begin_cache_lines(shape: tuple[int, ...]) -> None:
    for _ in range(5):
        x = simd.aligned_zeros(*shape)
        assert x.shape == shape
        assert x.ctypes.data % 64 == 0
        assert x.flags.c_contiguous
        assert not x.any()


def test_padding_is_to_whole_vectors() -> None:
    assert [simd.padded(n) for n in (0, 1, 7, 8, 9, 22, 24, 25)] == [0, 8, 8, 8, 16, 24, 24, 32]

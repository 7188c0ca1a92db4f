"""Resamples: complete, reproducible, and what sums are made of."""

from __future__ import annotations

import numpy as np

from trellis.core.bootstrap import resampled_sums, resamples


def test_resamples_are_reproducible_and_complete() -> None:
    counts = np.array(list(resamples(7, 50, seed=0)))
    assert counts.shape == (50, 7)
    assert (counts.sum(axis=1) == 7).all()
    assert (counts == np.array(list(resamples(7, 50, seed=0)))).all()
    assert (counts != np.array(list(resamples(7, 50, seed=1)))).any()


def test_sums_are_those_of_the_drawn_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(7, 2))
    counts = np.array(list(resamples(7, 20, seed=3)))
    np.testing.assert_allclose(resampled_sums(rows, 20, seed=3), counts @ rows)

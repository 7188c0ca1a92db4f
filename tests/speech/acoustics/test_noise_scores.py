"""Scores of noise: the r-th best class, by sorting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trellis.speech.acoustics.noise_scores import RANK, noise_articulation, with_noise

SCORES = st.integers(1, 30).flatmap(
    lambda n: arrays(
        np.float32,
        st.tuples(st.integers(0, 5), st.just(n)),
        elements=st.one_of(st.floats(-50, 0, width=32), st.just(-np.inf)),
    )
)


def _rank(n: int) -> int:
    return min(n, RANK, max(2, 1 + n // 5))


@given(SCORES)
def test_noise_is_the_rth_best_class(scores: np.ndarray) -> None:
    n = scores.shape[1]
    expected = [sorted(row, reverse=True)[_rank(n) - 1] for row in scores]
    found = with_noise(scores, n)
    np.testing.assert_array_equal(found[:, :n], scores)
    np.testing.assert_array_equal(found[:, n], expected)
    own = with_noise(scores, n - 1)  # noise was in training, as the last class
    assert own.shape == scores.shape
    np.testing.assert_array_equal(own[:, n - 1], np.maximum(expected, scores[:, n - 1]))
    np.testing.assert_array_equal(own[:, : n - 1], scores[:, : n - 1])


@pytest.mark.parametrize("n_classes", [3, 20])
def test_articulation_is_that_of_the_rth_best_class(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    odds = rng.normal(size=(6, 5)).astype(np.float32)
    centroids = (rng.random((n_classes, 5)) < 0.5).astype(np.float64)
    p = 1 / (1 + np.exp(-odds[:, None]))
    each = np.sum(np.log(np.where(centroids[None] == 1, p, 1 - p)), axis=2)
    expected = np.sort(each, axis=1)[:, -_rank(n_classes)]
    np.testing.assert_allclose(noise_articulation(odds, centroids), expected, rtol=1e-4)

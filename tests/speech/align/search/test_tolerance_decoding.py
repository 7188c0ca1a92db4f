"""Decoding for a tolerance, against all increasing sequences of frames."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from trellis.speech.align.search.tolerance_decoding import decode_starts, tolerance_gains
from trellis.speech.align.search.tolerance_decoding_kernels import increasing_path


def share_within(start: float, reference: float, widths: list[float]) -> float:
    """The mean, over tolerances, of the part of the frame around ``reference`` that is within it."""
    fine = reference + (np.arange(2000) + 0.5) / 2000 - 0.5
    return float(np.mean([np.mean(np.abs(fine - start) <= w) for w in widths]))


@given(st.integers(0, 2**32 - 1), st.sampled_from([[1.0], [1.0, 2.0], [0.5], [2.3, 0.1], [4.0]]))
def test_gains_are_expected_shares(seed: int, widths: list[float]) -> None:
    rng = np.random.default_rng(seed)
    posterior = rng.dirichlet(np.full(7, 0.3), size=3)
    gains = tolerance_gains(posterior, widths)
    for k, t in np.ndindex(gains.shape):
        expected = sum(p * share_within(t, u, widths) for u, p in enumerate(posterior[k]))
        assert_allclose(gains[k, t], expected, atol=2e-3)


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.integers(0, 5),
    st.booleans(),
)
def test_the_sequence_is_the_best_of_all(seed: int, shortest: list[int], more: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    n, n_frames = len(shortest), sum(shortest) + more
    gains = rng.normal(size=(n, n_frames + 1))
    if ties:
        gains = np.round(gains)
    starts = np.full(n, -1)
    increasing_path(gains, np.array(shortest), starts)
    assert starts[0] == 0
    assert (np.diff(starts, append=n_frames) >= shortest).all()
    best = max(
        sum(gains[k, t] for k, t in enumerate(others, start=1))
        for others in combinations(range(1, n_frames), n - 1)
        if (np.diff([0, *others, n_frames]) >= shortest).all()
    )
    assert_allclose(gains[np.arange(1, n), starts[1:]].sum(), best, atol=1e-12)


def test_two_small_peaks_within_the_tolerance_beat_a_large_one() -> None:
    posterior = np.zeros((2, 12))
    posterior[0, 0] = 1.0
    posterior[1, [2, 7, 8]] = 0.4, 0.3, 0.3
    assert decode_starts(posterior, np.array([1, 1]), [1.0]).tolist() == [0, 7]
    assert decode_starts(posterior, np.array([1, 4]), [1.0]).tolist() == [0, 7]
    assert decode_starts(posterior, np.array([1, 6]), [1.0]).tolist() == [0, 2]

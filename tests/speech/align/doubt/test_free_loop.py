"""The free sequence of classes against a programme that tries every pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_acoustics import acoustic_model, utterance
from trellis.speech.align.doubt.free_loop import free_loop
from trellis.speech.align.doubt.free_loop_kernels import free_path
from trellis.speech.align.search.topology import topology_names


def arrays(rng: np.random.Generator, n_frames: int, n_classes: int, units: int) -> tuple[np.ndarray, ...]:
    around, left, right = (
        rng.normal(size=(n, units)).astype(np.float32) for n in (n_frames - 1, n_classes, n_classes)
    )
    return (
        rng.normal(size=(n_frames, n_classes)),
        around,
        left,
        right,
        rng.normal(size=units).astype(np.float32),
    )


def run(
    frames: np.ndarray,
    around: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    weight: np.ndarray,
    branch: int,
) -> tuple[np.ndarray, np.ndarray]:
    path, gains = np.empty(len(frames), dtype=np.int64), np.empty(len(frames))
    rooms = np.empty(branch, dtype=np.int64), np.empty(branch, dtype=np.int64)
    free_path(frames, around, left, right, weight, np.float32(-0.5), 0.7, *rooms, path, gains)
    return path, gains


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 5))
def test_with_all_classes_tried_it_is_the_best_sequence(seed: int, n_frames: int, n_classes: int) -> None:
    frames, around, left, right, weight = arrays(np.random.default_rng(seed), n_frames, n_classes, 4)
    path, gains = run(frames, around, left, right, weight, n_classes)

    def between(t: int, a: int, b: int) -> float:
        inner = np.maximum(around[t - 1] + left[a] + right[b], 0.0) @ weight
        return 0.0 if a == b else 0.7 * (float(inner) - 0.5)

    score = frames[0].copy()
    for t in range(1, n_frames):
        table = [[score[a] + between(t, a, b) for a in range(n_classes)] for b in range(n_classes)]
        score = frames[t] + np.max(table, axis=1)
    own = sum(frames[t, path[t]] + (between(t, path[t - 1], path[t]) if t else 0.0) for t in range(n_frames))
    assert gains.sum() == pytest.approx(score.max(), abs=1e-4)
    assert gains.sum() == pytest.approx(own, abs=1e-4)


def test_fewer_classes_tried_never_score_more() -> None:
    given_arrays = arrays(np.random.default_rng(0), 30, 6, 4)
    totals = [run(*given_arrays, branch)[1].sum() for branch in range(1, 7)]
    assert max(totals) == totals[-1]
    assert totals[3] > totals[0]


def test_scores_of_the_phones_are_linear_in_the_weights() -> None:
    """In double precision, although the network answers in single precision."""
    acoustics, spoken = acoustic_model(), utterance(3)
    starts = np.rint(spoken.starts).astype(np.int64)
    owner = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(spoken.frames)))
    evidence = acoustics.evidence(spoken.frames)

    def forced(weights: np.ndarray) -> np.ndarray:
        found = free_loop(acoustics, weights, evidence, spoken.labels, starts, owner)
        assert found is not None
        return found.forced

    one, other = np.random.default_rng(0).normal(size=(2, len(topology_names(acoustics.names))))
    assert abs(forced(one) - forced(other)).max() > 0.1
    np.testing.assert_allclose(forced(one) + forced(other), forced(one + other), rtol=0, atol=1e-12)

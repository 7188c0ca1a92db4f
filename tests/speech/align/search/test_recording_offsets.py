"""Offsets for a recording's own sound: classes are heard as often as they are said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.core.arrays import Float32Array, IntArray
from trellis.speech.acoustics import noise_scores
from trellis.speech.acoustics.frame_evidence import FrameEvidence
from trellis.speech.align.search.coarse_search import coarse_frame_path
from trellis.speech.align.search.lattice_moves import LatticeMoves
from trellis.speech.align.search.recording_offsets import (
    FIT,
    heard_shares,
    recording_offsets,
    with_offsets,
)
from trellis.speech.corpus.phone_lattice import word_lattice

C = 5  # silence and the phones of WORDS
WORDS = {"a": [["x", "y"]], "b": [["z", "y"]], "c": [["y", "x"]], "d": [["w", "z", "x"]]}


def recording(rng: np.random.Generator, n_words: int) -> tuple[LatticeMoves, IntArray]:
    """Words with pauses between them, and the node of each frame."""
    lattice = word_lattice([*rng.choice(list("abcd"), n_words)], WORDS)
    codes = np.array(["wxyz".find(label) + 1 for label in lattice.labels])
    lengths = np.where(codes == 0, rng.integers(20, 100, len(codes)), rng.integers(5, 15, len(codes)))
    return LatticeMoves.of(lattice, codes, ""), np.repeat(np.arange(lattice.n_nodes), lengths)


def heard(rng: np.random.Generator, classes: IntArray, sure: float = 3.0) -> Float32Array:
    return (sure * np.eye(C)[classes] + rng.normal(size=(len(classes), C))).astype(np.float32)


@given(st.integers(1, 40), st.integers(0, 999))
def test_shares_are_the_formula(n_frames: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(n_frames, C)).astype(np.float32) * 3
    said, b = rng.dirichlet(np.ones(C)), rng.normal(size=C).astype(np.float32)
    said[int(rng.integers(C))] = 0.0
    q = np.zeros(C)
    for t in range(n_frames):
        each = [said[c] * np.exp(float(g[t, c]) + float(b[c])) for c in range(C)]
        q += np.array(each) / sum(each) / n_frames
    np.testing.assert_allclose(heard_shares(g, said, b), q, rtol=1e-4, atol=1e-6)


@settings(max_examples=30)
@given(st.integers(1, C - 1), st.floats(1.5, 4.0), st.integers(0, 999))
def test_pauses_that_sound_like_a_phone_do_not_draw_words(like: int, strength: float, seed: int) -> None:
    """In the pauses one phone's class is heard as well as silence, and often better."""
    rng = np.random.default_rng(seed)
    moves, truth = recording(rng, 60)
    classes = moves.codes[truth]
    g = heard(rng, classes)
    g[classes == 0, like] += np.float32(strength)
    offsets = recording_offsets(g, moves, 5, lambda b: g + b, C)
    assert offsets[like] < 0
    plain, own = coarse_frame_path(moves, g, 5), coarse_frame_path(moves, g + offsets, 5)
    assert plain is not None
    assert own is not None
    right = [float(np.mean(path == truth)) for path in (plain, own)]
    assert right[1] >= right[0] - 0.01
    said = np.bincount(classes, minlength=C) / len(classes)
    far = [np.abs(heard_shares(g, said, b) - said).sum() for b in (np.zeros_like(offsets), offsets)]
    assert far[1] < far[0]


@given(st.integers(0, 999))
def test_a_recording_that_is_heard_as_it_is_said_stays_as_it_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    moves, truth = recording(rng, 60)
    g = heard(rng, moves.codes[truth], sure=12.0)
    assert np.abs(recording_offsets(g, moves, 5, lambda b: g + b, C)).max() < 0.3


def test_too_few_frames_have_no_offsets() -> None:
    moves, _ = recording(np.random.default_rng(0), 5)
    g = np.zeros((4, C), dtype=np.float32)
    assert not recording_offsets(g, moves, 1, lambda b: g + b, C).any()


@given(st.integers(0, 999), st.sampled_from([C - 1, C]))
def test_noise_is_ranked_among_scores_with_offsets(seed: int, noise_code: int) -> None:
    rng = np.random.default_rng(seed)
    scores, offsets = (rng.normal(size=size).astype(np.float32) for size in ((9, C), C))
    fits = noise_scores.with_noise(scores, noise_code)
    found = with_offsets(FrameEvidence(fits, class_fit=fits), offsets, noise_code).class_fit
    assert found is not None
    spoken = [c for c in range(C) if c != noise_code]
    np.testing.assert_allclose(found[:, spoken], (scores + FIT * offsets)[:, spoken], rtol=1e-6, atol=1e-6)
    if noise_code == C:
        rank = min(noise_scores.RANK, max(2, 1 + C // 5))
        np.testing.assert_array_equal(found[:, C], np.sort(found[:, :C], axis=1)[:, -rank])
    assert with_offsets(FrameEvidence(), offsets, noise_code).class_fit is None


@pytest.mark.parametrize("n_words", [1, 3])
def test_noise_alone_has_no_offsets(n_words: int) -> None:
    moves, truth = recording(np.random.default_rng(1), n_words)
    noise = LatticeMoves(
        np.full_like(moves.codes, C), moves.indptr, moves.pred, moves.reach, moves.first, moves.final
    )
    g = np.zeros((len(truth), C), dtype=np.float32)
    with_noise = np.zeros((len(truth), C + 1), dtype=np.float32)
    assert not recording_offsets(g, noise, 5, lambda _: with_noise, C).any()

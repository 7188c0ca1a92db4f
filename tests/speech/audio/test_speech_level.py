"""Normalisation over speech: what is added to a recording does not change what it is."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trellis.core.errors import DataError
from trellis.speech import FrameOptions, mfcc
from trellis.speech.audio.front_end import frame_recording
from trellis.speech.audio.speech_level import (
    MEDIAN,
    NEAR,
    QUIET,
    RANGE,
    SPEECH,
    normalise_by_speech,
)

Array = NDArray[np.float64]
OPTIONS = FrameOptions(cepstra=0, energy=False, deltas=0, normalise="speech")
RATE = 16000
EDGE = 4  # frames at a join whose windows, or medians, see both sides


def word(rng: np.random.Generator, decibels: float) -> Array:
    """A quarter of a second of noise, half a second of a buzz with gaps, a quarter of a second of noise."""
    n = RATE // 4
    time = np.arange(2 * n) / RATE
    pitch = rng.uniform(90.0, 250.0)
    buzz = sum(np.sin(2 * np.pi * k * pitch * time) / k for k in range(1, 20))
    buzz = np.asarray(buzz) * (np.sin(2 * np.pi * rng.uniform(2.0, 5.0) * time) > -0.6)
    sound = np.concatenate([np.zeros(n), 0.1 * buzz, np.zeros(n)])
    return np.asarray(sound + 10 ** (decibels / 20) * rng.normal(size=len(sound)))


@settings(max_examples=30)
@given(
    seed=st.integers(0, 9999),
    decibels=st.floats(-80.0, -60.0),
    seconds=st.sampled_from([0.1, 0.5, 5.0]),
    kind=st.sampled_from(["zeros", "faint", "own"]),
    place=st.sampled_from(["before", "after"]),
)
def test_silence_that_is_added_does_not_change_the_frames_of_the_rest(
    seed: int, decibels: float, seconds: float, kind: str, place: str
) -> None:
    rng = np.random.default_rng(seed)
    samples, n = word(rng, decibels), round(seconds * RATE)
    level = {"zeros": 0.0, "faint": 10 ** (-74 / 20), "own": 10 ** (decibels / 20)}[kind]
    silence = level * rng.normal(size=n)
    alone = mfcc(samples, RATE, OPTIONS)
    if place == "before":
        padded = mfcc(np.concatenate([silence, samples]), RATE, OPTIONS)[n // 160 :]
    else:
        padded = mfcc(np.concatenate([samples, silence]), RATE, OPTIONS)[: len(alone)]
    # The mean over the whole recording would move them by several.
    assert np.max(np.abs(padded - alone)[EDGE:-EDGE]) < 1e-4


@settings(max_examples=40)
@given(seed=st.integers(0, 9999), kind=st.sampled_from(["zeros", "faint"]))
def test_silence_below_the_noise_looks_like_the_noise(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    samples = word(rng, -50.0)
    silence = (0.0 if kind == "zeros" else 10 ** (-90 / 20)) * rng.normal(size=RATE)
    found = mfcc(np.concatenate([samples, silence]), RATE, OPTIONS)
    floor = found.min(axis=0)
    np.testing.assert_array_equal(found[100 + EDGE :], np.broadcast_to(floor, (100 - EDGE, len(floor))))
    assert np.all(floor <= np.median(found[: 25 - EDGE], axis=0))


def by_the_formula(channels: Array, step: float) -> Array:
    """The module's docstring, frame by frame."""
    n = len(channels)
    half = min(MEDIAN, 2 * n - 1) // 2
    plain = [float(np.log(np.exp(row).sum())) for row in channels]
    around = [[plain[min(max(t + j, 0), n - 1)] for j in range(-half, half + 1)] for t in range(n)]
    energy = np.array([sorted(values)[half] for values in around])
    weight = np.exp(2.0 * energy)
    level = np.sum(weight * energy) / np.sum(weight)
    speech = [t for t in range(n) if energy[t] >= level - SPEECH]
    mean = np.mean([channels[t] for t in speech], axis=0)
    noise = [
        channels[t]
        for t in range(n)
        if level - RANGE <= energy[t] < level - SPEECH
        and any(abs(t - s) * step <= NEAR + 1e-9 for s in speech)
    ]
    floor = np.maximum(np.quantile(noise, QUIET, axis=0), mean - RANGE) if noise else mean - RANGE
    return np.asarray(np.maximum(channels, floor) - mean)


@given(
    st.integers(1, 60),
    st.integers(1, 4),
    st.sampled_from([0.005, 0.01]),
    st.floats(0.0, 30.0),
    st.integers(0, 999),
)
def test_it_is_the_formula(n: int, width: int, step: float, spread: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    loud = np.repeat(rng.uniform(0.0, max(spread, 1e-9), -(-n // 8)), 8)[:n, None]
    channels = loud + rng.normal(size=(n, width))
    np.testing.assert_allclose(
        normalise_by_speech(channels, step), by_the_formula(channels, step), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("n", [1, 80, 160, 4000])
def test_digital_silence_alone_is_zero(n: int) -> None:
    assert not np.any(mfcc(np.zeros(n), RATE, OPTIONS))


def test_a_click_is_not_the_speech() -> None:
    samples = word(np.random.default_rng(0), -60.0)
    clicked = samples.copy()
    clicked[500:580] = 0.9 * (-1.0) ** np.arange(80)  # 5 ms, far louder than the rest
    alone, with_click = mfcc(samples, RATE, OPTIONS), mfcc(clicked, RATE, OPTIONS)
    assert np.max(np.abs(with_click - alone)[20:]) < 0.1


def test_a_recording_in_pieces_has_the_same_frames(tmp_path: object) -> None:
    path = f"{tmp_path}/word.wav"
    soundfile.write(path, np.concatenate([np.zeros(RATE), word(np.random.default_rng(3), -60.0)]), RATE)
    whole, pieces = frame_recording(path, OPTIONS), frame_recording(path, OPTIONS, piece_seconds=0.3)
    np.testing.assert_allclose(pieces.features, whole.features, atol=1e-4)


def test_cepstra_are_refused() -> None:
    with pytest.raises(DataError, match="goes with cepstra=0"):
        FrameOptions(normalise="speech")

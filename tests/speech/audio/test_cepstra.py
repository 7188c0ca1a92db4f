"""Frames: equal to Kaldi's, without bias in time, the same in pieces."""

from __future__ import annotations

from pathlib import Path

import kaldi_native_fbank
import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from trellis.core.errors import DataError
from trellis.speech import FrameOptions, mfcc
from trellis.speech.audio.cepstra import delta, static_features
from trellis.speech.audio.front_end import frame_recording

Array = NDArray[np.float64]


def kaldi(samples: Array, step_ms: float, energy: bool, rate: int) -> Array:
    options = kaldi_native_fbank.MfccOptions()
    options.frame_opts.samp_freq = rate
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.frame_opts.frame_shift_ms = step_ms
    options.mel_opts.num_bins = 26
    options.use_energy = energy
    online = kaldi_native_fbank.OnlineMfcc(options)
    online.accept_waveform(rate, (samples * 32768).tolist())
    online.input_finished()
    return np.stack([online.get_frame(i) for i in range(online.num_frames_ready)])


@given(
    st.integers(100, 4000), st.sampled_from([10.0, 5.0]), st.sampled_from([16000, 8000]), st.integers(0, 99)
)
def test_static_features_are_kaldis(n: int, step_ms: float, rate: int, seed: int) -> None:
    samples = 0.1 * np.random.default_rng(seed).normal(size=n)
    options = FrameOptions(step_ms=step_ms, c0=True, rate=rate)
    ours = static_features(samples, rate, options)
    energy, c0 = kaldi(samples, step_ms, True, rate), kaldi(samples, step_ms, False, rate)
    assert ours.shape == (len(energy), 14)
    np.testing.assert_allclose(ours[:, :12], energy[:, 1:], atol=2e-3)
    np.testing.assert_allclose(ours[:, 12], c0[:, 0], atol=2e-3)
    np.testing.assert_allclose(ours[:, 13], energy[:, 0], atol=1e-4)


def power(samples: Array, step_ms: float) -> Array:
    options = FrameOptions(step_ms=step_ms, normalise="none", deltas=0)
    return np.exp(mfcc(samples, 16000, options)[:, -1])


@pytest.mark.parametrize("step_ms", [10.0, 5.0])
@pytest.mark.parametrize("boundary", [37, 50, 63])
def test_a_step_in_level_lies_between_its_two_frames(step_ms: float, boundary: int) -> None:
    """Power averaged over a window centred in its frame is symmetric around a step at the frame's edge."""
    step = round(16 * step_ms)
    carrier = np.where(np.arange(100 * step) % 2 == 0, 1.0, -1.0)  # the same power in every window
    low, high = 0.01, 0.1
    samples = carrier * np.where(np.arange(100 * step) < boundary * step, low, high)
    p = power(samples, step_ms)
    floor, top = p[10], p[90]
    for k in range(4):  # mirror_ends around the boundary: as much is missing after it as there is before it
        assert p[boundary - 1 - k] + p[boundary + k] == pytest.approx(floor + top, rel=1e-4)
    rise = (p - floor) / (top - floor)
    assert np.argmax(rise > 0.5) == boundary
    assert np.sum(1 - rise) == pytest.approx(boundary, abs=1e-3)  # the step is at t = boundary, unbiased


@pytest.mark.parametrize("step_ms", [10.0, 5.0])
def test_a_click_in_the_middle_of_a_frame_is_symmetric_around_it(step_ms: float) -> None:
    step = round(16 * step_ms)
    samples = np.zeros(60 * step)
    middle = 30 * step + step // 2
    samples[[middle - 1, middle]] = 0.5
    p = power(samples, step_ms)
    np.testing.assert_allclose(p[30:50], p[30:10:-1], rtol=1e-5)
    assert p[30] > 1e6
    assert p[10] == pytest.approx(1.0)  # digital silence has the floor, not minus infinity


def test_deltas_by_hand() -> None:
    values = np.array([[0.0], [1.0], [4.0], [9.0], [16.0]])
    # frame 2: (1 (9 - 1) + 2 (16 - 0)) / 10; frame 0 sees itself to its left
    np.testing.assert_allclose(delta(values, 2)[[0, 2], 0], [(1 * 1 + 2 * 4) / 10, 4.0])
    np.testing.assert_allclose(delta(values, 1)[1:4, 0], [2.0, 4.0, 6.0])
    line = 3.0 * np.arange(9.0)[:, None]
    np.testing.assert_allclose(delta(line, 3)[3:-3], 3.0)


def test_columns_and_normalisation() -> None:
    samples = 0.1 * np.random.default_rng(0).normal(size=16000)
    raw = mfcc(samples, 16000, FrameOptions(normalise="none", deltas=0))
    mean = mfcc(samples, 16000)
    assert mean.shape == (100, FrameOptions().dimension) == (100, 39)
    np.testing.assert_allclose(mean[:, :13], raw - raw.mean(0), atol=1e-12)
    np.testing.assert_allclose(mean[:, 13:26], delta(raw), atol=1e-12)
    np.testing.assert_allclose(mean[:, 26:], delta(delta(raw)), atol=1e-12)
    both = mfcc(samples, 16000, FrameOptions(normalise="mean_variance"))
    np.testing.assert_allclose(both[:, :13].std(0), 1.0)
    quiet = mfcc(np.zeros(16000), 16000, FrameOptions(normalise="mean_variance"))
    np.testing.assert_allclose(quiet, 0.0, atol=1e-12)
    assert mfcc(np.zeros(50), 16000).shape == (0, 39)
    with_c0 = mfcc(samples, 16000, FrameOptions(c0=True, energy=False, deltas=1))
    assert with_c0.shape == (100, 26)


def test_options_are_checked() -> None:
    for wrong in (
        {"step_ms": 0.0},
        {"step_ms": 30.0},
        {"step_ms": 7.77},
        {"cepstra": 26},
        {"deltas": 3},
        {"normalise": "cmvn"},
        {"high_hz": 9000.0},
    ):
        with pytest.raises(DataError, match="frame options: "):
            FrameOptions(**wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="samples are at 8000 Hz, frame options for 16000 Hz"):
        mfcc(np.zeros(100), 8000)
    with pytest.raises(DataError, match="give one channel"):
        mfcc(np.zeros((100, 2)), 16000)


@pytest.mark.parametrize("rate", [16000, 22050])
@pytest.mark.parametrize("step_ms", [10.0, 5.0])
def test_a_recording_in_pieces_is_the_whole(rate: int, step_ms: float, tmp_path: Path) -> None:
    path = tmp_path / "x.flac"
    soundfile.write(path, 0.1 * np.random.default_rng(0).normal(size=2 * rate + 77), rate)
    options = FrameOptions(step_ms=step_ms)
    whole = frame_recording(path, options, piece_seconds=100)
    for seconds in (0.03, 0.31, 0.5):
        pieces = frame_recording(path, options, piece_seconds=seconds)
        assert pieces.duration == whole.duration
        np.testing.assert_allclose(pieces.features, whole.features, atol=2e-4)
    assert whole.flags == ()


def test_flags_of_pieces_hold_of_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.flac"
    sound = 0.1 * np.random.default_rng(0).normal(size=16000)
    soundfile.write(path, np.concatenate([np.zeros(16000), sound]), 16000)
    assert frame_recording(path, piece_seconds=0.5).flags == ()
    soundfile.write(path, np.zeros(32000), 16000)
    assert len(frame_recording(path, piece_seconds=0.5).flags) == 1
    soundfile.write(path, np.concatenate([sound, np.clip(20 * sound, -1, 1)]), 16000)
    assert "clipped" in frame_recording(path, piece_seconds=0.5).flags[0]

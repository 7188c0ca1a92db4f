"""Recordings: rates, channels, formats, parts; what is wrong with them is an error or a flag."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from trellis.core.errors import DataError, MissingExtraError
from trellis.speech import read_audio
from trellis.speech.audio.recordings import Recording, audio_info, load_recording

Array = NDArray[np.float64]


def tone(rate: int, seconds: float = 0.5, hertz: float = 440.0) -> Array:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(rate * seconds)) / rate)


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000])
def test_any_rate_becomes_16_khz_without_delay(rate: int, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    soundfile.write(path, tone(rate), rate, subtype="FLOAT")
    samples, new = read_audio(path)
    assert new == 16000
    assert abs(len(samples) - 8000) <= 1
    inner = slice(400, 7600)
    np.testing.assert_allclose(samples[inner], tone(16000)[inner], atol=2e-3)
    same, own = read_audio(path, rate=None)
    assert own == rate
    np.testing.assert_allclose(same, tone(rate), atol=1e-6)


@pytest.mark.parametrize(("suffix", "error"), [("flac", 1e-4), ("ogg", 0.05), ("mp3", 0.05), ("aiff", 1e-4)])
def test_formats(suffix: str, error: float, tmp_path: Path) -> None:
    path = tmp_path / f"x.{suffix}"
    soundfile.write(path, tone(16000), 16000)
    samples, _ = read_audio(path)
    assert abs(len(samples) - 8000) < 1200  # mp3 pads to whole frames
    assert np.abs(samples[500:7000] - tone(16000)[500:7000]).max() < error


def sphere(samples: NDArray[np.int16], rate: int, byte_order: str = "01", coding: str = "pcm") -> bytes:
    """A NIST SPHERE file, written by hand: a header of 1024 bytes and the samples."""
    lines = [
        "NIST_1A",
        "   1024",
        f"sample_count -i {len(samples)}",
        "sample_n_bytes -i 2",
        "channel_count -i 1",
        f"sample_byte_format -s2 {byte_order}",
        f"sample_rate -i {rate}",
        f"sample_coding -s{len(coding)} {coding}",
        "sample_sig_bits -i 16",
        "end_head",
        "",
    ]
    order = "<i2" if byte_order == "01" else ">i2"
    return "\n".join(lines).encode().ljust(1024) + samples.astype(order).tobytes()


@pytest.mark.parametrize("order", ["01", "10"])
def test_nist_sphere(order: str, tmp_path: Path) -> None:
    values = (tone(16000) * 32767).astype(np.int16)
    path = tmp_path / "SX1.WAV"
    path.write_bytes(sphere(values, 16000, order))
    samples, rate = read_audio(path)
    assert rate == 16000
    np.testing.assert_array_equal(samples * 32768, values)
    info = audio_info(path)
    assert (info.rate, info.frames, info.channels, info.duration) == (16000, 8000, 1, 0.5)


def test_compressed_sphere_names_the_tool(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(sphere(np.zeros(100, np.int16), 16000, coding="pcm,embedded-shorten-v2.00"))
    with pytest.raises(DataError, match=r"x\.wav: SPHERE with Shorten compression.*sph2pipe"):
        read_audio(path)


def test_channels(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    left, right = tone(16000), tone(16000, hertz=200)
    soundfile.write(path, np.stack([left, right], 1), 16000, subtype="FLOAT")
    np.testing.assert_allclose(read_audio(path, channel=1)[0], right, atol=1e-6)
    with pytest.raises(DataError, match="the recording has 2 different channels; choose one from 0 to 1"):
        read_audio(path)
    with pytest.raises(DataError, match="there is no channel 2; give one from 0 to 1"):
        read_audio(path, channel=2)
    soundfile.write(path, np.stack([left, left], 1), 16000, subtype="FLOAT")
    np.testing.assert_allclose(read_audio(path)[0], left, atol=1e-6)


@pytest.mark.parametrize("rate", [16000, 22050, 48000])
def test_parts_are_those_of_the_whole(rate: int, tmp_path: Path) -> None:
    path = tmp_path / "x.flac"
    soundfile.write(path, 0.1 * np.random.default_rng(0).normal(size=rate), rate)
    whole, _ = read_audio(path)
    for start, end in [(0.0, 0.3), (0.2, 0.7), (0.33331, 0.91), (0.5, None), (0.9, 5.0)]:
        part, _ = read_audio(path, start=start, end=end)
        last = len(whole) if end is None else min(round(end * 16000), len(whole))
        np.testing.assert_allclose(part, whole[round(start * 16000) : last], atol=1e-12)
    with pytest.raises(DataError, match="nothing between 2 s and the end; the recording is 1 s long"):
        read_audio(path, start=2.0)


def test_what_is_not_audio(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    with pytest.raises(DataError, match=r"x\.wav: no such file"):
        read_audio(path)
    with pytest.raises(DataError, match="this is a folder"):
        read_audio(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="the file is empty"):
        read_audio(path)
    path.write_text("These are words, not sounds.")
    with pytest.raises(DataError, match=r"x\.wav: the recording cannot be read \(.*\); convert"):
        read_audio(path)
    soundfile.write(path, np.zeros(0), 16000)
    with pytest.raises(DataError, match="holds no samples"):
        read_audio(path)
    soundfile.write(path, np.array([0.0, np.nan, 0.0]), 16000, subtype="FLOAT")
    with pytest.raises(DataError, match="not finite"):
        read_audio(path)


def test_damaged_flac_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.flac"
    soundfile.write(path, 0.1 * np.random.default_rng(1).normal(size=16000), 16000)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"x\.flac: the recording (is damaged|ends after)"):
        read_audio(path)


def test_silent_and_clipped_are_flags(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    soundfile.write(path, 0.0005 * tone(44100), 44100)
    assert load_recording(path).flags == ("the recording is silent (no sample above -60 dB of full scale)",)
    soundfile.write(path, np.clip(3 * tone(44100), -1, 1), 44100)
    (flag,) = load_recording(path).flags
    assert flag == "the recording is clipped (samples in a row at full scale)"
    soundfile.write(path, 2 * tone(44100), 44100)  # touches full scale at its peaks, as a loud recording does
    assert load_recording(path).flags == ()


def test_without_soundfile_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    soundfile.write(path, tone(16000), 16000)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'trellis-learn\[speech\]'"):
        read_audio(path)


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [
        (np.zeros((5, 2)), "shape (5, 2)"),
        (np.zeros(5, dtype=np.int64), "type int64"),
        (np.array([0.0, np.nan]), "sample 1 is nan"),
        (np.array([0.0, 0.1, 1e300]), "sample 2 is 1e+300"),
    ],
)
def test_samples_that_are_no_recording(samples: Array, sentence: str) -> None:
    with pytest.raises(DataError, match=re.escape(sentence)):
        Recording(samples, 16000)


@pytest.mark.parametrize("suffix", ["wav", "aiff", "au", "flac", "mp3"])
def test_a_recording_that_was_cut_off_is_no_shorter_recording(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"cut.{suffix}"
    soundfile.write(path, 0.1 * np.random.default_rng(0).normal(size=32000), 16000)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="copy it again"):
        load_recording(path)


def test_a_recording_of_unknown_length_is_read_to_its_end(tmp_path: Path) -> None:
    """As written to a pipe: the header has the largest number where the length belongs."""
    path = tmp_path / "pipe.wav"
    soundfile.write(path, np.linspace(-0.5, 0.5, 1000), 16000)
    content = bytearray(path.read_bytes())
    at = content.find(b"data") + 4
    content[4:8] = content[at : at + 4] = b"\xff" * 4
    path.write_bytes(content)
    assert len(load_recording(path).samples) == 1000


@pytest.mark.parametrize("rate", [1, 999, 800_000, 2_100_000_000])
def test_rates_that_no_recording_has_are_refused_before_anything_is_resampled(
    rate: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.wav"
    soundfile.write(path, tone(16000), 16000, subtype="PCM_16")
    content = bytearray(path.read_bytes())
    content[24:28] = rate.to_bytes(4, "little")
    path.write_bytes(content)
    for read in (audio_info, load_recording):
        with pytest.raises(DataError, match=f"a sampling rate of {rate} Hz is not between"):
            read(path)


def test_a_header_that_promises_more_than_the_file_can_hold(tmp_path: Path) -> None:
    path = tmp_path / "x.flac"
    soundfile.write(path, tone(16000), 16000)
    content = bytearray(path.read_bytes())
    content[22:26] = (2**31).to_bytes(4, "big")  # the number of samples
    path.write_bytes(content)
    with pytest.raises(DataError, match="the header claims 2147483648 samples, more than"):
        load_recording(path)


def test_silence_may_take_little_space(tmp_path: Path) -> None:
    path = tmp_path / "x.flac"
    soundfile.write(path, np.zeros(2_000_000), 16000)
    assert audio_info(path).frames == 2_000_000

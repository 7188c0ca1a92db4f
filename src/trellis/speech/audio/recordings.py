"""Recordings: any format of libsndfile, any sampling rate, one channel, as float64 between -1 and 1.

Resampling is by :func:`scipy.signal.resample_poly`, whose filter has no delay, so times do not shift. A part
of a recording (``start``, ``end``) is read with enough context that its samples are those of the whole
recording to rounding: long recordings can be processed in pieces.

What cannot be used (empty, damaged, not audio, not finite) is a :class:`DataError`. What can be used but
looks wrong (silent, clipped) is reported in :attr:`Recording.flags`, based on the samples in the file.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trellis.core.arrays import AnyArray, FloatArray
from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.audio.soundfile_extra import soundfile

AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".sph", ".nist", ".aiff", ".aif", ".au", ".opus", ".oga")
_SILENT_PEAK = 10 ** (-60 / 20)  # -60 dB below full scale
_CLIP_RUN, _CLIP_RUNS = 3, 3  # samples in a row at the peak, and how many such runs make a clipped recording
_MAX_SAMPLE = 1e9  # louder than full scale is accepted, up to where the energy would overflow
_TRUNCATED = re.compile(r"^\s*(?:data|SSND|Data Size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
_UNKNOWN_LENGTH = 0x7FFF0000
_MAX_MISSING = 0.01  # seconds
_RATES = (1000, 768_000)  # Hz
_SAMPLES_PER_BYTE = 500  # more than any format of libsndfile needs, even for silence
_FEW_SAMPLES = 1_000_000
_FILTER_REACH = 10  # resample_poly's filter reaches this many samples of the lower rate to either side


@dataclass(frozen=True)
class AudioInfo:
    """The header of a recording: ``frames`` samples per channel at ``rate`` Hz."""

    rate: int
    frames: int
    channels: int

    @property
    def duration(self) -> float:
        return self.frames / self.rate


@dataclass(frozen=True)
class Recording:
    """Mono ``samples`` at ``rate`` Hz, and flags that say what looks wrong with them.

    Integer samples of 16 or 32 bits, as from ``scipy.io.wavfile``, are scaled to -1 to 1.
    """

    samples: FloatArray
    rate: int
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given: AnyArray = np.asarray(self.samples)
        if given.dtype in (np.int16, np.int32):
            given = given / (np.iinfo(given.dtype).max + 1.0)
        if given.ndim != 1 or given.dtype.kind != "f":
            raise DataError(
                f"samples have shape {given.shape} and type {given.dtype}; give one channel between -1 and 1"
            )
        if not float(np.abs(given).max(initial=0.0)) <= _MAX_SAMPLE:
            i = int(np.argmin(np.abs(given) <= _MAX_SAMPLE))
            raise DataError(f"sample {i} is {given[i]}; give samples between -1 and 1")
        object.__setattr__(self, "samples", given.astype(np.float64, copy=False))

    @property
    def duration(self) -> float:
        return len(self.samples) / self.rate


def audio_info(path: PathLike) -> AudioInfo:
    """Rate, length and channels of a recording, without reading its samples."""
    with _open(path) as file:
        return AudioInfo(int(file.samplerate), int(file.frames), int(file.channels))


def read_audio(
    path: PathLike,
    rate: int | None = 16000,
    channel: int | None = None,
    start: float = 0.0,
    end: float | None = None,
) -> tuple[FloatArray, int]:
    """Mono samples from ``start`` to ``end`` (seconds), and their rate; see :func:`load_recording`.

    Examples
    --------
    >>> from trellis.speech import read_audio, synthetic_corpus
    >>> samples, rate = read_audio(synthetic_corpus()[0].audio)
    >>> samples.ndim, rate
    (1, 16000)
    """
    recording = load_recording(path, rate, channel, start, end)
    return recording.samples, recording.rate


def load_recording(
    path: PathLike,
    rate: int | None = 16000,
    channel: int | None = None,
    start: float = 0.0,
    end: float | None = None,
) -> Recording:
    """Read a recording at ``rate`` Hz (``None``: its own rate).

    Of several channels, ``channel`` (from 0) is read. It may be omitted only if all channels are the same.
    """
    shown = os.fspath(path)
    with _open(path) as file:
        own, length = int(file.samplerate), int(file.frames)
        wanted = own if rate is None else int(rate)
        if wanted <= 0:
            raise DataError(f"rate is {wanted}; give a positive sampling rate in Hz")
        up, down = (n // math.gcd(wanted, own) for n in (wanted, own))
        first = round(start * wanted)
        last = -(-length * up // down) if end is None else min(round(end * wanted), -(-length * up // down))
        if not 0 <= first < last:
            raise DataError(
                f"{shown}: there is nothing between {start:g} s and "
                f"{'the end' if end is None else f'{end:g} s'}; the recording is {length / own:.6g} s long"
            )
        reach = _FILTER_REACH * -(-down // up) + 1 if up != down else 0
        block = max(
            0, (first * down // up - reach) // down
        )  # starts where an output sample is an input sample
        begin, stop = block * down, min(length, -(-last * down // up) + reach)
        values = _read(file, begin, stop, shown)
    mono = _select_channel(values, channel, shown)
    flags = sound_flags(mono)
    if up != down:
        from scipy.signal import resample_poly

        mono = resample_poly(mono, up, down)
    samples = np.ascontiguousarray(mono[first - block * up : last - block * up])
    return Recording(samples, wanted, flags)


def _open(path: PathLike) -> Any:
    shown = os.fspath(path)
    if not os.path.isfile(path):
        what = "this is a folder" if os.path.isdir(path) else "no such file"
        raise DataError(f"{shown}: {what}; give the path of a recording")
    if os.path.getsize(path) == 0:
        raise DataError(f"{shown}: the file is empty; copy it again")
    module = soundfile()
    try:
        file = module.SoundFile(shown)
    except module.LibsndfileError as error:
        raise DataError(f"{shown}: {_why_not_audio(shown, error)}") from error
    if file.frames <= 0 or file.samplerate <= 0:
        file.close()
        raise DataError(f"{shown}: the recording holds no samples; copy it again or leave it out")
    problem = _absurd(int(file.frames) * int(file.channels), int(file.samplerate), os.path.getsize(path))
    if problem:
        file.close()
        raise DataError(f"{shown}: {problem}; copy it again, or convert it to WAV")
    length = file.frames / file.samplerate
    promised = length * _promised_ratio(file.extra_info)
    if promised > length + _MAX_MISSING:
        file.close()
        raise DataError(f"{shown}: the recording ends after {length:.3f} of {promised:.3f} s; copy it again")
    return file


def _absurd(samples: int, rate: int, size: int) -> str | None:
    """What a header says that no recording of speech in a file of ``size`` bytes has, if anything.

    Memory is asked for by what the header says, and the filter that resamples is as long as the rates are
    large: neither may be far beyond what the file can hold.
    """
    if not _RATES[0] <= rate <= _RATES[1]:
        return f"a sampling rate of {rate} Hz is not between {_RATES[0]} and {_RATES[1]}"
    if samples > max(_FEW_SAMPLES, _SAMPLES_PER_BYTE * size):
        return f"the header claims {samples} samples, more than {size} bytes can hold"
    return None


def _promised_ratio(log: str) -> float:
    """How many times as long as it is the recording should be, according to its header.

    Formats without frames (WAV, AIFF, AU) can be truncated anywhere, and libsndfile reads what is there; only
    its log tells. Programs that write to a pipe leave the length at its maximum.
    """
    found = _TRUNCATED.search(log)
    if found is None or int(found[1]) >= _UNKNOWN_LENGTH or int(found[2]) == 0:
        return 1.0
    return int(found[1]) / int(found[2])


def _why_not_audio(shown: str, error: Exception) -> str:
    with Path(shown).open("rb") as file:
        head = file.read(1024)
    if head.startswith(b"NIST_1A") and b"shorten" in head:
        return "SPHERE with Shorten compression is not supported; unpack it with sph2pipe first"
    reason = str(error).rpartition(": ")[2].rstrip(".") or "unknown format"
    return f"the recording cannot be read ({reason}); convert it to WAV or FLAC"


def _read(file: Any, begin: int, stop: int, shown: str) -> FloatArray:
    module = soundfile()
    try:
        if begin:
            file.seek(begin)
        values: FloatArray = file.read(stop - begin, dtype="float64", always_2d=True)
    except module.LibsndfileError as error:
        raise DataError(f"{shown}: the recording is damaged ({error}); copy it again") from error
    except MemoryError as error:
        raise DataError(f"{shown}: {stop - begin} samples need too much memory; cut the recording") from error
    if len(values) < stop - begin:
        raise DataError(
            f"{shown}: the recording ends after {(begin + len(values)) / file.samplerate:.3f} of "
            f"{file.frames / file.samplerate:.3f} s; copy it again"
        )
    if not np.isfinite(values).all():
        raise DataError(f"{shown}: some samples are not finite numbers; export the recording again")
    return values


def _select_channel(values: FloatArray, channel: int | None, shown: str) -> FloatArray:
    n = values.shape[1]
    if channel is not None:
        if not 0 <= channel < n:
            raise DataError(f"{shown}: there is no channel {channel}; give one from 0 to {n - 1}")
        return values[:, channel]
    if n > 1 and not (values == values[:, :1]).all():
        raise DataError(f"{shown}: the recording has {n} different channels; choose one from 0 to {n - 1}")
    return values[:, 0]


def sound_flags(samples: FloatArray) -> tuple[str, ...]:
    """What looks wrong. Silent: no sample above -60 dB. Clipped: at least three runs of three samples at the
    peak."""
    size = np.abs(samples)
    peak = float(size.max(initial=0.0))
    if peak <= _SILENT_PEAK:
        return ("the recording is silent (no sample above -60 dB of full scale)",)
    if peak < 0.98:
        return ()
    high = np.concatenate(([False], size >= peak - 2.0**-15, [False]))
    edges = np.flatnonzero(high[1:] != high[:-1])
    runs = edges[1::2] - edges[::2]
    runs = runs[runs >= _CLIP_RUN]
    if len(runs) < _CLIP_RUNS:
        return ()
    return ("the recording is clipped (samples in a row at full scale)",)

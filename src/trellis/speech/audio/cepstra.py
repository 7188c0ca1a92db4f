"""Mel-frequency cepstra with exact times: frame ``t`` covers the time from ``t`` to ``t + 1`` steps.

**Convention.** With step ``h``, a recording of ``N`` samples has ``T = round(N / h)`` frames. The window of
frame ``t`` is centred at ``(t + 1/2) h``, so that a boundary between frames ``t - 1`` and ``t`` lies at time
``t h`` without bias. Beyond the ends, windows see the mirror image.

**Formula.** Per window: mean removed; log energy ``log sum x^2``; pre-emphasis ``x_n - 0.97 x_{n-1}``; the
window ``(0.5 - 0.5 cos)^0.85``; power spectrum; triangular channels evenly spaced in ``1127 log(1 + f/700)``;
logarithm; ``c_k = sqrt(2/B) sum_b m_b cos(pi k (b + 1/2) / B)``; lifter ``1 + (Q/2) sin(pi k / Q)``. Samples
are in units of 16-bit audio, and energies below 1 (only in digital silence) count as 1, so nothing depends on
a noise generator. These are Kaldi's features, with which the tests compare; NumPy computes them in blocks
that fit the cache, several times faster than the Kaldi code, and identically for a recording in pieces.

Derivatives are regressions over ``+-w`` frames, ``d_t = sum_n n (c_{t+n} - c_{t-n}) / (2 sum_n n^2)``, with
the end frames repeated. Normalisation is over the utterance, or the speech in it (``speech_level``), and
comes before the derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.fft

from trellis.core.arrays import Float32Array, FloatArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.speech.audio.speech_level import normalise_by_speech

# Frames at a time: their spectra fit the cache, and their products are so small that BLAS stays on one
# thread, which is fastest here.
_BLOCK = 64
_FULL_SCALE = 32768.0


@register
@dataclass(frozen=True)
class FrameOptions:
    """Frame options. ``cepstra=0``: the logarithms of the mel channels themselves. ``normalise`` is ``mean``,
    ``mean_variance``, ``none``, or ``speech`` (``speech_level``), which needs the channels themselves;
    ``deltas`` 0, 1 or 2.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.speech import FrameOptions, mfcc
    >>> samples = np.sin(np.arange(16_000) / 10.0)
    >>> mfcc(samples, 16_000, FrameOptions(cepstra=12, deltas=0)).shape
    (100, 13)
    """

    step_ms: float = 10.0
    window_ms: float = 25.0
    cepstra: int = 12
    c0: bool = False
    energy: bool = True
    channels: int = 26
    low_hz: float = 20.0
    high_hz: float | None = None
    lifter: float = 22.0
    deltas: int = 2
    delta_width: int = 2
    normalise: str = "mean"
    rate: int = 16000

    def __post_init__(self) -> None:
        if not 0 < self.step_ms <= self.window_ms < np.inf:
            raise DataError("frame options: step_ms must be positive and at most window_ms")
        checks = {
            "cepstra must be from 0 (the channels themselves) to channels - 1": 0
            <= self.cepstra
            < self.channels,
            "c0 goes with cepstra": self.cepstra > 0 or not self.c0,
            "deltas must be 0, 1 or 2": self.deltas in (0, 1, 2),
            "delta_width must be at least 1": self.delta_width >= 1,
            "normalise must be mean, mean_variance, speech or none": self.normalise
            in ("mean", "mean_variance", "speech", "none"),
            "normalise='speech' goes with cepstra=0": self.normalise != "speech" or self.cepstra == 0,
            "low_hz and high_hz must lie in order between 0 and rate / 2": 0 <= self.low_hz < self.top_hz
            and self.top_hz <= self.rate / 2,
            "step_ms must be a whole number of samples": abs(self.step - self.step_ms * self.rate / 1000)
            < 1e-6,
        }
        for sentence, holds in checks.items():
            if not holds:
                raise DataError(f"frame options: {sentence}")

    @property
    def top_hz(self) -> float:
        return self.rate / 2 if self.high_hz is None else self.high_hz

    @property
    def step(self) -> int:
        """Samples from frame to frame."""
        return round(self.step_ms * self.rate / 1000)

    @property
    def window(self) -> int:
        """Samples in a window."""
        return round(self.window_ms * self.rate / 1000)

    @property
    def step_seconds(self) -> float:
        return self.step / self.rate

    @property
    def n_static(self) -> int:
        return (self.cepstra or self.channels) + self.c0 + self.energy

    @property
    def dimension(self) -> int:
        """Columns of the result of :func:`mfcc`."""
        return self.n_static * (1 + self.deltas)

    def n_frames(self, n_samples: int) -> int:
        """Frames of a recording of ``n_samples`` samples."""
        return (n_samples + self.step // 2) // self.step


def mfcc(samples: FloatArray, rate: int, options: FrameOptions | None = None) -> FloatArray:
    """Features ``(T, dimension)``: cepstra 1.., then c0, then log energy; then their derivatives.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.speech import mfcc
    >>> mfcc(np.sin(np.arange(16_000) / 10.0), 16_000).shape
    (100, 39)
    """
    options = options or FrameOptions()
    static = static_features(samples, rate, options)
    return add_derivatives(static, options)


def add_derivatives(static: FloatArray, options: FrameOptions) -> FloatArray:
    """Normalise the features of a whole utterance and append their derivatives."""
    if not len(static):
        return np.zeros((0, options.dimension))
    columns = [normalise(static, options)]
    for _ in range(options.deltas):
        columns.append(delta(columns[-1], options.delta_width))
    return np.concatenate(columns, axis=1)


def static_features(samples: FloatArray, rate: int, options: FrameOptions) -> FloatArray:
    """Cepstra 1.., then c0, then log energy: ``(T, n_static)``, neither normalised nor with derivatives."""
    if rate != options.rate:
        raise DataError(
            f"samples are at {rate} Hz, frame options for {options.rate} Hz; read the audio at that rate"
        )
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1:
        raise DataError(f"samples have shape {values.shape}; give one channel")
    if not np.isfinite(values).all():
        raise DataError(
            f"sample {int(np.argmin(np.isfinite(values)))} is not a finite number; record it again"
        )
    n_frames = options.n_frames(len(values))
    if n_frames == 0:
        return np.zeros((0, options.n_static))
    windows = np.lib.stride_tricks.sliding_window_view(mirror_ends(values, n_frames, options), options.window)
    windows = windows[:: options.step][:n_frames]
    blocks = [_cepstra(windows[i : i + _BLOCK], options) for i in range(0, n_frames, _BLOCK)]
    return np.concatenate(blocks).astype(np.float64)


def mirror_ends(values: FloatArray, n_frames: int, options: FrameOptions) -> Float32Array:
    """The samples in 16-bit units, extended at both ends by their mirror image as far as windows reach."""
    left = options.window // 2 - options.step // 2
    right = max(0, (n_frames - 1) * options.step - left + options.window - len(values))
    return np.pad((values * _FULL_SCALE).astype(np.float32), (left, right), mode="symmetric")


def delta(values: FloatArray, width: int = 2) -> FloatArray:
    """First derivative in time by regression over ``2 width + 1`` frames, per frame."""
    padded = np.pad(values, ((width, width), (0, 0)), mode="edge")
    n = len(values)
    total = sum(
        k * (padded[width + k : width + k + n] - padded[width - k : width - k + n])
        for k in range(1, width + 1)
    )
    return np.asarray(total) / (2 * sum(k * k for k in range(1, width + 1)))


def normalise(values: FloatArray, options: FrameOptions) -> FloatArray:
    """Each column minus its mean over the utterance (or its speech) and, for ``"mean_variance"``, over its
    deviation."""
    how = options.normalise
    if how == "none":
        return values
    if how == "speech":
        return normalise_by_speech(values, options.step_seconds)
    centred: FloatArray = values - values.mean(axis=0)
    if how == "mean":
        return centred
    deviation = centred.std(axis=0)
    return centred / np.where(deviation > 1e-8, deviation, 1.0)


def _cepstra(windows: Float32Array, options: FrameOptions) -> Float32Array:
    shape, banks, cosines = _tables(options)
    x = windows - windows.mean(axis=1, keepdims=True)
    n = options.window
    emphasised = np.zeros((len(x), 2 * (len(banks) - 1)), dtype=np.float32)
    inside = emphasised[:, :n]
    np.multiply(x[:, :-1], np.float32(-0.97), out=inside[:, 1:])
    np.multiply(x[:, 0], np.float32(-0.97), out=inside[:, 0])
    inside += x
    inside *= shape
    spectrum = scipy.fft.rfft(emphasised, axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    channels = np.log(np.maximum(power @ banks, np.float32(1.0)))
    columns = [channels] if not options.cepstra else []
    if options.cepstra or options.c0:
        cepstra = channels @ cosines
        columns += [cepstra[:, 1:]] * bool(options.cepstra) + [cepstra[:, :1]] * options.c0
    if options.energy:
        columns.append(np.log(np.maximum(np.einsum("ij,ij->i", x, x), 1.0))[:, None])
    return np.concatenate(columns, axis=1)


@lru_cache(maxsize=16)
def _tables(
    options: FrameOptions,
) -> tuple[Float32Array, Float32Array, Float32Array]:
    """Window (n,), mel channels (bins, B), and liftered cosines (B, 1 + cepstra)."""
    n = options.window
    shape = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / (n - 1))) ** 0.85
    size = 1 << (n - 1).bit_length()

    def mel(hz: FloatArray | float) -> FloatArray:
        return np.asarray(1127.0 * np.log1p(np.asarray(hz) / 700.0))

    corners = np.linspace(mel(options.low_hz), mel(options.top_hz), options.channels + 2)
    bins = mel(np.arange(size // 2 + 1) * options.rate / size)[:, None]
    rising = (bins - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - bins) / (corners[2:] - corners[1:-1])
    banks = np.maximum(np.minimum(rising, falling), 0.0)
    banks[-1] = 0.0  # Kaldi leaves the Nyquist bin out
    k, b = np.arange(options.cepstra + 1), np.arange(options.channels)
    cosines = np.sqrt(2 / options.channels) * np.cos(np.pi * np.outer(b + 0.5, k) / options.channels)
    cosines[:, 0] /= np.sqrt(2)
    if options.lifter:
        cosines *= 1 + options.lifter / 2 * np.sin(np.pi * k / options.lifter)
    return shape.astype(np.float32), banks.astype(np.float32), cosines.astype(np.float32)

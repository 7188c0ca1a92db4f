"""Clean synthetic speech as if it had been recorded: another voice, another room, noise, a poor microphone.

In this order, each drawn at random:

* resampled by a factor r in 0.87 .. 1.15: pitch, formants and tempo change together, times are divided by r;
* cut to a word with ``before`` and ``after`` seconds of silence;
* a room: convolved with noise that decays by 60 dB in 0.1 .. 0.6 s, at -6 .. -20 dB beside the direct sound;
* a spectral tilt, and a band: nothing below 50 .. 300 Hz or above 3.4 .. 7.8 kHz;
* noise from white to brown, and sometimes hum, 12 .. 50 dB below the speech;
* a level, and rounding to 16 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.signal import butter, fftconvolve, lfilter, resample, sosfilt

from builtin_speech.label_repair import move_edges
from builtin_speech.spoken import RATE, SILENCE, Samples, Spoken

VOICE = 0.87, 1.15
ROOM_SHARE, BAND_SHARE, HUM_SHARE, VOICE_SHARE = 0.5, 0.5, 0.15, 0.7
SPEECH_TO_NOISE = 12.0, 50.0  # dB


@dataclass(frozen=True)
class Conditions:
    """Draws from ``rng``; :meth:`record` is a function of its state."""

    rng: np.random.Generator

    def record(self, spoken: Spoken) -> Spoken:
        if self.rng.random() < VOICE_SHARE:
            spoken = change_voice(spoken, float(self.rng.uniform(*VOICE)))
        spoken = self._pad(spoken)
        loudness = float(np.sqrt(np.mean(spoken.samples[_speech(spoken)] ** 2)))
        ratio = float(self.rng.uniform(*SPEECH_TO_NOISE))
        spoken = move_edges(spoken, 20.0 * np.log10(loudness + 1e-9) - ratio)
        sound = spoken.samples
        if self.rng.random() < ROOM_SHARE:
            sound = self._in_room(sound)
        sound = self._coloured(sound)
        sound = sound + loudness * 10.0 ** (-ratio / 20.0) * self._noise(len(sound))
        level = 10.0 ** (-self.rng.uniform(1.0, 25.0) / 20.0)
        sound = sound / np.abs(sound).max() * level
        return replace(spoken, samples=sound.astype(np.float32))

    def _pad(self, spoken: Spoken) -> Spoken:
        """Another length for the silences at both ends."""
        before, after = self.rng.gamma(2.0, 0.09, 2) + 0.03
        begin = spoken.starts[1] if spoken.labels[0] == SILENCE else 0.0
        end = spoken.starts[-1] + 0.15 if spoken.labels[-1] == SILENCE else spoken.duration
        body = spoken.samples[int(begin * RATE) : int(end * RATE)].copy()
        fade = min(len(body), RATE // 50)
        body[len(body) - fade :] *= np.linspace(1.0, 0.0, fade, dtype=np.float32)
        quiet = [np.zeros(int(s * RATE), dtype=np.float32) for s in (before, after)]
        samples = np.concatenate([quiet[0], body, quiet[1]])
        shift = len(quiet[0]) / RATE - begin
        first = int(spoken.labels[0] == SILENCE)
        labels, starts = [SILENCE, *spoken.labels[first:]], [0.0, *(s + shift for s in spoken.starts[first:])]
        if labels[-1] != SILENCE:
            labels.append(SILENCE)
            starts.append((len(quiet[0]) + len(body)) / RATE)
        return replace(spoken, samples=samples, labels=tuple(labels), starts=tuple(starts))

    def _in_room(self, sound: Samples) -> Samples:
        decay = self.rng.uniform(0.1, 0.6)
        times = np.arange(int(decay * RATE)) / RATE
        tail = self.rng.normal(size=len(times)) * 10.0 ** (-3.0 * times / decay)
        tail[: int(0.003 * RATE)] = 0.0
        tail *= 10.0 ** (-self.rng.uniform(6.0, 20.0) / 20.0) / np.linalg.norm(tail)
        tail[0] = 1.0
        return np.asarray(fftconvolve(sound, tail)[: len(sound)], dtype=np.float32)

    def _coloured(self, sound: Samples) -> Samples:
        tilt = self.rng.uniform(-0.5, 0.5)
        sound = lfilter([1.0, -tilt], [1.0], sound)
        if self.rng.random() < BAND_SHARE:
            band = self.rng.uniform(50.0, 300.0), self.rng.uniform(3400.0, 7800.0)
            sound = sosfilt(butter(2, band, "bandpass", fs=RATE, output="sos"), sound)
        return np.asarray(sound, dtype=np.float32)

    def _noise(self, n: int) -> Samples:
        """Of mean square 1; the power falls by 0 .. 2 powers of the frequency."""
        spectrum = np.fft.rfft(self.rng.normal(size=n))
        frequency = np.maximum(np.fft.rfftfreq(n, 1.0 / RATE), 40.0)
        noise = np.fft.irfft(spectrum * frequency ** (-0.5 * self.rng.uniform(0.0, 2.0)), n)
        noise /= np.sqrt(np.mean(noise**2))
        if self.rng.random() < HUM_SHARE:
            phase = 2.0 * np.pi * self.rng.choice([50.0, 60.0]) * np.arange(n) / RATE
            noise += sum(np.sin(k * phase + self.rng.uniform(0, 6.28)) / k for k in (1, 2, 3))
        return np.asarray(noise, dtype=np.float32)


def change_voice(spoken: Spoken, factor: float) -> Spoken:
    """Played ``factor`` times as fast."""
    samples = resample(spoken.samples, round(len(spoken.samples) / factor)).astype(np.float32)
    return replace(spoken, samples=samples, starts=tuple(s / factor for s in spoken.starts))


def _speech(spoken: Spoken) -> slice:
    return slice(int(spoken.starts[1] * RATE), int(spoken.starts[-1] * RATE))

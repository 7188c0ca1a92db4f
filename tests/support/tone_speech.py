"""Utterances whose phones are tones and noises of known length, so that every boundary is known exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trellis.speech.audio.recordings import Recording
from trellis.speech.corpus.corpus import Corpus
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.formats.alignment import Alignment

RATE = 16000
TONES = {"a": (300.0, 900.0), "i": (250.0, 2300.0), "u": (320.0, 650.0), "m": (120.0, 240.0)}
NOISES = {"s": (5000.0, 7800.0), "f": (1500.0, 4000.0)}
MEAN_MS = {"a": 110, "i": 90, "u": 80, "m": 70, "s": 100, "f": 80, "sil": 150}


def sound(phone: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """``n`` samples of a phone; every one also has a little noise."""
    noise = rng.normal(size=n)
    t = np.arange(n) / RATE
    if phone in TONES:
        return (
            sum(0.2 * np.sin(2 * np.pi * hz * t + rng.uniform(0, 6)) for hz in TONES[phone]) + 0.005 * noise
        )
    if phone in NOISES:
        low, high = NOISES[phone]
        spectrum = np.fft.rfft(noise)
        hz = np.fft.rfftfreq(n, 1 / RATE)
        return 0.3 * np.fft.irfft(spectrum * ((hz >= low) & (hz <= high)), n) + 0.005 * noise
    return 0.002 * noise


def utterance(phones: list[str], rng: np.random.Generator) -> tuple[np.ndarray, Alignment]:
    """Samples and the alignment of a sequence of phones, with lengths around their means."""
    parts, times = [], [0]
    for phone in phones:
        n = int(RATE * MEAN_MS[phone] / 1000 * np.exp(0.25 * rng.normal()))
        parts.append(sound(phone, n, rng))
        times.append(times[-1] + n)
    starts, duration = [t / RATE for t in times[:-1]], times[-1] / RATE
    return np.concatenate(parts), Alignment.from_starts(starts, phones, duration)


def phones_of(rng: np.random.Generator, n: int = 6) -> list[str]:
    """Silence, ``n`` phones of which no two neighbours are the same, silence."""
    names = [*TONES, *NOISES]
    found = ["sil"]
    while len(found) <= n:
        phone = str(rng.choice(names))
        if phone != found[-1]:
            found.append(phone)
    return [*found, "sil"]


def recording(phones: list[str], seed: int) -> tuple[Recording, Alignment]:
    samples, alignment = utterance(phones, np.random.default_rng(seed))
    return Recording(samples, RATE), alignment


def corpus(folder: Path, n: int, seed: int = 0) -> Corpus:
    """``n`` utterances of six phones, as WAV files in ``folder``."""
    import soundfile

    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        samples, alignment = utterance(phones_of(rng), rng)
        path = folder / f"u{seed}_{i:03d}.wav"
        soundfile.write(path, samples, RATE, subtype="FLOAT")
        found.append(Utterance(path.stem, path, alignment))
    return Corpus(tuple(found))

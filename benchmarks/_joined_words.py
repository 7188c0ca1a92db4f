"""Recordings made of others: silence of three kinds, and words of a language joined with pauses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.speech import Utterance, read_audio
from trellis.speech.phones.silence import is_silence

RATE = 16000
PAUSE = (0.2, 2.0)  # seconds
FAINT = 10 ** (-74 / 20)  # of full scale


def noise_like(samples: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """Noise with the spectrum and the level of the quietest tenth of a second of ``samples``."""
    width = min(RATE // 10, len(samples))
    places = range(0, len(samples) - width + 1, max(1, width // 2))
    at = min(places, key=lambda i: float((samples[i : i + width] ** 2).sum()))
    quiet = samples[at : at + width]
    spectrum = np.abs(np.fft.rfft(quiet * np.hanning(width)))
    out = np.zeros(n + 2 * width)
    for i in range(0, n + width, width // 2):
        turns = np.exp(2j * np.pi * rng.random(len(spectrum)))
        out[i : i + width] += np.fft.irfft(spectrum * turns, width)
    level = np.sqrt((quiet**2).mean() / max(float((out**2).mean()), 1e-20))
    return out[width // 2 :][:n] * level


def silence_of(kind: str, samples: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """``n`` samples of digital silence ("zeros"), noise at -74 dB ("faint"), or noise as in the recording."""
    if kind == "zeros":
        return np.zeros(n)
    return rng.normal(0.0, FAINT, n) if kind == "faint" else noise_like(samples, n, rng)


@lru_cache(maxsize=2048)
def _heard(path: str) -> FloatArray:
    return np.asarray(read_audio(path, RATE)[0])


def samples_of(word: Utterance) -> FloatArray:
    return _heard(str(word.audio))


def spoken_starts(word: Utterance) -> FloatArray:
    """The starts of the phones of its reference, silences left out."""
    assert word.reference is not None
    both = zip(word.reference.starts, word.reference.labels, strict=True)
    return np.array([start for start, label in both if not is_silence(label)])


def spoken_phones(word: Utterance) -> list[str]:
    return [label for label in word.phones if not is_silence(label)]


def join_words(
    words: Sequence[Utterance], seconds: float, seed: int
) -> tuple[FloatArray, list[str], FloatArray]:
    """The words, repeated in random order with pauses of their own noise, until ``seconds`` are full:
    samples, the names of the words, and the starts of their phones."""
    rng = np.random.default_rng(seed)
    parts: list[FloatArray] = []
    names: list[str] = []
    starts: list[FloatArray] = []
    position = 0
    while position < seconds * RATE:
        for index in rng.permutation(len(words)):
            word = words[index]
            samples = samples_of(word)
            pause = noise_like(samples, int(rng.uniform(*PAUSE) * RATE), rng)
            starts.append((position + len(pause)) / RATE + spoken_starts(word))
            parts += [pause, samples]
            names.append(word.id)
            position += len(pause) + len(samples)
            if position >= seconds * RATE:
                break
    return np.concatenate(parts), names, np.concatenate(starts)

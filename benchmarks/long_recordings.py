"""Long recordings: words of a language joined, with pauses, to one, ten and sixty minutes.

    python benchmarks/long_recordings.py [--data FOLDER] [--minutes 1 10 60] [--quick]

A model learns from the 32 languages of voxangeles that are not tested (28 and 4 held out, as in
``alignment.py``, seed 0), so the eight tested ones were never heard. The words of each are repeated, with
pauses of 0.2 to 2 seconds of the file's own noise between them, until the recording is long enough; what it
says is given as words with a dictionary. *Derailed*: more than one boundary in ten of a minute is off by more
than 100 ms; *unflagged*: no flag names that minute. Goals: 97% within 100 ms, nothing derailed without a
flag, an hour in 1 GB, 100 times real time.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from _common import parser
from alignment import languages, weights_split
from trellis.core.arrays import FloatArray
from trellis.speech import Aligner, Corpus, Utterance, read_audio
from trellis.speech.audio.recordings import Recording
from trellis.speech.phones.silence import is_silence

RATE = 16000
PAUSE = (0.2, 2.0)  # seconds
TOLERANCE = 0.1
FADE = 80  # samples


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


def join(words: list[Utterance], seconds: float, seed: int) -> tuple[FloatArray, list[str], FloatArray]:
    """Samples, the names of the words, and the starts of their phones (silences left out)."""
    rng = np.random.default_rng(seed)
    parts: list[FloatArray] = []
    names: list[str] = []
    starts: list[float] = []
    heard = {word.id: np.asarray(read_audio(word.audio, RATE)[0]) for word in words}
    position = 0
    while position < seconds * RATE:
        for index in rng.permutation(len(words)):
            word = words[index]
            samples = heard[word.id]
            pause = noise_like(samples, int(rng.uniform(*PAUSE) * RATE), rng)
            assert word.reference is not None
            reference = word.reference
            starts += [
                (position + len(pause)) / RATE + start
                for start, label in zip(reference.starts, reference.labels, strict=True)
                if not is_silence(label)
            ]
            parts += [pause, samples]
            names.append(word.id)
            position += len(pause) + len(samples)
            if position >= seconds * RATE:
                break
    return np.concatenate(parts), names, np.array(starts)


def measure(aligner: Aligner, corpus: Corpus, language: str, minutes: float) -> list[str]:
    words = [
        u
        for u in corpus.in_groups([language])
        if u.reference is not None and any(not is_silence(label) for label in u.phones)
    ]
    samples, names, truth = join(words, 60 * minutes, seed=0)
    dictionary = {u.id: [[label for label in u.phones if not is_silence(label)]] for u in words}
    began = time.process_time()
    found = aligner.align(Recording(samples, RATE), words=names, dictionary=dictionary)
    seconds = time.process_time() - began
    ours = np.array([p.start for p in found.phones if not is_silence(p.label)])
    wrong = np.abs(ours - truth) > TOLERANCE
    minute = (truth // 60).astype(int)
    share = np.bincount(minute, wrong) / np.maximum(np.bincount(minute), 1)
    derailed = np.flatnonzero(share > 0.1)
    flagged = stretches(found.flags)
    unflagged = [m for m in derailed if not any(b < 60 * m + 60 and e > 60 * m for b, e in flagged)]
    duration = len(samples) / RATE
    return [
        language,
        f"{minutes:g}",
        f"{100 * (1 - wrong.mean()):.1f}",
        f"{np.abs(ours - truth).max():.2f}",
        str(len(derailed)),
        str(len(unflagged)),
        f"{duration / seconds:.0f}",
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}",
    ]


def stretches(flags: tuple[str, ...]) -> list[tuple[float, float]]:
    """The stretches of time that flags name; one without a time is of the whole recording."""
    found = []
    for flag in flags:
        words = flag.split()
        if words[0] == "from" and words[2] == "to":
            found.append((float(words[1]), float(words[3])))
        elif "score" in flag or "very long" in flag:
            found.append((0.0, np.inf))
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--minutes", type=float, nargs="+", default=[1.0, 10.0, 60.0])
    options.add_argument("--model", type=Path, help="where the trained model is kept, or found")
    given = options.parse_args()
    folder = given.data / "voxangeles" / "audited"
    if not folder.is_dir():
        print("long recordings: not measured, voxangeles is not there; name its folder by --data")
        return
    corpus = Corpus.textgrids(folder)
    train, held_out, test = languages(corpus.groups, 0)
    if given.model is not None and given.model.exists():
        from trellis import load

        aligner = load(given.model)
    else:
        split = weights_split(corpus.in_groups(train), corpus.in_groups(held_out), 0)
        aligner = Aligner(objective="log", fold="voiced", split=split, random_state=0)
        aligner.fit(corpus.in_groups({*train, *held_out}))
        if given.model is not None:
            aligner.save(given.model)
    columns = (
        "language",
        "minutes",
        "within 100 ms",
        "worst s",
        "derailed",
        "unflagged",
        "x real time",
        "MB",
    )
    table = Table(*columns, title="words joined with pauses")
    for minutes in [1.0] if given.quick else given.minutes:
        for language in test[:2] if given.quick else test:
            table.add_row(*measure(aligner, corpus, language, minutes))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()

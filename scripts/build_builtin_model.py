"""Build the model that Trellis ships for those who have no labels: ``trellis align run builtin``.

    apt-get install espeak-ng flite festival festvox-kdlpc16k festvox-us-slt-hts festvox-suopuhe-lj \
        festvox-suopuhe-mv festvox-ru festvox-ca-ona-hts
    python scripts/build_builtin_model.py --keep /tmp/builtin
    python scripts/build_builtin_model.py --round-only     # the weights of the model as it is

It has synthesisers speak words of many languages, and changes what they say as rooms, microphones and noise
would (package ``builtin_speech``); then it trains an aligner on phones folded by articulation.
Speech is written to FOLDER/corpus, and used again as long as it is there. Everything is a function of
``--seed``. Weights are rounded to 12 bits (``builtin_speech.rounded_weights``). Nobody's recordings are used,
and only the model is shipped.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import soundfile

sys.path.insert(0, str(Path(__file__).resolve().parent))

from builtin_speech import espeak_speech, festival_speech, flite_speech, texts
from builtin_speech.label_repair import SHORTEST, move_to_voicing, start_closures_early
from builtin_speech.recording_conditions import Conditions
from builtin_speech.rounded_weights import round_weights
from builtin_speech.spoken import RATE, SILENCE, Spoken

from trellis.core.errors import DataError
from trellis.speech import Aligner, Alignment, Corpus
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.phones.articulation import articulation

TARGET = Path(__file__).resolve().parent.parent / "src/trellis/speech/builtin/builtin.trellis"
PER_LANGUAGE, PER_FLITE_VOICE = 14, 80
PER_FESTIVAL_VOICE = {"ked": 80, "slt": 60, "lj": 100, "mv": 100, "ru": 180, "ona": 80}
LANGUAGES = (
    "af am ar az bg bn ca chr cmn cs cy da de el en en-us eo es et eu fa fi fr ga gd gn gu hak haw he hi hr "
    "ht hu hy id is it ja ka kk kl kn ko ku ky lb lt lv mi mk ml mr mt my nb ne nl om or pa pl pt pt-br qu "
    "quc ro ru sd shn si sk sl smj sq sv sw ta te th tn tr tt ug uk ur uz vi yue"
)
TABLES = {"nb": "no", "pt-br": "pt"}  # tables of phonemes that have other names than the voices
VARIANTS = (
    "", "+f1", "+f2", "+f3", "+f4", "+f5", "+m2", "+m3", "+m4", "+m5", "+m6", "+m7", "+m8", "+klatt",
    "+klatt2", "+klatt4", "+croak", "+Annie", "+Mario", "+steph", "+anika", "+Gene", "+Diogo", "+linda",
)  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--keep", type=Path, metavar="FOLDER", help="for the speech")
    options.add_argument("--round-only", action="store_true", help="train nothing")
    options.add_argument("-o", "--output", type=Path, default=TARGET)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--end-to-end", type=int, default=0, metavar="N", help="passes, last")
    given = options.parse_args()
    if given.round_only:
        round_weights(given.output)
        return
    if given.keep is None:
        options.error("--keep FOLDER is needed: the speech is kept there")
    began = time.perf_counter()
    folder = given.keep / "corpus"
    if not folder.is_dir():
        write_corpus(folder, given.seed)
        print(f"speech: {time.perf_counter() - began:.0f} s", flush=True)
    corpus = Corpus(tuple(u for u in Corpus.textgrids(folder) if known(u.phones)))
    print(f"{len(corpus)} utterances of {len(corpus.groups)} voices", flush=True)
    began = time.perf_counter()
    aligner = train(corpus, given.seed, given.jobs, given.end_to_end, given.keep / "training")
    print(f"training: {time.perf_counter() - began:.0f} s; {aligner.status_}", flush=True)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    aligner.save(given.output)
    round_weights(given.output)
    print(f"{given.output}: {given.output.stat().st_size / 1e6:.2f} MB")


def train(corpus: Corpus, seed: int, jobs: int, end_to_end: int, checkpoint: Path) -> Aligner:
    """Weights are learnt on voices that the network has not heard. Passes through the whole alignment gain
    nothing on recordings of people: they fit the network more closely to synthetic labels."""
    voices = np.random.default_rng(seed).permutation(corpus.groups).tolist()
    cuts = round(0.75 * len(voices)), round(0.92 * len(voices))
    parts = voices[: cuts[0]], voices[cuts[0] : cuts[1]], voices[cuts[1] :]
    named = zip(("classifier", "weights", "holdout"), parts, strict=True)
    split = {name: [u.id for u in corpus.in_groups(part)] for name, part in named}
    network = ConvolutionalOptions(end_to_end_passes=end_to_end)
    aligner = Aligner(
        "log",
        classifier=network,
        fold="voiced",
        alphabet="ipa",
        split=split,
        random_state=seed,
        n_jobs=jobs,
        checkpoint=checkpoint,
    )
    return aligner.fit(corpus)


def write_corpus(folder: Path, seed: int) -> None:
    partial, number = folder.with_name("corpus.partial"), 0
    for i, clean in enumerate(spoken(np.random.default_rng(seed))):
        # the draws of one utterance do not depend on the others
        utterance = Conditions(np.random.default_rng([seed, 1, i])).record(clean)
        if not usable(utterance):
            continue
        place = partial / utterance.voice.replace("+", "-") / f"{number:05d}"
        place.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(f"{place}.flac", utterance.samples, RATE)
        Alignment.from_starts(utterance.starts, utterance.labels, utterance.duration).write(
            f"{place}.TextGrid"
        )
        number += 1
        if number % 100 == 0:
            print(f"{number} utterances", flush=True)
    partial.rename(folder)


def spoken(rng: np.random.Generator) -> Iterator[Spoken]:
    """Clean speech with repaired labels."""
    for found in (*espeak(rng), *english(rng), *festival(rng)):
        if known(found.labels):
            yield move_to_voicing(found)


def espeak(rng: np.random.Generator) -> Iterator[Spoken]:
    speaker, tables = espeak_speech.Espeak(), espeak_speech.inventories()
    for language in LANGUAGES.split():
        table = texts.speakable(tables[TABLES.get(language, language)])
        for _ in range(PER_LANGUAGE):
            words = [
                texts.espeak_word(rng, table) for _ in range(int(rng.choice([1, 2, 3], p=[0.8, 0.12, 0.08])))
            ]
            pause = "_:" if rng.random() < 0.5 else "||"
            found = speaker.say(
                f"{language}{rng.choice(VARIANTS)}",
                f"[[{pause.join(words)}]]",
                speed=int(rng.integers(85, 190)),
                pitch=int(rng.integers(15, 85)),
                intonation=int(rng.integers(20, 80)),
            )
            if found is not None and known(found.labels):
                yield start_closures_early(found)


def english(rng: np.random.Generator) -> Iterator[Spoken]:
    for voice in flite_speech.VOICES:
        for text in texts.english_words(rng, PER_FLITE_VOICE):
            yield flite_speech.say(voice, text)


def festival(rng: np.random.Generator) -> Iterator[Spoken]:
    for language, voices in festival_speech.VOICES.items():
        for voice in voices:
            n = PER_FESTIVAL_VOICE[voice.name]
            if language == "english":
                said = texts.english_words(rng, n)
            else:
                said = [texts.spelt_word(rng, language) for _ in range(n)]
            yield from festival_speech.say_all(voice, said)


def known(labels: Iterable[str]) -> bool:
    """Whether every phone is one of the IPA."""
    try:
        return all(articulation(label).broad != "other" for label in labels)
    except DataError:
        return False


def usable(utterance: Spoken) -> bool:
    """Whether every phone has a length, and something is said."""
    lengths = np.diff([*utterance.starts, utterance.duration])
    return bool(lengths.min() >= SHORTEST / 2) and len(set(utterance.labels) - {SILENCE}) > 0


if __name__ == "__main__":
    main()

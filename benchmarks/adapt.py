"""Learning from a handful of corrected words: boundaries within 10, 20, 50 ms before and after ``adapt``.

    python benchmarks/adapt.py              # 40 languages, 1 to 20 words, 5 draws
    python benchmarks/adapt.py --quick      # the 8 languages of fold 0, one draw, 1 and 10 words
    python benchmarks/adapt.py --chosen-on  # the languages that constants were chosen on
    python benchmarks/adapt.py --prior      # what 1 and 10 words of these gain

Every language by the model of the fold that has not heard it (trained and kept in ``--models`` if missing).
A draw takes n words as corrected ones; the rest of the language, at least 10 words, is aligned before and
after as ``Aligner.align_reference`` does. Languages with fewer words are left out for that n, and counted.

Shares are over all boundaries of all languages and draws; the difference is the mean over languages, with
Student's interval over them. CPU seconds are those of one call of ``adapt``, reading the recordings included.

The constants of ``adapt`` were chosen on the held-out languages of the folds (``--chosen-on``: 20 languages,
by the models that held them out), but for ``MOST_WORDS``, which was set after a run over all languages.
Another fold tests each of the 20; the second table has the other 20 alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from _common import files, parser
from _fold_models import FOLDS, add_models_option, fold_model
from _paired import paired
from alignment import languages
from trellis.speech import Aligner, Corpus
from trellis.speech.acoustics.acoustic_training import TrainingUtterance
from trellis.speech.acoustics.classifier_names import get_classifier
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.align.learning.continued_model import Way
from trellis.speech.align.learning.left_out import CAP, FIRST_LEG, boundary_errors
from trellis.speech.audio.front_end import frame_recording

SIZES = 1, 2, 5, 10, 20
GOALS = {1: (67.5, 80.0), 2: (68.5, 81.0), 5: (70.5, 83.0), 10: (71.5, 84.0), 20: (73.5, 86.0)}
LEFT = 10  # words to test on, at least
TOLERANCES = 0.01, 0.02, 0.05


class Measured:
    """What one size of corrections did, language by language: rows of per cent within ``TOLERANCES``."""

    def __init__(self) -> None:
        self.errors: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        self.seconds: list[float] = []
        self.moved = 0

    def table_row(self, n: int, chosen: Sequence[str], n_languages: int) -> list[str] | None:
        own = {name: self.errors[name] for name in chosen if name in self.errors}
        if not own:
            return None
        before, after = (np.concatenate([run[k] for runs in own.values() for run in runs]) for k in (0, 1))
        by_language = np.array(
            [[within(np.concatenate([run[k] for run in runs])) for k in (0, 1)] for runs in own.values()]
        )
        changes = [str(paired(by_language[:, 1, t], by_language[:, 0, t])) for t in range(len(TOLERANCES))]
        worse = np.mean(by_language[:, 1, 1] < by_language[:, 0, 1] - 1.0)
        goal = GOALS.get(n)
        found = within(after)
        met = "" if goal is None else "yes" if found[0] >= goal[0] and found[1] >= goal[1] else "no"
        return [
            str(n),
            f"{len(own)} of {n_languages}",
            show(within(before)),
            show(found),
            " / ".join(changes[:2]),
            f"{100 * worse:.0f} %",
            f"{np.mean(self.seconds):.2f}, most {max(self.seconds):.2f}",
            "" if goal is None else f"{goal[0]:g} / {goal[1]:g}",
            met,
        ]


def within(errors: np.ndarray) -> np.ndarray:
    return np.array([100 * np.mean(np.abs(errors) <= seconds + 1e-9) for seconds in TOLERANCES])


def show(shares: np.ndarray) -> str:
    return " / ".join(f"{share:.1f}" for share in shares)


def main() -> None:
    options = parser(__doc__)
    add_models_option(options)
    options.add_argument("--draws", type=int, default=5)
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of corrected words")
    options.add_argument("--chosen-on", action="store_true", help="held-out languages in place of test ones")
    options.add_argument("--prior", action="store_true", help="measure the prior of learning.left_out")
    given = options.parse_args()
    if given.quick:
        given.draws, given.sizes = 1, (1, 10)
    (folder,) = files(given.data, "voxangeles/audited")
    corpus = Corpus.textgrids(folder)
    if given.prior:
        measure_prior(given.models, corpus, given.draws)
        return
    measured = {n: Measured() for n in given.sizes}
    tuned_on: set[str] = set()
    for seed in range(1 if given.quick else FOLDS):
        _, held_out, test = languages(corpus.groups, seed)
        tuned_on |= set(held_out)
        aligner = fold_model(corpus, seed, given.models)
        for language in held_out if given.chosen_on else test:
            one_language(aligner, corpus.in_groups({language}), language, given.draws, measured)
        so_far = [name for name in corpus.groups if any(name in found.errors for found in measured.values())]
        report(f"folds 0 to {seed}", measured, so_far)
    every = held_out_of_folds(corpus) if given.chosen_on else list(corpus.groups)
    report("all of these languages", measured, every)
    if not given.chosen_on:
        report("languages on which nothing was chosen", measured, [g for g in every if g not in tuned_on])


def measure_prior(models: Path, corpus: Corpus, draws: int) -> None:
    """The mean cost saved at each place of the way after 1 and 10 words of a held-out language."""
    costs: dict[int, list[np.ndarray]] = {1: [], 10: []}
    for seed in range(FOLDS):
        aligner = fold_model(corpus, seed, models)
        request, options = aligner._request("", confidence=False), get_classifier(aligner.classifier)
        assert isinstance(options, ConvolutionalOptions)
        for language in languages(corpus.groups, seed)[1]:
            words = corpus.in_groups({language})
            pieces = [as_trained(aligner, words, i) for i in range(len(words))]
            for n, draw in product(costs, range(draws)):
                if len(words) < n + LEFT:
                    continue
                order = np.random.default_rng([draw, n]).permutation(len(words)).tolist()
                way = Way(aligner.model_, [pieces[i] for i in order[:n]], options, aligner.random_state)
                way.walk(1)
                left = [pieces[i] for i in order[n:]]
                errors = [boundary_errors(way.model(place), left, request) for place in FIRST_LEG]
                costs[n].append(np.minimum(np.abs(errors), CAP) / CAP)
    for n, found in costs.items():
        together = np.concatenate(found, axis=1)
        saved = (together[:1] - together).mean(axis=1)
        each = ", ".join(f"{place:g}: {s:+.4f}" for place, s in zip(FIRST_LEG, saved, strict=True))
        print(f"cost saved per boundary after {n} words, by place: {each}")


def held_out_of_folds(corpus: Corpus) -> list[str]:
    return sorted({name for seed in range(FOLDS) for name in languages(corpus.groups, seed)[1]})


def one_language(
    aligner: Aligner, words: Corpus, language: str, draws: int, measured: dict[int, Measured]
) -> None:
    request = aligner._request("", confidence=False)
    pieces = [as_trained(aligner, words, i) for i in range(len(words))]
    before = [boundary_errors(aligner.model_, [piece], request) for piece in pieces]
    for n, found in measured.items():
        if len(words) < n + LEFT:
            continue
        for draw in range(draws):
            order = np.random.default_rng([draw, n]).permutation(len(words))
            corrected = Corpus(tuple(words[int(i)] for i in order[:n]))
            began = time.process_time()
            adapted = aligner.adapt(corrected)
            found.seconds.append(time.process_time() - began)
            found.moved += adapted.model_ is not aligner.model_
            rest = order[n:].tolist()
            after = boundary_errors(adapted.model_, [pieces[i] for i in rest], request)
            runs = found.errors.setdefault(language, [])
            runs.append((np.concatenate([before[i] for i in rest]), after))


def as_trained(aligner: Aligner, words: Corpus, index: int) -> TrainingUtterance:
    acoustics, word = aligner.model_.acoustics, words[index]
    frames = acoustics.standardise(frame_recording(word.audio, acoustics.options, word.channel).features)
    return TrainingUtterance.of(word, frames, acoustics.step)


def report(title: str, measured: dict[int, Measured], chosen: Sequence[str]) -> None:
    table = Table(title=f"adapt: {title}", title_justify="left")
    for column in (
        "words", "languages", "base, % within 10 / 20 / 50 ms", "adapted", "difference at 10 / 20 ms",
        "worse by > 1 point", "CPU s", "goal at 10 / 20 ms", "met",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    for n, found in measured.items():
        row = found.table_row(n, chosen, len(chosen))
        if row is not None:
            table.add_row(*row)
    Console(width=190).print(table)
    moves = ", ".join(f"{n}: {m.moved} of {len(m.seconds)}" for n, m in measured.items())
    print(f"models that moved, by number of words: {moves}")


if __name__ == "__main__":
    main()

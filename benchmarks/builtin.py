"""The model that comes with Trellis, on recordings of people: alone, and after learning from corrected words.

    python benchmarks/builtin.py                  # all words of the 40 languages of voxangeles
    python benchmarks/builtin.py --adapt          # and after adapt with 5 and 10 words of each language
    python benchmarks/builtin.py --model FILE     # another model in its place

It was trained on synthetic speech only, so every language and voice is new to it. Phones are given. The
stored output of the Montreal Forced Aligner is scored on the same boundaries where it has the same number of
phones. For ``--adapt`` see ``adapt.py``: the words that are learned from are not tested, in languages with
ten more words at least.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from _alignment import aligned, print_table, references
from _common import files, parser
from adapt import Measured, one_language, show, within
from alignment import forced
from trellis import load
from trellis.speech import Aligner, Corpus, builtin
from trellis.speech.evaluate.boundary_evaluation import compare, evaluate_alignments

SIZES = 5, 10


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--adapt", action="store_true", help="also learn from corrected words")
    options.add_argument("--draws", type=int, default=3, help="of corrected words")
    options.add_argument("--model", type=Path, default=builtin.PATH)
    given = options.parse_args()
    audited, mfa = files(given.data, "voxangeles/audited", "voxangeles/mfa")
    corpus, aligner = Corpus.textgrids(audited), load(given.model)
    began = time.process_time()
    answers = aligned(aligner, corpus)
    seconds = time.process_time() - began
    theirs = forced(mfa, [corpus])  # their names begin with 0/
    truth = {f"0/{name}": reference for name, reference in references(corpus).items()}
    found = evaluate_alignments(truth, {f"0/{name}": answer for name, answer in answers.items()})
    title = f"{given.model.name}: {len(corpus)} words of {len(corpus.groups)} languages, {seconds:.0f} CPU s"
    print_table(title, {"builtin": found, "Montreal Forced Aligner": theirs})
    difference = compare(found, theirs).within[20.0]
    print(
        f"within 20 ms, builtin minus Montreal Forced Aligner: {100 * difference.value:+.1f} points "
        f"({100 * difference.low:+.1f} to {100 * difference.high:+.1f})"
    )
    if given.adapt:
        after_corrections(aligner, corpus, 1 if given.quick else given.draws)


def after_corrections(aligner: Aligner, corpus: Corpus, draws: int) -> None:
    measured = {n: Measured() for n in SIZES}
    for language in corpus.groups:
        one_language(aligner, corpus.in_groups({language}), language, draws, measured)
    print(f"per cent within 10 / 20 / 50 ms, {draws} draws of corrected words:")
    for n, result in measured.items():
        runs = [run for own in result.errors.values() for run in own]
        before, after = (within(np.concatenate([run[k] for run in runs])) for k in (0, 1))
        print(
            f"{n} words, {len(result.errors)} languages: {show(before)} -> {show(after)}; "
            f"{np.mean(result.seconds):.2f} CPU s each, most {max(result.seconds):.2f}"
        )


if __name__ == "__main__":
    main()

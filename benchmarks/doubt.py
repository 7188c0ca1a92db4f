"""How honest the aligner's doubt is, on languages that its model has never heard.

    python benchmarks/doubt.py --data FOLDER --models FOLDER [--quick]

``--data`` holds voxangeles/audited; ``--models`` holds fold0.trellis .. fold4.trellis, the models of
``benchmarks/alignment.py`` (seed s tests 8 languages, holds out 4, learns from 28). Missing ones are trained
and kept there. Calibration and match are fitted anew on the utterances that a model's classifiers have not
heard (``calibrate_doubt``): the 4 languages held out and a fifth of the words of the others. ``--quick``:
fold 0 alone.

Printed, for phones given with the silences of the reference and without (silences are then optional):

    calibration   starts by their confidence: how many, mean confidence, share within 20 ms, Wilson interval
    AUROC         that a start off by more than 20 ms has a lower confidence than one that is not
    least sure    the share of such errors among the 20 % of starts with the lowest confidence

and how many transcripts are flagged: right ones, and wrong ones of each kind (``wrong_transcripts``;
"neighbour" is the next word of the language), phones given without silences. The first start of a transcript
that begins with silence is left out: it is 0 by definition.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from _common import files, parser
from _fold_models import fold_model
from alignment import languages, weights_split
from trellis.core.errors import InfeasibleError
from trellis.speech import Aligner, Alignment, Corpus
from trellis.speech.acoustics.acoustic_training import TrainingUtterance
from trellis.speech.align.doubt.calibration import calibrate_doubt
from trellis.speech.align.doubt.wrong_transcripts import KINDS, wrong_transcripts
from trellis.speech.align.utterance_alignment import MISMATCH
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.phones.silence import is_silence

BINS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)
FEWEST = 100  # starts in a bin that is judged
TOLERANCE = 0.02
FOLDS = 5
WAYS = ("silences given", "silences optional")

Starts = list[tuple[float, bool]]


def main() -> None:
    options = parser(__doc__)
    options.add_argument(
        "--models", type=Path, required=True, help="folder of fold0.trellis .. fold4.trellis"
    )
    given = options.parse_args()
    (folder,) = files(given.data, "voxangeles/audited")
    corpus = Corpus.textgrids(folder)
    starts: dict[str, Starts] = {way: [] for way in WAYS}
    flagged: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for fold in range(1 if given.quick else FOLDS):
        aligner = calibrated_model(given.models, corpus, fold)
        test = corpus.in_groups(languages(corpus.groups, fold)[2])
        for group in test.groups:
            judge_language(aligner, list(test.in_groups([group])), starts, flagged, counts)
        print(f"fold {fold}: {len(test)} words of {len(test.groups)} languages", flush=True)
    for way in WAYS:
        print_calibration(way, starts[way])
    print("\nflagged as not what was said")
    for kind in ("right", *KINDS):
        low, high = wilson(flagged[kind], counts[kind])
        print(
            f"  {kind:<10} {flagged[kind]:5d} of {counts[kind]:5d}  "
            f"{100 * flagged[kind] / max(counts[kind], 1):5.1f} %  [{100 * low:.1f}, {100 * high:.1f}]"
        )


def calibrated_model(folder: Path, corpus: Corpus, fold: int) -> Aligner:
    """The model of a fold, with its doubt calibrated anew."""
    aligner = fold_model(corpus, fold, folder)
    train, held, _ = languages(corpus.groups, fold)
    split = weights_split(corpus.in_groups(train), corpus.in_groups(held), fold)
    acoustics = aligner.model_.acoustics
    by_id = {u.id: u for u in corpus}
    unheard = [by_id[i] for i in (*split["holdout"], *sorted(split["weights"]))]
    aligner.model_ = calibrate_doubt(
        aligner.model_,
        [
            TrainingUtterance.of(
                u, acoustics.standardise(aligner.framed(u.audio, u.channel).features), acoustics.step
            )
            for u in unheard
        ],
        aligner._tolerances(),
        aligner._refines(aligner.model_),
    )
    return aligner


def judge_language(
    aligner: Aligner,
    words: list[Utterance],
    starts: dict[str, Starts],
    flagged: Counter[str],
    counts: Counter[str],
) -> None:
    rng = np.random.default_rng(0)
    spoken = [[x for x in phones(u) if not is_silence(x)] for u in words]
    inventory = [x for labels in spoken for x in labels]
    for i, (word, labels) in enumerate(zip(words, spoken, strict=True)):
        given = aligner.align(word.audio, phones(word), silence="none", channel=word.channel)
        found = aligner.align(word.audio, labels, channel=word.channel)
        starts[WAYS[0]] += judged(word, given)
        starts[WAYS[1]] += judged(word, found)
        transcripts = [("right", tuple(labels))]
        other = spoken[(i + 1) % len(words)]
        transcripts += [(w.kind, w.labels) for w in wrong_transcripts(labels, other, inventory, rng)]
        for kind, transcript in transcripts:
            try:
                said = (
                    found if kind == "right" else aligner.align(word.audio, transcript, channel=word.channel)
                )
            except InfeasibleError:
                continue  # refused, with a reason: neither flagged nor missed
            counts[kind] += 1
            flagged[kind] += any(flag.startswith(MISMATCH) for flag in said.flags)


def phones(word: Utterance) -> tuple[str, ...]:
    assert word.reference is not None
    return tuple(word.reference.labels)


def judged(word: Utterance, found: Alignment) -> Starts:
    """Confidence of each start, and whether it is within the tolerance; a silence that is not in the
    reference is wrong."""
    assert word.reference is not None
    assert found.confidence is not None
    truth = places(word.reference)
    rows = []
    for key, start, sure in zip(places(found), found.starts, found.confidence, strict=True):
        if key == ("silence", 0):
            continue
        rows.append((sure, bool(abs(start - truth.get(key, np.inf)) <= TOLERANCE + 1e-9)))
    return rows


def places(alignment: Alignment) -> dict[tuple[str, int], float]:
    """The start of each phone by its number, and of each silence by the number of phones before it."""
    found: dict[tuple[str, int], float] = {}
    n = 0
    for interval in alignment.phones:
        silent = is_silence(interval.label)
        found["silence" if silent else "phone", n] = interval.start
        n += not silent
    return found


def print_calibration(way: str, rows: Starts) -> None:
    sure, right = (np.array(column) for column in zip(*rows, strict=True))
    print(f"\n{way}: {len(sure)} starts, {100 * right.mean():.1f} % within {1000 * TOLERANCE:g} ms")
    print("  confidence      starts    mean   right   [95 %]          off, points")
    worst = 0.0
    for low, high in pairwise(BINS):
        inside = (sure >= low) & ((sure < high) if high < 1.0 else (sure <= 1.0))
        n = int(inside.sum())
        if n == 0:
            continue
        mean, share = 100 * sure[inside].mean(), 100 * right[inside].mean()
        bounds = [100 * x for x in wilson(int(right[inside].sum()), n)]
        worst = max(worst, abs(mean - share)) if n >= FEWEST else worst
        print(
            f"  {low:.2f} - {high:.2f}  {n:8d}  {mean:6.1f}  {share:6.1f}   "
            f"[{bounds[0]:5.1f}, {bounds[1]:5.1f}]  {mean - share:+6.1f}"
        )
    wrong = ~right
    print(f"  largest difference in bins of {FEWEST} or more: {worst:.1f} points (goal 3)")
    print(f"  AUROC of errors: {auroc(sure, wrong):.3f} (goal 0.85), {int(wrong.sum())} errors")
    order = np.argsort(sure, kind="stable")[: round(0.2 * len(sure))]
    held = int(wrong[order].sum())
    low, high = wilson(held, int(wrong.sum()))
    print(
        f"  errors among the least sure 20 %: {100 * held / wrong.sum():.1f} % "
        f"[{100 * low:.1f}, {100 * high:.1f}] (goal 60 %)"
    )


def auroc(sure: NDArray[np.float64], wrong: NDArray[np.bool_]) -> float:
    from scipy.stats import rankdata

    ranks, n = rankdata(-sure), int(wrong.sum())
    return float((ranks[wrong].sum() - n * (n + 1) / 2) / (n * (len(wrong) - n)))


def wilson(hits: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if n == 0:
        return 0.0, 1.0
    p = hits / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return float(middle - half), float(middle + half)


if __name__ == "__main__":
    main()

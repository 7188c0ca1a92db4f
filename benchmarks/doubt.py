"""How honest the aligner's doubt is, on languages that its model has never heard.

    python benchmarks/doubt.py [--data FOLDER] [--models FOLDER] [--quick]

``--data`` holds voxangeles/audited; ``--models`` holds fold0.trellis .. fold4.trellis, the models of
``benchmarks/alignment.py`` (seed s tests 8 languages, holds out 4, learns from 28). Missing ones are trained
and kept there. Calibration and match are fitted anew on the utterances that a model's classifiers have not
heard (``calibrate_doubt``): the 4 languages held out and a fifth of the words of the others. ``--quick``:
fold 0 alone.

Printed, for phones given with the silences of the reference and without (silences are then optional):

    calibration   starts by their confidence: how many, mean confidence, share within 20 ms, Wilson interval
    AUROC         that a start off by more than 20 ms has a lower confidence than one that is not
    least sure    the share of such errors among the 20 % of starts with the lowest confidence

and how many transcripts are doubted: right ones, and wrong ones of each kind (``wrong_transcripts``;
"neighbour" is the next word of the language), phones given without silences. "alone": by the flag of the
recording. "in a folder": beside the other words of the language, all with their right transcripts
(``folder_match``), as ``trellis align run`` judges a folder. Neighbours also by the number of phones in which
they differ from what was said (edit distance), with the share whose right transcript has the better match of
the two: how often the model would choose it, if it were given both.

The first start of a transcript that begins with silence is left out: it is 0 by definition. For a bin, the
"off" of confidences that are exactly right is not 0, because starts are few: "by chance" is the largest
difference that such confidences would show, in the median of ``DRAWS`` draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from _common import files, parser
from _fold_models import FOLDS, add_models_option, fold_model
from alignment import languages, weights_split
from trellis.core.errors import InfeasibleError
from trellis.speech import Aligner, Alignment, Corpus
from trellis.speech.acoustics.acoustic_training import TrainingUtterance
from trellis.speech.align.doubt.calibration import calibrate_doubt
from trellis.speech.align.doubt.folder_match import doubted_in_folder
from trellis.speech.align.doubt.wrong_transcripts import KINDS, wrong_transcripts
from trellis.speech.align.utterance_alignment import MISMATCH
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.phones.silence import is_silence

BINS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)
FEWEST = 100  # starts in a bin that is judged
TOLERANCE = 0.02
WAYS = ("silences given", "silences optional")
DRAWS = 400
MOST_DIFFERENT = 6  # phones; more are counted with these

Starts = list[tuple[float, bool]]


@dataclass(frozen=True)
class Verdict:
    """On the transcript ``kind`` of a recording: ``match``, whether it is doubted ``alone`` and beside the
    ``folder``, and how many phones are ``different`` from those of the reference."""

    kind: str
    match: float
    alone: bool
    folder: bool
    different: int
    right_match: float


def main() -> None:
    options = parser(__doc__)
    add_models_option(options)
    given = options.parse_args()
    (folder,) = files(given.data, "voxangeles/audited")
    corpus = Corpus.textgrids(folder)
    starts: dict[str, Starts] = {way: [] for way in WAYS}
    verdicts: list[Verdict] = []
    for fold in range(1 if given.quick else FOLDS):
        aligner = calibrated_model(given.models, corpus, fold)
        test = corpus.in_groups(languages(corpus.groups, fold)[2])
        for group in test.groups:
            verdicts += judge_language(aligner, list(test.in_groups([group])), starts)
        print(f"fold {fold}: {len(test)} words of {len(test.groups)} languages", flush=True)
    for way in WAYS:
        print_calibration(way, starts[way])
    print_verdicts(verdicts)


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


def judge_language(aligner: Aligner, words: list[Utterance], starts: dict[str, Starts]) -> list[Verdict]:
    rng = np.random.default_rng(0)
    spoken = [[x for x in phones(u) if not is_silence(x)] for u in words]
    inventory = [x for labels in spoken for x in labels]
    judged_as: list[dict[str, tuple[Sequence[str], Alignment]]] = []
    for i, (word, labels) in enumerate(zip(words, spoken, strict=True)):
        given = aligner.align(word.audio, phones(word), silence="none", channel=word.channel)
        found = aligner.align(word.audio, labels, channel=word.channel)
        starts[WAYS[0]] += judged(word, given)
        starts[WAYS[1]] += judged(word, found)
        judged_as.append({"right": (labels, found)})
        for wrong in wrong_transcripts(labels, spoken[(i + 1) % len(words)], inventory, rng):
            try:
                said = aligner.align(word.audio, wrong.labels, channel=word.channel)
            except InfeasibleError:
                continue  # refused, with a reason: neither flagged nor missed
            judged_as[-1][wrong.kind] = wrong.labels, said
    return list(compare_with_folder(judged_as))


def compare_with_folder(words: list[dict[str, tuple[Sequence[str], Alignment]]]) -> Iterator[Verdict]:
    """Each transcript of each word, while the others of the folder have their right ones."""
    right = [(match_of(word["right"][1]), flagged(word["right"][1])) for word in words]
    for i, word in enumerate(words):
        for kind, (labels, found) in word.items():
            own = match_of(found), flagged(found)
            folder = [*right[:i], own, *right[i + 1 :]]
            doubted = doubted_in_folder(*zip(*folder, strict=True))[i]
            yield Verdict(kind, *own, bool(doubted), edit_distance(word["right"][0], labels), right[i][0])


def match_of(found: Alignment) -> float:
    assert found.match is not None
    return found.match


def flagged(found: Alignment) -> bool:
    return any(flag.startswith(MISMATCH) for flag in found.flags)


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


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


def print_verdicts(verdicts: list[Verdict]) -> None:
    print("\ndoubted, as not what was said: alone, in a folder")
    for kind in ("right", *KINDS):
        of_kind = [v for v in verdicts if v.kind == kind]
        shares = [share([getattr(v, how) for v in of_kind]) for how in ("alone", "folder")]
        print(f"  {kind:<10} of {len(of_kind):5d}  {shares[0]:>28}  {shares[1]:>28}")
    neighbours = [v for v in verdicts if v.kind == "neighbour"]
    print(
        "\nneighbours, by phones that differ      alone                     in a folder        better match"
    )
    for n in range(1, MOST_DIFFERENT + 1):
        group = [v for v in neighbours if min(v.different, MOST_DIFFERENT) == n]
        shares = [share([getattr(v, how) for v in group]) for how in ("alone", "folder")]
        better = share([v.right_match > v.match for v in group])
        more = " or more" * (n == MOST_DIFFERENT)
        print(f"  {n}{more:<9} of {len(group):5d}  {shares[0]:>28}  {shares[1]:>28}  {better:>28}")
    print(f"  all: better match {share([v.right_match > v.match for v in neighbours])}")


def share(hits: Sequence[bool]) -> str:
    low, high = wilson(sum(hits), len(hits))
    return f"{100 * sum(hits) / max(len(hits), 1):.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def print_calibration(way: str, rows: Starts) -> None:
    sure, right = (np.array(column) for column in zip(*rows, strict=True))
    print(f"\n{way}: {len(sure)} starts, {100 * right.mean():.1f} % within {1000 * TOLERANCE:g} ms")
    print("  confidence      starts    mean   right   [95 %]          off, points")
    for low, high in pairwise(BINS):
        inside = in_bin(sure, low, high)
        n = int(inside.sum())
        if n == 0:
            continue
        mean, hit = 100 * sure[inside].mean(), 100 * right[inside].mean()
        bounds = [100 * x for x in wilson(int(right[inside].sum()), n)]
        print(
            f"  {low:.2f} - {high:.2f}  {n:8d}  {mean:6.1f}  {hit:6.1f}   "
            f"[{bounds[0]:5.1f}, {bounds[1]:5.1f}]  {mean - hit:+6.1f}"
        )
    rng, wrong = np.random.default_rng(0), ~right
    chance = np.array([largest_difference(sure, rng.random(len(sure)) < sure) for _ in range(DRAWS)])
    print(
        f"  largest difference in bins of {FEWEST} or more: {largest_difference(sure, right):.1f} points "
        f"(goal 3); by chance {np.median(chance):.1f}, within 3 in {100 * np.mean(chance <= 3):.0f} %"
    )
    print(f"  AUROC of errors: {auroc(sure, wrong):.3f} (goal 0.85), {int(wrong.sum())} errors")
    order = np.argsort(sure, kind="stable")[: round(0.2 * len(sure))]
    held = int(wrong[order].sum())
    low, high = wilson(held, int(wrong.sum()))
    print(
        f"  errors among the least sure 20 %: {100 * held / wrong.sum():.1f} % "
        f"[{100 * low:.1f}, {100 * high:.1f}] (goal 60 %)"
    )


def in_bin(sure: NDArray[np.float64], low: float, high: float) -> NDArray[np.bool_]:
    return (sure >= low) & ((sure < high) if high < 1.0 else (sure <= 1.0))


def largest_difference(sure: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Points between mean confidence and share of right starts, in the worst bin of ``FEWEST`` or more."""
    bins = [in_bin(sure, low, high) for low, high in pairwise(BINS)]
    return max(100 * abs(sure[b].mean() - right[b].mean()) for b in bins if b.sum() >= FEWEST)


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

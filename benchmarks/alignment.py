"""Forced alignment: percentage of boundaries within 10, 20, 30, 40 ms, for every way to learn, in one run.

    python benchmarks/alignment.py                       # synthetic speech, and voxangeles where it is found
    python benchmarks/alignment.py --voxangeles FOLDER   # 40 languages: 28 to train on, 4 held out, 8 to test
    python benchmarks/alignment.py --voxangeles FOLDER --fine-tuning --repeats 3    # three random seeds each
    python benchmarks/alignment.py --timit FOLDER        # Table 1 of McAllester, Hazan and Keshet (2010)

voxangeles: the languages are shuffled once and dealt into five groups of 8. Run s tests group s, holds out
the next 4 languages (they stop the training and make every choice), and learns from the other 28: four fifths
of the words for the classifiers, one for the weights. Every word is thus tested once, by a model that has
never heard its language. The phones are given. The output of the Montreal Forced Aligner that comes with
the corpus is scored on the same boundaries, where it has the same number of phones.

synthetic: each voice of the synthetic corpus by a model of the other three, for every seed; sentences with a
phone that none of the three has are left out.

TIMIT: 1500 / 1796 / 100 training utterances, drawn by the seed, for classifier, weights and hold-out; 1344
test utterances; no SA sentences; 61 phones folded to 39. First as published (seven features, 10 ms frames,
kernel classifier, w = 0, eps = 1.1), then the systems of the other tables.

``--fine-tuning`` compares the aligner's default, direct loss fine-tuned from the CRF with a measured eps,
with the CRF and the structural SVM alone. ``--repeats`` trains that often for each group, with seeds of their
own; tables then count every word as often, intervals of differences once. ``--keep FOLDER`` stores
predictions, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from _alignment import (
    DIRECT,
    FINE_TUNED,
    PASSES,
    SYSTEMS,
    Predictions,
    Systems,
    aligned,
    kept,
    pooled,
    print_differences,
    print_table,
    print_verdict,
    references,
    run_systems,
)
from _common import parser
from trellis.speech import Aligner, Alignment, Corpus, synthetic_corpus
from trellis.speech.corpus.synthetic import VOICES
from trellis.speech.evaluate.boundary_evaluation import AlignmentEvaluation, evaluate_alignments

GOAL = {10.0: 71.0, 20.0: 84.5, 30.0: 90.0, 40.0: 92.5}  # voxangeles, per cent
TEST, DEVELOPMENT = 8, 4  # languages
SEEDS = 100  # from the seed of one repeat to that of the next
TIMIT_PARTS = {"classifier": 1500, "weights": 1796, "holdout": 100}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--voxangeles", type=Path, help="folder with audited/ and mfa/, if not in --data")
    options.add_argument("--timit", type=Path, help="folder with TRAIN/ and TEST/")
    options.add_argument("--synthetic", action="store_true", help="only what is named; this names synthetic")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--keep", type=Path, help="folder for predictions")
    options.add_argument("--jobs", type=int, default=1, help="threads")
    options.add_argument("--fine-tuning", action="store_true", help="the default against CRF and margin only")
    options.add_argument("--repeats", type=int, default=1, help="voxangeles: random seeds for each group")
    given = options.parse_args()
    if given.quick:
        given.seeds = given.repeats = 1
    systems = FINE_TUNED if given.fine_tuning else SYSTEMS
    named = given.synthetic or given.voxangeles or given.timit
    if given.synthetic or not named:
        synthetic(given.seeds, given.keep, given.jobs, systems)
    if given.voxangeles or not named:
        folder = given.voxangeles or given.data / "voxangeles"
        voxangeles(folder, given.seeds, given.repeats, given.keep, given.jobs, systems)
    if given.timit or not named:
        timit(given.timit, given.seeds, given.keep, given.jobs)


def there(folder: Path | None, name: str, option: str) -> bool:
    if folder is None or not folder.is_dir():
        print(f"{name}: not measured, it is not there; name its folder by {option}")
        return False
    return True


def synthetic(seeds: int, keep: Path | None, jobs: int, systems: Systems) -> None:
    runs = []
    for seed in range(seeds):
        for voice in VOICES:
            train, test = (synthetic_corpus(v) for v in ([v for v in VOICES if v != voice], [voice]))
            heard = {phone for u in train for phone in u.phones}
            test = test.select(u.id for u in test if heard.issuperset(u.phones))
            make = partial(Aligner, max_iter=PASSES, random_state=seed, n_jobs=jobs)
            runs.append(
                (
                    test,
                    timed(f"synthetic, {voice} by the others, seed {seed}", keep, make, train, test, systems),
                )
            )
    evaluations = pooled(runs)
    print_table(f"synthetic speech, unheard voice, {seeds} seeds", evaluations)
    print_differences(DIRECT, evaluations)


def voxangeles(
    folder: Path, seeds: int, repeats: int, keep: Path | None, jobs: int, systems: Systems
) -> None:
    if not there(folder / "audited", "voxangeles", "--voxangeles"):
        return
    corpus = Corpus.textgrids(folder / "audited")
    runs = []
    for repeat in range(repeats):
        for seed in range(min(seeds, len(corpus.groups) // TEST)):
            train, held_out, test = languages(corpus.groups, seed)
            drawn = seed + SEEDS * repeat
            split = weights_split(corpus.in_groups(train), corpus.in_groups(held_out), drawn)
            make = partial(
                Aligner, fold="voiced", max_iter=PASSES, split=split, random_state=drawn, n_jobs=jobs
            )
            chosen = corpus.in_groups({*train, *held_out}), corpus.in_groups(test)
            name = f"voxangeles, group {seed}, seed {drawn}, {len(chosen[1])} words"
            runs.append((chosen[1], timed(name, keep, make, *chosen, systems)))
            print_table(f"group {seed}, seed {drawn}: {' '.join(test)}", pooled(runs[-1:]))
    evaluations = pooled(runs)
    evaluations["Montreal Forced Aligner"] = forced(folder / "mfa", [test for test, _ in runs])
    print_table(f"voxangeles, languages never heard, {len(runs)} runs", evaluations)
    once = runs[: len(runs) // repeats]  # a word that is counted again says nothing new: the first seeds only
    first = pooled(once)
    first["Montreal Forced Aligner"] = forced(folder / "mfa", [test for test, _ in once])
    print_differences(DIRECT, first)
    print_verdict(first)
    for ms, goal in GOAL.items():
        share = 100 * evaluations[DIRECT].within[ms].value
        print(f"within {ms:g} ms: {share:.1f} %, goal {goal:g} %: {'met' if share >= goal else 'missed'}")


def languages(groups: Sequence[str], seed: int) -> tuple[list[str], list[str], list[str]]:
    """Training, held-out and test languages."""
    order = np.roll(np.random.default_rng(1).permutation(sorted(groups)), -TEST * seed).tolist()
    return order[TEST + DEVELOPMENT :], order[TEST : TEST + DEVELOPMENT], order[:TEST]


def weights_split(train: Corpus, held_out: Corpus, seed: int) -> dict[str, list[str]]:
    """Four fifths of the words for the classifiers, one fifth for the weights, other languages held out."""
    ids = np.random.default_rng(seed).permutation([u.id for u in train]).tolist()
    cut = round(0.8 * len(ids))
    return {"classifier": ids[:cut], "weights": ids[cut:], "holdout": [u.id for u in held_out]}


def forced(folder: Path, tests: Sequence[Corpus]) -> AlignmentEvaluation:
    """The Montreal Forced Aligner's output for the test utterances, named as in :func:`_alignment.pooled`."""
    truth = {f"{i}/{n}": a for i, test in enumerate(tests) for n, a in references(test).items()}
    theirs = {
        name: Alignment.read(folder / f"{name.split('/', 1)[1]}.TextGrid")
        for name in truth
        if (folder / f"{name.split('/', 1)[1]}.TextGrid").exists()
    }
    return evaluate_alignments(truth, theirs)


def timit(folder: Path | None, seeds: int, keep: Path | None, jobs: int) -> None:
    if not there(folder, "TIMIT", "--timit"):
        return
    assert folder is not None
    train, test = Corpus.timit(folder, "train"), Corpus.timit(folder, "test")
    print(f"TIMIT: {len(train)} training and {len(test)} test utterances")
    runs = []
    for seed in range(seeds):
        split = timit_split([u.id for u in train], seed)

        make = partial(Aligner, fold="timit39", max_iter=PASSES, split=split, random_state=seed, n_jobs=jobs)
        published = partial(as_published, make, train, test)
        found = dict(kept(keep and keep / f"timit-published-{seed}.json", published))
        found |= timed(f"TIMIT, seed {seed}", keep, make, train, test)
        runs.append((test, found))
    evaluations = pooled(runs)
    print_table(f"TIMIT, {len(test)} test utterances, {seeds} seeds", evaluations)
    print_differences(DIRECT, evaluations)


def as_published(make: Callable[..., Aligner], train: Corpus, test: Corpus) -> Predictions:
    paper = {"features": "paper", "classifier": "passive_aggressive", "refine": "never"}
    paper["decoding"] = "best_path"
    prepared = make(**paper).prepare(train)
    asked = {"epsilon": 1.1, "start": "zero", **paper}
    return {
        f"as published, {loss}": aligned(make(loss=loss, **asked).fit(prepared), test)
        for loss in ("tau_alignment", "tau_insensitive")
    }


def timit_split(ids: Sequence[str], seed: int) -> dict[str, list[str]]:
    """The sizes of the paper, or their proportions where fewer utterances are there."""
    order = np.random.default_rng(seed).permutation(list(ids)).tolist()
    sizes = np.array(list(TIMIT_PARTS.values()))
    if len(order) < sizes.sum():
        sizes = np.maximum(1, sizes * len(order) // sizes.sum())
    ends = np.cumsum(sizes)
    parts = (order[end - size : end] for size, end in zip(sizes, ends, strict=True))
    return dict(zip(TIMIT_PARTS, parts, strict=True))


def timed(
    name: str,
    keep: Path | None,
    make: Callable[..., Aligner],
    train: Corpus,
    test: Corpus,
    systems: Systems = SYSTEMS,
) -> Predictions:
    print(name, flush=True)
    began = time.perf_counter()
    if systems is not SYSTEMS:
        name = f"fine-tuning, {name}"
    file = "".join(c if c.isalnum() else "-" for c in name) + ".json"
    found = kept(keep and keep / file, lambda: run_systems(make, train, test, systems))
    print(f"  {time.perf_counter() - began:.0f} s", flush=True)
    return found


if __name__ == "__main__":
    main()

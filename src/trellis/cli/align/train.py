"""``trellis align train``: learn an aligner from recordings whose boundaries are known."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.align.choices import LAYOUTS, CorpusFormat, Folding
from trellis.cli.console import note
from trellis.core.errors import DataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis.speech.corpus.corpus import Corpus

CorpusPath = Annotated[
    str,
    typer.Argument(
        metavar="CORPUS", help="Folder of recordings and their labels, or a CTM file.", show_default=False
    ),
]
Output = Annotated[str, typer.Option("-o", "--output", metavar="MODEL", help="Where to write the model.")]
Format = Annotated[
    CorpusFormat | None, typer.Option("--format", help="How the corpus is laid out; found out if not given.")
]
AudioFolder = Annotated[
    str | None,
    typer.Option(
        "--audio", metavar="DIR", help="Folder of the recordings, if they are not beside the labels."
    ),
]
PhoneTier = Annotated[
    str | None, typer.Option("--phone-tier", metavar="NAME", help="Tier of the phones in TextGrids.")
]
WordTier = Annotated[
    str | None, typer.Option("--word-tier", metavar="NAME", help="Tier of the words in TextGrids.")
]
Split = Annotated[
    str | None, typer.Option("--split", metavar="NAME|FILE", help="TIMIT: train, test, or a file of ids.")
]
Channel = Annotated[
    int | None, typer.Option("--channel", metavar="N", min=0, help="Channel to use, from 0, of several.")
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out recordings that cannot be used, instead of stopping.")
]
Objective = Annotated[
    str,
    typer.Option("--objective", metavar="NAME", help="direct, perceptron, margin or log."),
]
Loss = Annotated[
    str, typer.Option("--loss", metavar="NAME", help="Task loss: tau_alignment or tau_insensitive.")
]
Tau = Annotated[float, typer.Option("--tau", metavar="MS", min=0.0, help="Tolerance of the loss in ms.")]
Epsilon = Annotated[
    str,
    typer.Option("--epsilon", metavar="X", help="Direct objective: a number, or holdout to search for it."),
]
Classifier = Annotated[
    str,
    typer.Option("--classifier", metavar="NAME", help="Of frames: mlp, linear, passive_aggressive or torch."),
]
Features = Annotated[
    str,
    typer.Option(
        "--features",
        metavar="NAMES",
        help="standard, all, paper (the seven of 2007), or names split by commas.",
    ),
]
Step = Annotated[float, typer.Option("--step", metavar="MS", min=1.0, help="From frame to frame, in ms.")]
Fold = Annotated[Folding, typer.Option("--fold", help="Classes of phones that share a model.")]
CrossFit = Annotated[
    int,
    typer.Option(
        "--cross-fit",
        metavar="N",
        min=0,
        help="Folds, so that every recording serves classifier and weights.",
    ),
]
Solver = Annotated[
    str,
    typer.Option(
        "--solver", metavar="NAME", help="auto, or one that fits the objective, such as frank_wolfe."
    ),
]
Passes = Annotated[int, typer.Option("--passes", metavar="N", min=1, help="Passes over the utterances.")]
L2 = Annotated[float, typer.Option("--l2", metavar="X", min=0.0, help="Weight of half the squared norm.")]
Refine = Annotated[
    bool, typer.Option("--refine/--no-refine", help="Place boundaries between frames.", show_default=False)
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of everything random.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", metavar="N", min=1, help="Threads.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")]


def train(
    corpus: CorpusPath,
    output: Output,
    format: Format = None,
    audio: AudioFolder = None,
    phone_tier: PhoneTier = None,
    word_tier: WordTier = None,
    split: Split = None,
    channel: Channel = None,
    skip_bad: SkipBad = False,
    objective: Objective = "direct",
    loss: Loss = "tau_alignment",
    tau: Tau = 10.0,
    epsilon: Epsilon = "holdout",
    classifier: Classifier = "mlp",
    features: Features = "standard",
    step: Step = 10.0,
    fold: Fold = Folding.none,
    cross_fit: CrossFit = 0,
    solver: Solver = "auto",
    passes: Passes = 10,
    l2: L2 = 1e-3,
    refine: Refine = True,
    seed: Seed = 0,
    jobs: Jobs = 1,
    quiet: Quiet = False,
) -> None:
    """Learn an aligner from a CORPUS of recordings whose boundaries are known."""
    from trellis.speech.align.aligner import Aligner

    began = time.perf_counter()
    _check_place(output)
    aligner = Aligner(
        objective,
        loss,
        tau,
        classifier=classifier,
        features=features if "," not in features else [name.strip() for name in features.split(",")],
        step_ms=step,
        fold=fold.value,
        cross_fit=cross_fit,
        solver=solver,
        epsilon=_number_or_name(epsilon),
        passes=passes,
        l2=l2,
        refine=refine,
        n_jobs=jobs,
        random_state=seed,
    )
    tiers = {"phones": phone_tier, "words": word_tier}
    found = _read(corpus, format, {**tiers, "audio": audio, "split": split, "channel": channel}, skip_bad)
    for name, reason in found.skipped:
        note(f"left out {name}: {reason}")
    with _progress(quiet) as report:
        aligner.fit(found, report)
    aligner.save(output)
    if not quiet:
        minutes = sum(float(u.reference.duration or 0.0) for u in found if u.reference) / 60
        note(
            f"{aligner.status_}\n{len(found)} recordings, {minutes:.1f} minutes of sound, "
            f"{time.perf_counter() - began:.1f} s; the model is in {output}"
        )


def _check_place(output: str) -> None:
    """Training is long; whether its result can be written is better known before."""
    folder = os.path.dirname(os.path.abspath(output))
    if os.path.isdir(output) or not os.path.isdir(folder):
        what = "this is a folder" if os.path.isdir(output) else f"the folder {folder} does not exist"
        raise DataError(f"{output}: {what}; give the path of a file to write")


def _read(corpus: str, format: CorpusFormat | None, options: dict[str, Any], skip_bad: bool) -> Corpus:
    from trellis.speech.corpus.corpus import Corpus
    from trellis.speech.corpus.corpus_files import guess_layout

    layout = guess_layout(corpus) if format is None else LAYOUTS[format]
    takes = {
        "textgrids": ("phones", "words", "audio", "channel"),
        "timit": ("split",),
        "labs": ("audio", "channel"),
        "ctm": ("audio", "channel"),
        "json": ("audio", "channel"),
    }[layout]
    given = {name: value for name, value in options.items() if value is not None}
    foreign = sorted(set(given) - set(takes))
    if foreign:
        named = {"phones": "--phone-tier", "words": "--word-tier"}.get(foreign[0], f"--{foreign[0]}")
        raise UnsupportedError(f"{named} means nothing to a corpus of {layout}; leave it out")
    return Corpus.read(corpus, layout, skip_bad=skip_bad, **given)


def _number_or_name(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str, float], None] | None]:
    """A bar on a terminal that says what is being learnt."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("learning", total=1.0)
        yield lambda what, share: progress.update(task, description=what, completed=share)

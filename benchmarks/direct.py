"""Direct loss minimisation, by its default recipe, against what it has to beat: one command, every row.

    python benchmarks/direct.py --out direct.jsonl              # all rows; goes on where it stopped
    python benchmarks/direct.py --rows outliers letters --seeds 3
    python benchmarks/direct.py --objectives all                # also softmax_margin, risk and ramp

Columns, all of test losses in per cent, means over seeds:

    CRF              log-likelihood (images of 12 x 12: pseudo-likelihood), best labelling
    CRF + min risk   the same kind of model, decoded by expected loss; its l2 is chosen for that decoding
    margin           structural SVM with the loss of the row (span F1: with the Hamming loss)
    as published     direct loss from w = 0, one-sided, with a fixed epsilon chosen on the hold-out set
    direct           ``Direct()``: fine-tuning from the CRF (on graphs: from the margin)

Everyone has the same fifth of the training data to choose on; see ``_direct_fits.py`` for how, and
``_direct_tasks.py`` for the data. Seeds are 100, 101, ...: each draws new training data (of generated rows
also new test data; tags and chunks are tested on the whole test files, OCR on all words that were not drawn).
The intervals are paired t intervals over seeds, so they tell how another training set would do.

The last column says what must be shown, of the means over seeds: on every row a loss above the better of CRF
and margin by no more than 0.3 points or one standard error, whichever is larger; on some rows a gain.
Minimum-risk decoding is no bar but a rival: where it is ahead, the table shows by how much. All is measured
on one thread; the whole takes about 25 minutes of CPU time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import _direct_fits as fits
import _direct_tasks as tasks
from _common import parser
from _direct_fits import (
    CRF,
    DIRECT,
    MARGIN,
    METHODS,
    MINIMUM_RISK,
    MORE_METHODS,
    Alignments,
    Chains,
    Figure,
    Fits,
    Graphs,
)
from _direct_tasks import CONLL_FILES, OCR_FILE, QUICK, SIZES, UD_FILES, Sizes
from _paired import Bar, best_of, not_worse, paired
from trellis.core.progress import terminal_bar

FIRST_SEED = 100
BOTH = CRF, MARGIN


class Given(NamedTuple):
    """What a row measures with."""

    seed: int
    sizes: Sizes
    folder: Path


class Row(NamedTuple):
    """``methods``: from what is given to something that measures any method. ``files``: what it needs in the
    folder of the data."""

    name: str
    title: str
    methods: Callable[[Given], Fits | Alignments]
    bars: tuple[Bar, ...] = ()
    files: tuple[str, ...] = ()
    seeds: int = 5


def chain_row(task: Callable[..., tasks.Task], **options: Any) -> Callable[[Given], Fits]:
    return lambda given: Fits(Chains(), task(given.seed, given.sizes, **options), given.seed, given.sizes)


def file_row(task: Callable[..., tasks.Task], **options: Any) -> Callable[[Given], Fits]:
    return lambda given: chain_row(task, folder=given.folder, **options)(given)


def graph_row(task: Callable[..., tasks.Task], *graphs: str) -> Callable[[Given], Fits]:
    return lambda given: Fits(Graphs(*graphs), task(given.seed, given.sizes), given.seed, given.sizes)


OUTLIERS = Bar((CRF,), 15.0), Bar((MARGIN,), 2.0)
ROWS = (
    Row("outliers", "chains with outliers", chain_row(tasks.chains, outliers=True, costs=False), OUTLIERS),
    Row("outlier-costs", "the same, costs", chain_row(tasks.chains, outliers=True, costs=True), OUTLIERS),
    Row(
        "letters",
        "OCR letters",
        file_row(tasks.letters, words=False),
        (Bar(BOTH, 0.5),),
        (OCR_FILE,),
    ),
    Row(
        "tags-few",
        "UD tags, costs, few features",
        file_row(tasks.tags, many=False),
        (Bar(BOTH, 3.0),),
        UD_FILES,
    ),
    Row(
        "images",
        "impulse-noise images",
        graph_row(tasks.impulse_images, "message_passing", "pseudo_likelihood"),
        (Bar(BOTH, 2.0),),
        seeds=8,
    ),
    Row("right", "chains, right model", chain_row(tasks.chains, outliers=False, costs=False)),
    Row("words", "OCR words, 0-1", file_row(tasks.letters, words=True), files=(OCR_FILE,)),
    Row("tags-many", "UD tags, costs, many features", file_row(tasks.tags, many=True), files=UD_FILES),
    Row("chunks", "CoNLL-2000 chunks", file_row(tasks.chunks, spans=False), files=CONLL_FILES),
    Row(
        "hidden", "images, half of the labels hidden", graph_row(tasks.hidden_images, "auto", "log"), seeds=8
    ),
    Row("aligner", "aligner, synthetic voices", lambda given: Alignments(given.seed)),
    Row("spans", "CoNLL-2000 chunks, span F1", file_row(tasks.chunks, spans=True), files=CONLL_FILES),
)

Key = tuple[str, int, str]  # row, seed, method


class Results:
    """Test losses as they come, and those of earlier runs with the same sizes, line by line in a file."""

    def __init__(self, path: Path | None, size: str) -> None:
        self.path, self.size = path, size
        self.losses: dict[Key, float | None] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                one = json.loads(line)
                if one["size"] == size:
                    self.losses[one["row"], one["seed"], one["method"]] = one["loss"]

    def add(self, key: Key, figure: Figure, seconds: float) -> None:
        self.losses[key] = figure.loss
        if self.path is not None:
            row, seed, method = key
            line = {"row": row, "seed": seed, "method": method, "loss": figure.loss, "size": self.size}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**line, "cpu": round(seconds, 2), "chosen": figure.chosen}) + "\n")

    def of(self, row: Row, method: str, seeds: Sequence[int]) -> list[float]:
        """One loss per seed; empty where the method has none."""
        found = [self.losses.get((row.name, seed, method)) for seed in seeds]
        return [loss for loss in found if loss is not None] if None not in found else []


def measure(row: Row, seeds: Sequence[int], methods: Sequence[str], results: Results, given: Given) -> None:
    wanted = [(seed, method) for seed in seeds for method in methods]
    missing = [one for one in wanted if (row.name, *one) not in results.losses]
    with terminal_bar(row.title, len(wanted), None) as update:
        done = len(wanted) - len(missing)
        for seed in dict.fromkeys(seed for seed, _ in missing):
            methods_of_seed = row.methods(given._replace(seed=seed))
            for method in (m for s, m in missing if s == seed):
                if update is not None:
                    update(done, f"{row.title}, seed {seed}, {method}")
                began = time.process_time()
                results.add(
                    (row.name, seed, method), methods_of_seed.measure(method), time.process_time() - began
                )
                done += 1


class Summary(NamedTuple):
    """A line of the table; ``met``: None where nothing can be said."""

    cells: tuple[str, ...]
    met: bool | None


def summary(row: Row, seeds: Sequence[int], methods: Sequence[str], results: Results) -> Summary:
    losses = {method: results.of(row, method, seeds) for method in methods}
    cells = [row.title, str(len(seeds))]
    cells += [f"{np.mean(losses[method]):.2f}" if losses[method] else "–" for method in methods]
    others = {method: found for method, found in losses.items() if found and method != DIRECT}
    rivals = {method: others[method] for method in BOTH if method in others}
    if not losses.get(DIRECT) or not rivals:
        return Summary((*cells, "–", "–", "–"), None)
    differences = {method: paired(losses[DIRECT], found) for method, found in others.items()}
    best = best_of(rivals)
    cells.append(f"{differences[best]} ({best})")
    cells.append(str(differences[MINIMUM_RISK]) if MINIMUM_RISK in differences else "–")
    said = list(_verdicts(row, differences, not_worse(differences[best])))
    return Summary((*cells, "; ".join(f"{what}: {'met' if met else 'not met'}" for what, met in said)),
                   all(met for _, met in said))  # fmt: skip


def _verdicts(row: Row, differences: dict[str, Any], safe: bool) -> Iterator[tuple[str, bool]]:
    yield "not worse", safe
    for bar in row.bars:
        if all(other in differences for other in bar.against):
            yield str(bar), bar.met(differences)


def columns(methods: Sequence[str]) -> list[str]:
    rest = "direct - best (95 %)", "direct - min risk (95 %)", "must show"
    return ["test loss, %", "seeds", *methods, *rest]


def print_table(lines: Sequence[Summary], methods: Sequence[str]) -> None:
    table = Table(title="Direct loss: test loss in per cent, paired differences", title_justify="left")
    for i, column in enumerate(columns(methods)):
        table.add_column(column, justify="right" if 0 < i <= len(methods) + 1 else "left", overflow="fold")
    for line in lines:
        style = None if line.met is None else "green" if line.met else "red"
        table.add_row(*line.cells[:-1], f"[{style}]{line.cells[-1]}[/]" if style else line.cells[-1])
    Console(width=170).print(table)


def markdown(lines: Sequence[Summary], methods: Sequence[str]) -> str:
    head = columns(methods)
    rows = [head, ["---", *["---:"] * (len(methods) + 1), *["---"] * 3], *(line.cells for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    names = [row.name for row in ROWS]
    options.add_argument(
        "--rows", nargs="+", choices=names, default=names, metavar="ROW", help=", ".join(names)
    )
    options.add_argument("--seeds", type=int, help="default: 5, for images 8")
    options.add_argument("--objectives", nargs="+", choices=[*METHODS, *MORE_METHODS, "all"], default=METHODS)
    options.add_argument("--l2", type=float, nargs="+", help="values to choose from, largest first")
    options.add_argument("--out", type=Path, help="file of results, line by line; a new run goes on from it")
    options.add_argument("--markdown", type=Path, help="file for the table")
    given = options.parse_args(arguments)
    known = *METHODS, *MORE_METHODS
    methods = [method for method in known if method in given.objectives or "all" in given.objectives]
    size = "quick" if given.quick else "full"
    if given.l2:
        fits.L2, size = tuple(given.l2), f"{size}, l2 {given.l2}"
    results = Results(given.out, size)
    lines = []
    for row in (row for row in ROWS if row.name in given.rows):
        missing = [name for name in row.files if not (given.data / name).exists()]
        if missing:
            where = given.data / missing[0]
            print(
                f"{row.title}: not measured, {where} is not there; name the folder of the data sets by --data"
            )
            continue
        n = given.seeds or (2 if given.quick else row.seeds)
        seeds = range(FIRST_SEED, FIRST_SEED + n)
        sizes = QUICK if given.quick else SIZES
        measure(row, seeds, methods, results, Given(FIRST_SEED, sizes, given.data))
        lines.append(summary(row, seeds, methods, results))
        print(" | ".join(lines[-1].cells), flush=True)
    print_table(lines, methods)
    if given.markdown:
        given.markdown.write_text(markdown(lines, methods), encoding="utf-8")
    print(f"CPU {time.process_time():.0f} s")


if __name__ == "__main__":
    main()

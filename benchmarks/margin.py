"""The structural SVM beside the CRF: the same features and l2, each to a stop that users wait for.

    margin  min_w  sum_i max_y (L(y) + s(y) - s(y*)) + (l2 / 2) ||w||^2     to a relative duality gap of 1e-2
    log     min_w  sum_i -log p(y* | x) + (l2 / 2) ||w||^2                  to its default stop

On CoNLL-2000 chunks with l2 = 2 (CRFsuite's c2 = 1) and with l2 = 1 (the labeller's default), and on proper
names in 2,500 sentences of UD English EWT: runs of PROPN as B, I and O. Both sides run on two threads; CPU
time of both, and wall time. The bounds are checked against those of a run to a gap of 1e-3, the default.

    python benchmarks/margin.py [--data FOLDER] [--quick]
"""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import numpy as np

from _common import Figures, chain_problem, check, files, parser, run_until
from _crfsuite import chunking_features
from trellis.data.columns import read_columns
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.features.encoded import Encoded
from trellis.features.indexer import FeatureIndexer
from trellis.features.template_encoder import TemplateEncoder
from trellis.features.templates import Template
from trellis.objectives import Log, Margin
from trellis.solvers import LBFGS, FrankWolfe, Solver

AT_MOST = 3  # times the time of the CRF

Data = tuple[Encoded, EncodedLabels, LabelSet]


def chunks(train_file: Path) -> Data:
    columns = read_columns(train_file)
    y = columns.sequences(-1)
    names = LabelSet.of(y)
    inputs = TemplateEncoder(Template.crfsuite_chunking()).fit(columns.without(-1))
    return inputs, names.encode(y), names


def proper_names(conllu: Path, count: int = 2500) -> Data:
    """Words and their last three letters (in the place of tags), in the chunking windows."""
    X, y = [], []
    for block in gzip.decompress(conllu.read_bytes()).decode().split("\n\n")[:count]:
        rows = [line.split("\t") for line in block.splitlines() if line[:1].isdigit()]
        rows = [row for row in rows if row[0].isdigit()]
        if rows:
            before = [False, *(row[3] == "PROPN" for row in rows[:-1])]
            y.append(
                ["O" if r[3] != "PROPN" else "I" if b else "B" for r, b in zip(rows, before, strict=True)]
            )
            X.append(chunking_features([[row[1], row[1][-3:]] for row in rows]))
    names = LabelSet.of(y)
    return FeatureIndexer().fit(X), names.encode(y), names


def compared(title: str, data: Data, l2: float, quick: bool) -> Figures:
    problems = [
        chain_problem(*data, objective, l2=l2, n_jobs=2, observed=True) for objective in (Log(), Margin())
    ]
    last = []
    solvers: list[Solver] = [LBFGS(), FrankWolfe(tol=1e-2)]
    for solver, problem in zip(solvers, problems, strict=True):
        solver.start(problem, np.zeros(problem.dimension), np.random.default_rng(0)).step()  # compiles
        began = time.perf_counter()
        run = solver.start(problem, np.zeros(problem.dimension), np.random.default_rng(0))
        history = run_until(run, "objective", -np.inf, 5000)
        status = run.status()
        check(status is not None and status.converged, f"{solver.name} on {title} did not converge")
        last.append((time.perf_counter() - began, history[-1], len(history)))
    (crf_wall, crf, crf_steps), (wall, svm, steps) = last
    figures = Figures(title, ("margin", "CRF", "margin / CRF", "target", "met"))
    for name, ours, theirs in (
        ("CPU time of both threads", svm["cpu"], crf["cpu"]),
        ("wall time", wall, crf_wall),
    ):
        ratio = ours / theirs
        figures.row(
            name,
            f"{ours:.1f} s",
            f"{theirs:.1f} s",
            f"{ratio:.2f}",
            f"\u2264 {AT_MOST}",
            met=ratio <= AT_MOST,
        )
    figures.value("steps", str(steps), str(crf_steps))
    figures.value("objective", f"{svm['objective']:.2f}", f"{crf['objective']:.2f}")
    figures.value("dual bound, relative gap", f"{svm['dual']:.2f}, {svm['relative_gap']:.2g}")
    if not quick:
        problem = problems[1]
        run = FrankWolfe().start(problem, np.zeros(problem.dimension), np.random.default_rng(1))
        long = run_until(run, "objective", -np.inf, 5000)[-1]
        check(svm["dual"] <= long["objective"] and long["dual"] <= svm["objective"], "bounds of two runs")
        excess = svm["objective"] / long["objective"] - 1.0
        figures.value(
            "objective above that of a run to 1e-3", f"{excess:.2%}", "", "\u2264 1%", excess <= 0.01
        )
        figures.value("CPU seconds of that run", f"{long['cpu']:.1f} s")
    return figures


def main() -> None:
    given = parser(__doc__).parse_args()
    (conllu,) = files(given.data / "ud_english_ewt", "en_ewt-ud-train.conllu.gz")
    compared("Proper names, 2,500 sentences, l2 = 1", proper_names(conllu), 1.0, given.quick).print()
    (train_file,) = files(given.data / "conll2000", "train.txt")
    data = chunks(train_file)
    for l2 in (2.0, 1.0):
        compared(f"CoNLL-2000 chunks, l2 = {l2:g}", data, l2, given.quick).print()


if __name__ == "__main__":
    main()

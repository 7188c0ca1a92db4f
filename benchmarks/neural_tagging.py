"""One small BiLSTM under every objective: part-of-speech tags of UD English EWT and chunks of CoNLL-2000.

Every run has the same network, inputs, seeds and number of epochs; only what is minimised differs. Inputs are
the lower-cased word, its last three letters and its shape (for chunks also the part of speech that the file
gives), with embeddings learnt from scratch. "softmax" looks at each word by itself: what the others gain over
it is the value of structure. "direct" begins with epochs of log. The epoch with the smallest loss on the
development sentences (UD: its file; chunks: one sentence in ten of the training file) is kept.

Intervals are 95 % bootstraps over the test sentences, the seeds pooled; the gain over softmax is paired.
Chunks are decoded under the BIO grammar by all, softmax included.

``--costs`` asks another question: UD tags whose mistakes have a price (``PRICES``), with ``TAGGED`` training
sentences drawn anew for each seed, a fifth of them held out. "direct" is fine-tuned from log by the recipe of
the labeller; all have the same epochs. Differences from log are paired.

    python benchmarks/neural_tagging.py [--data FOLDER] [--quick] [--seeds 3] [--every 4] [--picture FILE]
    python benchmarks/neural_tagging.py --costs
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from _common import Figures, fastest, files, parser
from trellis.data.columns import read_columns, read_conllu
from trellis.losses.labelings import WeightedHamming
from trellis.losses.metrics import errors_by_sequence, span_report
from trellis.neural import NeuralSequenceLabeler
from trellis.neural.labeler.networks import EncoderOptions, new_network
from trellis.objectives.special_cases import Direct
from trellis.theory.confidence_intervals import bootstrap_interval

Sentences = tuple[list[Any], list[list[str]]]
FIRST = 5  # epochs of log before direct
OBJECTIVES = ("softmax", "perceptron", "margin", "log", "softmax_margin", "direct")
COLOURS = ("#000000", "#e69f00", "#56b4e9", "#0072b2", "#009e73", "#d55e00")
BATCH = 32
PRICES = {
    "PROPN": 5.0,
    "NUM": 10.0,
    "INTJ": 20.0,
    "X": 20.0,
    "ADV": 3.0,
}  # of a wrong label, by the right one
PRICED_EPOCHS = 10
TAGGED = 1000  # training sentences with prices
MOST_EXTRA = 0.15  # of the time of an epoch, for the structured loss


@dataclass
class Task:
    """``counts(gold, predicted)``: a row of sums for each sentence; ``value``: the measure of such sums."""

    name: str
    measure: str
    train: Sentences
    development: Sentences
    test: Sentences
    counts: Callable[[Any, Any], NDArray[np.float64]]
    value: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Trained:
    """Of one objective: the sums by test sentence and the curve of each seed, CPU seconds of each epoch."""

    counts: list[NDArray[np.float64]] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    curves: list[list[float]] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def described(words: list[list[str]], *further: tuple[str, list[list[str]]]) -> list[Any]:
    """Sentences of attributes."""

    def shape(w: str) -> str:
        first = "X" if w[:1].isupper() else "x"
        return first + ("X" if w[1:].isupper() else "") + ("d" if any(c.isdigit() for c in w) else "")

    rows = [
        [{"word": w.lower(), "suffix": w[-3:].lower(), "shape": shape(w)} for w in sentence]
        for sentence in words
    ]
    for name, values in further:
        for row, value in zip(rows, values, strict=True):
            for step, v in zip(row, value, strict=True):
                step[name] = v
    return rows


def tags(folder: Path) -> tuple[Sentences, Sentences, Sentences]:
    paths = files(folder, *(f"en_ewt-ud-{part}" for part in ("train.conllu.gz", "dev.conllu", "test.conllu")))
    read = [read_conllu(path) for path in paths]
    train, development, test = ((described(d.sequences(0)), d.sequences(1)) for d in read)
    return train, development, test


def chunks(folder: Path) -> tuple[Sentences, Sentences, Sentences]:
    read = [read_columns(path) for path in files(folder, "train.txt", "test.txt")]
    known, test = ((described(d.sequences(0), ("pos", d.sequences(1))), d.sequences(2)) for d in read)
    held = [i % 10 == 0 for i in range(len(known[0]))]
    train, development = (
        ([x for x, h in zip(known[0], held, strict=True) if h == mark],
         [y for y, h in zip(known[1], held, strict=True) if h == mark])
        for mark in (False, True)
    )  # fmt: skip
    return train, development, test


def thinned(data: Sentences, every: int) -> Sentences:
    return data[0][::every], data[1][::every]


def token_counts(gold: Any, predicted: Any) -> NDArray[np.float64]:
    wrong, steps = errors_by_sequence(gold, predicted)
    return np.stack([steps - wrong, steps], axis=1).astype(np.float64)


def share(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return sums[..., 0] / sums[..., 1]


def f1(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return 2.0 * sums[..., 0] / (sums[..., 1] + sums[..., 2])


def labeler(objective: str, seed: int, epochs: int, **options: Any) -> NeuralSequenceLabeler:
    toward_better = Direct(epsilon=1.0, sign="better")  # as published, at a fixed epsilon
    stages = [("log", FIRST), (toward_better, None, 0.3)] if objective == "direct" else None
    return NeuralSequenceLabeler(
        "bilstm",
        objective,
        embedding_dim=50,
        hidden=64,
        learning_rate=5e-3,
        schedule="linear",
        max_epochs=epochs,
        patience=epochs,
        objective_schedule=stages,
        random_state=seed,
        n_jobs=1,
        verbose=False,
        **options,
    )


def trained(task: Task, objective: str, seeds: int, epochs: int) -> Trained:
    found = Trained()
    X, y = task.test
    steps = sum(map(len, task.development[1])) / len(task.development[1])
    for seed in range(seeds):
        model = labeler(objective, seed, epochs, holdout=task.development, **task.options).fit(*task.train)
        predicted = model.predict(X)
        found.counts.append(task.counts(y, predicted))
        wrong, _ = errors_by_sequence(y, predicted)
        found.whole.append(float((wrong == 0).mean()))
        found.curves.append([100 * loss / steps for loss in model.history_["holdout_loss"]])
        found.cpu += model.history_["cpu_seconds"]
        print(
            f"  {task.name}, {objective}, seed {seed}: {100 * task.value(found.counts[-1].sum(0)):.2f}",
            flush=True,
        )
    return found


def difference(task: Task, width: int, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The measure of the first ``width`` sums minus that of the others."""
    return task.value(sums[..., :width]) - task.value(sums[..., width:])


def report(task: Task, results: dict[str, Trained], epochs: int) -> Table:
    words = sum(map(len, task.train[1]))
    table = Table(
        title=f"{task.name}: {len(task.train[0]):,} training sentences ({words:,} words), {epochs} epochs, "
        f"{len(task.test[0]):,} test sentences",
        title_justify="left",
    )
    for column in (
        "objective",
        task.measure,
        "95 % interval",
        "seeds",
        "gain over softmax",
        "sentences right",
        "CPU per epoch",
    ):
        table.add_column(column, justify="left" if column == "objective" else "right")
    local = np.sum(results["softmax"].counts, axis=0)
    for name, result in results.items():
        pooled = np.sum(result.counts, axis=0)
        inside = bootstrap_interval(pooled, task.value)
        width = pooled.shape[1]
        gain = bootstrap_interval(
            np.concatenate([pooled, local], axis=1),
            partial(difference, task, width),
        )
        each = [100 * float(task.value(c.sum(0))) for c in result.counts]
        table.add_row(
            name,
            f"{100 * inside.value:.2f}",
            f"{100 * inside.low:.2f} to {100 * inside.high:.2f}",
            f"{min(each):.2f} to {max(each):.2f}",
            ""
            if name == "softmax"
            else f"{100 * gain.value:+.2f} ({100 * gain.low:+.2f} to {100 * gain.high:+.2f})",
            f"{100 * np.mean(result.whole):.1f}",
            f"{np.mean(result.cpu):.2f} s",
        )
    return table


def picture(curves: dict[str, dict[str, Trained]], path: Path) -> None:
    """Wrong labels on the development sentences after each epoch, mean of the seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(curves), figsize=(5.2 * len(curves), 3.8), squeeze=False)
    for panel, (title, results) in zip(panels[0], curves.items(), strict=True):
        for (name, result), colour in zip(results.items(), COLOURS, strict=True):
            every = np.array(result.curves)
            epochs = np.arange(1, every.shape[1] + 1)
            panel.plot(epochs, every.mean(0), marker="o", markersize=3.5, color=colour, label=name)
            panel.fill_between(epochs, every.min(0), every.max(0), color=colour, alpha=0.12, linewidth=0)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
        panel.yaxis.set_minor_formatter(lambda v, _: f"{v:g}" if v in (3, 4, 6, 8, 15, 20, 30) else "")
        panel.set(title=title, xlabel="epochs", ylabel="wrong labels, development sentences, %")
        panel.grid(alpha=0.25, which="both")
    panels[0][0].legend(frameon=False, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def epoch_cost(data: Sentences, repeats: int) -> None:
    """CPU seconds of one epoch, the making of its batches included. On every batch the objectives take turns,
    and the least time of each batch counts: a machine that does other things as well slows all alike."""
    names = ("softmax", "log", "margin", "softmax_margin")
    runs = []
    for name in names:
        encoder, problem, solver = labeler(name, 0, 1).prepare(*data, seed=0)
        torch.manual_seed(0)
        network = new_network("bilstm", encoder.shape, len(problem.labels), EncoderOptions())
        runs.append(solver.start(problem, network))
    corpus = runs[0].problem.corpus
    (making,) = fastest(lambda: list(corpus.shuffled(BATCH, [0])), repeats=repeats)
    seconds = np.full(len(names), making)
    for batch in corpus.shuffled(BATCH, [0]):
        steps = [partial(run.update, batch, run.solver.stages[0]) for run in runs]
        seconds += fastest(*steps, repeats=repeats)
    least = dict(zip(names, seconds.tolist(), strict=True))
    figures = Figures(
        f"One epoch over {len(data[0]):,} sentences of UD English, one thread",
        ("structured", "softmax", "extra", "target", "met"),
    )
    for name in names[1:]:
        extra = least[name] / least["softmax"] - 1
        figures.row(
            name,
            f"{least[name]:.2f} s",
            f"{least['softmax']:.2f} s",
            f"{100 * extra:+.1f} %",
            f"\u2264 {100 * MOST_EXTRA:g} %",
            met=extra <= MOST_EXTRA,
        )
    figures.print()


def priced(train: Sentences, test: Sentences, seeds: int, epochs: int) -> None:
    """The mean price of 100 words under log, margin and direct, which is fine-tuned."""
    loss = WeightedHamming(class_weight=PRICES)
    merged = [["X" if label in ("SYM", "X") else label for label in y] for y in test[1]]
    sums: dict[str, list[NDArray[np.float64]]] = {}
    for seed in range(seeds):
        drawn = np.random.default_rng(seed).permutation(len(train[0]))[:TAGGED]
        X = [train[0][i] for i in drawn]
        y = [["X" if label in ("SYM", "X") else label for label in train[1][i]] for i in drawn]
        for objective in ("log", "margin", Direct(epsilon="auto", sign="central")):
            name = objective if isinstance(objective, str) else objective.name
            model = NeuralSequenceLabeler(
                "bilstm", objective, loss, embedding_dim=50, hidden=64, learning_rate=5e-3, holdout=0.2,
                max_epochs=epochs, patience=epochs, random_state=seed, n_jobs=1, verbose=False,
            ).fit(X, y)  # fmt: skip
            prices = [
                sum(PRICES.get(a, 1.0) for a, b in zip(g, found, strict=True) if a != b)
                for g, found in zip(merged, model.predict(test[0]), strict=True)
            ]
            sums.setdefault(name, []).append(np.stack([prices, list(map(len, merged))], axis=1).astype(float))
            print(
                f"  {name}, seed {seed}: {100 * share(sums[name][-1].sum(0)):.2f}  {model.status_}",
                flush=True,
            )
    table = Table(
        title=f"UD English tags with prices, {TAGGED:,} training sentences, {epochs} epochs, {seeds} seeds"
    )
    for column in ("objective", "price of 100 words", "seeds", "minus log", "95 % interval"):
        table.add_column(column, justify="left" if column == "objective" else "right")
    for name, each in sums.items():
        both = np.concatenate([sum(each), sum(sums["log"])], axis=1)
        gain = bootstrap_interval(both, lambda s: share(s[..., :2]) - share(s[..., 2:]))
        values = [100 * float(share(one.sum(0))) for one in each]
        row = [name, f"{np.mean(values):.2f}", " ".join(f"{v:.2f}" for v in values)]
        if name != "log":
            row += [f"{100 * gain.value:+.2f}", f"{100 * gain.low:+.2f} to {100 * gain.high:+.2f}"]
        table.add_row(*row)
    Console(width=120).print(table)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--every", type=int, default=4, help="take every n-th training sentence")
    options.add_argument("--epochs", type=int, default=7)
    options.add_argument("--cost", action="store_true", help="only the cost of an epoch")
    options.add_argument("--costs", action="store_true", help="only tags whose mistakes have a price")
    options.add_argument("--picture", type=Path, help="where to write the learning curves")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.seeds, chosen.every, chosen.epochs = 1, 12, 7
    ud = tags(chosen.data / "ud_english_ewt")
    torch.set_num_threads(1)
    if chosen.costs:
        priced(ud[0], ud[2], chosen.seeds, PRICED_EPOCHS)
        return
    conll = chunks(chosen.data / "conll2000")
    epoch_cost(thinned(ud[0], chosen.every), 5)
    if chosen.cost:
        return
    tasks = (
        Task("UD English tags", "words right", thinned(ud[0], chosen.every), *ud[1:], token_counts, share),
        Task(
            "CoNLL-2000 chunks",
            "span F1",
            thinned(conll[0], chosen.every),
            *conll[1:],
            lambda gold, predicted: span_report(gold, predicted).counts.astype(np.float64),
            f1,
            {"constraints": "bio"},
        ),
    )
    curves = {}
    for task in tasks:
        results = {name: trained(task, name, chosen.seeds, chosen.epochs) for name in OBJECTIVES}
        Console(width=140).print(report(task, results, chosen.epochs))
        curves[task.name] = results
    if chosen.picture is not None:
        picture(curves, chosen.picture)


if __name__ == "__main__":
    main()

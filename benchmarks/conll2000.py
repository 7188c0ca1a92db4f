"""Chunking on CoNLL-2000 against CRFsuite: the same features, the same model, the same answers.

    min_w  -loglik + c2 ||w||^2,   c2 = 1        (ours: l2 = 2, weights="observed", boundaries=False)

Measured in one run: an evaluation of objective and gradient, an iteration on a small training set, the time
to CRFsuite's own final objective, passes of the averaged perceptron, tagging from strings, from CSR and from
the raw file, the peak memory of training. One thread and CPU time unless the row says otherwise.

    python benchmarks/conll2000.py [--data FOLDER] [--quick]
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pycrfsuite
from threadpoolctl import ThreadpoolController

from _common import (
    Figures,
    chain_problem,
    check,
    cold_seconds,
    fastest,
    files,
    parser,
    run_until,
)
from _crfsuite import (
    Items,
    chunking_features,
    crfsuite_train,
    exported_weights,
    read_sentences,
    training_items,
)
from _memory import peak_memory, print_peak_memory
from trellis import SequenceLabeler
from trellis.data.columns import read_columns
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.features.encoded import Encoded
from trellis.features.template_encoder import TemplateEncoder
from trellis.features.templates import Template
from trellis.losses.metrics import span_report
from trellis.objectives import Log, Perceptron
from trellis.solvers import LBFGS
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.scores.linear_chain_scores import linear_chain_scores

OPTIONS: dict[str, Any] = {"l2": 2.0, "weights": "observed", "boundaries": False, "verbose": False}
FEW = 2000  # sentences of a small training set
KNOWN_OPTIMUM = 13139.37  # of 452,755 weights
MEMORY_PEERS = ("nothing", "strings", "dictionaries")
MEMORY_ROWS = {
    "nothing": "imports alone",
    "template": "from the file",
    "strings": "from the same feature strings",
    "dictionaries": "from dictionaries {string: 1.0}",
}
COLD = """
from trellis import SequenceLabeler
from trellis.features.templates import Template
rows = [[("a", "X"), ("b", "Y"), ("a", "X")]] * 2
model = SequenceLabeler(template=Template.crfsuite_chunking(), max_iter=2, verbose=False)
model.fit(rows, [["B-NP", "I-NP", "O"]] * 2).predict(rows)
"""


class Corpus(NamedTuple):
    """The training and test files, as each side wants them."""

    train_file: Path
    test_file: Path
    X: list[Items]
    y: list[list[str]]
    X_test: list[Items]
    y_test: list[list[str]]
    names: LabelSet
    encoder: TemplateEncoder
    inputs: Encoded
    labels: EncodedLabels

    @classmethod
    def read(cls, train_file: Path, test_file: Path) -> Corpus:
        train, test = read_sentences(train_file), read_sentences(test_file)
        y, y_test = ([[row[2] for row in sentence] for sentence in part] for part in (train, test))
        names = LabelSet.of(y)
        encoder = TemplateEncoder(Template.crfsuite_chunking())
        inputs = encoder.fit(read_columns(train_file).without(-1))
        X, X_test = ([chunking_features(sentence) for sentence in part] for part in (train, test))
        ours, theirs = set(encoder.feature_names()), {f"U:{f}" for s in X for step in s for f in step}
        check(ours == theirs, f"{len(ours)} features here, {len(theirs)} there")
        return cls(train_file, test_file, X, y, X_test, y_test, names, encoder, inputs, names.encode(y))

    def first(self, n: int, folder: Path) -> Corpus:
        """The first n sentences as a corpus of their own."""
        few = folder / "few.txt"
        text = self.train_file.read_text(encoding="utf-8")
        few.write_text("\n\n".join(text.split("\n\n")[:n]) + "\n", encoding="utf-8")
        return Corpus.read(few, self.test_file)

    def problem(self, n_jobs: int) -> LinearChainProblem:
        return chain_problem(
            self.inputs, self.labels, self.names, Log(), l2=2.0, n_jobs=n_jobs, observed=True
        )


def objective_at(problem: LinearChainProblem, weights: np.ndarray) -> float:
    return problem.value_and_gradient(weights)[0] + 0.5 * problem.l2 * float(weights @ weights)


def evaluation(corpus: Corpus, folder: Path, iterations: int) -> Figures:
    """One objective and gradient; CRFsuite's clock runs from one L-BFGS iteration to the next."""
    one, two = corpus.problem(1), corpus.problem(2)
    weights = np.random.default_rng(0).normal(scale=0.1, size=one.dimension) * one.layout.mask
    for problem in (one, two):
        problem.value_and_gradient(weights)
    cpu, wall = [], []

    def ours() -> None:
        cpu.extend(fastest(lambda: one.value_and_gradient(weights), repeats=2))
        wall.extend(fastest(lambda: two.value_and_gradient(weights), repeats=2, clock=time.perf_counter))

    trainer, _ = crfsuite_train(
        corpus.X, corpus.y, folder / "short.crf", "lbfgs", ours, c2=1.0, max_iterations=iterations
    )
    figures = Figures("CoNLL-2000 chunking against CRFsuite: one evaluation of the CRF")
    figures.value(
        "weights of the model", f"{one.layout.n_weights:,}", "", "452,755", one.layout.n_weights == 452_755
    )
    figures.times("objective and gradient, one thread", min(cpu), min(trainer.cpu), 5)
    figures.times("objective and gradient, two threads, wall", min(wall), min(trainer.wall), 8.5)
    ours_few, theirs_few = iteration(corpus.first(FEW, folder), folder, iterations)
    figures.times(f"iteration of L-BFGS on {FEW:,} sentences, one thread", ours_few, theirs_few, 4)
    return figures


def iteration(corpus: Corpus, folder: Path, iterations: int) -> tuple[float, float]:
    """The fastest iteration of L-BFGS that evaluates once, of ours and of CRFsuite."""
    problem = corpus.problem(1)
    run = LBFGS().start(problem, np.zeros(problem.dimension), np.random.default_rng(0))
    measured = run.step()  # the first one starts up
    cpu = []

    def ours() -> None:
        nonlocal measured
        before = measured["evaluations"]
        began = time.process_time()
        measured = run.step()
        if measured["evaluations"] == before + 1:
            cpu.append(time.process_time() - began)

    with ThreadpoolController().limit(limits=1, user_api="blas"):
        trainer, _ = crfsuite_train(
            corpus.X, corpus.y, folder / "few.crf", "lbfgs", ours, c2=1.0, max_iterations=2 * iterations
        )
    return min(cpu, default=np.nan), min(trainer.cpu, default=np.nan)


def training(corpus: Corpus, model: Path) -> Figures:
    """Ours and CRFsuite to CRFsuite's last objective. Ours has passes of descent before its iterations."""
    began = time.perf_counter()
    sentences = read_sentences(corpus.train_file)
    made = [chunking_features(sentence) for sentence in sentences]
    preparing = time.perf_counter() - began
    del made
    began = time.perf_counter()
    trainer, fitting = crfsuite_train(corpus.X, corpus.y, model, "lbfgs", c2=1.0)
    everything = preparing + time.perf_counter() - began
    goal = trainer.losses[-1]

    runs = []
    for _ in range(2):
        began = time.perf_counter()
        columns = read_columns(corpus.train_file)
        encoder = TemplateEncoder(Template.crfsuite_chunking())
        inputs = encoder.fit(columns.without(-1))
        y = columns.sequences(-1)
        labels = corpus.names.encode(y)
        encoded = time.perf_counter()
        problem = chain_problem(inputs, labels, corpus.names, Log(), l2=2.0, n_jobs=2, observed=True)
        run = LBFGS().start(problem, np.zeros(problem.dimension), np.random.default_rng(0))
        history = run_until(run, "objective", goal, 1000)
        ended = time.perf_counter()
        runs.append((ended - encoded, ended - began, history[-1]["cpu"]))
    from_csr, from_file, cpu = max(runs)  # the slower of two: CRFsuite has only one try

    figures = Figures("Training the CRF to CRFsuite's last objective")
    figures.times("time to CRFsuite's objective, two threads, wall, from CSR", from_csr, fitting, 10)
    figures.times("the same from the file to the model", from_file, everything)
    figures.times("iterations alone, CPU of both threads", cpu, trainer.total_cpu)
    figures.value("iterations to it", str(len(history)), str(len(trainer.losses)))
    reached = history[-1]["objective"]
    figures.value("objective reached", f"{reached:.2f}", f"{goal:.2f}", "not above", reached <= goal)

    labeler = SequenceLabeler(template=Template.crfsuite_chunking(), n_jobs=2, tol=1e-3, **OPTIONS)
    labeler.fit(columns.without(-1), y)
    best = labeler.history_["objective"][-1]
    known = abs(best - KNOWN_OPTIMUM) < 0.5
    figures.value(
        "the optimum, gap in brackets",
        f"{best:.3f} ({labeler.history_['gap'][-1]:.1g})",
        "",
        "13139.37",
        known,
    )
    predicted = labeler.predict(read_columns(corpus.test_file).without(-1))
    f1 = 100 * span_report(corpus.y_test, predicted).overall.f1
    tagger = pycrfsuite.Tagger()
    tagger.open(str(model))
    theirs = 100 * span_report(corpus.y_test, [tagger.tag(x) for x in corpus.X_test]).overall.f1
    figures.value("test chunk F1", f"{f1:.2f}", f"{theirs:.2f}", "\u2265 93.6", f1 >= 93.6)

    at_theirs = objective_at(problem, exported_weights(tagger, encoder, corpus.names, problem.layout))
    check(
        abs(at_theirs - goal) < 1e-6 * goal,
        f"objective at CRFsuite's weights {at_theirs}, it says {goal}",
    )
    figures.value("our objective at CRFsuite's weights", f"{at_theirs:.4f}", f"{goal:.4f}", "equal", True)
    return figures


def perceptron(corpus: Corpus, folder: Path) -> Figures:
    """Ten passes of the averaged perceptron, ours between CRFsuite's."""
    from trellis.solvers import Perceptron as PerceptronSolver

    problem = chain_problem(corpus.inputs, corpus.labels, corpus.names, Perceptron(), l2=0.0, observed=True)
    start = np.zeros(problem.dimension)
    PerceptronSolver().start(problem, start.copy(), np.random.default_rng(0)).step()
    run = PerceptronSolver().start(problem, start, np.random.default_rng(0))
    cpu: list[float] = []
    trainer, _ = crfsuite_train(
        corpus.X,
        corpus.y,
        folder / "ap.crf",
        "ap",
        lambda: cpu.extend(fastest(run.step, repeats=1)),
        max_iterations=10,
    )
    columns = read_columns(corpus.test_file).without(-1)
    design = problem.layout.design(corpus.encoder.transform(columns), sort=False)

    def f1_of(seed: int) -> float:
        run = PerceptronSolver().start(problem, np.zeros(problem.dimension), np.random.default_rng(seed))
        for _ in range(10):
            run.step()
        scores = linear_chain_scores(problem.layout, design, problem.penalties, run.weights)
        predicted = corpus.names.decode(Chain().best(scores).labels, scores.offsets)
        return 100 * span_report(corpus.y_test, predicted).overall.f1

    f1s = [f1_of(seed) for seed in range(5)]  # one order of the sentences says little: F1 varies by 0.3
    tagger = pycrfsuite.Tagger()
    tagger.open(str(folder / "ap.crf"))
    theirs = 100 * span_report(corpus.y_test, [tagger.tag(x) for x in corpus.X_test]).overall.f1
    figures = Figures("Averaged perceptron")
    figures.times("averaged perceptron, one pass", min(cpu), min(trainer.cpu), 3)
    figures.times("averaged perceptron, passes 2 to 10", sum(cpu[1:]), sum(trainer.cpu))
    spread = f"{min(f1s):.2f} to {max(f1s):.2f}"
    figures.value(
        f"test chunk F1 after 10 passes, mean of seeds 0 to 4 ({spread})",
        f"{np.mean(f1s):.2f}",
        f"{theirs:.2f}",
        "\u2265 93.4",
        float(np.mean(f1s)) >= 93.4,
    )
    return figures


def tagging(corpus: Corpus, model: Path) -> Figures:
    """Tokens per second with CRFsuite's weights on both sides."""
    tagger = pycrfsuite.Tagger()
    tagger.open(str(model))
    by_strings = SequenceLabeler(max_iter=1, **OPTIONS).fit(corpus.X, corpus.y)
    by_template = SequenceLabeler(template=Template.crfsuite_chunking(), max_iter=1, **OPTIONS)
    by_template.fit(read_columns(corpus.train_file).without(-1), corpus.y)
    for labeler in (by_strings, by_template):
        labeler.weights_ = exported_weights(tagger, labeler.encoder_, labeler.labels_, labeler.layout_)

    def theirs_from_strings() -> list[list[str]]:
        return [tagger.tag(items) for items in corpus.X_test]

    ready = [pycrfsuite.ItemSequence(items) for items in corpus.X_test]

    def theirs_from_items() -> list[list[str]]:
        return [tagger.tag(items) for items in ready]

    def theirs_from_file() -> str:
        lines = []
        for sentence in read_sentences(corpus.test_file):
            for row, label in zip(sentence, tagger.tag(chunking_features(sentence)), strict=True):
                lines.append(f"{' '.join(row)} {label}\n")
            lines.append("\n")
        return "".join(lines)

    encoded = by_template.encoder_.transform(read_columns(corpus.test_file).without(-1))

    def ours_from_csr() -> np.ndarray:
        design = by_template.layout_.design(encoded, sort=False)
        scores = linear_chain_scores(
            by_template.layout_, design, by_template.penalties_, by_template.weights_
        )
        return Chain().best(scores).labels

    def ours_from_file() -> bytes:
        columns = read_columns(corpus.test_file)
        codes, _ = by_template.predict_codes(columns.without(-1))
        return columns.tagged(codes, by_template.classes_.tolist())

    tags = theirs_from_strings()
    different = sum(
        a != b
        for x, z in zip(tags, by_strings.predict(corpus.X_test), strict=True)
        for a, b in zip(x, z, strict=True)
    )
    offsets = encoded.nodes.offsets
    check(
        corpus.names.decode(ours_from_csr(), offsets) == by_strings.predict(corpus.X_test),
        "our two ways to tag",
    )
    check(different <= 2, f"{different} labels differ from CRFsuite's")  # ties within the six decimals
    check(
        ours_from_file().decode().split() == theirs_from_file().split() or different > 0, "the tagged files"
    )

    work = (
        lambda: by_strings.predict(corpus.X_test), ours_from_csr, ours_from_file,
        theirs_from_strings, theirs_from_items, theirs_from_file,
    )  # fmt: skip
    n = int(offsets[-1])
    strings, csr, file, their_strings, their_items, their_file = (n / s for s in fastest(*work, repeats=7))
    figures = Figures("Tagging the test sentences with CRFsuite's weights")
    figures.value("tags that differ, of " + f"{n:,}", str(different), "", "0", different == 0)
    figures.rates("tokens tagged from feature strings", strings, their_strings, 2)
    figures.rates("tokens tagged from CSR (CRFsuite: strings)", csr, their_strings, 10)
    figures.rates("tokens tagged from CSR (CRFsuite: its own ItemSequence)", csr, their_items)
    figures.rates("tokens tagged from the raw file to the tagged file", file, their_file, 5)
    return figures


def train_for_memory(kind: str, train_file: Path) -> None:
    """What a child process does: train for 15 iterations from the file, then tell its peak."""
    if kind == "nothing":
        SequenceLabeler(max_iter=15, **OPTIONS).fit([[["a"], ["b"]]] * 2, [["x", "y"]] * 2)
    elif kind == "template":
        columns = read_columns(train_file)
        labeler = SequenceLabeler(template=Template.crfsuite_chunking(), max_iter=15, **OPTIONS)
        labeler.fit(columns.without(-1), columns.sequences(-1))
    else:
        X, y = training_items(train_file, kind)
        SequenceLabeler(max_iter=15, **OPTIONS).fit(X, y)
    print_peak_memory()


def memory(data: Path, train_file: Path) -> Figures:
    """Peaks of child processes; "imports" is a fit of two words, so what is there before any data."""
    figures = Figures("Peak memory of training, L-BFGS, imports included")
    peer_script = str(Path(__file__).with_name("_crfsuite.py"))
    peer = {kind: peak_memory(peer_script, str(train_file), kind) for kind in MEMORY_PEERS}
    for kind, name in MEMORY_ROWS.items():
        ours = peak_memory(__file__, "--data", str(data), "--memory-of", kind)
        theirs = peer[kind if kind in peer else "strings"]
        figures.times(name, ours, theirs, None if kind == "nothing" else 1, "MB")
    return figures


def compilation() -> Figures:
    cold, warm = cold_seconds(COLD)
    figures = Figures("The first fit and tag of a new process, wall")
    figures.value("kernels to compile", f"{cold:.1f} s")
    figures.value("kernels compiled before", f"{warm:.1f} s")
    return figures


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--memory-of", choices=MEMORY_ROWS, help="(for the child process)")
    given = options.parse_args()
    train_file, test_file = files(given.data / "conll2000", "train.txt", "test.txt")
    if given.memory_of:
        train_for_memory(given.memory_of, train_file)
        return
    memory(given.data, train_file).print()
    corpus = Corpus.read(train_file, test_file)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        evaluation(corpus, folder, 8 if given.quick else 15).print()
        model = folder / "short.crf"
        if not given.quick:
            model = folder / "lbfgs.crf"
            training(corpus, model).print()
        perceptron(corpus, folder).print()
        tagging(corpus, model).print()
    if not given.quick:
        compilation().print()


if __name__ == "__main__":
    main()

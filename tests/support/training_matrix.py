"""Which objective trains with which loss, solver and structure: every cell is tried.

``python tests/support/training_matrix.py`` writes docs/training-matrix.md, from the same runs that the tests
look at. A cell trains (the gradient of what it minimises is right, the solver lowers that objective, and a
saved and loaded model predicts the same) or is refused by an ``UnsupportedError`` whose sentence is printed
below the table.
"""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tone_speech
from trained_problems import check_falls, check_gradient, watch_training
from trellis import Graph, GraphLabeler, SequenceLabeler, load
from trellis.core.errors import UnsupportedError
from trellis.losses import WeightedHamming
from trellis.neural import NeuralSequenceLabeler
from trellis.neural.labeler.schedules import OPTIMIZERS
from trellis.objectives import OBJECTIVES
from trellis.solvers import SOLVERS
from trellis.speech.acoustics.boundary_classifier import BoundaryOptions
from trellis.speech.acoustics.feed_forward import NetworkOptions
from trellis.speech.acoustics.frame_classifiers import NetworkClassifier
from trellis.speech.align.aligner import Aligner
from trellis.speech.align.learning.corpus_preparation import PreparedCorpus
from trellis.speech.audio.recordings import Recording
from trellis.structures.segments.problem.alignment_losses import ALIGNMENT_LOSSES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "training-matrix.md"
X = [["a", "b", "c"], ["b", "a"], ["c", "a", "b", "b"], ["c"], ["b", "c", "a"]] * 2
Y = [["O", "B-x", "I-x"], ["B-x", "O"], ["I-x", "O", "B-x", "B-x"], ["I-x"], ["B-x", "I-x", "O"]] * 2
Y[-2] = [
    "O"
]  # a "c" like others that are I-x: no weights get both right, so that there is a loss to fine-tune
COSTS = {("O", "B-x"): 2.0, ("O", "I-x"): 2.0, ("B-x", "O"): 1.0, ("B-x", "I-x"): 1.0, ("I-x", "O"): 3.0,
         ("I-x", "B-x"): 1.0}  # fmt: skip


def _graphs() -> tuple[list[Graph], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    images = [np.triu(np.ones((3, 3), dtype=int)), np.eye(3, dtype=int), np.tri(3, dtype=int)] * 2
    return [Graph.grid((image + 0.3 * rng.normal(size=(3, 3)))[..., None]) for image in images], images


def mistakes(gold: list[Any], found: list[Any]) -> float:
    """The share of wrong labels, as a Python function: a loss that re-ranks candidates."""
    return sum(g != f for g, f in zip(gold, found, strict=True)) / max(len(gold), 1)


@dataclass(frozen=True)
class Cell:
    """One try. ``reason``: the sentence of the refusal; empty where it trained."""

    structure: str
    objective: str
    loss: str
    solver: str
    reason: str


SMALL_NETWORKS: dict[str, Any] = {
    "classifier": NetworkClassifier(network=NetworkOptions(hidden=(8,), epochs=3)),
    "boundaries": BoundaryOptions(network=NetworkOptions(hidden=(8,), epochs=3)),
}
CHAIN_LOSSES: dict[str, Any] = {
    "hamming": "hamming",
    "weighted": WeightedHamming(COSTS),
    "zero_one": "zero_one",
    "candidates": "span_f1",
}
GRAPH_LOSSES: dict[str, Any] = {
    "hamming": "hamming",
    "weighted": WeightedHamming({(0, 1): 2.0, (1, 0): 1.0}),
    "zero_one": "zero_one",
    "candidates": mistakes,
}


@dataclass(frozen=True)
class Structure:
    """One table: how a model is trained and what it predicts, and the losses and solvers that are tried."""

    title: str
    train: Callable[[str, Any, str], Any]
    predict: Callable[[Any], list[Any]]
    losses: dict[str, Any]
    solvers: tuple[str, ...] = SOLVERS


def _labeler(labeler: Callable[..., Any], title: str, losses: dict[str, Any], x: Any, y: Any) -> Structure:
    options = {"max_iter": 4, "random_state": 0, "verbose": False, "holdout": None}

    def train(objective: str, loss: Any, solver: str) -> Any:
        return labeler(objective, loss, solver=solver, **options).fit(x, y)

    return Structure(title, train, lambda model: list(model.predict(x)), losses)


@cache
def _speech() -> tuple[PreparedCorpus, Recording, list[str]]:
    """Short recordings of tones and noises. The classifiers are trained once, for all cells."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = Aligner(**SMALL_NETWORKS).prepare(tone_speech.corpus(Path(folder), 9, seed=0))
    phones = ["sil", "a", "s", "i", "sil"]
    return prepared, tone_speech.recording(phones, 5)[0], phones


def _train_aligner(objective: str, loss: str, solver: str) -> Aligner:
    options = {"epsilon": 1.0} if objective == "direct" else {}
    aligner = Aligner(objective, loss, solver=solver, l2=0.1, max_iter=4, **options, **SMALL_NETWORKS)
    return aligner.fit(_speech()[0])


def _train_network(objective: str, loss: Any, optimizer: str) -> NeuralSequenceLabeler:
    return NeuralSequenceLabeler(
        "embedding", objective, loss, optimizer=optimizer, embedding_dim=4, dropout=0.0, min_count=1,
        learning_rate=1e-2, max_epochs=4, random_state=0, verbose=False,
    ).fit(X, Y)  # fmt: skip


STRUCTURES = {
    "chain": _labeler(SequenceLabeler, "Chains (`SequenceLabeler`)", CHAIN_LOSSES, X, Y),
    "graph": _labeler(GraphLabeler, "Graphs (`GraphLabeler`)", GRAPH_LOSSES, *_graphs()),
    "segments": Structure(
        "Segmentations (`Aligner`)",
        _train_aligner,
        lambda model: list(model.align(_speech()[1], _speech()[2], confidence=False).starts),
        {loss: loss for loss in ALIGNMENT_LOSSES},
    ),
    "network": Structure(
        "Chains scored by a network (`NeuralSequenceLabeler`)",
        _train_network,
        lambda model: list(model.predict(X)),
        CHAIN_LOSSES,
        tuple(OPTIMIZERS),
    ),
}

_CHECKED_GRADIENTS: set[tuple[str, str, str]] = set()  # the problem is the same for every solver


def rows(structure: str) -> Iterator[tuple[str, str]]:
    """(objective, loss): one loss is enough where the objective does not look at it."""
    losses = STRUCTURES[structure].losses
    for name, record in OBJECTIVES.items():
        for loss in losses:
            if record().uses_loss or loss == next(iter(losses)):
                yield name, loss


def try_cell(structure: str, objective: str, loss: str, solver: str) -> Cell:
    tried = STRUCTURES[structure]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with watch_training() as seen:
                model = tried.train(objective, tried.losses[loss], solver)
    except UnsupportedError as refusal:
        return Cell(structure, objective, loss, solver, str(refusal))
    trained = [one for one in seen if one.problem.objective.name == objective][-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a run from a random point may overflow, and go on
        if (structure, objective, loss) not in _CHECKED_GRADIENTS:
            check_gradient(trained)
            _CHECKED_GRADIENTS.add((structure, objective, loss))
        check_falls(trained)
    _check_saved(model, tried.predict)
    return Cell(structure, objective, loss, solver, "")


def _check_saved(model: Any, predict: Callable[[Any], list[Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        again = load(path)
    for one, other in zip(predict(model), predict(again), strict=True):
        if not np.array_equal(one, other):
            raise AssertionError(f"{model}: predicts otherwise after a save and a load")


def table(structure: str, cells: list[Cell]) -> list[str]:
    """Markdown: objectives and losses in rows, solvers in columns."""
    reasons: dict[str, str] = {}
    solvers = STRUCTURES[structure].solvers
    lines = [
        "| objective | loss | " + " | ".join(solvers) + " |",
        "| --- | --- | " + " | ".join("---" for _ in solvers) + " |",
    ]
    for objective, loss in rows(structure):
        marks = []
        for cell in cells:
            if (cell.structure, cell.objective, cell.loss) == (structure, objective, loss):
                sentence = _general(cell)
                mark = reasons.setdefault(sentence, str(len(reasons) + 1)) if sentence else "yes"
                marks.append(mark)
        shown = loss if OBJECTIVES[objective]().uses_loss else "any"
        lines.append(f"| `{objective}` | {shown} | " + " | ".join(marks) + " |")
    lines.append("")
    for sentence, number in reasons.items():
        first = f"{number}. "
        lines += textwrap.wrap(
            sentence, 120, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
        )
    return lines


def _general(cell: Cell) -> str:
    """The sentence with the names of this cell taken out, so that equal refusals share a number."""
    text = re.sub(rf"(objective )?(?<![=,] )(?<!=)'{cell.objective}'", "this objective", cell.reason)
    text = re.sub(rf"(solver )?(?<!of )(?<!=)'{cell.solver}'", "this solver", text)
    return text[:1].upper() + text[1:]


def page(cells: list[Cell]) -> str:
    lines = [
        "# Which objective trains with what",
        "",
        "Every cell was tried by `python tests/support/training_matrix.py`, which writes this page; the",
        'tests try all of them again. In a cell, "yes" means that the gradient agrees with finite',
        "differences, the solver lowers the objective, and a saved and loaded model predicts the same. A",
        "number means that the combination is refused, for the reason given below the table. `weighted` is",
        "a table of costs, and `candidates` is a loss that is not a sum over steps (span F1, or a Python",
        'function). With `solver="auto"`, the model chooses a solver that works.',
        "[Objectives](objectives.md) has the formulas.",
    ]
    for name, structure in STRUCTURES.items():
        lines += ["", f"## {structure.title}", "", *table(name, cells)]
    return "\n".join(lines) + "\n"


def all_cells() -> list[Cell]:
    return [
        try_cell(structure, objective, loss, solver)
        for structure, tried in STRUCTURES.items()
        for objective, loss in rows(structure)
        for solver in tried.solvers
    ]


if __name__ == "__main__":
    PAGE.write_text(page(all_cells()), encoding="utf-8")
    sys.stdout.write(f"{PAGE} is written\n")

"""Which objective trains with which loss, solver and structure: every cell is tried.

``python tests/support/training_matrix.py`` writes docs/training-matrix.md, from the same runs that the tests
look at. A cell trains (the objective falls, and a saved and loaded model predicts the same) or is refused by
an ``UnsupportedError`` whose sentence is printed below the table.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trellis import Graph, GraphLabeler, SequenceLabeler, load
from trellis.core.errors import UnsupportedError
from trellis.losses import WeightedHamming
from trellis.objectives import OBJECTIVES
from trellis.solvers import SOLVERS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "training-matrix.md"
X = [["a", "b", "c"], ["b", "a"], ["c", "a", "b", "b"], ["c"], ["b", "c", "a"]] * 2
Y = [["O", "B-x", "I-x"], ["B-x", "O"], ["I-x", "O", "B-x", "B-x"], ["I-x"], ["B-x", "I-x", "O"]] * 2
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
LABELERS: dict[str, tuple[Callable[..., Any], dict[str, Any], tuple[Any, Any]]] = {
    "chain": (SequenceLabeler, CHAIN_LOSSES, (X, Y)),
    "graph": (GraphLabeler, GRAPH_LOSSES, _graphs()),
}


def rows(structure: str) -> Iterator[tuple[str, str]]:
    """(objective, loss): one loss is enough where the objective does not look at it."""
    for name, record in OBJECTIVES.items():
        if not record.__module__.startswith("trellis."):
            continue  # registered by another test
        for loss in LABELERS[structure][1]:
            if record().uses_loss or loss == "hamming":
                yield name, loss


def try_cell(structure: str, objective: str, loss: str, solver: str) -> Cell:
    labeler, losses, (inputs, labels) = LABELERS[structure]
    given = losses[loss]
    model = labeler(objective, given, solver=solver, max_iter=4, random_state=0, verbose=False, holdout=None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(inputs, labels)
    except UnsupportedError as refusal:
        return Cell(structure, objective, loss, solver, str(refusal))
    _check_trained(model, inputs)
    return Cell(structure, objective, loss, solver, "")


def _check_trained(model: Any, inputs: Any) -> None:
    history = model.history_
    measured = history.get("objective") or history.get("pass_objective") or history["primal"]
    improved = min(measured) <= measured[0] * (1.0 + 1e-9) + 1e-9
    if not (improved and np.isfinite(measured).all() and np.isfinite(model.weights_).all()):
        raise AssertionError(f"{model}: the objective went {measured}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        again = load(path)
    for one, other in zip(model.predict(inputs), again.predict(inputs), strict=True):
        if not np.array_equal(one, other):
            raise AssertionError(f"{model}: predicts otherwise after a save and a load")


def table(structure: str, cells: list[Cell]) -> list[str]:
    """Markdown: objectives and losses in rows, solvers in columns."""
    reasons: dict[str, str] = {}
    lines = [
        "| objective | loss | " + " | ".join(SOLVERS) + " |",
        "| --- | --- | " + " | ".join("---" for _ in SOLVERS) + " |",
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
    lines += [f"{number}. {sentence}" for sentence, number in reasons.items()]
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
        "Every cell was tried by `python tests/support/training_matrix.py`, which wrote this page; the tests",
        'try them again. "yes": it trains, saves, loads and predicts the same. A number: it is refused, for',
        "the reason below the table. `weighted` is a table of costs, `candidates` a loss that is no sum over",
        'steps (span F1, or a Python function). `SequenceLabeler("auto")` chooses a solver that fits.',
    ]
    for structure, title in (("chain", "Chains (`SequenceLabeler`)"), ("graph", "Graphs (`GraphLabeler`)")):
        lines += ["", f"## {title}", "", *table(structure, cells)]
    return "\n".join(lines) + "\n"


def all_cells() -> list[Cell]:
    return [
        try_cell(structure, objective, loss, solver)
        for structure in LABELERS
        for objective, loss in rows(structure)
        for solver in SOLVERS
    ]


if __name__ == "__main__":
    PAGE.write_text(page(all_cells()), encoding="utf-8")
    sys.stdout.write(f"{PAGE} is written\n")

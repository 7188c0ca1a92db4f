"""Every objective, loss, solver and structure: each combination trains or is refused for its true reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="the matrix has a column of networks: pip install 'trellis-learn[torch]'")

from training_matrix import PAGE, STRUCTURES, Cell, page, rows, try_cell
from trellis.objectives import OBJECTIVES, Objective

CELLS: list[Cell] = []

# what a refusal may say, and when it is true
REASONS: dict[str, Callable[[Cell, Objective], bool]] = {
    "kinks": lambda cell, objective: not objective.smooth,
    "is not convex over a list of candidates": lambda cell, _: cell.loss == "candidates",
    "looks at candidates only": lambda cell, _: cell.loss == "candidates",
    "is not convex": lambda cell, objective: not objective.convex or cell.loss == "candidates",
    "is not piecewise linear": lambda cell, objective: not objective.piecewise_linear,
    "gradients that are bounded": lambda cell, objective: objective.link != "identity",
    "minimum at w = 0": lambda cell, objective: not objective.uses_loss,
    "works only with objective='perceptron'": lambda cell, objective: objective.name != "perceptron",
    "works only with objective='margin'": lambda cell, objective: objective.name != "margin",
    "0-1 loss": lambda cell, _: cell.loss == "zero_one",
    "is not exact for graphs": lambda cell, objective: cell.structure == "graph" and objective.special != "",
    "is not a sum over steps": lambda cell, _: cell.loss == "candidates",
    "is not supported for alignment": lambda cell, objective: not objective.for_oracles,
    "means nothing for the direct objective": lambda cell, objective: objective.scale_free,
    "in proportion to the weights that it starts from": lambda cell, objective: objective.convex,
    "needs l2 > 0": lambda cell, objective: objective.scale_free,  # the labeler sets it to 0 there
}


def is_true(cell: Cell) -> bool:
    """Whether the refusal names the objective or the loss that was asked for, and a fact about it."""
    objective = OBJECTIVES[cell.objective]()
    said = [fact for text, fact in REASONS.items() if text in cell.reason]
    blamed = any(f"'{name}' " in cell.reason for name in OBJECTIVES if name != cell.objective)
    return (
        bool(said)
        and all(fact(cell, objective) for fact in said)
        and not (blamed and f"'{cell.objective}'" not in cell.reason)
    )


@pytest.mark.parametrize(
    ("structure", "objective", "loss"),
    [(structure, *row) for structure in STRUCTURES for row in rows(structure)],
)
def test_each_cell_trains_or_is_refused(structure: str, objective: str, loss: str) -> None:
    for solver in STRUCTURES[structure].solvers:
        cell = try_cell(structure, objective, loss, solver)
        CELLS.append(cell)
        if cell.reason:
            assert "\n" not in cell.reason
            assert is_true(cell), cell


def test_the_page_shows_what_was_tried() -> None:
    """Last in the file, so that the cells are those of the tests above."""
    if len(CELLS) < sum(len(tried.solvers) * len(list(rows(name))) for name, tried in STRUCTURES.items()):
        pytest.skip("the tests of single cells did not all run")
    assert PAGE.read_text(encoding="utf-8") == page(CELLS), "run: python tests/support/training_matrix.py"

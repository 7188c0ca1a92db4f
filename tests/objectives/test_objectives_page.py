"""The table of records on the page of objectives is what the records say.

``python tests/objectives/test_objectives_page.py`` writes it anew.
"""

from __future__ import annotations

import re
from pathlib import Path

from trellis.objectives import OBJECTIVES, Objective

PAGE = Path(__file__).resolve().parents[2] / "docs" / "objectives.md"
TABLE = re.compile(r"^\| objective \| total .*?\n\n", re.MULTILINE | re.DOTALL)
FLAGS = ("convex", "piecewise_linear", "smooth", "uses_loss")
COLUMNS = (
    "objective | total | loss_scale | baseline | link | convex | piecewise linear | smooth | uses the loss"
)


def row(objective: Objective) -> str:
    fields = ["-"] * 4
    if not objective.special:
        fields = [objective.total, f"{objective.loss_scale:g}", objective.baseline, objective.link]
    flags = ["yes" if getattr(objective, flag) else "no" for flag in FLAGS]
    return f"| `{objective.name}` | {' | '.join([*fields, *flags])} |"


def table() -> str:
    shipped = [record() for record in OBJECTIVES.values() if record.__module__.startswith("trellis.")]
    return "\n".join([f"| {COLUMNS} |", "| --- " * 9 + "|", *map(row, shipped)]) + "\n\n"


def test_the_page_shows_the_records() -> None:
    found = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found[0] == table()


def test_every_objective_has_its_formula_on_the_page() -> None:
    formulas = PAGE.read_text(encoding="utf-8").split("| name | f (one sequence) |")[1]
    rows = set(re.findall(r"^\| `(\w+)`", formulas.split("\n\n")[0], re.MULTILINE))
    assert rows == {name for name, record in OBJECTIVES.items() if record.__module__.startswith("trellis.")}


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")

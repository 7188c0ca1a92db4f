"""Tables of rows with what other programs write: other separators, and texts for missing cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from trellis.bayesnet.formats.row_tables import read_rows
from trellis.bayesnet.model.variables import Variables
from trellis.core.errors import DataError

VARIABLES = Variables(["Rain", "Wet"], [("yes", "no"), ("yes", "no")])


@pytest.mark.parametrize("gap", ["NA", "NaN", "nan", "null", "None", "?", "-"])
def test_a_text_for_a_missing_cell_is_answered_with_the_option(gap: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"Rain,Wet\nyes,{gap}\n")
    with pytest.raises(DataError, match=r"rows.csv:2: .* leave the cell empty, or give --missing") as caught:
        read_rows(str(path), VARIABLES)
    assert repr(gap) in str(caught.value)
    assert read_rows(str(path), VARIABLES, [gap]) == {"Rain": ["yes"], "Wet": [None]}


def test_a_misspelt_state_is_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("Rain,Wet\nyes,maybe\n")
    with pytest.raises(DataError) as caught:
        read_rows(str(path), VARIABLES)
    assert "--missing" not in str(caught.value)


def test_semicolons_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("Rain;Wet\nyes;no\n")
    with pytest.raises(DataError, match=r"rows.csv:1: .*separate the columns by commas or tabs"):
        read_rows(str(path), VARIABLES)

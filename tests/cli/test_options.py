"""Options that are made from declared parameters."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from trellis.cli.options import argument, offer_parameters, option
from trellis.core.parameters import Flag, Parameter, choice, integer, number

PARAMETERS = {
    "colour": (Parameter("red", "The ``colour``.", choice("red", "green", others="a triple")), "--colour"),
    "n_jobs": (Parameter(None, "Threads.", integer(1, none=True)), "--n-jobs N"),
    "tau_ms": (Parameter(10.0, "Tolerance.", number(0.0)), "-t --tau MS"),
    "fast": (Parameter(True, "Whether to hurry.", Flag()), "--fast"),
    "epsilon": (Parameter("holdout", "A number or a name."), "--epsilon X"),
}


def run(*arguments: str) -> tuple[Any, dict[str, Any]]:
    seen: dict[str, Any] = {}
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    @offer_parameters(**PARAMETERS)
    def command(
        file: Annotated[str, argument("FILE", "A file.")],
        quiet: Annotated[bool, option("-q --quiet", "Say nothing.")] = False,
        **parameters: Any,
    ) -> None:
        seen.update(parameters, file=file, quiet=quiet)

    return CliRunner().invoke(app, list(arguments)), seen


def test_defaults_and_values_have_the_declared_types() -> None:
    defaults = {name: p.default for name, (p, _) in PARAMETERS.items()}
    assert run("x")[1] == {**defaults, "file": "x", "quiet": False}
    given = ["--colour", "green", "--n-jobs", "3", "-t", "5", "--no-fast", "--epsilon", "0.5", "-q"]
    expected = {"colour": "green", "n_jobs": 3, "tau_ms": 5.0, "fast": False, "epsilon": 0.5}
    assert run("x", *given)[1] == {**expected, "file": "x", "quiet": True}
    assert run("x", "--epsilon", "decay")[1]["epsilon"] == "decay"
    assert run("x", "--epsilon", "a, b")[1]["epsilon"] == ["a", "b"]


@pytest.mark.parametrize(
    "given", [["--colour", "blue"], ["--n-jobs", "0"], ["--tau", "-1"], ["--n-jobs", "1.5"]]
)
def test_values_out_of_range_are_refused(given: list[str]) -> None:
    result, seen = run("x", *given)
    assert result.exit_code == 2
    assert not seen


def test_help_shows_the_declarations() -> None:
    text = run("--help")[0].output
    assert "The colour." in text
    assert "-t, --tau MS" in text
    assert "red" in text
    assert "default: 10.0" in text

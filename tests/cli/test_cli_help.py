"""The greeting, examples in the help of every command, and names from other libraries."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from trellis.cli.app import app


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands that are no groups, with the words that lead to them."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    else:
        for name, one in inner.items():
            yield from leaves(one, (*path, name))


COMMANDS = dict(leaves(typer.main.get_command(app)))


def examples(epilog: str) -> list[list[str]]:
    """The words of each example, without what the shell takes for itself."""
    return [shlex.split(re.sub(r" [<>] \S+", "", line)) for line in epilog.splitlines() if "trellis " in line]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_examples_that_it_understands(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    shown = CliRunner().invoke(app, [*path, "--help"])
    assert shown.exit_code == 0
    assert "Examples:" in shown.output
    found = examples(command.epilog)
    assert found
    for words in found:
        assert tuple(words[1 : len(path) + 1]) == path
        assert " ".join(words[:2]) in shown.output
        command.make_context(path[-1], words[len(path) + 1 :])  # raises where an option is unknown


def test_alone_it_greets_and_names_the_next_command() -> None:
    done = CliRunner().invoke(app, [])
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert len(lines) == 10
    assert all(len(line) <= 100 for line in lines)
    typed = [re.split(r"\s{2,}", line.strip())[0] for line in lines if line.startswith("  trellis")]
    for words in examples("\n".join(typed)):
        path = next(path for path in COMMANDS if tuple(words[1 : len(path) + 1]) == path)
        COMMANDS[path].make_context(path[-1], words[len(path) + 1 :])


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--c2", "--l2 (l2 = 2 * c2)"),
        ("--c1", "--l1 (l1 = c1)"),
        ("--max_iterations", "--max-iter"),
        ("--feature.minfreq", "--min-count"),
        ("--algorithm", "--solver (what it minimises is the objective)"),
        ("--objektive", "--objective"),
    ],
)
def test_options_of_other_libraries_are_translated(option: str, meant: str) -> None:
    done = CliRunner().invoke(app, ["train", "x", "-o", "y", option, "1"])
    assert done.exit_code == 2
    assert f"No such option: {option}; did you mean {meant}?" in done.output


def test_an_option_like_nothing_is_refused_without_a_guess() -> None:
    done = CliRunner().invoke(app, ["train", "x", "-o", "y", "--qqq", "1"])
    assert done.exit_code == 2
    assert "did you mean" not in done.output

"""Commands on the pages are understood by the programme, and those for small files run as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from trellis.cli.app import app

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINE = re.compile(r"^(?: {4}\$? ?)?(trellis [a-z].*)$")
SPAN = re.compile(r"`(trellis [a-z][^`]*)`")
OPTION = re.compile(r"^(--[a-z][a-z0-9-]*)(?:=.*)?$")


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that some words begin with, and the other words."""
    command: Any = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def in_blocks(page: Path) -> list[tuple[int, str]]:
    """Commands that stand on lines of their own, without remarks and what the shell takes for itself."""
    found, fence = [], ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            fence = "" if fence else line
        match = LINE.match(line)
        if match and (line.startswith(" ") or fence.startswith("```console")):
            text = re.split(r"\s{2,}|\s[<>|]\s", match[1].partition(" #")[0])[0]
            found.append((number, text.replace("[", "").replace("]", "")))
    return found


BLOCKS = {page.name: lines for page in PAGES if (lines := in_blocks(page))}
SPANS = {page.name: found for page in PAGES if (found := SPAN.findall(page.read_text(encoding="utf-8")))}


@pytest.mark.parametrize("page", BLOCKS)
def test_commands_on_lines_of_their_own_are_understood(page: str) -> None:
    for number, text in BLOCKS[page]:
        command, words = command_of(shlex.split(text)[1:])
        if words[:1] == ["COMMAND"]:
            assert hasattr(command, "commands"), f"{page}:{number}"
            continue
        words = ["vc" if word == "KIND" else word for word in words]  # a choice, named in general
        command.make_context(f"{page}:{number}", words)  # raises where an option or an argument is unknown


@pytest.mark.parametrize("page", SPANS)
def test_commands_in_sentences_have_the_options_that_they_name(page: str) -> None:
    for text in SPANS[page]:
        command, words = command_of(text.split()[1:])
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
        assert {m[1] for word in words if (m := OPTION.match(word))} <= known, f"{page}: {text}"
        if hasattr(command, "commands"):  # of a group, only what is written in capitals may follow
            assert all(not word.islower() or word.startswith("-") for word in words[:1]), f"{page}: {text}"


def test_there_are_commands_to_check() -> None:
    assert sum(map(len, BLOCKS.values())) > 50
    assert sum(map(len, SPANS.values())) > 30


SENTENCES = "the DT B-NP\ncat NN I-NP\nsat VB B-VP\n\nAnn NNP B-NP\nran VB B-VP\n\n" * 8
FILES = ("train.conll", "dev.conll", "test.conll", "train.txt", "test.txt", "train.data", "test.data")
NAMED = re.compile(r"\.(conll|txt|data|gz|tpl)$|^data|[*]")


@pytest.mark.parametrize("page", ["command-line.md", "checkpoints.md", "from-other-libraries.md"])
def test_the_commands_for_column_files_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        Path(name).write_text(SENTENCES)
    Path("template").write_text("U00:%x[0,0]\nU01:%x[0,1]\nB\n")
    ran = 0
    for number, text in BLOCKS[page]:
        words = shlex.split(text)[1:]
        files = {word for word in words if NAMED.search(word)}
        if words[0] in ("train", "tag", "evaluate") and files and files <= set(FILES):
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, f"{page}:{number} {text!r}: {done.output[-300:]}"
            ran += 1
    assert ran

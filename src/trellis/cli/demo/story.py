"""What a chapter of the demonstration says: parts that a terminal and a page both can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trellis.cli.console import echo, echo_table


@dataclass(frozen=True)
class Table:
    """``rows`` of text, the first column a name; ``best`` are the rows that nothing beats."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Picture:
    """An SVG drawing for the page; the terminal leaves it out."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Sound:
    """A WAV file for the page, and the page on which to look at it closely."""

    wav: bytes
    page: str


@dataclass(frozen=True)
class Printed:
    """What the library printed, as it is."""

    text: str


Part = str | Table | Picture | Sound | Printed


@dataclass(frozen=True)
class Chapter:
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Sizes:
    """How much data chapters take."""

    training: int = 200
    test: int = 500
    nights: int = 12
    sentences: int = 6


QUICK = Sizes(training=60, test=100, nights=3, sentences=1)


def show(number: int, chapter: Chapter) -> None:
    """The chapter on the terminal."""
    from rich.padding import Padding
    from rich.rule import Rule
    from rich.text import Text

    echo_table(Rule(f"{number}. {chapter.title}", align="left"))
    for part in chapter.parts:
        if isinstance(part, str):
            echo_table(part)
        elif isinstance(part, Printed):
            echo_table(Padding(Text(part.text), (0, 0, 0, 4), expand=False))
        elif isinstance(part, Table):
            echo_table(Padding(_drawn(part), (0, 0, 0, 2), expand=False))
        else:
            continue
        echo()


def _drawn(table: Table) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Drawing

    drawing = Drawing(title=table.title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(table.columns):
        drawing.add_column(column, justify="right" if i else "left", no_wrap=i > 0)
    for i, row in enumerate(table.rows):
        drawing.add_row(*row, style="bold" if i in table.best else None)
    return drawing


def interval(low: float, high: float) -> str:
    return f"{low:+.1f} to {high:+.1f}"

"""The demonstration as one HTML file that needs no other: text, tables, pictures and a sound."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from trellis import __version__
from trellis.cli.demo.story import Chapter, Part, Picture, Printed, Sound, Table
from trellis.core.output_files import atomic_writer


def write_page(path: Path, chapters: Sequence[Chapter]) -> None:
    assets = files("trellis.cli.demo").joinpath("assets")
    body = "".join(_chapter(number, chapter) for number, chapter in enumerate(chapters, 1))
    links = "".join(f'<a href="#c{n}">{n}. {escape(c.title)}</a>' for n, c in enumerate(chapters, 1))
    text = Template(assets.joinpath("demo.html").read_text("utf-8")).substitute(
        style=assets.joinpath("demo.css").read_text("utf-8"), links=links, body=body, version=__version__
    )
    with atomic_writer(path) as file:
        file.write(text.encode())


def _chapter(number: int, chapter: Chapter) -> str:
    parts = "".join(_part(part) for part in chapter.parts)
    return f'<section id="c{number}"><h2>{number}. {escape(chapter.title)}</h2>{parts}</section>'


def _part(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    if isinstance(part, Printed):
        return f"<pre>{escape(part.text)}</pre>"
    if isinstance(part, Picture):
        return f'<figure tabindex="0">{part.svg}<figcaption>{escape(part.caption)}</figcaption></figure>'
    if isinstance(part, Sound):
        data = base64.b64encode(part.wav).decode()
        return (
            f'<p><audio controls aria-label="The recording" src="data:audio/wav;base64,{data}"></audio> '
            f'<a href="{escape(part.page)}">take a closer look</a></p>'
        )
    return _table(part)


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col">{escape(column)}</th>' if column else "<td></td>" for column in table.columns
    )
    rows = "".join(
        f"<tr{' class=best' if i in table.best else ''}>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row).replace("<td>", '<th scope="row">', 1)
        + "</tr>"
        for i, row in enumerate(table.rows)
    )
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(table.title)}">'
        f"<table><caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )

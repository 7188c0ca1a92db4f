"""What all pages are made of: the frame, sections, tables and lists of facts, with every text escaped.

A page is one file. Its content security policy forbids every other resource; its colours are those of
``colours.css``, light or dark as the reader's system is.
"""

from __future__ import annotations

import html
import json
import unicodedata
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template
from typing import Any

_WIDE = 8  # more columns than these, some with longer names, have upright heads
_NAME = 36  # letters of a row's name that stand in a line


def asset(name: str) -> str:
    """The text of a file in the folder ``assets``."""
    return files("trellis.report").joinpath("assets", name).read_text("utf-8")


def embedded_json(content: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def escaped(text: object) -> str:
    return html.escape(str(text))


def isolated(name: object) -> str:
    """A name inside a sentence: one that reads from right to left must not turn what follows it around."""
    text = str(name)
    turned = any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text)
    return f"\u2068{text}\u2069" if turned else text


def counted(n: int, noun: str, several: str | None = None) -> str:
    """HTML: 1 sequence, 2 sequences."""
    return f"<b>{n:,}</b> {noun if n == 1 else several or noun + 's'}"


def page(
    title: str,
    facts: str,
    sections: Sequence[tuple[str, str, str]],
    *,
    data: Any = None,
    styles: Iterable[str] = (),
    scripts: Iterable[str] = (),
) -> str:
    """The text of a page. ``sections``: identifier, heading and HTML of each; empty ones are left out.

    ``title`` is plain text; ``facts`` is HTML. ``styles`` and ``scripts`` name assets, and scripts read
    ``data`` from the element of that identifier.
    """
    shown = [(name, heading, body) for name, heading, body in sections if body]
    return Template(asset("report.html")).substitute(
        title=escaped(title),
        facts=facts,
        links="".join(f'<li><a href="#{name}">{escaped(heading)}</a></li>' for name, heading, _ in shown),
        sections="\n".join(section(name, heading, body) for name, heading, body in shown),
        style="".join(asset(name) for name in ("colours.css", "report.css", *styles)),
        data=embedded_json(data),
        script="".join(asset(name) for name in scripts),
    )


def section(name: str, heading: str, body: str) -> str:
    return (
        f'<section id="{name}" aria-labelledby="{name}-heading">\n'
        f'<h2 id="{name}-heading">{escaped(heading)}</h2>\n{body}\n</section>'
    )


def facts_list(facts: Iterable[tuple[str, object]]) -> str:
    rows = "".join(f"<div><dt>{escaped(key)}</dt><dd>{escaped(value)}</dd></div>" for key, value in facts)
    return f'<dl class="facts">{rows}</dl>'


def interval_tiles(figures: Iterable[tuple[str, float, float, float]]) -> str:
    """Shares as large percentages: name, value, limits of the 95 % interval (NaN where none holds)."""
    tiles = "".join(
        f"<div><dt>{escaped(name)}</dt><dd><b>{100 * value:.2f} %</b>"
        + (f"95 % interval {100 * low:.1f} to {100 * high:.1f}" if low <= high else "no interval")
        + "</dd></div>"
        for name, value, low, high in figures
    )
    return f'<dl class="tiles">{tiles}</dl>'


def table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[object]], *, words: Sequence[int] = ()
) -> str:
    """A table whose first column names its rows; numbers stand right, columns in ``words`` left."""
    left = [' class="words"' if j in words else "" for j in range(len(header))]
    head = "".join(_head(escaped(name), left[j]) for j, name in enumerate(header))
    body = "".join(
        f'<tr><th scope="row">{escaped(first)}</th>'
        + "".join(f"<td{left[j]}>{escaped(cell)}</td>" for j, cell in enumerate(rest, 1))
        + "</tr>"
        for first, *rest in rows
    )
    return scrolling(
        f"<table><caption><span>{escaped(caption)}</span></caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>",
        caption,
    )


def heat_table(
    caption: str,
    corner: str,
    row_names: Sequence[object],
    column_names: Sequence[object],
    cells: Sequence[Sequence[tuple[str, float]]],
) -> str:
    """A table of (text, share): a share from 0 to 1 fills the cell's colour, one below 0 takes the other."""
    head = "".join(_head(f"<span>{escaped(name)}</span>") for name in column_names)
    tall = len(column_names) > _WIDE and _longest(column_names) > _WIDE
    body = "".join(
        f'<tr><th scope="row">{escaped(name)}</th>' + "".join(_heat_cell(*cell) for cell in row) + "</tr>"
        for name, row in zip(row_names, cells, strict=True)
    )
    return scrolling(
        f'<table class="heat{" tall" if tall else ""}" style="--names:{min(_longest(row_names), _NAME)}">'
        f"<caption><span>{escaped(caption)}</span></caption><thead><tr>{_head(escaped(corner))}{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>",
        caption,
    )


def _longest(names: Sequence[object]) -> int:
    return max((len(str(name)) for name in names), default=0)


def _head(content: str, attributes: str = "") -> str:
    """The head of a column, from HTML; an empty one is none, so that no screen reader announces it."""
    return f'<th scope="col"{attributes}>{content}</th>' if content else "<td></td>"


def _heat_cell(text: str, share: float) -> str:
    side = "low" if share < 0 else "wave"
    # 50 % at most: the text stays legible on it, in the dark as well
    return f'<td style="--side:var(--{side});--share:{50 * abs(share):.0f}%">{escaped(text)}</td>'


def scrolling(content: str, label: str) -> str:
    """What is too wide scrolls by itself, by the keyboard as well; it is a group, since landmarks are few."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escaped(label)}">{content}</div>'


def details(summary: str, body: str) -> str:
    return f"<details><summary>{escaped(summary)}</summary>{body}</details>"

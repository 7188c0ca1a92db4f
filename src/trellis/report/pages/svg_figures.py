"""Figures of matplotlib inside a page: text stays text, and the house colours become those of the page.

The colours of :mod:`trellis.report.figures` are replaced by the variables of ``colours.css``, so that a
figure is light or dark as its page is. Identifiers get a prefix, since a page has several figures.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

from trellis.report.figures import DIM, FAINT, FIRST, GRID, INK, SECOND, STYLE, THIRD, WRONG, new_figure
from trellis.report.pages.page_parts import escaped

_VARIABLES = {
    INK: "--ink",
    DIM: "--dim",
    FAINT: "--neutral",
    GRID: "--line",
    WRONG: "--low",
    FIRST: "--wave",
    SECOND: "--high",
    THIRD: "--middle",
}


def svg_figure(
    name: str,
    draw: Callable[[Any], object],
    label: str,
    caption: str,
    *,
    width: float = 5.6,
    height: float = 3.0,
) -> str:
    """The figure that ``draw`` paints on the axes it is given, with ``label`` for those who cannot see it.

    ``name`` is the figure's own in its page: the same model gives the same bytes.
    """
    figure = new_figure(width, height)
    from matplotlib import rc_context

    with rc_context({**STYLE, "svg.fonttype": "none", "svg.hashsalt": "trellis"}):
        axes = figure.add_subplot()
        draw(axes)
        figure.tight_layout()
        content = io.StringIO()
        figure.savefig(content, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = _in_page(content.getvalue(), f"{name}-", label)
    return f"<figure>{svg}<figcaption>{escaped(caption)}</figcaption></figure>"


def in_page_colours(text: str) -> str:
    """House colours replaced by the variables of the page."""
    for colour, name in _VARIABLES.items():
        text = re.sub(colour, f"var({name})", text, flags=re.IGNORECASE)
    return text


def _in_page(text: str, prefix: str, label: str) -> str:
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", text)
    text = re.sub(r' xmlns(?::\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    # the page's own font, at the size that was asked for
    text = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", text)
    text = in_page_colours(text)
    # colours as attributes do not take variables
    text = re.sub(r'\b(fill|stroke)="(var\(--\w+\))"', r'style="\1: \2"', text)
    return re.sub(
        r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>",
        rf'<svg role="img" aria-label="{escaped(label)}" \1>',
        text,
        count=1,
    )

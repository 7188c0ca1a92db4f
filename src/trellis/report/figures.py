"""Figures by matplotlib, an optional extra: drawn to files only, in one house style."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trellis.core.errors import DataError, MissingExtraError
from trellis.core.output_files import PathLike, atomic_writer

INK, DIM, FAINT, GRID, WRONG = "#1f2933", "#616e7c", "#9aa5b1", "#e4e7eb", "#c81e4a"
FIRST, SECOND, THIRD = "#3a6ea5", "#1f8f83", "#e0a030"  # of several curves

STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": "white",
    "savefig.dpi": 160,
}


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure (inches), bound to no window and to no global state."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "figures need matplotlib, which is not installed; run: pip install 'trellis-learn[plot]'"
        ) from error
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def figure_file(path: PathLike, width: float, height: float) -> Iterator[Any]:
    """A figure in the house style, written to ``path`` (.png, .svg, .pdf) when the block ends."""
    figure = new_figure(width, height)
    kind = os.path.splitext(os.fspath(path))[1][1:].lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise DataError(f"{os.fspath(path)}: figures cannot be written as .{kind}; use .png, .svg or .pdf")
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield figure
        content = io.BytesIO()
        figure.savefig(content, format=kind)
    with atomic_writer(path) as file:
        file.write(content.getvalue())

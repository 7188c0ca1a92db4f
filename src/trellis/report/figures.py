"""Figures by matplotlib, an optional extra: drawn to files only, in one house style."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trellis.core.errors import DataError, MissingExtraError
from trellis.core.storage import PathLike

INK, DIM, FAINT, GRID, WRONG = "#1f2933", "#616e7c", "#9aa5b1", "#e4e7eb", "#c81e4a"

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
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield figure
        try:
            figure.savefig(path)
        except OSError as error:
            raise DataError(
                f"{path}: the figure cannot be written ({error.strerror}); choose another place"
            ) from error

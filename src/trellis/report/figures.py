"""Getting at matplotlib: an optional extra, drawn to files only, in one house style."""

from __future__ import annotations

from typing import Any

from trellis.core.errors import MissingExtraError

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

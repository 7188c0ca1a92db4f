"""How the pictures of the gallery look: one style for all scripts, set by the site and by the tests.

Scripts say ``C0`` to ``C6`` for colours that readers with any colour vision can tell apart (Okabe and Ito),
shades of grey for the rest, and "viridis", "cividis" or "Greys" for maps. They set sizes of figures, but no
fonts.
"""

from __future__ import annotations

from typing import Any

INK, GRID = "#1f2933", "#e4e7eb"
# blue, vermilion, green, orange, purple, sky blue, grey
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#616e7c"]

STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#9aa5b1",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "figure.figsize": (7.0, 4.2),
    "font.size": 11,
    "grid.color": GRID,
    "image.cmap": "viridis",
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def use_style(gallery: Any = None, script: Any = None) -> None:
    """Set the style; the arguments are those of Sphinx-Gallery, which calls this before every script."""
    import matplotlib as mpl
    from cycler import cycler

    settings: Any = mpl.rcParams
    settings.update(STYLE)
    settings["axes.prop_cycle"] = cycler(color=COLOURS)

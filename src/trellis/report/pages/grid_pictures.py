"""Labels and shades of an image as SVG inside a page: runs of equal pixels, one path for each label or level.

matplotlib would put a PNG into its SVG, which the page's security policy forbids, or a path for each pixel,
which is ten times as long. :mod:`trellis.report.graph_plots` has the same pictures for notebooks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trellis.report.graph_plots import LABEL_COLOURS, shade_levels
from trellis.report.pages.page_parts import escaped
from trellis.report.pages.svg_figures import in_page_colours

LARGEST_SIDE = 200  # pixels: of larger images the upper left corner is drawn


def label_picture(codes: NDArray[np.int64], label: str, caption: str) -> str:
    """An image of labels (height, width) as numbers, each in its colour; below 0 is empty."""
    seen = [k for k in np.unique(codes).tolist() if k >= 0]
    layers = [(codes == k, LABEL_COLOURS[k % len(LABEL_COLOURS)], 1.0) for k in seen]
    return _picture(layers, codes.shape, label, caption)


def shade_picture(shades: NDArray[np.float64], colour: str, label: str, caption: str) -> str:
    """An image of numbers from 0 (the ground) to 1 (the colour), in a few levels."""
    levels, n = shade_levels(shades)
    layers = [(levels == k, colour, k / n) for k in range(1, n + 1)]
    return _picture(layers, shades.shape, label, caption)


def legend(names: Sequence[object]) -> str:
    """The colours of labels, in words."""
    items = "".join(
        f'<li><i style="background:{in_page_colours(LABEL_COLOURS[k % len(LABEL_COLOURS)])}"></i>'
        f"{escaped(name)}</li>"
        for k, name in enumerate(names)
    )
    return f'<ul class="legend" aria-label="Colours of labels">{items}</ul>'


def _picture(
    layers: Sequence[tuple[NDArray[np.bool_], str, float]],
    shape: tuple[int, ...],
    label: str,
    caption: str,
) -> str:
    height, width = (min(side, LARGEST_SIDE) for side in shape)
    paths = "".join(
        f'<path fill-opacity="{opacity:.2g}" style="fill:{in_page_colours(colour)}" '
        f'd="{runs_path(pixels[:height, :width])}"/>'
        for pixels, colour, opacity in layers
    )
    return (
        f'<figure class="grid"><svg role="img" aria-label="{escaped(label)}" viewBox="0 0 {width} {height}" '
        f'shape-rendering="crispEdges">{paths}</svg><figcaption>{escaped(caption)}</figcaption></figure>'
    )


def runs_path(pixels: NDArray[np.bool_]) -> str:
    """A path around each run of true pixels of each row."""
    edges = np.diff(np.pad(pixels.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]
    places = zip(rows.tolist(), starts.tolist(), (ends - starts).tolist(), strict=True)
    return "".join(f"M{x} {y}h{n}v1h-{n}z" for y, x, n in places)

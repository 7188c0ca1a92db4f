"""A network as an inline picture for notebooks, which needs neither Graphviz nor matplotlib."""

from __future__ import annotations

import math
from html import escape

from trellis.bayesnet.drawing.layered_layout import layered_layout
from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.core.notebook import DIM, INK, picture, polyline, text

MOST_NODES = 200  # a larger picture would not be read
_UNIT, _LETTER, _RADIUS = 60.0, 0.125, 15.0  # pixels of a layer, layers of a letter, pixels


def network_html(network: DirectedModel) -> str:
    """What a notebook shows: the counts, and for up to 200 variables their graph."""
    words = f"<p>{escape(repr(network))}</p>"
    if not len(network.names) or len(network.names) > MOST_NODES:
        return f"<div>{words}</div>"
    edges = [(parent, i) for i in range(len(network.names)) for parent in network.parent_indices[i]]
    widths = [0.35 + _LETTER * len(name) for name in network.names]
    layout = layered_layout(widths, edges)
    bends = [point for route in layout.routes for point in route]
    left = min(x - w / 2 for (x, _), w in zip(layout.places, widths, strict=True))
    right = max(x + w / 2 for (x, _), w in zip(layout.places, widths, strict=True))
    left, right = min([left, *(x for x, _ in bends)]), max([right, *(x for x, _ in bends)])
    top, bottom = (choose(y for _, y in layout.places) for choose in (max, min))

    def at(place: tuple[float, float]) -> tuple[float, float]:
        return 8 + _UNIT * (place[0] - left), 24 + _UNIT * (top - place[1])

    parts = []
    for route in layout.routes:
        points = [at(place) for place in route]
        parts += [polyline(points, DIM, 1.2), _arrow(points[-2], points[-1])]
    for name, place, width in zip(network.names, layout.places, widths, strict=True):
        x, y = at(place)
        parts.append(
            f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{_UNIT * width / 2:.1f}" ry="{_RADIUS}" fill="#ffffff" '
            f'stroke="{INK}"/>'
        )
        parts.append(text(x, y + 4, name))
    size = _UNIT * (right - left) + 16, _UNIT * (top - bottom) + 48
    return f"<div>{words}{picture(*size, repr(network), parts)}</div>"


def _arrow(before: tuple[float, float], end: tuple[float, float]) -> str:
    """The head of an edge that comes down into an ellipse."""
    dx, dy = end[0] - before[0], end[1] - before[1]
    norm = math.hypot(dx, dy) or 1.0
    dx, dy = dx / norm, dy / norm
    down = _RADIUS / max(dy, 0.3)  # where the line meets the height of the rim
    x, y = end[0] - down * dx, end[1] - down * dy
    a, b = (x - 7 * dx + 3 * dy, y - 7 * dy - 3 * dx), (x - 7 * dx - 3 * dy, y - 7 * dy + 3 * dx)
    corners = " ".join(f"{p:.1f},{q:.1f}" for p, q in ((x, y), a, b))
    return f'<polygon points="{corners}" fill="{DIM}"/>'

"""A layered graph drawn with matplotlib, as the bytes of an image file."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trellis.bayesnet.drawing.layered_layout import Point, layered_layout
from trellis.core.errors import MissingExtraError

if TYPE_CHECKING:
    from trellis.bayesnet.drawing.draw import Edge, Node

_HEIGHT = 0.42  # of an ellipse; layers are 1 apart
_SQUARE = 0.16
_INCHES = 0.85  # per unit
_FONT_SIZE = 9
_FLATTEST = math.radians(40)  # how far from straight down an edge may leave an ellipse, or enter it
_MARGIN = 0.25
_MOST_DOTS = 16_000  # across a picture; painting a larger one would fail or take minutes


def paint(nodes: Sequence[Node], edges: Sequence[Edge], kind: str) -> bytes:
    """The picture as ``kind`` ("png", "svg" or "pdf")."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "pictures need Graphviz (the program dot) or matplotlib, and neither is installed; "
            "run: pip install 'trellis-learn[plot]'"
        ) from error
    widths = [_SQUARE if node.square else max(0.55, 0.22 + 1.07 * _width(node.label)) for node in nodes]
    layout = layered_layout(widths, [(edge.tail, edge.head) for edge in edges])
    bends = [x for route in layout.routes for x, _ in route]
    centres = [x for x, _ in layout.places]
    left = min([*(x - w / 2 for x, w in zip(centres, widths, strict=True)), *bends, 0.0]) - _MARGIN
    right = max([*(x + w / 2 for x, w in zip(centres, widths, strict=True)), *bends, 0.0]) + _MARGIN
    rows = [y for _, y in layout.places] or [0.0]
    bottom, top = min(rows) - 0.5, max(rows) + 0.5
    figure = Figure(figsize=(_INCHES * (right - left), _INCHES * (top - bottom)))
    figure.set_layout_engine("none")  # one that the user has set would warn: there is nothing to arrange
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    axes.axis("off")
    for edge, route in zip(edges, layout.routes, strict=True):
        ends = (_size(nodes[edge.tail], widths[edge.tail]), _size(nodes[edge.head], widths[edge.head]))
        _paint_edge(axes, edge, route, ends)
    for node, place, width in zip(nodes, layout.places, widths, strict=True):
        _paint_node(axes, node, place, width)
    content = io.BytesIO()
    # a fixed salt and no date: the same network gives the same bytes
    dots = min(160.0, _MOST_DOTS / max(figure.get_size_inches()))
    with rc_context({"svg.hashsalt": "trellis"}):
        figure.savefig(content, format=kind, dpi=dots, metadata={} if kind == "png" else _no_date(kind))
    return content.getvalue()


def _paint_node(axes: Any, node: Node, place: Point, width: float) -> None:
    from matplotlib.patches import Ellipse, Rectangle

    style: dict[str, Any] = {"facecolor": node.fill, "edgecolor": node.outline, "linewidth": 1.4, "zorder": 2}
    if node.square:
        corner = (place[0] - _SQUARE / 2, place[1] - _SQUARE / 2)
        axes.add_patch(Rectangle(corner, _SQUARE, _SQUARE, **style))
    else:
        axes.add_patch(Ellipse(place, width, _HEIGHT, **style))
        # a name is text, whatever dollar signs it has
        style = {"fontsize": _FONT_SIZE, "color": "#30343b", "parse_math": False, "zorder": 3}
        axes.text(*place, node.label, ha="center", va="center", **style)


def _paint_edge(axes: Any, edge: Edge, route: list[Point], ends: tuple[Point, Point]) -> None:
    """A smooth line from the rim of one node to the rim of another (a Catmull-Rom spline)."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    points = [_rim(route[0], route[1], ends[0]), *route[1:-1], _rim(route[-1], route[-2], ends[1])]
    vertices, codes = [points[0]], [Path.MOVETO]
    if len(points) == 2:
        vertices.append(points[1])
        codes.append(Path.LINETO)
    else:
        padded = [points[0], *points, points[-1]]
        for a, b, c, d in zip(padded, padded[1:], padded[2:], padded[3:], strict=False):
            vertices += [
                (b[0] + (c[0] - a[0]) / 6, b[1] + (c[1] - a[1]) / 6),
                (c[0] - (d[0] - b[0]) / 6, c[1] - (d[1] - b[1]) / 6),
                c,
            ]
            codes += [Path.CURVE4] * 3
    axes.add_patch(
        FancyArrowPatch(
            path=Path(vertices, codes),
            arrowstyle="-|>" if edge.arrow else "-",
            mutation_scale=10,
            linewidth=edge.width,
            color=edge.colour,
            fill=edge.arrow,
            zorder=1,
        )
    )


def _width(label: str) -> float:
    """Of a label, in units of the layout."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=_FONT_SIZE)
    rows = label.splitlines() or [""]
    points = max(text_to_path.get_text_width_height_descent(row, font, ismath=False)[0] for row in rows)
    return float(points) / 72 / _INCHES


def _size(node: Node, width: float) -> Point:
    return (_SQUARE, _SQUARE) if node.square else (width, _HEIGHT)


def _rim(centre: Point, towards: Point, size: Point) -> Point:
    """Where the line from the centre of an ellipse to a point leaves it.

    Flat lines leave nearer to the top or the bottom than they would: otherwise they run into the ellipses
    beside it. The angle is that of the circle which the ellipse is when its width is its height.
    """
    dx, dy = 2 * (towards[0] - centre[0]) / size[0], 2 * (towards[1] - centre[1]) / size[1]
    angle = max(-_FLATTEST, min(_FLATTEST, math.atan2(dx, abs(dy))))
    x, y = math.sin(angle), math.copysign(math.cos(angle), dy)
    return centre[0] + x * size[0] / 2, centre[1] + y * size[1] / 2


def _no_date(kind: str) -> dict[str, None]:
    return {"Date": None} if kind == "svg" else {"CreationDate": None}

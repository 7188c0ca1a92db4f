"""The drawing of a network as HTML: a box for each variable, a button for each state, and edges between them.

Places come from the layered layout of ``trellis.bayesnet.drawing``, in pixels here. An edge leaves the middle
of a box below, crosses layers upright, and enters the next box from above.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from trellis.bayesnet import BayesianNetwork
from trellis.bayesnet.drawing.layered_layout import layered_layout
from trellis.core.arrays import FloatArray
from trellis.report.pages.page_parts import escaped

_UNIT = 100.0  # pixels
_HEAD, _ROW, _MOST_ROWS = 28, 24, 10
_BETWEEN, _MARGIN = 56, 18
_CAPITAL, _LETTER, _NUMBER = 10.0, 8.0, 90  # the widths of letters, and of a number with its margins


class _Box(NamedTuple):
    """Left, top, width and height in pixels."""

    left: float
    top: float
    width: float
    height: float


def network_drawing(network: BayesianNetwork, marginals: Sequence[FloatArray]) -> str:
    """The drawing; ``marginals`` of all variables are what the bars show at first."""
    sizes = [_size(name, states) for name, states in zip(network.names, network.states, strict=True)]
    edges = [(parent, i) for i, above in enumerate(network.parent_indices) for parent in above]
    layout = layered_layout([width / _UNIT for width, _ in sizes], edges)
    bends = [x for route in layout.routes for x, _ in route]
    left = min([*(x - w / _UNIT / 2 for (x, _), (w, _) in zip(layout.places, sizes, strict=True)), *bends])
    routes = [[(_MARGIN + _UNIT * (x - left), round(-y)) for x, y in route] for route in layout.routes]
    layers = [round(-y) for _, y in layout.places]
    heights = [0] * (max(layers) + 1)
    for layer, (_, height) in zip(layers, sizes, strict=True):
        heights[layer] = max(heights[layer], height)
    tops = [_MARGIN + sum(heights[:k]) + _BETWEEN * k for k in range(len(heights))]
    boxes = [
        _Box(_MARGIN + _UNIT * (x - left) - w / 2, tops[layer] + (heights[layer] - h) / 2, w, h)
        for (x, _), layer, (w, h) in zip(layout.places, layers, sizes, strict=True)
    ]
    across = max([*(b.left + b.width for b in boxes), *(x for route in routes for x, _ in route)]) + _MARGIN
    down = tops[-1] + heights[-1] + _MARGIN
    paths = [
        f'<path data-tail="{tail}" data-head="{head}" '
        f'd="{_route(route, boxes[tail], boxes[head], tops, heights)}"/>'
        for (tail, head), route in zip(edges, routes, strict=True)
    ]
    return (
        f'<div id="drawing" data-width="{across:.0f}" style="width:{across:.0f}px;height:{down:.0f}px">'
        f'<svg aria-hidden="true" width="{across:.0f}" height="{down:.0f}">{_TIPS}{"".join(paths)}</svg>'
        + "".join(_node(network, v, boxes[v], marginals[v]) for v in network.order)
        + "</div>"
    )


def _size(name: str, states: Sequence[str]) -> tuple[int, int]:
    width = max(_width(name) + 20, max(map(_width, states)) + _NUMBER, 118)
    return round(min(width, 320)), _HEAD + _ROW * min(len(states), _MOST_ROWS) + 8


def _width(text: str) -> float:
    """A guess from above; what is longer after all is cut with dots."""
    return sum(_CAPITAL if letter.isupper() else _LETTER for letter in text)


def _route(
    route: Sequence[tuple[float, int]],
    tail: _Box,
    head: _Box,
    tops: Sequence[float],
    heights: Sequence[int],
) -> str:
    """Points (x, layer) as a path: curves between layers, straight through them."""
    legs = [(route[0][0], tail.top, tail.top + tail.height)]
    legs += [(x, tops[k], tops[k] + heights[k]) for x, k in route[1:-1]]
    legs.append((route[-1][0], head.top, head.top))
    path = [f"M{legs[0][0]:.0f},{legs[0][2]:.0f}"]
    for (x, _, bottom), (to, top, through) in pairwise(legs):
        bend = 0.5 * (top - bottom)
        path.append(f"C{x:.0f},{bottom + bend:.0f} {to:.0f},{top - bend:.0f} {to:.0f},{top:.0f}")
        if through > top:
            path.append(f"L{to:.0f},{through:.0f}")
    return " ".join(path)


def _node(network: BayesianNetwork, v: int, box: _Box, shares: FloatArray) -> str:
    name = escaped(network.names[v])
    buttons = "".join(
        f'<button type="button" aria-pressed="false" style="--share:{share:.6f};--prior:{share:.6f}">'
        f"<span{_title(state, box.width - _NUMBER)}>{escaped(state)}</span>"
        f"<b>{100 * share:.1f} %</b></button>"
        for state, share in zip(network.states[v], shares.tolist(), strict=True)
    )
    place = f"left:{box.left:.0f}px;top:{box.top:.0f}px;width:{box.width:.0f}px;height:{box.height:.0f}px"
    return (
        f'<div class="node" role="group" aria-label="{name}" data-variable="{v}" style="{place}">'
        f"<h3{_title(network.names[v], box.width - 20)}>{name}</h3>{buttons}</div>"
    )


def _title(text: str, room: float) -> str:
    """The whole text under the pointer, where it may be cut."""
    return f' title="{escaped(text)}"' if _width(text) > room else ""


_TIPS = "<defs>{}</defs>".format(
    "".join(
        f'<marker id="tip{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="10" markerHeight="10" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0,1 L10,5 L0,9 z" '
        f'fill="var({colour})"/></marker>'
        for name, colour in {"": "--dim", "-muted": "--line", "-open": "--high", "-blocked": "--low"}.items()
    )
)

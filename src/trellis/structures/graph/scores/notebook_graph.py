"""A graph as an inline picture for notebooks: pixels on their grid, other nodes on a circle."""

from __future__ import annotations

import math
from html import escape

from trellis.core.notebook import DIM, LINE, picture, polyline
from trellis.structures.graph.scores.graph_features import Graph

MOST_NODES = 400  # a larger picture would not be read


def graph_html(graph: Graph) -> str:
    """The counts, and for up to 400 nodes the nodes with their edges."""
    words = (
        f"{graph!r}, {graph.nodes.shape[1]} node features, {graph.edge_features.shape[1]} edge features"
        + (f", an image of {graph.shape[0]} by {graph.shape[1]} pixels" if graph.shape else "")
    )
    if not 0 < graph.n_nodes <= MOST_NODES:
        return f"<div><p>{escape(words)}</p></div>"
    places, size = _places(graph)
    parts = [polyline((places[a], places[b]), DIM, 1.0) for a, b in graph.edges.tolist()]
    for i, (x, y) in enumerate(places):
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{LINE}"><title>node {i}</title></circle>'
        )
    return f"<div><p>{escape(words)}</p>{picture(*size, words, parts)}</div>"


def _places(graph: Graph) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Where the nodes lie in pixels, and the size of the picture."""
    if graph.shape:
        height, width = graph.shape
        places = [(12.0 + 20 * (i % width), 12.0 + 20 * (i // width)) for i in range(graph.n_nodes)]
        return places, (20.0 * width + 4, 20.0 * height + 4)
    n = graph.n_nodes
    radius = max(30.0, min(200.0, 3.0 * n))
    turns = [2 * math.pi * i / n for i in range(n)]
    middle = radius + 10
    return [(middle + radius * math.sin(t), middle - radius * math.cos(t)) for t in turns], (2 * middle,) * 2

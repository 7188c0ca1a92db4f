"""Drawing networks: by Graphviz if its program ``dot`` is installed, otherwise by matplotlib.

The extension of the file decides the format: ``.png``, ``.svg``, ``.pdf``, or ``.dot`` for the input of
Graphviz. Observed variables are grey. In the drawing of a separation the variables x and y are yellow, open
paths green and blocked ones orange.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.bayesnet.model.factor_model import FactorModel
from trellis.core.errors import DataError
from trellis.core.output_files import PathLike, atomic_writer

if TYPE_CHECKING:
    from trellis.bayesnet.separation.separation_paths import Separation

KINDS = (".png", ".svg", ".pdf", ".dot")
# green and vermilion that readers with any colour vision can tell apart (Okabe and Ito)
INK, MUTED, OPEN, BLOCKED = "#30343b", "#b5bac3", "#009e73", "#d55e00"
OBSERVED, END, WHITE = "#d5d9e0", "#fdeeb8", "#ffffff"


@dataclass(frozen=True)
class Node:
    """An ellipse with a label, or a small square."""

    label: str
    outline: str = INK
    fill: str = WHITE
    square: bool = False


@dataclass(frozen=True)
class Edge:
    """A line between two nodes, with an arrow head or without."""

    tail: int
    head: int
    colour: str = INK
    width: float = 1.2
    arrow: bool = True


def draw_network(network: DirectedModel, path: PathLike, *, observed: str | Iterable[str] = ()) -> None:
    """Draw the variables and edges of a network; ``observed`` variables are filled."""
    known = set(network.variables.indices(observed))
    nodes = [Node(name, fill=OBSERVED if i in known else WHITE) for i, name in enumerate(network.names)]
    draw(nodes, [Edge(tail, head) for tail, head in _edges(network)], path)


def draw_graph(graph: FactorModel, path: PathLike) -> None:
    """Draw variables as ellipses and factors as small squares, in rows by their distance."""
    n = len(graph.names)
    factors = graph.factors()
    nodes = [*(Node(name) for name in graph.names), *(Node("", fill=INK, square=True) for _ in factors)]
    pairs = [(n + i, v) for i, factor in enumerate(factors) for v in factor.variables]
    steps = _distances(len(nodes), pairs)
    edges = [Edge(*((a, b) if steps[a] < steps[b] else (b, a)), arrow=False) for a, b in pairs]
    draw(nodes, edges, path)


def _distances(n: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The distance of each node from the first node that is connected with it."""
    near: list[list[int]] = [[] for _ in range(n)]
    for a, b in pairs:
        near[a].append(b)
        near[b].append(a)
    steps = [-1] * n
    for first in range(n):
        waiting = deque([first]) if steps[first] < 0 else deque()
        steps[first] = max(steps[first], 0)
        while waiting:
            v = waiting.popleft()
            for w in near[v]:
                if steps[w] < 0:
                    steps[w] = steps[v] + 1
                    waiting.append(w)
    return steps


def draw_separation(separation: Separation, path: PathLike) -> None:
    """Draw the paths of a separation in their network."""
    network = separation.network
    known = set(separation.given)
    ends = {*separation.x, *separation.y}
    colours: dict[frozenset[str], str] = {}
    outlines = dict.fromkeys(ends, INK)
    for route in sorted(separation.paths, key=lambda route: route.open):  # open paths over blocked ones
        for inner in route.nodes:
            outlines[inner.name] = OPEN if inner.open and outlines.get(inner.name) != BLOCKED else BLOCKED
        for pair in pairwise(route.names):
            colours[frozenset(pair)] = OPEN if route.open else BLOCKED
    nodes = [
        Node(name, outlines.get(name, MUTED), END if name in ends else OBSERVED if name in known else WHITE)
        for name in network.names
    ]
    edges = []
    for tail, head in _edges(network):
        colour = colours.get(frozenset((network.names[tail], network.names[head])), MUTED)
        edges.append(Edge(tail, head, colour, 1.2 if colour == MUTED else 2.0))
    draw(nodes, edges, path)


def draw(nodes: Sequence[Node], edges: Sequence[Edge], path: PathLike) -> None:
    """Draw a directed acyclic graph to a file."""
    kind = os.path.splitext(os.fspath(path))[1].lower()
    if kind not in KINDS:
        raise DataError(f"{os.fspath(path)}: the file must end with one of {', '.join(KINDS)}; rename it")
    if kind == ".dot":
        content = to_dot(nodes, edges).encode()
    elif (program := shutil.which("dot")) is not None:
        content = _by_graphviz(program, kind, to_dot(nodes, edges))
    else:
        from trellis.bayesnet.drawing.matplotlib_drawing import paint

        content = paint(nodes, edges, kind[1:])
    with atomic_writer(path) as file:
        file.write(content)


def to_dot(nodes: Sequence[Node], edges: Sequence[Edge]) -> str:
    """The text that Graphviz reads."""
    text = ["digraph {", '  node [style=filled fontname="Helvetica"];']
    for i, node in enumerate(nodes):
        shape = "shape=square width=0.15 " if node.square else ""
        text.append(
            f'  {i} [{shape}label={_quoted(node.label)} color="{node.outline}" fillcolor="{node.fill}"];'
        )
    for edge in edges:
        head = "" if edge.arrow else " dir=none"
        text.append(f'  {edge.tail} -> {edge.head} [color="{edge.colour}" penwidth={edge.width}{head}];')
    return "\n".join([*text, "}", ""])


def _by_graphviz(program: str, kind: str, text: str) -> bytes:
    done = subprocess.run([program, f"-T{kind[1:]}"], input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise DataError(f"Graphviz could not draw this network: {reason[0] if reason else done.returncode}")
    return done.stdout


def _edges(network: DirectedModel) -> list[tuple[int, int]]:
    return [(parent, i) for i in range(len(network.names)) for parent in network.parent_indices[i]]


def _quoted(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

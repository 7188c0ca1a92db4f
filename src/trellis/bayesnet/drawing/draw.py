"""Pictures of networks: by Graphviz if its ``dot`` is there, otherwise by our own layout and matplotlib.

The end of the file name says which kind of picture: ``.png``, ``.svg``, ``.pdf``, or ``.dot`` for the text
that Graphviz reads. Observed variables are grey. In the picture of a separation the variables in question are
yellow, what is open is green and what is blocked is red.
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
from trellis.core.storage import PathLike, atomic_writer

if TYPE_CHECKING:
    from trellis.bayesnet.separation.separation_paths import Separation

KINDS = (".png", ".svg", ".pdf", ".dot")
INK, QUIET, OPEN, BLOCKED = "#30343b", "#b5bac3", "#1a7f4b", "#c0392b"
OBSERVED, END = "#d5d9e0", "#fdeeb8"


@dataclass(frozen=True)
class Mark:
    """A node of a picture."""

    label: str
    line: str = INK
    fill: str = "#ffffff"
    square: bool = False


@dataclass(frozen=True)
class Line:
    """A line of a picture; with a head it is an arrow."""

    tail: int
    head: int
    colour: str = INK
    width: float = 1.2
    arrow: bool = True


def draw_network(network: DirectedModel, path: PathLike, *, observed: str | Iterable[str] = ()) -> None:
    """Draw the variables and edges of a network; ``observed`` variables are filled."""
    known = set(network.variables.indices(observed))
    marks = [Mark(name, fill=OBSERVED if i in known else "#ffffff") for i, name in enumerate(network.names)]
    draw(marks, [Line(tail, head) for tail, head in _edges(network)], path)


def draw_graph(graph: FactorModel, path: PathLike) -> None:
    """Draw variables as ellipses and factors as small squares, row by row as far as they are apart."""
    n = len(graph.names)
    factors = graph.factors()
    marks = [*(Mark(name) for name in graph.names), *(Mark("", fill=INK, square=True) for _ in factors)]
    pairs = [(n + i, v) for i, factor in enumerate(factors) for v in factor.variables]
    steps = _steps_apart(len(marks), pairs)
    lines = [Line(*((a, b) if steps[a] < steps[b] else (b, a)), arrow=False) for a, b in pairs]
    draw(marks, lines, path)


def _steps_apart(n: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """How many lines each node is away from the first node that is joined to it."""
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
    nodes = dict.fromkeys(ends, INK)
    for route in sorted(
        separation.paths, key=lambda route: route.open
    ):  # what is open is drawn over the rest
        for node in route.nodes:
            nodes[node.name] = OPEN if node.open and nodes.get(node.name) != BLOCKED else BLOCKED
        for pair in pairwise(route.names):
            colours[frozenset(pair)] = OPEN if route.open else BLOCKED
    marks = [
        Mark(
            name,
            nodes.get(name, QUIET),
            END if name in ends else OBSERVED if name in known else "#ffffff",
        )
        for name in network.names
    ]
    lines = []
    for tail, head in _edges(network):
        colour = colours.get(frozenset((network.names[tail], network.names[head])), QUIET)
        lines.append(Line(tail, head, colour, 1.2 if colour == QUIET else 2.0))
    draw(marks, lines, path)


def draw(marks: Sequence[Mark], lines: Sequence[Line], path: PathLike) -> None:
    """Draw a directed acyclic graph to a file."""
    kind = os.path.splitext(os.fspath(path))[1].lower()
    if kind not in KINDS:
        raise DataError(f"{os.fspath(path)}: a picture ends with one of {', '.join(KINDS)}; rename it")
    if kind == ".dot":
        content = to_dot(marks, lines).encode()
    elif (program := shutil.which("dot")) is not None:
        content = _by_graphviz(program, kind, to_dot(marks, lines))
    else:
        from trellis.bayesnet.drawing.matplotlib_picture import painted

        content = painted(marks, lines, kind[1:])
    with atomic_writer(path) as file:
        file.write(content)


def to_dot(marks: Sequence[Mark], lines: Sequence[Line]) -> str:
    """The text that Graphviz reads."""
    text = ["digraph {", '  node [style=filled fontname="Helvetica"];']
    for i, mark in enumerate(marks):
        shape = "shape=square width=0.15 " if mark.square else ""
        text.append(
            f'  {i} [{shape}label={_quoted(mark.label)} color="{mark.line}" fillcolor="{mark.fill}"];'
        )
    for line in lines:
        head = "" if line.arrow else " dir=none"
        text.append(f'  {line.tail} -> {line.head} [color="{line.colour}" penwidth={line.width}{head}];')
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

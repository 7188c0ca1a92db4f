"""Why two variables are or are not d-separated: the paths between them, and what happens at each node.

At an inner node of a path the edges meet in one of three ways. A *chain* (-> v ->) and a *fork* (<- v ->)
are open unless v is observed; a *collider* (-> v <-) is blocked unless v or one of its descendants is
observed. A path is open if all of its nodes are.

Paths are listed from short to long (``short_paths``), up to a limit. If the variables are
connected, an open path is among them: the shortest walk of ``d_separation_kernels`` never
meets a node twice, since it could be cut short there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from trellis.bayesnet.model.directed_model import DirectedModel, Names
from trellis.bayesnet.separation.d_separation import mask, nonempty
from trellis.bayesnet.separation.d_separation_kernels import reach
from trellis.bayesnet.separation.short_paths import short_paths
from trellis.core.arguments import check_int
from trellis.core.errors import DataError
from trellis.core.storage import PathLike

Rule = Literal["chain", "fork", "collider"]


@dataclass(frozen=True)
class Node:
    """An inner node of a path. ``opened_by`` is the observed node that opens a collider: itself or a
    descendant."""

    name: str
    rule: Rule
    open: bool
    opened_by: str | None = None

    def __str__(self) -> str:
        if self.rule != "collider":
            return f"{self.name} is a {self.rule} and is {'not ' if self.open else ''}observed"
        if not self.open:
            return f"{self.name} is a collider, and neither it nor a descendant of it is observed"
        if self.opened_by == self.name:
            return f"{self.name} is a collider and is observed"
        return f"{self.name} is a collider whose descendant {self.opened_by} is observed"


@dataclass(frozen=True)
class Path:
    """``forward[i]``: whether the arrow between ``names[i]`` and ``names[i + 1]`` points to the latter."""

    names: tuple[str, ...]
    forward: tuple[bool, ...]
    nodes: tuple[Node, ...]

    @property
    def open(self) -> bool:
        return all(node.open for node in self.nodes)

    @property
    def blocked_by(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if not node.open)

    @property
    def text(self) -> str:
        """The path as in ``A -> B <- C``."""
        steps = zip(self.forward, self.names[1:], strict=True)
        return self.names[0] + "".join(f" {'->' if ahead else '<-'} {name}" for ahead, name in steps)

    def __str__(self) -> str:
        if not self.open:
            return f"{self.text}\n    blocked: {'; '.join(map(str, self.blocked_by))}."
        reasons = [str(node) for node in self.nodes if node.rule == "collider"]
        for rule in ("chain", "fork"):
            names = [node.name for node in self.nodes if node.rule == rule]
            if len(names) == 1:
                reasons.append(f"{names[0]} is a {rule} and is not observed")
            elif names:
                reasons.append(f"{_listed(names)} are {rule}s and are not observed")
        return f"{self.text}\n    open: {'; '.join(reasons) or 'nothing can block an edge'}."


@dataclass(frozen=True)
class Separation:
    """The answer, and the paths that give it. ``complete``: whether ``paths`` are all there are."""

    x: tuple[str, ...]
    y: tuple[str, ...]
    given: tuple[str, ...]
    separated: bool
    paths: tuple[Path, ...]
    complete: bool
    network: DirectedModel

    def __str__(self) -> str:
        verb = "are d-separated" if self.separated else "are not d-separated"
        lines = [f"{_listed(self.x)} and {_listed(self.y)} {verb} given {_listed(self.given) or 'nothing'}."]
        lines += [f"  {path}" for path in self.paths]
        if not self.paths:
            lines.append("  No path joins them.")
        if not self.complete:
            lines.append(f"  There are more paths; max_paths={len(self.paths)} limits this list.")
        return "\n".join(lines)

    def draw(self, path: PathLike) -> None:
        """A picture: observed nodes filled, open paths green, blocked nodes and paths orange."""
        from trellis.bayesnet.drawing.draw import draw_separation

        draw_separation(self, path)


def explain_separation(
    network: DirectedModel, x: Names, y: Names, given: Names = (), *, max_paths: int = 20
) -> Separation:
    """Whether ``x`` and ``y`` are d-separated, with at most ``max_paths`` paths as reasons."""
    max_paths = check_int("max_paths", max_paths, 1)
    variables = network.variables
    observed = variables.indices(given)
    xs, ys = nonempty(network, x, "x"), nonempty(network, y, "y")
    shared = (set(xs) & set(ys)) | ((set(xs) | set(ys)) & set(observed))
    if shared:
        name = network.names[min(shared)]
        raise DataError(f"{name!r} appears in more than one of x, y and given; name it once")
    active = _active_path(network, xs, ys, observed)
    found: list[tuple[int, ...]] = []
    complete = True
    for walk in short_paths(network.graph, xs, ys):
        if len(found) == max_paths:
            complete = False
            break
        found.append(walk)
    if active is not None and active not in found:
        found[-1] = active  # the list was full: otherwise it would hold every path
    opener = _openers(network, observed)
    paths = tuple(_explained(network, walk, set(observed), opener) for walk in found)
    names = network.names
    return Separation(
        tuple(names[i] for i in xs),
        tuple(names[i] for i in ys),
        tuple(names[i] for i in observed),
        active is None,
        paths,
        complete,
        network,
    )


def _explained(
    network: DirectedModel, walk: Sequence[int], observed: Collection[int], opener: dict[int, int]
) -> Path:
    names = network.names
    forward = [a in network.parent_indices[b] for a, b in pairwise(walk)]
    nodes = []
    for v, (into, out) in zip(walk[1:-1], pairwise(forward), strict=True):
        if into and not out:
            by = opener.get(v)
            nodes.append(Node(names[v], "collider", by is not None, None if by is None else names[by]))
        else:
            nodes.append(Node(names[v], "chain" if into == out else "fork", v not in observed))
    return Path(tuple(names[v] for v in walk), tuple(forward), tuple(nodes))


def _openers(network: DirectedModel, observed: Sequence[int]) -> dict[int, int]:
    """For each node that is observed or has observed descendants, the nearest of these."""
    opener = {v: v for v in observed}
    waiting = deque(observed)
    while waiting:
        v = waiting.popleft()
        for parent in network.parent_indices[v]:
            if parent not in opener:
                opener[parent] = opener[v]
                waiting.append(parent)
    return opener


def _active_path(
    network: DirectedModel, xs: Sequence[int], ys: Sequence[int], observed: Sequence[int]
) -> tuple[int, ...] | None:
    state, before = reach(network.graph, np.array(xs), mask(network, observed), mask(network, ys))
    walk = []
    while state >= 0:
        walk.append(int(state) >> 1)
        state = before[state]
    return tuple(reversed(walk)) or None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)

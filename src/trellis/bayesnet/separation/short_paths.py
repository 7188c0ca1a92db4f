"""The paths between two sets of nodes from short to long, whatever the directions of their edges.

All paths that begin with a given root and do not go on to certain nodes form a class. The shortest path of a
class, once listed, parts the others of it into smaller classes: one for each node of the path, where they
leave it (Yen 1971; Lawler 1972). Classes wait in a heap by a bound from below on the length of their paths:
the root, one step, and the distance from there to y. Only a class that comes first is searched (A* with the
same distances), so that a list of k paths takes few searches more than k, however long the paths are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import NamedTuple

from trellis.bayesnet.model.directed_graph import DirectedGraph, Nodes

Walk = tuple[int, ...]


class _Class(NamedTuple):
    """The paths that begin with ``walk[:length]`` and do not go on to ``taken``."""

    walk: Walk
    place: Mapping[int, int]  # of each node of the walk
    length: int
    taken: frozenset[int]


def short_paths(graph: DirectedGraph, xs: Sequence[int], ys: Sequence[int]) -> Iterator[Walk]:
    """Paths that touch x only at their start and y only at their end, none of them twice."""
    skeleton = _Skeleton(graph, xs, ys)
    number = count()
    waiting: list[tuple[int, int, _Class, Walk | None]] = []

    def add(new: _Class) -> None:
        bounds = [skeleton.away[w] for w in skeleton.next_nodes(new)]
        if bounds:
            heappush(waiting, (new.length + 1 + min(bounds), next(number), new, None))

    # all paths begin with a node that stands before all of x
    add(_Class((skeleton.source,), {skeleton.source: 0}, 1, frozenset()))
    while waiting:
        _, _, family, walk = heappop(waiting)
        if walk is None:
            walk = skeleton.shortest(family)
            if walk is not None:
                heappush(waiting, (len(walk), next(number), family, walk))
            continue
        yield walk[1:]
        place = {v: i for i, v in enumerate(walk)}
        for i in range(family.length, len(walk)):
            taken = family.taken if i == family.length else frozenset()
            add(_Class(walk, place, i, taken | {walk[i]}))


class _Skeleton:
    """The neighbours of each node and how many steps it is ``away`` from y, without passing through x."""

    def __init__(self, graph: DirectedGraph, xs: Sequence[int], ys: Sequence[int]) -> None:
        above, below = (
            _rows(graph.parent_start, graph.parent_nodes),
            _rows(graph.child_start, graph.child_nodes),
        )
        self.near = [sorted(up + down) for up, down in zip(above, below, strict=True)]
        self.xs, self.ys = frozenset(xs), frozenset(ys)
        self.away = dict.fromkeys(ys, 0)
        waiting = deque(ys)
        while waiting:
            v = waiting.popleft()
            for w in self.near[v]:
                if w not in self.away:
                    self.away[w] = self.away[v] + 1
                    if w not in self.xs:  # a path ends there
                        waiting.append(w)
        self.source = graph.n_nodes
        self.near.append(list(xs))

    def next_nodes(self, family: _Class) -> list[int]:
        """Where the paths of a class can go on after their root, as far as its neighbours tell."""
        last = family.walk[family.length - 1]
        return [w for w in self._open(last, family) if w not in family.taken]

    def shortest(self, family: _Class) -> Walk | None:
        """The shortest path of a class."""
        steps = dict.fromkeys(self.next_nodes(family), 1)
        before: dict[int, int] = {}
        # of equally promising nodes the farthest comes first: it is nearer to y
        waiting = [(1 + self.away[w], -1, w) for w in steps]
        waiting.sort()
        while waiting:
            _, taken, v = heappop(waiting)
            if -taken > steps[v]:
                continue
            if v in self.ys:
                tail = [v]
                while tail[-1] in before:
                    tail.append(before[tail[-1]])
                return (*family.walk[: family.length], *reversed(tail))
            ahead = steps[v] + 1
            for w in self._open(v, family):
                if ahead < steps.get(w, ahead + 1):
                    steps[w], before[w] = ahead, v
                    heappush(waiting, (ahead + self.away[w], -ahead, w))
        return None

    def _open(self, v: int, family: _Class) -> Iterator[int]:
        """Neighbours from which y can be reached and which are not in the root of the class."""
        for w in self.near[v]:
            inside = family.place.get(w, family.length) < family.length
            if w in self.away and not inside and (v == self.source or w not in self.xs):
                yield w


def _rows(starts: Nodes, nodes: Nodes) -> list[list[int]]:
    listed = nodes.tolist()
    return [listed[start:end] for start, end in pairwise(starts.tolist())]

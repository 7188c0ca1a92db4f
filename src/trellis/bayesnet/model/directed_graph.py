"""A directed graph on nodes 0..n-1, with the parents and the children of each node side by side (CSR).

The parents of node i are ``parents[parent_start[i]:parent_start[i + 1]]``, in the order in which they were
given; likewise the children, in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Nodes = NDArray[np.int32]


class DirectedGraph(NamedTuple):
    """Arrays that kernels take as they are."""

    parent_start: Nodes
    parents: Nodes
    child_start: Nodes
    children: Nodes

    @property
    def n_nodes(self) -> int:
        return len(self.parent_start) - 1

    @property
    def n_arrows(self) -> int:
        return len(self.parents)

    def parents_of(self, node: int) -> Nodes:
        return self.parents[self.parent_start[node] : self.parent_start[node + 1]]

    def children_of(self, node: int) -> Nodes:
        return self.children[self.child_start[node] : self.child_start[node + 1]]


def directed_graph(parents: Sequence[Sequence[int]]) -> DirectedGraph:
    """The graph in which node i has the parents ``parents[i]``."""
    n = len(parents)
    counts = np.array([len(above) for above in parents], dtype=np.int32)
    heads = np.repeat(np.arange(n, dtype=np.int32), counts)
    tails = np.fromiter((p for above in parents for p in above), dtype=np.int32, count=len(heads))
    by_tail = np.argsort(tails, kind="stable")
    return DirectedGraph(
        _starts(counts), tails, _starts(np.bincount(tails, minlength=n)), heads[by_tail].astype(np.int32)
    )


def topological_order(graph: DirectedGraph) -> list[int] | None:
    """All nodes, parents before children, always the smallest number that can come next; None if cyclic."""
    import heapq

    waiting = np.diff(graph.parent_start).tolist()
    starts, children = graph.child_start.tolist(), graph.children.tolist()
    ready = [node for node, count in enumerate(waiting) if count == 0]
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for child in children[starts[node] : starts[node + 1]]:
            waiting[child] -= 1
            if waiting[child] == 0:
                heapq.heappush(ready, child)
    return order if len(order) == graph.n_nodes else None


def closure(start: Iterable[int], step: Callable[[int], Iterable[int]]) -> set[int]:
    """All nodes that are reached from ``start`` in any number of steps, none included."""
    found = set(start)
    waiting = list(found)
    while waiting:
        new = set(step(waiting.pop())) - found
        found |= new
        waiting += new
    return found


def find_cycle(graph: DirectedGraph) -> list[int]:
    """A cycle of a graph that has one, in the direction of its arrows, without the return to its start.

    Nodes that are left when childless nodes are taken away again and again each have a child that is left;
    following such children must come back to a node that was met before.
    """
    left = set(range(graph.n_nodes))
    waiting = np.diff(graph.child_start).tolist()
    childless = [node for node, count in enumerate(waiting) if count == 0]
    while childless:
        node = childless.pop()
        left.discard(node)
        for parent in graph.parents_of(node).tolist():
            waiting[parent] -= 1
            if waiting[parent] == 0:
                childless.append(parent)
    met: dict[int, int] = {}
    node = min(left)
    while node not in met:
        met[node] = len(met)
        node = next(child for child in graph.children_of(node).tolist() if child in left)
    return list(met)[met[node] :]


def _starts(counts: NDArray[np.integer]) -> Nodes:
    starts = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=starts[1:])
    return starts

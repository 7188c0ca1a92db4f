"""A directed graph on nodes 0..n-1, with the parents and the children of each node side by side (CSR).

The parents of node i are ``parent_nodes[parent_start[i]:parent_start[i + 1]]``, in the order in which they
were given; likewise the children, in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Nodes = NDArray[np.int32]


class DirectedGraph(NamedTuple):
    """Arrays that kernels take as they are."""

    parent_start: Nodes
    parent_nodes: Nodes
    child_start: Nodes
    child_nodes: Nodes

    @classmethod
    def from_parents(cls, parents: Sequence[Sequence[int]]) -> DirectedGraph:
        """The graph in which node i has the parents ``parents[i]``."""
        n = len(parents)
        counts = np.array([len(above) for above in parents], dtype=np.int32)
        heads = np.repeat(np.arange(n, dtype=np.int32), counts)
        tails = np.fromiter((p for above in parents for p in above), dtype=np.int32, count=len(heads))
        by_tail = np.argsort(tails, kind="stable")
        return cls(
            _starts(counts), tails, _starts(np.bincount(tails, minlength=n)), heads[by_tail].astype(np.int32)
        )

    @property
    def n_nodes(self) -> int:
        return len(self.parent_start) - 1

    @property
    def n_edges(self) -> int:
        return len(self.parent_nodes)

    def parents(self, node: int) -> Nodes:
        return self.parent_nodes[self.parent_start[node] : self.parent_start[node + 1]]

    def children(self, node: int) -> Nodes:
        return self.child_nodes[self.child_start[node] : self.child_start[node + 1]]


def topological_order(graph: DirectedGraph) -> list[int]:
    """Nodes, parents before children, always the smallest number that can come next.

    Nodes of a cycle and their descendants are left out.
    """
    waiting = np.diff(graph.parent_start).tolist()
    starts, children = graph.child_start.tolist(), graph.child_nodes.tolist()
    ready = [node for node, count in enumerate(waiting) if count == 0]
    order = []
    while ready:
        node = heappop(ready)
        order.append(node)
        for child in children[starts[node] : starts[node + 1]]:
            waiting[child] -= 1
            if waiting[child] == 0:
                heappush(ready, child)
    return order


def find_cycle(graph: DirectedGraph, order: Iterable[int]) -> list[int]:
    """A cycle in the direction of its edges, without the return to its start.

    Each node that the topological ``order`` leaves out has a parent that it leaves out; following such
    parents must come back to a node met before.
    """
    left = set(range(graph.n_nodes)).difference(order)
    met: dict[int, int] = {}
    node = min(left)
    while node not in met:
        met[node] = len(met)
        node = next(parent for parent in graph.parents(node).tolist() if parent in left)
    backwards = list(met)[met[node] :]
    return [node, *reversed(backwards[1:])]


def closure(start: Iterable[int], step: Callable[[int], Iterable[int]]) -> set[int]:
    """All nodes that are reached from ``start`` in any number of steps, none included."""
    found = set(start)
    waiting = list(found)
    while waiting:
        new = set(step(waiting.pop())) - found
        found |= new
        waiting += new
    return found


def _starts(counts: NDArray[np.integer]) -> Nodes:
    starts = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=starts[1:])
    return starts

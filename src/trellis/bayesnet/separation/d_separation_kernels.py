# mypy: allow-untyped-defs
"""Reachability under d-separation, in time linear in the graph.

A ball moves along the arrows. It is at a node having come from a child ("up", state 2 v) or from a parent
("down", state 2 v + 1), and goes on by the rules

    up,   v not observed                  to parents (up) and to children (down)     chain, fork
    down, v not observed                  to children (down)                         chain
    down, v or a descendant observed      to parents (up)                            collider

Each of the 2 n states is entered at most once.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel

UNSEEN = -2
SOURCE = -1


@kernel
def reach(graph, sources, observed, targets):
    """Breadth first from ``sources`` until some node of the mask ``targets`` is reached.

    Returns the state in which a target was reached (-1 for none) and, for each state, the state before it
    (``SOURCE`` at the start, ``UNSEEN`` if it was not entered).
    """
    parent_start, parents, child_start, children = graph
    n = len(observed)
    # v is opened as a collider if it is an ancestor of an observed node, or that node: climb from all of them
    opened = observed.copy()
    queue = np.empty(2 * n, np.int32)
    last = 0
    for v in range(n):
        if observed[v]:
            queue[last] = v
            last += 1
    first = 0
    while first < last:
        v = queue[first]
        first += 1
        for k in range(parent_start[v], parent_start[v + 1]):
            if not opened[parents[k]]:
                opened[parents[k]] = True
                queue[last] = parents[k]
                last += 1
    before = np.full(2 * n, UNSEEN, np.int32)
    first = last = 0
    for v in sources:
        if not observed[v] and before[2 * v] == UNSEEN:
            before[2 * v] = SOURCE
            queue[last] = 2 * v
            last += 1
    while first < last:
        state = queue[first]
        first += 1
        v, down = state >> 1, state & 1
        if targets[v] and not observed[v]:
            return state, before
        if opened[v] if down else not observed[v]:
            for k in range(parent_start[v], parent_start[v + 1]):
                after = 2 * parents[k]
                if before[after] == UNSEEN:
                    before[after] = state
                    queue[last] = after
                    last += 1
        if not observed[v]:
            for k in range(child_start[v], child_start[v + 1]):
                after = 2 * children[k] + 1
                if before[after] == UNSEEN:
                    before[after] = state
                    queue[last] = after
                    last += 1
    return -1, before

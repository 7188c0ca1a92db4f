# mypy: allow-untyped-defs
"""A better labelling by whole forests: nodes that form trees are solved exactly, given all others.

Nodes are taken in a given order; one joins the forest if at most one of its neighbours has joined before (its
parent), so that the forest has no further edges. With the labels of the other nodes fixed,

    local_i(x) = unary_i(x) + sum over neighbours j outside of pairwise(x, y_j)
    to parent: max_x local_i(x) + pairwise(z, x), leaves first; then labels from the roots outwards.

The score of the labelling never falls. One node alone is the move of iterated conditional modes.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel

OUTSIDE = -2
ROOT = -1


@kernel
def forest_move(unary, pairwise, low, high, below_start, below, above_start, above, order, labels):
    """Solve one forest; changes ``labels`` in place."""
    n, k = unary.shape
    parent = np.full(n, OUTSIDE)  # the edge to it
    joined = np.empty(n, np.int64)
    count = 0
    for i in order:
        links, edge = 0, ROOT
        for at in range(below_start[i], below_start[i + 1]):
            if parent[low[below[at]]] != OUTSIDE:
                links, edge = links + 1, below[at]
        for at in range(above_start[i], above_start[i + 1]):
            if parent[high[above[at]]] != OUTSIDE:
                links, edge = links + 1, above[at]
        if links <= 1:
            parent[i] = edge
            joined[count] = i
            count += 1
    local, choice = np.empty((n, k)), np.empty((n, k), np.int32)
    for at in range(count):
        given_outside(
            joined[at], unary, pairwise, low, high, below_start, below, above_start, above, labels, parent,
            local,
        )  # fmt: skip
    for at in range(count - 1, -1, -1):
        i = joined[at]
        e = parent[i]
        if e != ROOT:
            upwards = high[e] == i  # the parent is the low end
            p = low[e] if upwards else high[e]
            for z in range(k):
                best, top = 0, -np.inf
                for x in range(k):
                    score = local[i, x] + (pairwise[e, z, x] if upwards else pairwise[e, x, z])
                    if score > top:
                        best, top = x, score
                choice[i, z] = best
                local[p, z] += top
    for at in range(count):
        i = joined[at]
        e = parent[i]
        if e == ROOT:
            root_label = np.argmax(local[i])
            if local[i, root_label] > -np.inf:
                labels[i] = root_label
        else:
            labels[i] = choice[i, labels[low[e] if high[e] == i else high[e]]]


@kernel
def given_outside(
    i, unary, pairwise, low, high, below_start, below, above_start, above, labels, parent, local
):
    """local_i of a node of the forest."""
    k = unary.shape[1]
    for x in range(k):
        local[i, x] = unary[i, x]
    for at in range(below_start[i], below_start[i + 1]):
        e = below[at]
        if parent[low[e]] == OUTSIDE:
            for x in range(k):
                local[i, x] += pairwise[e, labels[low[e]], x]
    for at in range(above_start[i], above_start[i + 1]):
        e = above[at]
        if parent[high[e]] == OUTSIDE:
            for x in range(k):
                local[i, x] += pairwise[e, x, labels[high[e]]]

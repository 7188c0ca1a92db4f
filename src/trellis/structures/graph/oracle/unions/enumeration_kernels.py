# mypy: allow-untyped-defs
"""All labellings of many small graphs, one graph after another: best labellings, sums and marginals.

Labellings are gone through in the order of numbers in base K, the last node fastest, with the scores of all
beginnings of the present one at hand:

    begun[i + 1] = begun[i] + unary[i, y_i] + sum over edges whose later end is i of pairwise

so that a step costs what it changes, and nothing is ever subtracted from -inf.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel


@kernel
def enumerate_best(node_start, edge_start, edges, unary, pairwise, labels, values):
    """The first best labelling of each graph, and its score (-inf: none is allowed)."""
    for g in range(values.shape[0]):
        first, m = node_start[g], node_start[g + 1] - node_start[g]
        start, at_node = _edges_by_later_end(g, node_start, edge_start, edges)
        y, begun = np.zeros(m, np.int64), np.zeros(m + 1)
        values[g] = -np.inf
        changed = 0
        while changed >= 0:
            _score(first, changed, y, begun, start, at_node, edges, unary, pairwise)
            if begun[m] > values[g]:
                values[g] = begun[m]
                for i in range(m):
                    labels[first + i] = y[i]
            changed = _advance(y, unary.shape[1])


@kernel
def enumerate_sums(node_start, edge_start, edges, unary, pairwise, log_sums, nodes, pairs, room):
    """log sum exp of the scores of each graph (-inf: none is allowed), and the marginals of its nodes and
    edges; ``room``: the largest number of labellings of a graph."""
    k = unary.shape[1]
    scores = np.empty(room)
    for g in range(log_sums.shape[0]):
        first, m = node_start[g], node_start[g + 1] - node_start[g]
        start, at_node = _edges_by_later_end(g, node_start, edge_start, edges)
        y, begun = np.zeros(m, np.int64), np.zeros(m + 1)
        top, n, changed = -np.inf, 0, 0
        while changed >= 0:
            _score(first, changed, y, begun, start, at_node, edges, unary, pairwise)
            scores[n] = begun[m]
            top = max(top, begun[m])
            n += 1
            changed = _advance(y, k)
        log_sums[g] = top
        if top == -np.inf:
            continue
        total = 0.0
        for j in range(n):
            scores[j] = np.exp(scores[j] - top)
            total += scores[j]
        log_sums[g] = top + np.log(total)
        for j in range(n):  # the labels are all 0 again
            share = scores[j] / total
            if share > 0.0:
                for i in range(m):
                    nodes[first + i, y[i]] += share
                for e in range(edge_start[g], edge_start[g + 1]):
                    pairs[e, y[edges[e, 0] - first], y[edges[e, 1] - first]] += share
            _advance(y, k)


@kernel
def _score(first, changed, y, begun, start, at_node, edges, unary, pairwise):
    """The scores of the beginnings from the first node that changed."""
    for i in range(changed, y.shape[0]):
        total = begun[i] + unary[first + i, y[i]]
        for j in range(start[i], start[i + 1]):
            e = at_node[j]
            total += pairwise[e, y[edges[e, 0] - first], y[edges[e, 1] - first]]
        begun[i + 1] = total


@kernel
def _advance(y, k):
    """The next labelling; the first node that changes, or -1 after the last, when all labels are 0 again."""
    for i in range(y.shape[0] - 1, -1, -1):
        if y[i] + 1 < k:
            y[i] += 1
            return i
        y[i] = 0
    return -1


@kernel
def _edges_by_later_end(g, node_start, edge_start, edges):
    """The edges of a graph by the later of their ends: where those of each node start, and their numbers."""
    first, m = node_start[g], node_start[g + 1] - node_start[g]
    start = np.zeros(m + 1, np.int64)
    for e in range(edge_start[g], edge_start[g + 1]):
        start[max(edges[e, 0], edges[e, 1]) - first + 1] += 1
    for i in range(m):
        start[i + 1] += start[i]
    place, at_node = start.copy(), np.empty(edge_start[g + 1] - edge_start[g], np.int64)
    for e in range(edge_start[g], edge_start[g + 1]):
        i = max(edges[e, 0], edges[e, 1]) - first
        at_node[place[i]] = e
        place[i] += 1
    return start, at_node

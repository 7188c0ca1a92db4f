# mypy: allow-untyped-defs
"""Sequential tree-reweighted message passing (TRW-S): one pass through the nodes of an ordered graph.

The scores are rewritten with messages m[e, end] without changing the score of any labelling:

    unary'_i = unary_i + sum_{e at i} m[e, i]           pairwise'_e = pairwise_e - m[e, low] - m[e, high]

so that  sum_i max unary'_i + sum_e max pairwise'_e  is an upper bound, whatever the messages. A pass visits
node i after all its neighbours on one side. It takes what it can from the edges of that side,

    m[e, i](x) = max_z pairwise_e(z, x) - m[e, other end](z),

and hands S = unary'_i on in equal shares w = 1 / max(edges in, edges out) to the edges of the other side:
m[e, i] -= w S. The first can only lower the bound, the second does not change it. After a pass every edge has
the maximum 0, and the bound is sum_i (1 - w * edges out) max S_i. In a forest w = 1 / edges out: all of S
must reach the one edge towards the root, or what is known of several subtrees would arrive in parts.

A label with S = -inf is impossible; +inf in an outgoing message keeps it so for the other end.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel


@kernel
def sweep(
    forward, forest, unary, pairwise, far, in_start, in_edges, out_start, out_edges, from_in, to_out, labels,
    total,
):  # fmt: skip
    """One pass; returns the bound (-inf: no labelling is allowed) and fills ``labels``.

    ``far``: the end of each edge that comes first in this pass. ``from_in``, ``to_out`` (E, K): the messages
    of the last and of the first end. The label of i maximises its score given the labels of the nodes before
    it and the messages of those after it; ``total`` (N, K) is filled with S.
    """
    n, k = unary.shape
    bound = 0.0
    local = np.empty(k)
    for step in range(n):
        i = step if forward else n - 1 - step
        s = total[i]
        for x in range(k):
            s[x] = unary[i, x]
        for at in range(out_start[i], out_start[i + 1]):
            message = to_out[out_edges[at]]
            for x in range(k):
                s[x] += message[x]
        for x in range(k):
            local[x] = s[x]
        for at in range(in_start[i], in_start[i + 1]):
            e = in_edges[at]
            _take(forward, pairwise[e], to_out[e], from_in[e])
            label = labels[far[e]]
            for x in range(k):
                s[x] += from_in[e, x]
                local[x] += pairwise[e, label, x] if forward else pairwise[e, x, label]
        labels[i] = np.argmax(local)
        top = s.max()
        if top == -np.inf:
            return top
        n_in, n_out = in_start[i + 1] - in_start[i], out_start[i + 1] - out_start[i]
        share = 1.0 / max(n_out, 1) if forest else 1.0 / max(n_in, n_out, 1)
        bound += (1.0 - share * n_out) * top
        for at in range(out_start[i], out_start[i + 1]):
            message = to_out[out_edges[at]]
            for x in range(k):
                message[x] = np.inf if s[x] == -np.inf else message[x] - share * s[x]
    return bound


@kernel
def _take(forward, table, message, result):
    """result(x) = max_z table(z, x) - message(z), z at the low end if ``forward``."""
    k = len(result)
    if forward:
        result[:] = -np.inf
        for z in range(k):
            less = message[z]
            for x in range(k):
                result[x] = max(result[x], table[z, x] - less)
    else:
        for x in range(k):
            best = -np.inf
            for z in range(k):
                best = max(best, table[x, z] - message[z])
            result[x] = best


@kernel
def score_labels(unary, pairwise, low, high, labels):
    """The score of a labelling of the places."""
    total = 0.0
    for i in range(len(labels)):
        total += unary[i, labels[i]]
    for e in range(len(low)):
        total += pairwise[e, labels[low[e]], labels[high[e]]]
    return total


@kernel
def descend(unary, pairwise, low, high, below_start, below, above_start, above, labels, max_sweeps):
    """Iterated conditional modes: each node takes its best label given all others, until none changes.

    A node moves only to a strictly higher score; returns the number of passes.
    """
    n, k = unary.shape
    local = np.empty(k)
    for sweep_number in range(max_sweeps):
        moved = False
        for i in range(n):
            for x in range(k):
                local[x] = unary[i, x]
            for at in range(below_start[i], below_start[i + 1]):
                e = below[at]
                label = labels[low[e]]
                for x in range(k):
                    local[x] += pairwise[e, label, x]
            for at in range(above_start[i], above_start[i + 1]):
                e = above[at]
                label = labels[high[e]]
                for x in range(k):
                    local[x] += pairwise[e, x, label]
            best = np.argmax(local)
            if local[best] > local[labels[i]]:
                labels[i] = best
                moved = True
        if not moved:
            return sweep_number + 1
    return max_sweeps

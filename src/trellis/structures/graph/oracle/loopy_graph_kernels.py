# mypy: allow-untyped-defs
"""Belief propagation on an ordered graph with cycles: max-product and sum-product.

    S_i(x) = unary_i(x) + sum_{e at i} m[e, i](x)
    m[e, j](x) = max_z or log sum_z exp of  pairwise_e(z, x) + S_i(z) - m[e, i](z)          e = (i, j)

Messages have the maximum 0 and move by the share 1 - damping. Exact on forests; elsewhere of unknown error.
"""

from __future__ import annotations

import numpy as np

from trellis.core.logspace_kernels import log_sum_exp
from trellis.core.numerics import kernel


@kernel
def propagate(
    forward, use_sum, damping, unary, pairwise, below_start, below, above_start, above, to_low, to_high, total
):
    """Each node in turn sends to all its neighbours; the largest change of exp(message)."""
    n = len(unary)
    change = 0.0
    for step in range(n):
        i = step if forward else n - 1 - step
        gather(i, unary, below_start, below, above_start, above, to_low, to_high, total)
        for at in range(below_start[i], below_start[i + 1]):
            e = below[at]
            change = max(change, send(use_sum, True, damping, pairwise[e], total[i], to_high[e], to_low[e]))
        for at in range(above_start[i], above_start[i + 1]):
            e = above[at]
            change = max(change, send(use_sum, False, damping, pairwise[e], total[i], to_low[e], to_high[e]))
    for i in range(n):
        gather(i, unary, below_start, below, above_start, above, to_low, to_high, total)
    return change


@kernel
def gather(i, unary, below_start, below, above_start, above, to_low, to_high, total):
    """S_i from the messages to i."""
    k = unary.shape[1]
    for x in range(k):
        total[i, x] = unary[i, x]
    for at in range(below_start[i], below_start[i + 1]):
        for x in range(k):
            total[i, x] += to_high[below[at], x]
    for at in range(above_start[i], above_start[i + 1]):
        for x in range(k):
            total[i, x] += to_low[above[at], x]


@kernel
def send(use_sum, downwards, damping, table, total, back, message):
    """The message along one edge; impossible labels stay so. Returns its largest change."""
    k = len(total)
    terms, fresh = np.empty(k), np.empty(k)
    for x in range(k):
        for z in range(k):
            score = table[x, z] if downwards else table[z, x]
            terms[z] = -np.inf if total[z] == -np.inf else score + total[z] - back[z]
        fresh[x] = log_sum_exp(terms) if use_sum else terms.max()
    top = fresh.max()
    change = 0.0
    for x in range(k):
        new = -np.inf if fresh[x] == -np.inf else fresh[x] - top
        if new > -np.inf and message[x] > -np.inf:
            new = (1.0 - damping) * new + damping * message[x]
        change = max(change, abs(np.exp(new) - np.exp(message[x])))
        message[x] = new
    return change


@kernel
def edge_beliefs(pairwise, low, high, to_low, to_high, total, edges):
    """b_e(z, x) proportional to exp(pairwise_e + S_low - m[e, low] + S_high - m[e, high])."""
    k = total.shape[1]
    for e in range(len(low)):
        top = -np.inf
        for z in range(k):
            for x in range(k):
                a, b = total[low[e], z], total[high[e], x]
                term = -np.inf
                if a > -np.inf and b > -np.inf:
                    term = pairwise[e, z, x] + a - to_low[e, z] + b - to_high[e, x]
                edges[e, z, x] = term
                top = max(top, term)
        whole = 0.0
        for z in range(k):
            for x in range(k):
                edges[e, z, x] = np.exp(edges[e, z, x] - top) if top > -np.inf else np.nan
                whole += edges[e, z, x]
        for z in range(k):
            for x in range(k):
                edges[e, z, x] /= whole

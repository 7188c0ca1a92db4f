# mypy: allow-untyped-defs
"""Sums over all labellings of an ordered graph: exact on forests, an upper bound elsewhere.

Every node i picks one of its lower neighbours with the shares w_e (which add up to 1 over the edges e below
i): a distribution over spanning forests. With shifts d_e(x) that add up to 0 over the edges below i,

    S_i(x)   = unary_i(x) + sum_{e above i} up_e(x)
    up_e(z)  = w_e log sum_x exp((pairwise_e(z, x) + d_e(x)) / w_e + S_i(x))          e = (low, i)
    F        = sum over nodes i without lower neighbours of log sum_x exp S_i(x)  >=  log Z

F is convex in the shifts, and its least value is the tree-reweighted bound. Its gradient is made of beliefs:

    b_e(z, x) = b_low(z) p_e(x | z),    p_e(x | z) proportional to the terms of up_e(z)
    b_i(x)    = sum_e w_e sum_z b_e(z, x)
    dF / d unary_i = b_i,     dF / d pairwise_e = b_e,     dF / d d_e(x) = sum_z b_e(z, x)

On a forest each node has at most one lower neighbour: w = 1, d = 0, F = log Z, and the beliefs are marginals.
"""

from __future__ import annotations

import numpy as np

from trellis.core.logspace_kernels import exp_and_sum, log_sum_exp
from trellis.core.numerics import kernel


@kernel
def upward(unary, pairwise, low, below_start, below, above_start, above, shift, total, up):
    """F (-inf: no labelling); fills S in ``total`` (N, K) and ``up`` (E, K)."""
    n, k = unary.shape
    terms = np.empty(k)
    bound = 0.0
    for i in range(n - 1, -1, -1):
        s = total[i]
        for x in range(k):
            s[x] = unary[i, x]
        for at in range(above_start[i], above_start[i + 1]):
            message = up[above[at]]
            for x in range(k):
                s[x] += message[x]
        n_below = below_start[i + 1] - below_start[i]
        if n_below == 0:
            bound += log_sum_exp(s)
        for at in range(below_start[i], below_start[i + 1]):
            e = below[at]
            for z in range(k):
                for x in range(k):
                    terms[x] = (pairwise[e, z, x] + shift[e, x]) * n_below + s[x]
                up[e, z] = log_sum_exp(terms) / n_below
    return bound


@kernel
def downward(unary, pairwise, low, below_start, below, shift, total, up, nodes, edges):
    """Beliefs of nodes (N, K) and edges (E, K, K) from what ``upward`` filled."""
    n, k = unary.shape
    for i in range(n):
        n_below = below_start[i + 1] - below_start[i]
        if n_below == 0:
            whole = log_sum_exp(total[i])
            for x in range(k):
                nodes[i, x] = np.exp(total[i, x] - whole)
            continue
        nodes[i] = 0.0
        for at in range(below_start[i], below_start[i + 1]):
            e = below[at]
            for z in range(k):
                mass, whole = nodes[low[e], z], up[e, z] * n_below
                for x in range(k):
                    belief = 0.0
                    if mass > 0.0:
                        term = (pairwise[e, z, x] + shift[e, x]) * n_below + total[i, x]
                        belief = mass * np.exp(term - whole)
                    edges[e, z, x] = belief
                    nodes[i, x] += belief / n_below


@kernel
def draw(pairwise, low, below_start, below, total, uniforms, samples):
    """Exact samples (M, N) of a forest after ``upward``: each node given its lower neighbour."""
    n, k = total.shape
    terms = np.empty(k)
    for m in range(len(samples)):
        for i in range(n):
            for x in range(k):
                terms[x] = total[i, x]
            for at in range(below_start[i], below_start[i + 1]):
                label = samples[m, low[below[at]]]
                for x in range(k):
                    terms[x] += pairwise[below[at], label, x]
            _, whole = exp_and_sum(terms, terms)
            left = uniforms[m, i] * whole
            label = -1
            for x in range(k):
                if terms[x] > 0.0 and left >= 0.0:
                    label = x
                left -= terms[x]
            samples[m, i] = label

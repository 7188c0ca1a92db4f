# mypy: allow-untyped-defs
"""A chain whose transitions are normalised one by one: objective and gradient. Notation as in
``structures/chain/scores/local_score_kernels.py``."""

from __future__ import annotations

import math

import numpy as np

from trellis.core.logspace_kernels import exp_and_sum
from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.chain_kernels import max_length
from trellis.structures.chain.scores.linear_chain_kernels import pull_back_steps
from trellis.structures.chain.scores.local_score_kernels import score_with_horizon


@kernel
def local_gradient(design, rows, w, penalties, horizon, gold, weight, first, last, g, values):
    """values[i] = -log p(y*_i | x_i) = sum_t Z[t, y*_{t-1}] - s_t(y*_t | y*_{t-1}), and g += sum_i c_i grad.

    The gradient in s_t(k | y*_{t-1}) is p(k | y*_{t-1}) - 1[k = y*_t]. What is masked in ``g``, and the end
    scores, are for the caller to clear.
    """
    K = w.transitions.shape[0]
    longest = max_length(design.offsets, first, last)
    u, d, s, a = np.empty((longest, K)), np.empty((longest, K)), np.empty(K), np.empty((K + 1, K))
    a[:K], a[K] = w.transitions + penalties.transitions, w.start + penalties.start
    g_transitions, g_edge, w_edge = g.transitions, g.edge, w.edge
    edge_indptr, edge_indices, edge_values = design.edge_indptr, design.edge_indices, design.edge_values
    edges, one = w_edge.shape[0] > 0, edge_values.shape[0] == 1
    for i in range(first, last):
        lo = design.offsets[i]
        n = design.offsets[i + 1] - lo
        score_with_horizon(design, rows, w, horizon, i, u[:n])
        value, c = 0.0, weight[i]
        for t in range(n):
            j = K if t == 0 else gold[lo + t - 1]
            y, dt = gold[lo + t], d[t]
            for k in range(K):
                s[k] = u[t, k] + a[j, k]
            if edges and t > 0:
                for p in range(edge_indptr[lo + t], edge_indptr[lo + t + 1]):
                    x, row = 1.0 if one else edge_values[p], w_edge[edge_indices[p], j]
                    for k in range(K):
                        s[k] += x * row[k]
            top, total = exp_and_sum(s, dt)
            value += math.log(total) + (top - s[y])
            for k in range(K):
                dt[k] *= c / total
            dt[y] -= c
            if t > 0:
                for k in range(K):
                    g_transitions[j, k] += dt[k]
                if edges:
                    for p in range(edge_indptr[lo + t], edge_indptr[lo + t + 1]):
                        x, row = 1.0 if one else edge_values[p], g_edge[edge_indices[p], j]
                        for k in range(K):
                            row[k] += x * dt[k]
        values[i] = value
        pull_back_steps(design, rows, g, i, d[:n])

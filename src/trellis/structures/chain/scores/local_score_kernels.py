# mypy: allow-untyped-defs
"""Scores of a chain whose transitions are normalised one by one, from sparse features.

    s_t(k | j) = u[t, k] + a[t, j, k]          s_1(k) = u[1, k] + start[k]
    p(y_t = k | y_{t-1} = j) = exp(s_t(k | j) - Z[t, j]),      Z[t, j] = log sum_k exp s_t(k | j)

``horizon`` (R, K) is 0 where a label may still be followed by r more labels, ``-inf`` where it may not; no
rows if every label always may. It is added to u, so that no probability goes into a dead end.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.logspace_kernels import log_dot_exp
from trellis.core.numerics import kernel
from trellis.core.numerics_kernels import exp_shifted, highest
from trellis.structures.chain.scores.linear_chain_kernels import score_edges, score_steps

TINY = 1e-250  # a sum of exponentials below this may have lost terms


@kernel
def fill_horizon(pair, end, horizon):
    """horizon[0] = end;  horizon[r, j] = 0 if some k with pair[j, k] = 0 has horizon[r - 1, k] = 0."""
    R, K = horizon.shape
    for j in range(K):
        horizon[0, j] = end[j]
    for r in range(1, R):
        for j in range(K):
            best = -np.inf
            for k in range(K):
                best = max(best, pair[j, k] + horizon[r - 1, k])
            horizon[r, j] = best


@kernel
def score_with_horizon(design, rows, w, horizon, i, u):
    """Unaries of sequence i, with its horizon."""
    n, K = u.shape
    score_steps(design, rows, w, i, u)
    if horizon.shape[0] > 0:
        for t in range(n):
            for k in range(K):
                u[t, k] += horizon[n - 1 - t, k]


@kernel
def _subtract(u, j, z):
    """u[j] -= z, where a label without any successor (z = -inf) is forbidden."""
    u[j] = u[j] - z if z > -np.inf else -np.inf


@kernel
def local_scores(design, rows, w, penalties, horizon, first, last, unary, transitions):
    """Scores whose sum over the parts of y is log p(y | x), for sequences first..last-1.

    Z[t, j] belongs to the label j of step t - 1, so it goes into the unaries and the transitions stay as they
    are, shared where there are no edge features: unary[t, k] = u[t, k] - Z[t + 1, k]. With shared transitions
    exp(a) is taken once, and Z[t] costs K exponentials and a product of a matrix and a vector.
    """
    K = w.transitions.shape[0]
    shared = transitions.shape[0] == 1
    start, e, ea, shift = w.start + penalties.start, np.empty(K), np.zeros((K, K)), np.zeros(K)
    if shared:
        for j in range(K):
            shift[j] = max(highest(transitions[0, j]), -1e300)
            exp_shifted(transitions[0, j], shift[j], ea[j])
    for i in range(first, last):
        lo, n = design.offsets[i], design.offsets[i + 1] - design.offsets[i]
        u, a = unary[lo : lo + n], transitions if shared else transitions[lo : lo + n]
        score_with_horizon(design, rows, w, horizon, i, u)
        if n == 0:
            continue
        if not shared:
            score_edges(design, w, penalties, i, a)
        z = log_dot_exp(u[0], start)
        for k in range(K):
            _subtract(u[0], k, z)
        for t in range(1, n):
            ut, top = u[t], highest(u[t])
            if shared and top > -np.inf:
                exp_shifted(ut, top, e)
            for j in range(K):
                total = 0.0
                if shared:
                    for k in range(K):
                        total += ea[j, k] * e[k]
                if total > TINY:
                    z = math.log(total) + shift[j] + top
                else:
                    z = log_dot_exp(ut, a[0 if shared else t, j])
                _subtract(u[t - 1], j, z)

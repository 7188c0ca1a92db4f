# mypy: allow-untyped-defs
"""The marginals of a batch of chains and their derivative, each sequence on its own.

The memory layout is that of ``chain_objective_kernels``. With mu = d log Z / d scores the
marginals, the derivative of <v, mu> in the scores is the product of the Hessian of log Z with v:

    H v = Cov( L, 1[part] ),      L(y) = sum of v over the parts of y

This is the covariance of ``risk_kernels``, for costs on transitions too; it keeps q of all steps, O(n K^2)
memory, where the risk needs O(n K), so it is a kernel of its own. In the same notation, with q_t[j, k] =
p(y_{t-1} = j | y_t = k) and g_t[j, k] the cost of a transition,

    r[t, k] = E[ cost up to t | y_t = k ] = c_t(k) + sum_j q_t[j, k] (r[t-1, j] + g_t[j, k])
    x_t[j, k] = p_t(k) (c_t(k) + g_t[j, k] - m_t) + b[t, k],     m_t the mean of c_t + g_t
    b[t-1, j] = sum_k q_t[j, k] x_t[j, k]                        (cost of steps after t-1, above its mean)

    unary (t, k):          p_t(k) d_t(k) + b[t, k],             d_t = r[t] - its mean under p_t
    transition (t, j, k):  q_t[j, k] (p_t(k) d_{t-1}(j) + x_t[j, k])

Parts of probability 0 have covariance 0 whatever their cost.
"""

from __future__ import annotations

import numpy as np

from trellis.core.logspace_kernels import normalise_logs
from trellis.core.numerics import kernel
from trellis.neural.chain.chain_objective_kernels import load_matrices, load_rows
from trellis.structures.chain.oracle.backward_filter_kernels import (
    condition,
    exp_columns,
    posterior_at_end,
)
from trellis.structures.chain.oracle.chain_kernels import exp_transitions, forward_backward, max_length
from trellis.structures.chain.problem.objective_kernels import new_work


@kernel
def marginals_batch(
    unary, transitions, start, end, begins, offsets, first, last, log_z, marginals, pairs
):  # fmt: skip
    """log Z (S,), P(y_t = k) into ``marginals`` (R, K), pairwise marginals into ``pairs``: (S, K, K) summed
    over the steps of each sequence where it has S rows and transitions are shared, else (R, K, K)."""
    K = unary.shape[1]
    shared = transitions.shape[0] == 1
    work = new_work(max_length(offsets, first, last), K, not shared)
    floor = -1.0
    if shared:
        load_matrices(transitions, work.a)
        floor = exp_transitions(work.a, work.ea, work.ea_t, work.shift)
    for i in range(first, last):
        n, row = offsets[i + 1] - offsets[i], begins[i]
        log_z[i] = 0.0
        if n == 0:
            continue
        load_rows(unary[row : row + n], work.u)
        if not shared:
            load_matrices(transitions[row : row + n], work.a)
            floor = exp_transitions(work.a[:n], work.ea, work.ea_t, work.shift)
        m = 1 if shared else n
        work.outer[:] = 0.0
        work.d_trans[:m] = 0.0
        log_z[i] = forward_backward(
            work.u[:n], work.a[:m], start, end, floor, work.ea[:m], work.ea_t[:m], work.shift, work.alpha,
            work.e, work.scale, work.beta, work.d_unary[:n], work.outer, work.d_trans[:m],
        )  # fmt: skip
        if shared and floor >= 0.0:
            for j in range(K):
                for k in range(K):
                    work.d_trans[0, j, k] += work.outer[j, k] * work.ea[0, j, k]
        at = i if shared else row
        load_rows(work.d_unary[:n], marginals[row : row + n])
        load_matrices(work.d_trans[:m], pairs[at : at + m])


@kernel
def subtract_gold(unary, transitions, start, end, begins, offsets, gold, values, d_unary, d_pairs):
    """values -= s(y*), and the indicators of y* from the marginals: log Z becomes the log objective."""
    shared = transitions.shape[0] == 1
    for i in range(len(begins)):
        row, lo, n = begins[i], offsets[i], offsets[i + 1] - offsets[i]
        if n == 0:
            continue
        total = start[gold[lo]] + end[gold[lo + n - 1]]
        for t in range(n):
            k = gold[lo + t]
            total += unary[row + t, k]
            d_unary[row + t, k] -= 1.0
            if t > 0:
                j = gold[lo + t - 1]
                total += transitions[0 if shared else row + t, j, k]
                d_pairs[i if shared else row + t, j, k] -= 1.0
        values[i] -= total


@kernel
def covariance_batch(
    unary, transitions, start, end, begins, offsets, first, last, v_unary, v_pairs, d_unary, d_pairs
):  # fmt: skip
    """H v into ``d_unary`` and ``d_pairs``, which come as zeros; shapes as those of the marginals."""
    shared = transitions.shape[0] == 1
    work = new_work(max_length(offsets, first, last), unary.shape[1], not shared)
    if shared:
        load_matrices(transitions, work.a)
    for i in range(first, last):
        n, row = offsets[i + 1] - offsets[i], begins[i]
        if n == 0:
            continue
        load_rows(unary[row : row + n], work.u)
        if not shared:
            load_matrices(transitions[row : row + n], work.a)
        m = 1 if shared else n
        at = i if shared else row
        covariance(
            work.u[:n], work.a[:m], start, end, v_unary[row : row + n], v_pairs[at : at + m],
            d_unary[row : row + n], d_pairs[at : at + m],
        )  # fmt: skip


@kernel
def covariance(u, a, start, end, cost, pair_cost, d_unary, d_pairs):
    """Cov(L, part) of one sequence, added to ``d_unary`` (n, K) and ``d_pairs`` (1 or n, K, K)."""
    n, K = u.shape
    step = 0 if a.shape[0] == 1 else 1
    f, r = np.empty((n, K)), np.empty((n, K))
    shift, e, q = np.empty(K), np.empty((K, K)), np.empty((n, K, K))
    weight, p, b = np.empty(K), np.empty(K), np.zeros(K)
    for k in range(K):
        f[0, k] = start[k] + u[0, k]
        r[0, k] = cost[0, k]
    normalise_logs(f[0])
    if step == 0:
        exp_columns(a[0], shift, e)
    for t in range(1, n):
        if step:
            exp_columns(a[t], shift, e)
        condition(f[t - 1], a[t * step], shift, e, weight, f[t], q[t])
        _forward_costs(q[t], r[t - 1], cost[t], pair_cost[t * step], r[t])
        for k in range(K):
            f[t, k] += u[t, k]
        normalise_logs(f[t])
    posterior_at_end(f[n - 1], end, p)
    _centre(p, r[n - 1])
    for t in range(n - 1, 0, -1):
        for k in range(K):
            d_unary[t, k] += p[k] * r[t, k] + b[k]
        _step_back(q[t], cost[t], pair_cost[t * step], r[t - 1], p, b, weight, shift, d_pairs[t * step])
    for k in range(K):
        d_unary[0, k] += p[k] * r[0, k] + b[k]


@kernel
def _forward_costs(q, before, cost, pair_cost, r):
    """r[k] = c(k) + sum_j q[j, k] (before[j] + g[j, k]), shifted so that nothing grows with the length."""
    K = r.shape[0]
    for k in range(K):
        r[k] = cost[k]
    for j in range(K):
        for k in range(K):
            if q[j, k] > 0.0:
                r[k] += q[j, k] * (before[j] + pair_cost[j, k])
    level = r[0]
    for k in range(K):
        r[k] -= level


@kernel
def _centre(p, r):
    mean = 0.0
    for k in range(p.shape[0]):
        mean += p[k] * r[k]
    for k in range(p.shape[0]):
        r[k] -= mean


@kernel
def _step_back(q, cost, pair_cost, before, p, b, p_before, b_before, d_pairs):
    """From t to t - 1: ``p`` and ``b`` in place, ``before`` (r at t - 1) centred, transition covariances."""
    K = p.shape[0]
    mean = 0.0
    for j in range(K):
        p_before[j] = 0.0
        b_before[j] = 0.0
        for k in range(K):
            joint = q[j, k] * p[k]
            p_before[j] += joint
            mean += joint * (cost[k] + pair_cost[j, k])
    _centre(p_before, before)
    for j in range(K):
        for k in range(K):
            x = q[j, k] * (p[k] * (cost[k] + pair_cost[j, k] - mean) + b[k])
            b_before[j] += x
            d_pairs[j, k] += q[j, k] * p[k] * before[j] + x
    for k in range(K):
        p[k] = p_before[k]
        b[k] = b_before[k]

# mypy: allow-untyped-defs
"""The expected loss (risk) of one chain and its gradient, exactly, in O(n K^2) time and O(n K) memory.

For a loss that adds up over the steps, L(y) = sum_t cost[t, y_t], and p(y) proportional to exp(score(y)):

    d E[L] / d score of a part  =  Cov(L, 1[part])  =  p(part) (E[L | part] - E[L])

Running the filter over dual numbers (a value and its derivative in the direction of the cost) gives, next to
the filter f,

    r[t, k] = E[ cost of steps 0..t | y_t = k ] = cost[t, k] + sum_j q_t[j, k] r[t-1, j]       (forward)
    b[t, k] = E[ cost of steps t+1.. above its mean ; y_t = k ]                                 (backward)
    b[t-1, j] = sum_k q_t[j, k] (p_t(k) c_t(k) + b[t, k]),      c_t(k) = cost[t, k] - sum_l p_t(l) cost[t, l]

With d_t(k) = r[t, k] - sum_l p_t(l) r[t, l], the covariances are

    unary (t, k):          p_t(k) d_t(k) + b[t, k]
    transition (t, j, k):  q_t[j, k] ( p_t(k) (d_{t-1}(j) + c_t(k)) + b[t, k] )

Only deviations enter, so r may be shifted at every step by a number that does not depend on k: nothing grows
with n.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.backward_filter_kernels import (
    condition,
    exp_columns,
    filter_forward,
    posterior_at_end,
)


@kernel
def expected_loss(u, a, start, end, cost, d_unary, d_trans, d_start, d_end, weight):
    """E[L]; adds ``weight`` * Cov(L, part) into the ``d_`` arrays.

    ``d_trans`` is (1, K, K), summed over the steps, or (n, K, K). Returns ``-inf`` and adds nothing when
    there is no allowed labelling. ``cost`` (n, K) must be finite.
    """
    n, K = u.shape
    if n == 0:
        return 0.0
    f, r = np.empty((n, K)), np.empty((n, K))
    shift, e, q, scratch = np.empty(K), np.empty((K, K)), np.empty((K, K)), np.empty((2, K))
    if filter_forward(u, a, start, f, shift, e, scratch[0], q, cost, r) == -np.inf:
        return -np.inf
    p, b = np.empty(K), np.zeros(K)
    if posterior_at_end(f[n - 1], end, p) == -np.inf:
        return -np.inf
    step = 0 if a.shape[0] == 1 else 1
    d_step = 0 if d_trans.shape[0] == 1 else 1
    total = _centre(p, r[n - 1], cost[n - 1])
    for k in range(K):
        d_end[k] += weight * p[k] * r[n - 1, k]
    for t in range(n - 1, 0, -1):
        for k in range(K):
            d_unary[t, k] += weight * (p[k] * r[t, k] + b[k])
        if step:
            exp_columns(a[t], shift, e)
        condition(f[t - 1], a[t * step], shift, e, scratch[0], scratch[1], q)
        total += _step_back(q, cost[t], r[t - 1], cost[t - 1], p, b, scratch, d_trans[t * d_step], weight)
    for k in range(K):
        covariance = weight * (p[k] * r[0, k] + b[k])
        d_unary[0, k] += covariance
        d_start[k] += covariance
    return total


@kernel
def _centre(p, r, cost):
    """r -= sum p r in place (r becomes d of the module docstring); returns the mean cost of this step."""
    mean, mean_cost = 0.0, 0.0
    for k in range(p.shape[0]):
        mean += p[k] * r[k]
        mean_cost += p[k] * cost[k]
    for k in range(p.shape[0]):
        r[k] -= mean
    return mean_cost


@kernel
def _step_back(q, cost, r_before, cost_before, p, b, scratch, d_trans, weight):
    """From t to t - 1: ``p`` and ``b`` in place, transition covariances; returns the mean cost at t - 1."""
    K = p.shape[0]
    mean_cost = 0.0
    for k in range(K):
        mean_cost += p[k] * cost[k]
    onward, p_before = scratch[0], scratch[1]
    for k in range(K):
        onward[k] = p[k] * (cost[k] - mean_cost) + b[k]
    for j in range(K):
        mass, tail = 0.0, 0.0
        for k in range(K):
            mass += q[j, k] * p[k]
            tail += q[j, k] * onward[k]
        p_before[j] = mass
        b[j] = tail
    mean_before = _centre(p_before, r_before, cost_before)
    for j in range(K):
        deviation = r_before[j]
        for k in range(K):
            d_trans[j, k] += weight * q[j, k] * (p[k] * deviation + onward[k])
    for k in range(K):
        p[k] = p_before[k]
    return mean_before

# mypy: allow-untyped-defs
"""Exact samples (forward filter, backward sample) and the entropy of one chain.

The notation is that of :mod:`.backward_filter_kernels`:

    y_{n-1} ~ p_{n-1},    y_{t-1} ~ q_t[., y_t]
    H = H(p_{n-1}) + sum_t sum_k p_t(k) H(q_t[., k])          (the chain rule, backwards: every term is >= 0)

Random numbers come in as uniforms, one per sample and step, so a seed gives the same samples for any number
of threads.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.backward_filter_kernels import (
    condition,
    exp_columns,
    filter_forward,
    filter_log_partition,
    posterior_at_end,
)


@kernel
def sample(u, a, start, end, uniforms, f, paths):
    """One labelling per row of ``uniforms`` (m, n) into ``paths`` (m, n); returns False when there is none.

    Scratch: ``f`` (n, K).
    """
    n, K = u.shape
    if n == 0:
        return True
    step = 0 if a.shape[0] == 1 else 1
    weight = np.empty(K)
    if filter_log_partition(u, a, start, end, f) == -np.inf:
        return False
    for i in range(paths.shape[0]):
        label = _draw(f[n - 1], end, uniforms[i, n - 1], weight)
        paths[i, n - 1] = label
        for t in range(n - 1, 0, -1):
            label = _draw(f[t - 1], a[t * step, :, label], uniforms[i, t - 1], weight)
            paths[i, t - 1] = label
    return True


@kernel
def _draw(f, extra, uniform, weight):
    """k with probability proportional to exp(f[k] + extra[k]), by inverting the distribution function.

    The last possible k answers for the rounding of the sum, so an impossible one is never drawn.
    """
    K = f.shape[0]
    top = -np.inf
    for k in range(K):
        weight[k] = f[k] + extra[k]
        top = max(top, weight[k])
    total = 0.0
    for k in range(K):
        weight[k] = math.exp(weight[k] - top)
        total += weight[k]
    threshold = uniform * total
    reached = 0.0
    last = 0
    for k in range(K):
        if weight[k] > 0.0:
            last = k
            reached += weight[k]
            if reached > threshold:
                break
    return last


@kernel
def entropy(u, a, start, end, f):
    """-sum_y p(y) log p(y), or ``-inf`` when there is no allowed labelling. Scratch: ``f`` (n, K)."""
    n, K = u.shape
    if n == 0:
        return 0.0
    step = 0 if a.shape[0] == 1 else 1
    shift, e, q = np.empty(K), np.empty((K, K)), np.empty((K, K))
    weight, arrive, p, before = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    if filter_forward(u, a, start, f, shift, e, weight, q, f[:0], f[:0]) == -np.inf:
        return -np.inf
    if posterior_at_end(f[n - 1], end, p) == -np.inf:
        return -np.inf
    total = 0.0
    for k in range(K):
        if p[k] > 0.0:
            total -= p[k] * math.log(p[k])
    for t in range(n - 1, 0, -1):
        if step:
            exp_columns(a[t], shift, e)
        condition(f[t - 1], a[t * step], shift, e, weight, arrive, q)
        for j in range(K):
            mass = 0.0
            for k in range(K):
                joint = q[j, k] * p[k]
                if joint > 0.0:
                    total -= joint * math.log(q[j, k])
                mass += joint
            before[j] = mass
        p, before = before, p
    return total

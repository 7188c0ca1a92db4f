# mypy: allow-untyped-defs
"""A chain read backwards: filter forward, then step back by conditional probabilities.

The filter keeps normalised log-probabilities, so a chain of a million steps with scores of 1e4 is as exact
as a short one:

    f[0, k] = start[k] + u[0, k] - log-sum                f[t, k] = u[t, k] + arrive[t, k] - log-sum
    arrive[t, k] = log sum_j exp( f[t-1, j] + a[t, j, k] )
    q[j, k] = p(y_{t-1} = j | y_t = k) = exp( f[t-1, j] + a[t, j, k] - arrive[t, k] )

and the posterior runs backwards, p_{t-1}(j) = sum_k q[j, k] p_t(k), from p_{n-1}(k) proportional to
exp(f[n-1, k] + end[k]). Entropy, samples and covariances are read off q and p without any difference of
large numbers.

exp(f + a) is computed as exp(f - max f) * exp(a - column max), the second factor once for a shared ``a``.
What underflows there is below 1e-308; a column whose sum is not far above that (``TINY``) is computed again
with its own maximum shifted out.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.logspace_kernels import exp_and_sum, normalise_logs
from trellis.core.numerics import kernel

TINY = 1e-250


@kernel
def exp_columns(a, shift, e):
    """e[j, k] = exp(a[j, k] - shift[k]), shift[k] = max_j a[j, k]; a column of -inf gives zeros."""
    K = a.shape[0]
    for k in range(K):
        shift[k] = a[0, k]
    for j in range(1, K):
        for k in range(K):
            shift[k] = max(shift[k], a[j, k])
    for k in range(K):
        if shift[k] == -np.inf:
            shift[k] = 0.0
    for j in range(K):
        for k in range(K):
            e[j, k] = math.exp(a[j, k] - shift[k])


@kernel
def condition(f, a, shift, e, weight, arrive, q):
    """One step of the filter: ``arrive`` (K,) and ``q`` (K, K) from f = f[t-1] and a = a[t].

    ``shift`` and ``e`` are those of :func:`exp_columns`; ``weight`` (K,) is scratch. A label that cannot be
    reached has arrive ``-inf`` and a column of zeros.
    """
    K = f.shape[0]
    top = -np.inf
    for k in range(K):
        top = max(top, f[k])
        arrive[k] = 0.0
    for j in range(K):
        w = math.exp(f[j] - top)
        weight[j] = w
        for k in range(K):
            q[j, k] = w * e[j, k]
            arrive[k] += q[j, k]
    for k in range(K):
        weight[k] = 1.0 / arrive[k] if arrive[k] > TINY else 0.0
    for j in range(K):
        for k in range(K):
            q[j, k] *= weight[k]
    for k in range(K):
        if weight[k] > 0.0:
            arrive[k] = math.log(arrive[k]) + shift[k] + top
        else:
            arrive[k] = _condition_column(f, a[:, k], q[:, k])


@kernel
def _condition_column(f, column, q):
    """The same for one column, with the maximum of f + column shifted out: safe for scores of any size."""
    K = f.shape[0]
    for j in range(K):
        q[j] = f[j] + column[j]
    top, total = exp_and_sum(q, q)
    if total == 0.0:
        return -np.inf
    for j in range(K):
        q[j] /= total
    return top + math.log(total)


@kernel
def posterior_at_end(f, end, p):
    """p(k) = exp(f[k] + end[k] - log-sum); returns the log-sum, ``-inf`` when no label may end the chain."""
    for k in range(f.shape[0]):
        p[k] = f[k] + end[k]
    log_total = normalise_logs(p)
    for k in range(f.shape[0]):
        p[k] = math.exp(p[k])
    return log_total


@kernel
def filter_forward(u, a, start, f, shift, e, weight, q, cost, r):
    """Fill ``f`` (n, K); returns the sum of the log-sums, ``-inf`` if no prefix of some length is allowed.

    log Z is that plus the log-sum of :func:`posterior_at_end`. ``r`` (n, K), unless it is empty, gets the
    expected costs of prefixes (:mod:`.risk_kernels`), up to a constant for each step. The other arrays are
    scratch, see :func:`condition`.
    """
    n, K = u.shape
    step = 0 if a.shape[0] == 1 else 1
    dual = r.shape[0] > 0
    for k in range(K):
        f[0, k] = start[k] + u[0, k]
        if dual:
            r[0, k] = cost[0, k]
    log_total = normalise_logs(f[0])
    if step == 0:
        exp_columns(a[0], shift, e)
    for t in range(1, n):
        if log_total == -np.inf:
            return log_total
        if step:
            exp_columns(a[t], shift, e)
        condition(f[t - 1], a[t * step], shift, e, weight, f[t], q)
        for k in range(K):
            f[t, k] += u[t, k]
        log_total += normalise_logs(f[t])
        if dual:
            _expect_costs(f[t], q, cost[t], r[t - 1], r[t])
    return log_total


@kernel
def _expect_costs(f, q, cost, before, r):
    """r[k] = cost[k] + sum_j q[j, k] before[j], shifted to 0 at the most probable label."""
    K = f.shape[0]
    likely = 0
    for k in range(K):
        r[k] = cost[k]
        likely = k if f[k] > f[likely] else likely
    for j in range(K):
        for k in range(K):
            r[k] += q[j, k] * before[j]
    level = r[likely]
    for k in range(K):
        r[k] -= level


@kernel
def filter_log_partition(u, a, start, end, f):
    """log Z of a chain of at least one step, ``-inf`` when no labelling is allowed. Scratch: ``f`` (n, K)."""
    n, K = u.shape
    p = np.empty(K)
    log_z = filter_forward(u, a, start, f, np.empty(K), np.empty((K, K)), p, np.empty((K, K)), f[:0], f[:0])
    if log_z == -np.inf:
        return log_z
    return log_z + posterior_at_end(f[n - 1], end, p)


@kernel
def filter_marginals(u, a, start, end, f, marginals, pairs, pairs_per_step):
    """log Z and the marginals of a chain of at least one step, for scores of any size. Scratch: ``f`` (n, K).

    P(y_t = k) = p_t(k) into ``marginals`` (n, K), P(y_{t-1} = j, y_t = k) = q_t[j, k] p_t(k) into ``pairs``:
    written per step (n, K, K), or added up in (1, K, K). Nothing is written when no labelling is allowed.
    """
    n, K = u.shape
    step = 0 if a.shape[0] == 1 else 1
    shift, e, q = np.empty(K), np.empty((K, K)), np.empty((K, K))
    weight, arrive = np.empty(K), np.empty(K)
    log_z = filter_forward(u, a, start, f, shift, e, weight, q, f[:0], f[:0])
    if log_z == -np.inf:
        return log_z
    log_z += posterior_at_end(f[n - 1], end, weight)
    if log_z == -np.inf:
        return log_z
    for k in range(K):
        marginals[n - 1, k] = weight[k]
    for t in range(n - 1, 0, -1):
        if step:
            exp_columns(a[t], shift, e)
        condition(f[t - 1], a[t * step], shift, e, weight, arrive, q)
        p, before = marginals[t], marginals[t - 1]
        block = pairs[t if pairs_per_step else 0]
        for j in range(K):
            mass = 0.0
            for k in range(K):
                joint = q[j, k] * p[k]
                block[j, k] = joint if pairs_per_step else block[j, k] + joint
                mass += joint
            before[j] = mass
    if pairs_per_step:
        for j in range(K):
            for k in range(K):
                pairs[0, j, k] = 0.0
    return log_z

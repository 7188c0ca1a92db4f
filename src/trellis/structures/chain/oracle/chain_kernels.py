# mypy: allow-untyped-defs, disable-error-code="call-arg"
"""The two dynamic programmes of one chain: max-plus (Viterbi) and sum-product (forward-backward).

``u``: (n, K) unaries of the sequence. ``a``: (1, K, K) shared transitions, or (n, K, K) where row t leads
into step t. ``start``, ``end``: (K,). ``-inf`` forbids. All scratch comes from the caller, who reuses it
from sequence to sequence.

Sum-product runs on *scaled probabilities*: exp of each unary row after subtracting its maximum, exp of the
transitions after subtracting theirs, and messages normalised at every step. That costs K exponentials per
step instead of the K^2 of a log-space recursion. It is exact up to rounding unless a positive message
underflows. A product of three factors above ``TINY`` = 1e-100 cannot underflow, so at a positive factor below
it the kernel gives up (NaN), and the caller uses the log-space path, which is slower and always right.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.numerics import kernel, max_kernel
from trellis.core.numerics_kernels import exp_shifted, highest, lowest
from trellis.structures.chain.oracle.backward_filter_kernels import filter_marginals

TINY = 1e-100
RANGE = 230.0  # exp(-RANGE) is just above TINY


@kernel
def max_length(offsets, first, last):
    """The length of the longest of the sequences first..last-1."""
    most = 0
    for i in range(first, last):
        most = max(most, offsets[i + 1] - offsets[i])
    return most


@kernel
def lanes(K):
    """K rounded up to whole SIMD registers. Messages have that many entries; those beyond K are always 0."""
    return (K + 3) // 4 * 4


@max_kernel
def viterbi(u, a, start, end, v, path):
    """Best labelling into ``path`` (n,), its score returned (-inf if none is allowed). ``v``: (n, K) scratch.

    v[t, k] = u[t, k] + max_j (v[t-1, j] + a[t, j, k]). No back pointers are kept: the backward walk asks
    again for the best predecessor of the one label it is at. Ties go to the smallest label, from the last
    step backwards.
    """
    n, K = u.shape
    if n == 0:
        return 0.0
    step = 0 if a.shape[0] == 1 else 1
    v0, u0 = v[0], u[0]
    for k in range(K):
        v0[k] = start[k] + u0[k]
    for t in range(1, n):
        vp, vt, ut, at = v[t - 1], v[t], u[t], a[t * step]
        for k in range(K):
            vt[k] = -np.inf
        j = 0
        while j + 3 < K:
            x0, x1, x2, x3 = vp[j], vp[j + 1], vp[j + 2], vp[j + 3]
            for k in range(K):
                y0 = x0 + at[j, k]
                y1 = x1 + at[j + 1, k]
                y2 = x2 + at[j + 2, k]
                y3 = x3 + at[j + 3, k]
                y0 = y1 if y1 > y0 else y0
                y2 = y3 if y3 > y2 else y2
                y0 = y2 if y2 > y0 else y0
                vt[k] = y0 if y0 > vt[k] else vt[k]
            j += 4
        while j < K:
            x0 = vp[j]
            for k in range(K):
                y0 = x0 + at[j, k]
                vt[k] = y0 if y0 > vt[k] else vt[k]
            j += 1
        for k in range(K):
            vt[k] += ut[k]
    last = v[n - 1]
    best, label = -np.inf, 0
    for k in range(K):
        if last[k] + end[k] > best:
            best, label = last[k] + end[k], k
    path[n - 1] = label
    for t in range(n - 1, 0, -1):
        vp, at = v[t - 1], a[t * step]
        top, previous = -np.inf, 0
        for j in range(K):
            if vp[j] + at[j, label] > top:
                top, previous = vp[j] + at[j, label], j
        label = previous
        path[t - 1] = label
    return best


@kernel
def score_labels(u, a, start, end, labels):
    """start[y_1] + sum_t u[t, y_t] + sum_t a[t, y_{t-1}, y_t] + end[y_n]."""
    n = u.shape[0]
    if n == 0:
        return 0.0
    step = 0 if a.shape[0] == 1 else 1
    total = start[labels[0]] + u[0, labels[0]] + end[labels[n - 1]]
    for t in range(1, n):
        total += u[t, labels[t]] + a[t * step, labels[t - 1], labels[t]]
    return total


@kernel
def lost(x, e):
    """Whether a score that is not -inf has become a probability below TINY."""
    for k in range(x.shape[0]):
        if e[k] < TINY and x[k] > -np.inf:
            return True
    return False


@kernel
def exp_transitions(a, ea, ea_t, shift):
    """ea = exp(a - shift), and its transpose; returns the smallest entry of ``ea`` ("floor").

    ``shift`` (1,) or (n,): the maximum of each matrix. A floor of 0 says that something is forbidden; -1,
    that scaled messages must not use ``ea``, for the finite scores span more than RANGE. ``ea`` and ``ea_t``
    have ``lanes(K)`` rows and columns and come with zeros beyond K.
    """
    m, K = a.shape[0], a.shape[1]
    floor, safe = 1.0, True
    for t in range(m):
        top = -np.inf
        for j in range(K):
            top = max(top, highest(a[t, j]))
        if top == -np.inf:
            top = 0.0
        shift[t] = top
        for j in range(K):
            exp_shifted(a[t, j], top, ea[t, j])
            if lost(a[t, j], ea[t, j]):
                safe = False
            for k in range(K):
                ea_t[t, k, j] = ea[t, j, k]
            floor = min(floor, lowest(ea[t, j, :K]))
    return floor if safe else -1.0


@kernel
def _exp_unaries(u, start, end, alpha, e):
    """e[t] = exp(u[t] - max u[t]), start and end scores added to the first and last row. Rows of ``u`` may
    be K or lanes(K) long, -inf beyond K.

    Returns the sum of the maxima (-inf: a step has no allowed label; NaN: a probability was lost) and the
    largest spread within a row, inf where something is forbidden.
    """
    n, width = u.shape
    K = start.shape[0]
    total, spread = 0.0, 0.0
    for t in range(n):
        ut, et = u[t], e[t]
        if t == 0 or t == n - 1:
            ut = alpha[t, :width]  # the message is not there yet: use its row as scratch
            for k in range(width):
                ut[k] = u[t, k]
            if t == 0:
                for k in range(K):
                    ut[k] += start[k]
            if t == n - 1:
                for k in range(K):
                    ut[k] += end[k]
        top = highest(ut)
        if top == -np.inf:
            return -np.inf, spread
        across = top - lowest(ut[:K])
        spread = max(spread, across)
        exp_shifted(ut, top, et)
        if not across < RANGE and lost(ut, et):
            return np.nan, spread
        total += top
    return total, spread


@kernel
def scaled_forward(u, start, end, ea_t, shift, floor, alpha, e, scale):
    """Forward messages; returns log Z, -inf if no labelling is allowed, NaN if scaling is not safe.

    e[t] = exp(u[t] - max u[t]), with start and end scores;  alpha[t] = (alpha[t-1] ea) * e[t] / c_{t-1};
    c_t = sum alpha[t], scale[t] = 1 / c_t;  log Z = sum_t log c_t + max u[t] + shift.

    The normalised message is alpha[t] * scale[t]: dividing by the sum of the step *before* keeps the
    division out of the chain of steps that wait for each other.
    """
    n, size = u.shape[0], e.shape[1]
    step = 0 if ea_t.shape[0] == 1 else 1
    log_z, spread = _exp_unaries(u, start, end, alpha, e)
    if not log_z > -np.inf:
        return log_z
    a0, e0, c = alpha[0], e[0], 0.0
    for k in range(size):
        a0[k] = e0[k]
        c += e0[k]
    r = 1.0 / c
    scale[0] = r
    for t in range(1, n):
        before, at, et, M = alpha[t - 1], alpha[t], e[t], ea_t[t * step]
        c = 0.0
        for j in range(0, size, 4):
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for k in range(size):
                x = before[k]
                s0 += x * M[j, k]
                s1 += x * M[j + 1, k]
                s2 += x * M[j + 2, k]
                s3 += x * M[j + 3, k]
            s0 *= et[j] * r
            s1 *= et[j + 1] * r
            s2 *= et[j + 2] * r
            s3 *= et[j + 3] * r
            at[j], at[j + 1], at[j + 2], at[j + 3] = s0, s1, s2, s3
            c += (s0 + s1) + (s2 + s3)
        if c < TINY:
            return -np.inf if c == 0.0 else np.nan
        r = 1.0 / c
        scale[t] = r
        log_z += shift[t * step]
    for t in range(n):
        log_z -= math.log(scale[t])
    # A message is at least floor * exp(-spread): where that is above TINY none can have been lost.
    if not floor * math.exp(-spread) > TINY and lost_message(alpha[:n], scale):
        return np.nan
    return log_z


@kernel
def lost_message(alpha, scale):
    """Whether a normalised message has a positive entry below TINY."""
    for t in range(alpha.shape[0]):
        lost = 0.0
        for k in range(alpha.shape[1]):
            x = alpha[t, k] * scale[t]
            lost += 1.0 if (x < TINY and x > 0.0) else 0.0
        if lost > 0.0:
            return True
    return False


@kernel
def scaled_backward(ea, alpha, e, scale, beta, marginals):
    """Backward messages, folded into what the marginals need.

    beta[n-1] = 1 / c_{n-1};  w[t] = e[t] * beta[t] / c_{t-1} replaces e[t];  beta[t-1] = ea w[t];
    P(y_t = k) = alpha[t, k] beta[t, k] into ``marginals``, and P(y_{t-1} = j, y_t = k) = alpha[t-1, j]
    ea[j, k] w[t, k]. Labels that no forward message reaches are dropped from w: they carry no probability,
    and their beta may be as large as it likes.
    """
    n, size = alpha.shape
    step = 0 if ea.shape[0] == 1 else 1
    last, w, before = alpha[n - 1], e[n - 1], scale[n - 2] if n > 1 else 1.0
    for k in range(size):
        beta[k] = scale[n - 1] if last[k] > 0.0 else 0.0
        w[k] *= beta[k] * before
    for k in range(marginals.shape[1]):
        marginals[n - 1, k] = last[k] * beta[k]
    for t in range(n - 2, -1, -1):
        at, et, w, mt, M = alpha[t], e[t], e[t + 1], marginals[t], ea[(t + 1) * step]
        before = scale[t - 1] if t > 0 else 1.0
        for j in range(0, size, 4):
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for k in range(size):
                x = w[k]
                s0 += x * M[j, k]
                s1 += x * M[j + 1, k]
                s2 += x * M[j + 2, k]
                s3 += x * M[j + 3, k]
            s0 = s0 if at[j] > 0.0 else 0.0
            s1 = s1 if at[j + 1] > 0.0 else 0.0
            s2 = s2 if at[j + 2] > 0.0 else 0.0
            s3 = s3 if at[j + 3] > 0.0 else 0.0
            beta[j], beta[j + 1], beta[j + 2], beta[j + 3] = s0, s1, s2, s3
            et[j] *= s0 * before
            et[j + 1] *= s1 * before
            et[j + 2] *= s2 * before
            et[j + 3] *= s3 * before
        for k in range(mt.shape[0]):
            mt[k] = at[k] * beta[k]


@kernel
def add_outer(alpha, w, outer):
    """outer += sum_t alpha[t-1] w[t]^T, which times ea are the summed pairwise marginals; four steps and two
    rows at a time (``lanes(K)`` is even)."""
    n, K = alpha.shape
    t = 1
    while t + 3 < n:
        a0, a1, a2, a3 = alpha[t - 1], alpha[t], alpha[t + 1], alpha[t + 2]
        w0, w1, w2, w3 = w[t], w[t + 1], w[t + 2], w[t + 3]
        for j in range(0, K, 2):
            x0, x1, x2, x3 = a0[j], a1[j], a2[j], a3[j]
            y0, y1, y2, y3 = a0[j + 1], a1[j + 1], a2[j + 1], a3[j + 1]
            row, below = outer[j], outer[j + 1]
            for k in range(K):
                row[k] += (x0 * w0[k] + x1 * w1[k]) + (x2 * w2[k] + x3 * w3[k])
                below[k] += (y0 * w0[k] + y1 * w1[k]) + (y2 * w2[k] + y3 * w3[k])
        t += 4
    while t < n:
        a0, w0 = alpha[t - 1], w[t]
        for j in range(K):
            x0 = a0[j]
            row = outer[j]
            for k in range(K):
                row[k] += x0 * w0[k]
        t += 1


@kernel
def pairwise_steps(ea, alpha, w, pairs):
    """pairs[t, j, k] = P(y_{t-1} = j, y_t = k) for t >= 1; row 0 is zero."""
    n, K = alpha.shape[0], pairs.shape[1]
    step = 0 if ea.shape[0] == 1 else 1
    pairs[0] = 0.0
    for t in range(1, n):
        m = ea[t * step]
        for j in range(K):
            for k in range(K):
                pairs[t, j, k] = alpha[t - 1, j] * m[j, k] * w[t, k]


@kernel
def forward_backward(
    u, a, start, end, floor, ea, ea_t, shift, alpha, e, scale, beta, marginals, outer, pairs
):
    """log Z and the marginals of one sequence, by scaled messages where they are safe and in log space
    where not.

    ``floor, ea, ea_t, shift``: from :func:`exp_transitions`. Pairwise marginals: for shared transitions
    ``outer`` (lanes(K) twice) gets the raw sum of alpha w^T, still to be multiplied by ``ea`` (once a shard
    is enough), and only the log-space path adds finished ones to ``pairs`` (1, K, K); for per-step
    transitions ``pairs`` (n, K, K) is written. -inf: no labelling is allowed.
    """
    n, K = u.shape[0], start.shape[0]
    if n == 0:
        return 0.0
    per_step = a.shape[0] > 1 or pairs.shape[0] > 1
    log_z = np.nan
    if floor >= 0.0:
        log_z = scaled_forward(u, start, end, ea_t, shift, floor, alpha, e, scale)
    if log_z == log_z:
        if log_z > -np.inf:
            scaled_backward(ea, alpha[:n], e, scale, beta, marginals)
            if per_step:
                pairwise_steps(ea, alpha[:n], e, pairs)
            else:
                add_outer(alpha[:n], e, outer)
        return log_z
    return filter_marginals(u[:, :K], a, start, end, np.empty((n, K)), marginals[:, :K], pairs, per_step)

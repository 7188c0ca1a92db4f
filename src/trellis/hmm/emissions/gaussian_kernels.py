# mypy: allow-untyped-defs, disable-error-code="call-arg"
"""Gaussian log-densities and moments of many rows.

Rows are taken in blocks of ``BLOCK`` and transposed, so that the innermost loop runs over rows: it is SIMD
for any number of states and columns, and the parameters are scalars in it. Squared distances are sums of
squares of differences, never differences of sums: means of 1e6 with deviations of 1 lose no digits.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.core.numerics_kernels import exp_shifted

BLOCK = 64


@kernel
def _transpose_block(rows, first, block):
    """block[d, b] = rows[first + b, d]; rows beyond the last are zero."""
    n, D = rows.shape
    size = min(BLOCK, n - first)
    for b in range(size):
        row = rows[first + b]
        for d in range(D):
            block[d, b] = row[d]
    for d in range(D):
        for b in range(size, BLOCK):
            block[d, b] = 0.0


@kernel
def _drop_incomplete(x, q):
    """Rows with a NaN become zero, in ``x`` (D, BLOCK) and in the weights ``q``; returns how many."""
    D = x.shape[0]
    sums = np.zeros(BLOCK)
    for d in range(D):
        for b in range(BLOCK):
            sums[b] += x[d, b]
    dropped = 0
    for b in range(BLOCK):
        if sums[b] != sums[b]:
            dropped += 1
            for d in range(D):
                x[d, b] = 0.0
            for k in range(q.shape[0]):
                q[k, b] = 0.0
    return dropped


@kernel
def _write_block(ll, first, scale, e, out, shift):
    """Write log-likelihoods (K, BLOCK) to rows of ``out``; with ``scale`` as exp(ll - shift), where
    shift[t] = max_k ll[k, t]."""
    K = ll.shape[0]
    size = min(BLOCK, out.shape[0] - first)
    if scale:
        top = np.empty(BLOCK)
        for b in range(BLOCK):
            top[b] = -np.inf
        for k in range(K):
            row = ll[k]
            for b in range(BLOCK):
                top[b] = row[b] if row[b] > top[b] else top[b]
        for b in range(size):
            shift[first + b] = top[b]
        for b in range(BLOCK):
            top[b] = 0.0 if top[b] == -np.inf else top[b]
        for k in range(K):
            row = ll[k]
            for b in range(BLOCK):
                row[b] -= top[b]
            exp_shifted(row, 0.0, e[k])
        ll = e
    for b in range(size):
        row = out[first + b]
        for k in range(K):
            row[k] = ll[k, b]


@kernel
def diagonal_likelihood(values, means, precisions, constants, scale, out, shift):
    """out[t, k] = sum_d constants[k, d] - precisions[k, d] (x[t, d] - means[k, d])^2 / 2 over the
    observed entries; with ``scale`` shifted and exponentiated."""
    n, D = values.shape
    K = means.shape[0]
    x, ll, e = np.empty((D, BLOCK)), np.empty((K, BLOCK)), np.empty((K, BLOCK))
    for first in range(0, n, BLOCK):
        _transpose_block(values, first, x)
        for k in range(K):
            row = ll[k]
            for b in range(BLOCK):
                row[b] = 0.0
            for d in range(D):
                mean, half, constant, xd = means[k, d], 0.5 * precisions[k, d], constants[k, d], x[d]
                for b in range(BLOCK):
                    y = xd[b] - mean
                    y = constant - half * (y * y)
                    row[b] += y if y == y else 0.0
        _write_block(ll, first, scale, e, out, shift)


@kernel
def full_likelihood(values, means, whiteners, constants, scale, out, shift):
    """out[t, k] = constants[k] - |W_k (x[t] - means[k])|^2 / 2, with W_k = ``whiteners[k]`` lower triangular.

    Returns how many rows are incomplete; their rows of ``out`` are undefined.
    """
    n, D = values.shape
    K = means.shape[0]
    x, ll, e = np.empty((D, BLOCK)), np.empty((K, BLOCK)), np.empty((K, BLOCK))
    y, z = np.empty((D, BLOCK)), np.empty(BLOCK)
    incomplete = 0
    for first in range(0, n, BLOCK):
        _transpose_block(values, first, x)
        incomplete += _drop_incomplete(x, ll)
        for k in range(K):
            row, W = ll[k], whiteners[k]
            for b in range(BLOCK):
                row[b] = constants[k]
            for i in range(D):
                yi, xi, mean = y[i], x[i], means[k, i]
                for b in range(BLOCK):
                    yi[b] = xi[b] - mean
                    z[b] = 0.0
                j = 0
                while j + 3 <= i:
                    w0, w1, w2, w3 = W[i, j], W[i, j + 1], W[i, j + 2], W[i, j + 3]
                    y0, y1, y2, y3 = y[j], y[j + 1], y[j + 2], y[j + 3]
                    for b in range(BLOCK):
                        z[b] += (w0 * y0[b] + w1 * y1[b]) + (w2 * y2[b] + w3 * y3[b])
                    j += 4
                while j <= i:
                    w0, y0 = W[i, j], y[j]
                    for b in range(BLOCK):
                        z[b] += w0 * y0[b]
                    j += 1
                for b in range(BLOCK):
                    row[b] -= 0.5 * z[b] * z[b]
        _write_block(ll, first, scale, e, out, shift)
    return incomplete


@kernel
def diagonal_moments(values, posterior, origin, weight, first_moment, second_moment):
    """Moments about ``origin`` of the observed entries, summed over rows: for all k, d

    weight += q[t, k],  first_moment += q[t, k] y,  second_moment += q[t, k] y^2,  y = x[t, d] - origin[k, d].
    """
    n, D = values.shape
    K = posterior.shape[1]
    x, q = np.empty((D, BLOCK)), np.empty((K, BLOCK))
    for first in range(0, n, BLOCK):
        _transpose_block(values, first, x)
        _transpose_block(posterior, first, q)
        for k in range(K):
            qk = q[k]
            for d in range(D):
                centre, xd = origin[k, d], x[d]
                s0, s1, s2 = 0.0, 0.0, 0.0
                for b in range(BLOCK):
                    y = xd[b] - centre
                    w = qk[b] if y == y else 0.0
                    y = y if y == y else 0.0
                    s0 += w
                    s1 += w * y
                    s2 += w * y * y
                weight[k, d] += s0
                first_moment[k, d] += s1
                second_moment[k, d] += s2


@kernel
def full_moments(values, posterior, origin, weight, first_moment, second_moment):
    """Moments of the complete rows about ``origin``: for all k, y = x[t] - origin[k],

    weight += q[t, k],  first_moment += q[t, k] y,  second_moment += q[t, k] y y^T   (its lower triangle).

    Returns how many rows are incomplete.
    """
    n, D = values.shape
    K = posterior.shape[1]
    x, q, y, wy = np.empty((D, BLOCK)), np.empty((K, BLOCK)), np.empty((D, BLOCK)), np.empty(BLOCK)
    incomplete = 0
    for first in range(0, n, BLOCK):
        _transpose_block(values, first, x)
        _transpose_block(posterior, first, q)
        incomplete += _drop_incomplete(x, q)
        for k in range(K):
            qk, S = q[k], second_moment[k]
            s0 = 0.0
            for b in range(BLOCK):
                s0 += qk[b]
            weight[k] += s0
            for i in range(D):
                yi, xi, centre, Si = y[i], x[i], origin[k, i], S[i]
                s1 = 0.0
                for b in range(BLOCK):
                    yi[b] = xi[b] - centre
                    wy[b] = qk[b] * yi[b]
                    s1 += wy[b]
                first_moment[k, i] += s1
                j = 0
                while j + 3 <= i:
                    y0, y1, y2, y3 = y[j], y[j + 1], y[j + 2], y[j + 3]
                    t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
                    for b in range(BLOCK):
                        w = wy[b]
                        t0 += w * y0[b]
                        t1 += w * y1[b]
                        t2 += w * y2[b]
                        t3 += w * y3[b]
                    Si[j] += t0
                    Si[j + 1] += t1
                    Si[j + 2] += t2
                    Si[j + 3] += t3
                    j += 4
                while j <= i:
                    y0, t0 = y[j], 0.0
                    for b in range(BLOCK):
                        t0 += wy[b] * y0[b]
                    Si[j] += t0
                    j += 1
    return incomplete

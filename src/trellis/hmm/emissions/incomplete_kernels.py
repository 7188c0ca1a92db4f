# mypy: allow-untyped-defs, disable-error-code="call-arg"
"""Gaussian rows with some entries missing, for covariances that are not diagonal.

With the columns in the order observed (o), missing (m), the Cholesky factor of the covariance

    L = [ L_oo   0  ]      z = L_oo^-1 (x_o - mean_o)
        [ L_mo  L_mm]

says all there is to know:

    log p(x_o)     = - |z|^2 / 2 - sum log diag L_oo - |o| log(2 pi) / 2
    x_m | x_o      is normal with mean mean_m + L_mo z and covariance C = L_mm L_mm^T
    its entropy    = sum log diag L_mm + |m| (1 + log(2 pi)) / 2

``rows`` come sorted by their pattern of missing entries, so that each pattern is factorised once per state.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.numerics import kernel

LOG_2PI = math.log(2.0 * math.pi)


@kernel
def _same_pattern(x, y):
    for d in range(x.shape[0]):
        if (x[d] == x[d]) != (y[d] == y[d]):
            return False
    return True


@kernel
def _end_of_run(values, rows, start):
    """The rows from ``start`` up to here miss the same entries."""
    end = start + 1
    while end < len(rows) and _same_pattern(values[rows[end]], values[rows[start]]):
        end += 1
    return end


@kernel
def _order_columns(x, order):
    """Observed columns first, then the missing ones; returns how many are observed."""
    n = 0
    for d in range(x.shape[0]):
        if x[d] == x[d]:
            order[n] = d
            n += 1
    observed = n
    for d in range(x.shape[0]):
        if x[d] != x[d]:
            order[n] = d
            n += 1
    return observed


@kernel
def _factorise(covariance, order, size, L):
    """The first ``size`` rows of the Cholesky factor of the covariance with its columns in ``order``."""
    for i in range(size):
        for j in range(i + 1):
            s = covariance[order[i], order[j]]
            for h in range(j):
                s -= L[i, h] * L[j, h]
            L[i, j] = math.sqrt(s) if i == j else s / L[j, j]


@kernel
def _whiten(x, mean, order, observed, L, z):
    """z = L_oo^-1 (x_o - mean_o)"""
    for i in range(observed):
        s = x[order[i]] - mean[order[i]]
        for j in range(i):
            s -= L[i, j] * z[j]
        z[i] = s / L[i, i]


@kernel
def incomplete_likelihood(values, rows, means, covariances, out):
    """out[i, k] = log p(observed entries of row rows[i] | k); 0 where nothing is observed."""
    K, D = means.shape
    L, z, order = np.empty((D, D)), np.empty(D), np.empty(D, np.int64)
    start = 0
    while start < len(rows):
        end = _end_of_run(values, rows, start)
        observed = _order_columns(values[rows[start]], order)
        for k in range(K):
            _factorise(covariances[k], order, observed, L)
            constant = -0.5 * observed * LOG_2PI if observed > 0 else 0.0
            for i in range(observed):
                constant -= math.log(L[i, i])
            for r in range(start, end):
                _whiten(values[rows[r]], means[k], order, observed, L, z)
                distance = 0.0
                for i in range(observed):
                    distance += z[i] * z[i]
                out[r, k] = constant - 0.5 * distance
        start = end


@kernel
def incomplete_moments(values, rows, posterior, means, covariances, weight, first_moment, second_moment):
    """Add the expected moments about ``means`` of rows with missing entries: with y = E[x | x_o, k] - mean_k,

    weight += q,  first_moment += q y,  second_moment += q (y y^T + C)  (lower triangle).

    Returns the entropy of the missing entries, weighted by q. Rows without any observed entry add nothing.
    """
    K, D = means.shape
    L, z, y, order = np.empty((D, D)), np.empty(D), np.empty(D), np.empty(D, np.int64)
    entropy = 0.0
    start = 0
    while start < len(rows):
        end = _end_of_run(values, rows, start)
        observed = _order_columns(values[rows[start]], order)
        for k in range(K if observed > 0 else 0):
            S = second_moment[k]
            _factorise(covariances[k], order, D, L)
            total = 0.0
            for r in range(start, end):
                q = posterior[rows[r], k]
                total += q
                _whiten(values[rows[r]], means[k], order, observed, L, z)
                for i in range(D):
                    s = 0.0
                    for j in range(min(i + 1, observed)):
                        s += L[i, j] * z[j]
                    y[order[i]] = s
                for i in range(D):
                    first_moment[k, i] += q * y[i]
                    for j in range(i + 1):
                        S[i, j] += q * y[i] * y[j]
            weight[k] += total
            of_one = 0.5 * (D - observed) * (1.0 + LOG_2PI)
            for i in range(observed, D):
                of_one += math.log(L[i, i])
                for j in range(observed, i + 1):
                    c = 0.0
                    for h in range(observed, j + 1):
                        c += L[i, h] * L[j, h]
                    S[order[i], order[j]] += total * c  # missing columns are in ascending order
            entropy += total * of_one
        start = end
    return entropy

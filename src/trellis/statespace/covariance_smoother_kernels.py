# mypy: allow-untyped-defs
"""The smoother on covariances, for models whose covariances are tame: several times faster than on roots.

With P the predicted covariance of a step, F = C P C' + R = U U' that of what is observed of it (rows and
columns of what is missing are zero in U^-1, whatever they are in F), and

    W = U^-1 C        H = U^-1 C P A'        e = U^-1 (y - C a)        G = A - H' W

the filter and, backwards from N = 0 and r = 0, the smoother are

    P  <-  A P A' + Q - H' H                  a  <-  A a + H' e + drift
    N  <-  W' W + G' N G                      r  <-  W' e + G' r
    Cov(z_t | all) = P - P N P                E[z_t | all] = a + P r

Nothing has to be factorised but F. It is as tame as P (below), so its inverse root loses a few digits at
most, and all that is left are products (:mod:`trellis.core.tile_kernels`). The last line is a
difference, so it is used only where that is harmless.
No information can make a state more certain than

    V_min = ( P_0^-1 + Q^-1 + A' Q^-1 A + C' R^-1 C )^-1,

and every covariance that appears lies between V_min and P. Rounding changes what is computed by some 1e-16 of
P. While no variance in P exceeds ``TAME`` times what V_min guarantees in every direction, that changes no
covariance by more than about 1e-16 * TAME of itself, in any direction. Where a variance exceeds its limit the
kernel gives up on the sequence, and the caller answers it with roots.

Matrices have whole tiles: n and m are rounded up to multiples of four, and what is beyond is zero.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from trellis.core.numerics import kernel
from trellis.core.tile_kernels import (
    add_row,
    add_symmetric,
    add_transposed,
    mirror,
    product,
    transposed_symmetric,
)

TAME = 1e5


class TameSystem(NamedTuple):
    """``A``, its transpose, ``Q`` and ``P0`` (size, size), ``C`` (m, size), its transpose, ``R`` (m, m),
    ``mean`` (size,), padded with zeros; ``limits`` (n,) of the variances in P and ``noise_limits`` (m,) of
    those in F."""

    A: np.ndarray
    A_t: np.ndarray
    Q: np.ndarray
    C: np.ndarray
    C_t: np.ndarray
    R: np.ndarray
    mean: np.ndarray
    P0: np.ndarray
    limits: np.ndarray
    noise_limits: np.ndarray


@kernel
def inverse_root(y, R, limits, F, U, inverse):
    """U^-1 of F + R = U U', rows and columns zero where y is missing; False if F is beyond its limits.

    A zero in place of 1 / U[i, i] keeps what is missing out of everything, without a test in the loops.
    """
    for i in range(len(limits)):
        there = not np.isnan(y[i])
        for j in range(i):
            total = F[i, j] + R[i, j]
            for k in range(j):
                total -= U[i, k] * U[j, k]
            U[i, j] = total * inverse[j, j] if there else 0.0
        inverse[i, i] = 0.0
        if there:
            total = F[i, i] + R[i, i]
            if not total <= limits[i]:
                return False
            for k in range(i):
                total -= U[i, k] * U[i, k]
            if not total > 0.0:
                return False
            inverse[i, i] = 1.0 / math.sqrt(total)
        for j in range(i):
            total = 0.0
            for k in range(j, i):
                total += U[i, k] * inverse[k, j]
            inverse[i, j] = -total * inverse[i, i]
    return True


@kernel
def forward(y, drift, system, W_all, H_all, e_all, means, covariances, work):
    """Predicted means (n_steps, n) and covariances (n_steps, n, n), and W, H, e of every step; False where a
    variance is beyond its limit or an innovation beyond double precision."""
    P, M, CP, F, U, inverse, a, gap, ahead = work
    A_t, Q, C = system.A_t, system.Q, system.C
    limits, noise_limits = system.limits, system.noise_limits
    n, m, size, padded = means.shape[1], y.shape[1], P.shape[0], C.shape[0]
    squares, d_step = 0.0, int(drift.shape[0] > 1)
    for i in range(size):
        a[i], ahead[i] = system.mean[i], 0.0
        for j in range(size):
            P[i, j] = system.P0[i, j]
    for i in range(n):
        if not P[i, i] <= limits[i]:
            return False
    for t in range(y.shape[0]):
        for i in range(n):
            means[t, i] = a[i]
            for j in range(n):
                covariances[t, i, j] = P[i, j]
        product(C, P, n, CP)
        product(CP, system.C_t, n, F)
        if not inverse_root(y[t], system.R, noise_limits, F, U, inverse):
            return False
        H = H_all[t]
        product(P, A_t, n, M)
        product(C, M, n, CP)
        product(inverse, CP, m, H)
        product(inverse, C, m, W_all[t])
        for i in range(padded):
            gap[i] = 0.0
        add_row(gap, a, system.C_t, n, gap)
        e = e_all[t]
        for i in range(m):
            gap[i] = 0.0 if np.isnan(y[t, i]) else y[t, i] - gap[i]
            x = 0.0
            for j in range(i + 1):
                x += inverse[i, j] * gap[j]
            e[i] = x
            squares += x * x
        for i in range(n):
            ahead[i] = drift[t * d_step, i]
        add_row(ahead, a, A_t, n, ahead)
        add_row(ahead, e, H, m, a)
        add_symmetric(Q, A_t, M, n, 1.0, P)
        for i in range(n):
            if not P[i, i] <= limits[i]:
                return False
        add_symmetric(P, H, H, m, -1.0, P)
        mirror(P, n)
    return squares < np.inf


@kernel
def backward(system, W_all, H_all, e_all, means, covariances, work):
    """Predicted means and covariances become smoothed ones."""
    P, M, G, N, V, r, ahead = work
    n, m, size = means.shape[1], e_all.shape[1], P.shape[0]
    for i in range(size):
        r[i] = 0.0
        for j in range(size):
            N[i, j] = 0.0
            P[i, j] = 0.0
    for t in range(means.shape[0] - 1, -1, -1):
        W = W_all[t]
        add_transposed(system.A, H_all[t], W, m, -1.0, G)
        product(N, G, n, M)
        for i in range(size):
            ahead[i] = 0.0
        add_row(ahead, e_all[t], W, m, ahead)
        add_row(ahead, r, G, n, ahead)
        for i in range(n):
            r[i] = ahead[i]
        transposed_symmetric(G, M, n, N)
        add_symmetric(N, W, W, m, 1.0, N)
        mirror(N, n)
        for i in range(n):
            ahead[i] = means[t, i]
            for j in range(n):
                P[i, j] = covariances[t, i, j]
        product(N, P, n, M)
        add_symmetric(P, P, M, n, -1.0, V)
        add_row(ahead, r, P, n, ahead)
        for i in range(n):
            means[t, i] = ahead[i]
            for j in range(i, n):
                covariances[t, i, j] = V[i, j]
                covariances[t, j, i] = V[i, j]


@kernel
def smooth_tame(y, drift, offsets, system, kept, means, covariances):
    """Smooth every sequence of a block; returns the first that roots must answer, or -1.

    ``kept``: room for W, H (longest, padded m, size) and e (longest, m) of one sequence. (NumPy's large
    arrays have large pages, those that are made here have not.)
    """
    m, size = system.C.shape
    W_all, H_all, e_all = kept
    P, M, G = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    N, V, CP = np.empty((size, size)), np.empty((size, size)), np.empty((m, size))
    F, U, inverse = np.empty((m, m)), np.empty((m, m)), np.zeros((m, m))
    a, gap, ahead = np.empty(size), np.empty(m), np.empty(size)
    forth, back = (P, M, CP, F, U, inverse, a, gap, ahead), (P, M, G, N, V, a, ahead)
    for s in range(len(offsets) - 1):
        lo, hi = offsets[s], offsets[s + 1]
        own = drift if drift.shape[0] == 1 else drift[lo:hi]
        if not forward(y[lo:hi], own, system, W_all, H_all, e_all, means[lo:hi], covariances[lo:hi], forth):
            return s
        backward(system, W_all, H_all, e_all, means[lo:hi], covariances[lo:hi], back)
    return -1

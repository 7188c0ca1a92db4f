# mypy: allow-untyped-defs
"""The smoother on covariances, for models whose covariances are tame: several times faster than on roots.

With P the predicted covariance of a step, F = C_o P C_o' + R_oo = U U' that of what is observed of it, and

    W = U^-1 C_o        H = U^-1 C_o P        e = U^-1 (y_o - C_o a)        G = A (I - H' W)

the filter and, backwards from N = 0 and r = 0, the smoother are

    P  <-  A P A' + Q - (A H') (A H')'        a  <-  A (a + H' e) + drift
    N  <-  W' W + G' N G                      r  <-  W' e + G' r
    Cov(z_t | all) = P - P N P                E[z_t | all] = a + P r

Nothing has to be factorised but F. The last line is a difference, so it is used only where that is harmless.
No information can make a state more certain than

    V_min = ( P_0^-1 + Q^-1 + A' Q^-1 A + C' R^-1 C )^-1,

and every covariance that appears lies between V_min and P. Rounding changes what is computed by some 1e-16 of
P. While no variance in P exceeds ``TAME`` times what V_min guarantees in every direction, that changes no
covariance by more than about 1e-16 * TAME of itself, in any direction. Where a variance exceeds its limit the
kernel gives up on the sequence, and the caller answers it with roots.

Matrices have whole SIMD registers: n and m are rounded up to multiples of four, and what is beyond is zero.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from trellis.core.numerics import kernel
from trellis.statespace.kalman_kernels import read_pattern

TAME = 1e5


class TameSystem(NamedTuple):
    """``A``, its transpose, ``Q`` and ``P0`` (size, size), ``C`` (m, size), ``R`` (m, m), ``mean`` (size,),
    padded with zeros; ``limits`` (n,) of the variances in P and ``noise_limits`` (m,) of those in F."""

    A: np.ndarray
    A_t: np.ndarray
    Q: np.ndarray
    C: np.ndarray
    R: np.ndarray
    mean: np.ndarray
    P0: np.ndarray
    limits: np.ndarray
    noise_limits: np.ndarray


@kernel
def product(X, Y, M):
    """M = X Y. Four rows and four columns of X at a time: sixteen multiply-adds for eight loads. Sizes are
    multiples of four; indices are unsigned, so that no wrap-around test stands in the way."""
    n, one, two, three = np.uint64(Y.shape[1]), np.uint64(1), np.uint64(2), np.uint64(3)
    for row in range(0, X.shape[0], 4):
        i = np.uint64(row)
        for column in range(0, X.shape[1], 4):
            k = np.uint64(column)
            a0, a1, a2, a3 = X[i, k], X[i, k + one], X[i, k + two], X[i, k + three]
            b0, b1, b2, b3 = X[i + one, k], X[i + one, k + one], X[i + one, k + two], X[i + one, k + three]
            c0, c1, c2, c3 = X[i + two, k], X[i + two, k + one], X[i + two, k + two], X[i + two, k + three]
            d0, d1, d2, d3 = (
                X[i + three, k], X[i + three, k + one], X[i + three, k + two], X[i + three, k + three]
            )  # fmt: skip
            if column == 0:
                for j in range(n):
                    p, q, r, s = Y[k, j], Y[k + one, j], Y[k + two, j], Y[k + three, j]
                    M[i, j] = (a0 * p + a1 * q) + (a2 * r + a3 * s)
                    M[i + one, j] = (b0 * p + b1 * q) + (b2 * r + b3 * s)
                    M[i + two, j] = (c0 * p + c1 * q) + (c2 * r + c3 * s)
                    M[i + three, j] = (d0 * p + d1 * q) + (d2 * r + d3 * s)
            else:
                for j in range(n):
                    p, q, r, s = Y[k, j], Y[k + one, j], Y[k + two, j], Y[k + three, j]
                    M[i, j] += (a0 * p + a1 * q) + (a2 * r + a3 * s)
                    M[i + one, j] += (b0 * p + b1 * q) + (b2 * r + b3 * s)
                    M[i + two, j] += (c0 * p + c1 * q) + (c2 * r + c3 * s)
                    M[i + three, j] += (d0 * p + d1 * q) + (d2 * r + d3 * s)


@kernel
def add_transposed(X, Y, sign, M):
    """M += sign X' Y, like :func:`product`."""
    n, one, two, three = np.uint64(Y.shape[1]), np.uint64(1), np.uint64(2), np.uint64(3)
    for row in range(0, X.shape[1], 4):
        i = np.uint64(row)
        for column in range(0, X.shape[0], 4):
            k = np.uint64(column)
            a0, b0, c0, d0 = X[k, i], X[k, i + one], X[k, i + two], X[k, i + three]
            a1, b1, c1, d1 = X[k + one, i], X[k + one, i + one], X[k + one, i + two], X[k + one, i + three]
            a2, b2, c2, d2 = X[k + two, i], X[k + two, i + one], X[k + two, i + two], X[k + two, i + three]
            a3, b3, c3, d3 = (
                X[k + three, i], X[k + three, i + one], X[k + three, i + two], X[k + three, i + three]
            )  # fmt: skip
            for j in range(n):
                p, q, r, s = Y[k, j], Y[k + one, j], Y[k + two, j], Y[k + three, j]
                M[i, j] += sign * ((a0 * p + a1 * q) + (a2 * r + a3 * s))
                M[i + one, j] += sign * ((b0 * p + b1 * q) + (b2 * r + b3 * s))
                M[i + two, j] += sign * ((c0 * p + c1 * q) + (c2 * r + c3 * s))
                M[i + three, j] += sign * ((d0 * p + d1 * q) + (d2 * r + d3 * s))


@kernel
def mirror(M):
    """What is above the diagonal, below it."""
    for i in range(M.shape[0]):
        for j in range(i):
            M[i, j] = M[j, i]


@kernel
def innovate(y, observed, count, C, R, limits, P, a, W, H, e, F):
    """Fill W, H (m, size) and e (m,), zero beyond what is observed; False if F is beyond its limits."""
    m, n = C.shape
    for c in range(m):
        row, kept = observed[c], 1.0 if c < count else 0.0
        for j in range(n):
            W[c, j] = kept * C[row, j]
    product(W, P, H)
    for c in range(m):
        e[c] = 0.0
    for c in range(count):
        row = observed[c]
        total = y[row]
        for j in range(n):
            total -= W[c, j] * a[j]
        e[c] = total
        for d in range(c + 1):
            total = R[row, observed[d]]
            for j in range(n):
                total += H[c, j] * W[d, j]
            F[c, d] = total
        if not F[c, c] <= limits[row]:
            return False
    # F = U U', and U^-1 W, U^-1 H, U^-1 e in their place, column by column
    for d in range(count):
        if not F[d, d] > 0.0:
            return False
        x = 1.0 / math.sqrt(F[d, d])
        e[d] *= x
        for j in range(n):
            W[d, j] *= x
            H[d, j] *= x
        for c in range(d + 1, count):
            f = F[c, d] * x
            F[c, d] = f
            e[c] -= f * e[d]
            for j in range(n):
                W[c, j] -= f * W[d, j]
                H[c, j] -= f * H[d, j]
            for k in range(d + 1, c + 1):
                F[c, k] -= f * F[k, d]
    return True


@kernel
def forward(y, drift, system, W_all, AH_all, e_all, means, covariances, work):
    """Predicted means (n_steps, n) and covariances (n_steps, n, n), and W, AH = H A', e of every step; False
    where a variance is beyond its limit or an innovation beyond double precision."""
    P, M, W, H, AH, F, a, e, ahead, observed = work
    A, A_t, Q, C, R = system.A, system.A_t, system.Q, system.C, system.R
    limits, noise_limits = system.limits, system.noise_limits
    n, size, m = means.shape[1], P.shape[0], C.shape[0]
    count, squares, d_step = -1, 0.0, int(drift.shape[0] > 1)
    for i in range(size):
        a[i] = system.mean[i]
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
        count, _ = read_pattern(y[t], observed, count)
        if not innovate(y[t], observed, count, C, R, noise_limits, P, a, W, H, e, F):
            return False
        product(H, A_t, AH)
        product(P, A_t, M)
        for i in range(size):
            total = 0.0
            for j in range(size):
                P[i, j] = Q[i, j]
                total += A[i, j] * a[j]
            ahead[i] = total
        for i in range(n):
            a[i] = ahead[i] + drift[t * d_step, i]
        for c in range(m):
            x = e[c]
            e_all[t, c] = x
            squares += x * x
            for i in range(size):
                W_all[t, c, i] = W[c, i]
                AH_all[t, c, i] = AH[c, i]
                a[i] += AH[c, i] * x
        add_transposed(A_t, M, 1.0, P)
        for i in range(n):
            if not P[i, i] <= limits[i]:
                return False
        add_transposed(AH, AH, -1.0, P)
        mirror(P)
    return squares < np.inf


@kernel
def backward(system, W_all, AH_all, e_all, means, covariances, work):
    """Predicted means and covariances become smoothed ones."""
    P, M, G, N, V, W, AH, r, ahead = work
    A, m = system.A, e_all.shape[1]
    n, size = means.shape[1], P.shape[0]
    for i in range(size):
        r[i] = 0.0
        for j in range(size):
            N[i, j] = 0.0
            P[i, j] = 0.0
    for t in range(means.shape[0] - 1, -1, -1):
        for i in range(size):
            ahead[i] = 0.0
            for j in range(size):
                G[i, j] = A[i, j]
        for c in range(m):
            x = e_all[t, c]
            for i in range(size):
                W[c, i] = W_all[t, c, i]
                AH[c, i] = AH_all[t, c, i]
                ahead[i] += W[c, i] * x
        add_transposed(AH, W, -1.0, G)
        product(N, G, M)
        for k in range(size):
            x = r[k]
            for i in range(size):
                ahead[i] += G[k, i] * x
                N[k, i] = 0.0
        add_transposed(G, M, 1.0, N)
        add_transposed(W, W, 1.0, N)
        for i in range(n):
            r[i] = ahead[i]
            for j in range(n):
                P[i, j] = covariances[t, i, j]
                V[i, j] = P[i, j]
        product(N, P, M)
        add_transposed(P, M, -1.0, V)
        for i in range(n):
            total = means[t, i]
            for j in range(n):
                total += P[i, j] * r[j]
            means[t, i] = total
        for i in range(n):
            for j in range(n):
                covariances[t, i, j] = 0.5 * (V[i, j] + V[j, i])


@kernel
def smooth_tame(y, drift, offsets, system, kept, means, covariances):
    """Smooth every sequence of a block; returns the first that roots must answer, or -1.

    ``kept``: room for W, AH (longest, m, size) and e (longest, m) of one sequence. (NumPy's large arrays have
    large pages, those that are made here have not.)
    """
    m, size = system.C.shape
    W_all, AH_all, e_all = kept
    P, M, G = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    N, V = np.empty((size, size)), np.zeros((size, size))
    W, H, AH, F = np.empty((m, size)), np.empty((m, size)), np.empty((m, size)), np.empty((m, m))
    a, e, ahead, observed = np.empty(size), np.empty(m), np.empty(size), np.zeros(m, np.int64)
    forth, back = (P, M, W, H, AH, F, a, e, ahead, observed), (P, M, G, N, V, W, AH, a, ahead)
    for s in range(len(offsets) - 1):
        lo, hi = offsets[s], offsets[s + 1]
        own = drift if drift.shape[0] == 1 else drift[lo:hi]
        if not forward(y[lo:hi], own, system, W_all, AH_all, e_all, means[lo:hi], covariances[lo:hi], forth):
            return s
        backward(system, W_all, AH_all, e_all, means[lo:hi], covariances[lo:hi], back)
    return -1

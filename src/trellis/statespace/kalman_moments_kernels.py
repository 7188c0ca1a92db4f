# mypy: allow-untyped-defs
"""Expected moments of the three regressions that make up a linear-Gaussian model: the E-step of EM.

    first state   z_1     = m_0 + r                         regressor  1
    transition    z_{t+1} = A z_t + B u_t + b + r           regressors w = (z_t, u_t, 1)
    observation   x_t     = C z_t + D u_t + d + r           regressors w = (z_t, u_t, 1)

For each: the number of terms, sum E[r r'], sum E[r w'] and sum E[w w'], where r is the *residual under the
current parameters*. The M-step then moves the coefficients by (sum E[r w']) (sum E[w w'])^-1: differences of
large second moments never occur.

Components of x_t that are missing are unknowns like z_t: given the observed ones o, the noises are
r = G r_o + e (:mod:`trellis.statespace.kalman_missing_kernels`). A step without any observation says nothing
about the observation and is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trellis.core.numerics import kernel
from trellis.statespace.kalman_kernels import read_pattern
from trellis.statespace.kalman_missing_kernels import noise_regression


class Moments(NamedTuple):
    """``terms`` (1,), ``rr`` (k, k), ``rw`` (k, q), ``ww`` (q, q): sums over the terms of a regression."""

    terms: np.ndarray
    rr: np.ndarray
    rw: np.ndarray
    ww: np.ndarray


@kernel
def observed_residual(C, B, R_root, observed, count, M, pivots, G, CB, spread, cross):
    """``spread`` = Cov(r) and ``cross`` = Cov(r, z) for the noises of one step, from the root B of z."""
    m, n = C.shape
    if count == m:
        for i in range(m):
            for j in range(m):
                spread[i, j] = 0.0
                G[i, j] = 1.0 if i == j else 0.0
    else:
        noise_regression(R_root, observed, count, M, pivots, G, spread)
    # GC B, with GC = G C_o: Cov(r) = GC B B' GC' + rest, Cov(r, z) = - GC B B'
    for i in range(m):
        for j in range(n):
            CB[i, j] = 0.0
        for o in range(count):
            for k in range(n):
                weight = G[i, o] * C[observed[o], k]
                for j in range(n):
                    CB[i, j] += weight * B[k, j]
    for i in range(m):
        for j in range(m):
            for k in range(n):
                spread[i, j] += CB[i, k] * CB[j, k]
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += CB[i, k] * B[j, k]
            cross[i, j] = -total


@kernel
def add_term(r, w, spread, cross, P, n, moments):
    """One term: r r' + spread, r w' + [cross, 0], w w' + [P, 0]; the first n regressors are the state."""
    rr, rw, ww = moments
    k, q = rw.shape
    for i in range(k):
        for j in range(k):
            rr[i, j] += r[i] * r[j] + spread[i, j]
        for j in range(q):
            rw[i, j] += r[i] * w[j]
        for j in range(n):
            rw[i, j] += cross[i, j]
    for i in range(q):
        for j in range(q):
            ww[i, j] += w[i] * w[j]
    for i in range(n):
        for j in range(n):
            ww[i, j] += P[i, j]


@kernel
def moments_shard(y, u, offsets, system, smoothed, stage_of, means, noises, first, transition, observation):
    """Add the terms of all smoothed sequences to the three :class:`Moments`."""
    C, R_root = system.C, system.R_root
    n, m, p = means.shape[1], C.shape[1], u.shape[1]
    c_step, r_step = int(C.shape[0] > 1), int(R_root.shape[0] > 1)
    roots, state, noise, cross = smoothed.roots, smoothed.state, smoothed.noise, smoothed.cross
    into_transition = (transition.rr, transition.rw, transition.ww)
    into_observation = (observation.rr, observation.rw, observation.ww)
    M, pivots, G, CB = np.empty((m, m)), np.empty(m, np.int64), np.empty((m, m)), np.empty((m, n))
    spread, with_state = np.empty((m, m)), np.empty((m, n))
    observed, r, w = np.empty(m, np.int64), np.empty(m), np.ones(n + p + 1)
    last_stage, count = -1, -1
    for s in range(len(offsets) - 1):
        start, end = offsets[s], offsets[s + 1]
        for t in range(end - start):
            now = start + t
            stage = stage_of[now]
            for i in range(n):
                w[i] = means[now, i]
            for i in range(p):
                w[n + i] = u[now, i]
            if t == 0:
                first.terms[0] += 1.0
                first.ww[0, 0] += 1.0
                for i in range(n):
                    gap = w[i] - system.mean[i]
                    first.rw[i, 0] += gap
                    for j in range(n):
                        first.rr[i, j] += gap * (w[j] - system.mean[j]) + state[stage, i, j]
            if now + 1 < end:
                transition.terms[0] += 1.0
                add_term(noises[now], w, noise[stage], cross[stage], state[stage], n, into_transition)
            count, same = read_pattern(y[now], observed, count)
            same = same and stage == last_stage and c_step + r_step == 0
            last_stage = stage
            if count == 0:
                continue
            if not same:
                observed_residual(
                    C[t * c_step], roots[stage], R_root[t * r_step], observed, count, M, pivots,
                    G, CB, spread, with_state,
                )  # fmt: skip
            for i in range(m):
                r[i] = 0.0
            for o in range(count):
                row = observed[o]
                residual = y[now, row]
                for j in range(n):
                    residual -= C[t * c_step, row, j] * w[j]
                for i in range(m):
                    r[i] += G[i, o] * residual
            observation.terms[0] += 1.0
            add_term(r, w, spread, with_state, state[stage], n, into_observation)

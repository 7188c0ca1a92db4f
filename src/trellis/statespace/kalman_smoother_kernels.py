# mypy: allow-untyped-defs
"""The Rauch-Tung-Striebel smoother in square-root form, and the moments that EM needs.

Given the past alone, z_t = m_t + S x and the noise w_t = Q^1/2 x' make z_{t+1} = A z_t + drift_t + w_t. One
reduction gives the regression of z_t and of w_t on z_{t+1}, and what is left of them when it is known:

    [ A S   Q^1/2 ]  z_{t+1}        [ L     0   ]        J   = G   L^-1     z_t | z_{t+1}: root E
    [ S     0     ]  z_t       ->   [ G     E   ]
    [ 0     Q^1/2 ]  w_t            [ G_w   E_w ]        J_w = G_w L^-1     w_t | z_{t+1}: root E_w

Backwards in time, with M and B the smoothed mean and root,

    M_t = m_t + J (M_{t+1} - A m_t - drift_t)        B_t B_t' = [J B_{t+1}, E] [J B_{t+1}, E]'
    E[w_t] = J_w (M_{t+1} - A m_t - drift_t)         Cov(w_t, z_t) = [J_w B_{t+1}, E_w] [J B_{t+1}, E]'
    Cov(z_t, z_{t+1}) = J B_{t+1} B_{t+1}'

Only sums of products appear: a tiny noise next to a huge state keeps its digits. The gain belongs to the slot
of the filter, and where the slot stays the same the root B settles as well; then it is not computed again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trellis.core.numerics import kernel
from trellis.statespace.kalman_kernels import STEADY, advance
from trellis.statespace.square_root_kernels import close, multiply, outer, regression, triangularise

STATES, LAGGED, NOISE = 0, 1, 2  # modes of smooth_shard


class Gains(NamedTuple):
    """``J`` and ``rest`` E, each (., n, n), or (., 2n, n) with J_w and E_w below: one for each slot of the
    path, and a last one for whatever slot is at work. ``known`` (path,) says which are there.
    """

    J: np.ndarray
    rest: np.ndarray
    known: np.ndarray


class Smoothed(NamedTuple):
    """Per *stage*, a run of steps with the same covariances: ``roots`` B, ``state`` B B', ``noise`` Cov(w),
    ``cross`` Cov(w, z), each (., n, n). The last step of a sequence is a stage without noise.
    """

    roots: np.ndarray
    state: np.ndarray
    noise: np.ndarray
    cross: np.ndarray


@kernel
def smoothing_gain(A, Q_root, S, M, pivots, J, rest):
    """``J`` and ``rest`` of one slot: (n, n), or (2n, n) with those of the noise."""
    n, height = A.shape[0], J.shape[0]
    multiply(A, S, M)
    for i in range(n):
        for j in range(n):
            M[i, n + j] = Q_root[i, j]
            M[n + i, j] = S[i, j]
            M[n + i, n + j] = 0.0
            if height > n:
                M[2 * n + i, j] = 0.0
                M[2 * n + i, n + j] = Q_root[i, j]
    rank = triangularise(M, n, n + height, 2 * n, pivots)
    regression(M, n, height, n, pivots, J)
    for i in range(height):
        for j in range(2 * n - rank):
            M[i, j] = M[n + i, rank + j]
    if rank < n:
        # More than n columns are left; but given z_{t+1} the noise is -A z_t, so n of them hold it all.
        triangularise(M, n, height, 2 * n - rank, pivots)
    for i in range(height):
        for j in range(n):
            rest[i, j] = M[i, j]


@kernel
def smooth_root(J, rest, later, M, pivots, root, state, noise, cross):
    """The covariances of one stage from the root of the step after it."""
    n, height = later.shape[0], J.shape[0]
    multiply(J, later, M)
    for i in range(height):
        for j in range(n):
            M[i, n + j] = rest[i, j]
    triangularise(M, n, height, 2 * n, pivots)
    for i in range(n):
        for j in range(n):
            root[i, j] = M[i, j]
    outer(root, n, n, state)
    for i in range(height - n):
        for j in range(n):
            total, with_state = 0.0, 0.0
            for k in range(2 * n):
                total += M[n + i, k] * M[n + j, k]
            for k in range(j + 1):
                with_state += M[n + i, k] * root[j, k]
            noise[i, j] = total
            cross[i, j] = with_state


@kernel
def keep_stage(stage, now, keep_all, state, stage_of, covariances):
    """Note the stage of a step, or write its covariance out."""
    if keep_all:
        stage_of[now] = stage
        return
    n = state.shape[1]
    for i in range(n):
        for j in range(n):
            covariances[now, i, j] = state[stage, i, j]


@kernel
def smooth_shard(
    drift, offsets, system, roots_filtered, slot_of, gains, mode, smoothed, means, stage_of, noises,
    covariances, lagged,
):  # fmt: skip
    """Turn the filtered ``means`` (N, n) into smoothed ones, in place.

    ``mode`` STATES: their ``covariances`` (N, n, n); LAGGED: also Cov(z_t, z_{t+1}) in ``lagged`` (N, n, n).
    Two stages are enough then, in turns. NOISE: instead the stage of each step (N,), and E[w_t] in ``noises``
    (N, n). What belongs to a step and the next is left as it is at the last step of a sequence.
    """
    A, Q_root = system.A, system.Q_root
    J_all, rest_all, known = gains.J, gains.rest, gains.known
    roots, state, noise, cross = smoothed.roots, smoothed.state, smoothed.noise, smoothed.cross
    n = A.shape[1]
    a_step, q_step, d_step = int(A.shape[0] > 1), int(Q_root.shape[0] > 1), int(drift.shape[0] > 1)
    M, pivots, shift = np.empty((3 * n, 2 * n)), np.empty(2 * n, np.int64), np.empty(n)
    longest, keep_all = len(known), mode == NOISE
    stage = -1 if keep_all else 0
    for s in range(len(offsets) - 1):
        start, last = offsets[s], offsets[s + 1] - 1
        steady, before = False, -1
        for t in range(last - start, -1, -1):
            now = start + t
            slot = slot_of[now]
            if now == last:
                stage = stage + 1 if keep_all else 1 - stage
                for i in range(n):
                    for j in range(n):
                        roots[stage, i, j] = roots_filtered[slot, i, j]
                outer(roots[stage], n, n, state[stage])
                keep_stage(stage, now, keep_all, state, stage_of, covariances)
                continue
            gain = min(slot, longest)
            if slot != before:
                if gain == longest or known[gain] == 0:
                    smoothing_gain(
                        A[t * a_step], Q_root[t * q_step], roots_filtered[slot], M, pivots, J_all[gain],
                        rest_all[gain],
                    )  # fmt: skip
                if gain < longest:
                    known[gain] = 1
                steady, before = False, slot
            if mode == LAGGED:
                multiply(J_all[gain], state[stage], lagged[now])
            if not steady:
                later = stage
                stage = stage + 1 if keep_all else 1 - stage
                smooth_root(
                    J_all[gain], rest_all[gain], roots[later], M, pivots,
                    roots[stage], state[stage], noise[stage], cross[stage],
                )  # fmt: skip
                steady = slot == slot_of[now + 1] and close(roots[stage], roots[later], STEADY)
            keep_stage(stage, now, keep_all, state, stage_of, covariances)
            advance(A, t * a_step, drift, now * d_step, means, now, shift)
            for i in range(n):
                shift[i] = means[now + 1, i] - shift[i]
            for i in range(n):
                total = means[now, i]
                for j in range(n):
                    total += J_all[gain, i, j] * shift[j]
                means[now, i] = total
            if mode == NOISE:
                for i in range(n):
                    for j in range(n):
                        noises[now, i] += J_all[gain, n + i, j] * shift[j]

# mypy: allow-untyped-defs
"""The Kalman filter in square-root form, over packed sequences.

    z_1 ~ N(m_0, P_0)        z_{t+1} = A z_t + drift_t + N(0, Q)        y_t = C z_t + N(0, R)

``y`` is what is observed less controls and offset, NaN where it is missing. With L a root of the predicted
covariance, observing the components o of y_t is one reduction (:mod:`trellis.statespace.square_root_kernels`)

    [ R_o^1/2   C_o L ]         [ F   0 ]        e = F^-1 (y_o - C_o m)        log p(y_o | past) =
    [ 0         L     ]   ->    [ K   S ]        mean  m + K e,  root S          - |e|^2/2 - log det F - ...

and predicting is [A S, Q^1/2] -> [L, 0].

Roots and gains depend on the data only through what is missing, so they are kept in *slots* and computed
once: as long as nothing is missing all sequences share the slots of the *path* 0, 1, 2, ... of their steps;
and when matrices are constant and L has stopped changing (to ``STEADY`` of each row), the slot stays the same
until what is missing changes. Slots from ``longest`` on belong to sequences after their first missing value.

Filtering, smoothing and moments are three kernels that are called one after the other, not one that calls the
others: a kernel is compiled again inside each of its callers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from trellis.core.numerics import kernel
from trellis.statespace.square_root_kernels import close, multiply, outer, triangularise

STEADY = 1e-15
LOG_TWO_PI = math.log(2.0 * math.pi)


class System(NamedTuple):
    """The model as the kernels see it: matrices with a leading axis of 1 (constant) or one entry a step.

    ``A`` (., n, n), ``Q_root`` (., n, n), ``C`` (., m, n), ``R_root`` (., m, m) lower triangular, ``mean``
    (n,), ``root`` (n, n) of the first state.
    """

    A: np.ndarray
    Q_root: np.ndarray
    C: np.ndarray
    R_root: np.ndarray
    mean: np.ndarray
    root: np.ndarray


class Slots(NamedTuple):
    """What the filter computes once per slot, and what it knows about the path. Gains are kept for the path,
    with one place behind them for whatever slot is at work.

    ``roots`` S (., n, n), ``gains`` K (., n, m), ``innovations`` F (., m, m) with its diagonal inverted,
    ``constants`` log det F + (m_o / 2) log 2 pi (.,), ``path`` [its length, whether its end is steady].
    """

    roots: np.ndarray
    gains: np.ndarray
    innovations: np.ndarray
    constants: np.ndarray
    path: np.ndarray


@kernel
def read_pattern(y, observed, before):
    """List the components of y that are not NaN; returns their number, and whether the list is as before.

    ``observed`` holds the list of the step before, of ``before`` entries.
    """
    count, same = 0, True
    for i in range(len(y)):
        if not np.isnan(y[i]):
            same = same and count < before and observed[count] == i
            observed[count] = i
            count += 1
    return count, same and count == before


@kernel
def noise_root(R_root, observed, count, M, pivots):
    """M[:count, :count] = a root of the rows and columns ``observed`` of R."""
    m = R_root.shape[0]
    for i in range(count):
        for j in range(m):
            M[i, j] = R_root[observed[i], j]
    if count < m:
        triangularise(M, count, count, m, pivots)


@kernel
def observe(C, R_root, L, observed, count, M, pivots, S, K, F):
    """Fill the root ``S``, gain ``K`` and ``F`` of one slot; returns its constant, NaN if F is singular."""
    n = L.shape[0]
    size = count + n
    noise_root(R_root, observed, count, M, pivots)
    for i in range(count):
        c = C[observed[i]]
        for j in range(n):
            M[i, count + j] = 0.0
        for k in range(n):
            for j in range(k + 1):  # L is lower triangular
                M[i, count + j] += c[k] * L[k, j]
    for i in range(n):
        for j in range(count):
            M[count + i, j] = 0.0
        for j in range(n):
            M[count + i, count + j] = L[i, j]
    if triangularise(M, count, size, size, pivots) < count:
        return np.nan
    constant = 0.5 * LOG_TWO_PI * count
    for i in range(count):
        constant += math.log(M[i, i])
        for j in range(i):
            F[i, j] = M[i, j]
        F[i, i] = 1.0 / M[i, i]
    for i in range(n):
        for j in range(count):
            K[i, j] = M[count + i, j]
        for j in range(n):
            S[i, j] = M[count + i, count + j]
    return constant


@kernel
def predict_root(A, Q_root, S, M, pivots, L):
    """L L' = A S S' A' + Q, as the reduction of [A S, Q^1/2]."""
    n = A.shape[0]
    multiply(A, S, M)
    for i in range(n):
        for j in range(n):
            M[i, n + j] = Q_root[i, j]
    triangularise(M, n, n, 2 * n, pivots)
    for i in range(n):
        for j in range(n):
            L[i, j] = M[i, j]


@kernel
def correct(y, now, C, c, observed, count, K, F, slot, e, mean):
    """Bring y[now] into the mean, in place, by the ``slot`` of gains; returns |e|^2 / 2.

    Places in arrays and not views of them, here and in :func:`advance`: a view counts references, which costs
    more than a product with a small matrix.
    """
    n = mean.shape[0]
    half = 0.0
    for i in range(count):
        row = observed[i]
        total = y[now, row]
        for j in range(n):
            total -= C[c, row, j] * mean[j]
        for j in range(i):
            total -= F[slot, i, j] * e[j]
        e[i] = total * F[slot, i, i]
        half += 0.5 * e[i] * e[i]
    for j in range(n):
        for i in range(count):
            mean[j] += K[slot, j, i] * e[i]
    return half


@kernel
def advance(A, a, drift, d, means, now, after):
    """after = A[a] means[now] + drift[d]."""
    n = after.shape[0]
    for i in range(n):
        total = drift[d, i]
        for j in range(n):
            total += A[a, i, j] * means[now, j]
        after[i] = total


@kernel
def filter_shard(y, drift, offsets, system, longest, slots, work, means, slot_of, log_densities, failed):
    """Filter every sequence: ``means`` (N, n), the slot of each step (N,), and log p (S,).

    An observation without a density (no noise, and its value certain) ends it: ``failed`` gets the sequence
    and the step.
    """
    A, Q_root, C, R_root = system.A, system.Q_root, system.C, system.R_root
    roots, gains, innovations, constants = slots.roots, slots.gains, slots.innovations, slots.constants
    path = slots.path
    M, L, before, observed, pivots, e, m = work
    n, p = A.shape[1], C.shape[1]
    a_step, q_step = int(A.shape[0] > 1), int(Q_root.shape[0] > 1)
    c_step, r_step, d_step = int(C.shape[0] > 1), int(R_root.shape[0] > 1), int(drift.shape[0] > 1)
    constant_matrices = a_step + q_step + c_step + r_step == 0
    own = longest
    for s in range(len(offsets) - 1):
        start = offsets[s]
        log_density = 0.0
        on_path, steady, have_before = True, False, False
        slot, count = -1, -1
        for t in range(offsets[s + 1] - start):
            now = start + t
            if t == 0:
                for i in range(n):
                    m[i] = system.mean[i]
            else:
                advance(A, (t - 1) * a_step, drift, (now - 1) * d_step, means, now - 1, m)
            count, same = read_pattern(y[now], observed, count)
            if on_path and count < p:
                on_path, steady, have_before = False, False, False
            if on_path and t < path[0]:
                slot, have_before = t, False
            elif on_path and path[1] == 1:
                slot = path[0] - 1
            elif not (steady and same):
                if t == 0:
                    for i in range(n):
                        for j in range(n):
                            L[i, j] = system.root[i, j]
                else:
                    predict_root(A[(t - 1) * a_step], Q_root[(t - 1) * q_step], roots[slot], M, pivots, L)
                steady = constant_matrices and have_before and same and close(L, before, STEADY)
                for i in range(n):
                    for j in range(n):
                        before[i, j] = L[i, j]
                have_before = True
                if on_path:
                    slot = t
                    path[0] = t + 1
                    path[1] = int(steady)
                else:
                    slot = own
                    own += 1
                gain = min(slot, longest)
                constants[gain] = observe(
                    C[t * c_step], R_root[t * r_step], L, observed, count, M, pivots,
                    roots[slot], gains[gain], innovations[gain],
                )  # fmt: skip
                if np.isnan(constants[gain]):
                    failed[0], failed[1] = s, t
                    return
            gain = min(slot, longest)
            half = correct(y, now, C, t * c_step, observed, count, gains, innovations, gain, e, m)
            log_density -= half + constants[gain]
            slot_of[now] = slot
            for i in range(n):
                means[now, i] = m[i]
        log_densities[s] = log_density


@kernel
def filtered_covariances(roots, slot_of, covariances):
    """P_t = S S' of the slot of each step."""
    n = roots.shape[1]
    for t in range(len(slot_of)):
        if t > 0 and slot_of[t] == slot_of[t - 1]:
            for i in range(n):
                for j in range(n):
                    covariances[t, i, j] = covariances[t - 1, i, j]
        else:
            outer(roots[slot_of[t]], n, n, covariances[t])


@kernel
def stream_step(y, drift, A, Q_root, C, R_root, constant_matrices, mean, L, S, K, F, state, work):
    """One step of a filter that remembers only itself; returns log p(y_t | past), NaN without a density.

    ``mean`` and ``S`` are those of the step before and become those of this one; L is the predicted root.
    ``state``: the number of steps so far, the number observed in the last one, the constant of its gain, and
    whether L is steady.
    """
    M, fresh, _, observed, pivots, e, m = work
    n = mean.shape[0]
    if state[0] > 0.0:
        advance(np.expand_dims(A, 0), 0, np.expand_dims(drift, 0), 0, np.expand_dims(mean, 0), 0, m)
        for i in range(n):
            mean[i] = m[i]
    count, same = read_pattern(y, observed, int(state[1]))
    state[1] = count
    if state[3] == 0.0 or not same:
        if state[0] > 0.0:
            predict_root(A, Q_root, S, M, pivots, fresh)
            steady = constant_matrices and same and close(fresh, L, STEADY)
            state[3] = 1.0 if steady else 0.0
            for i in range(n):
                for j in range(n):
                    L[i, j] = fresh[i, j]
        state[2] = observe(C, R_root, L, observed, count, M, pivots, S, K, F)
    state[0] += 1.0
    half = correct(
        np.expand_dims(y, 0), 0, np.expand_dims(C, 0), 0, observed, count, np.expand_dims(K, 0),
        np.expand_dims(F, 0), 0, e, mean,
    )  # fmt: skip
    return -half - state[2]

# mypy: allow-untyped-defs
"""The oracles of a chain for a run of sequences, ``first..last-1`` of a packed batch: one call of a shard.

``unary`` (N, K), ``transitions`` (1, K, K) or (N, K, K), ``start``, ``end`` (K,), ``offsets`` (S + 1,).
Results go to the rows of the outputs that belong to these sequences, so threads write side by side; what is
summed over sequences is each shard's own. A sequence with no allowed labelling gets ``-inf``, which the
caller turns into an error.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.backward_filter_kernels import filter_log_partition
from trellis.structures.chain.oracle.chain_kernels import (
    exp_transitions,
    forward_backward,
    lanes,
    scaled_forward,
    score_labels,
    viterbi,
)
from trellis.structures.chain.oracle.risk_kernels import expected_loss
from trellis.structures.chain.oracle.sample_kernels import entropy, sample
from trellis.structures.chain.oracle.search_kernels import best_different, k_best


@kernel
def _longest(offsets, first, last):
    longest = 0
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest


@kernel
def _steps(parts, lo, hi):
    """The rows of one sequence in an array that is per step (N, ...) or shared (1, ...)."""
    return parts if parts.shape[0] == 1 else parts[lo:hi]


@kernel
def score_batch(unary, transitions, start, end, offsets, first, last, labels, scores):
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        scores[i] = score_labels(unary[lo:hi], _steps(transitions, lo, hi), start, end, labels[lo:hi])


@kernel
def best_batch(unary, transitions, start, end, offsets, first, last, labels, scores):
    v = np.empty((_longest(offsets, first, last), unary.shape[1]))
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        scores[i] = viterbi(unary[lo:hi], _steps(transitions, lo, hi), start, end, v, labels[lo:hi])


@kernel
def best_different_batch(unary, transitions, start, end, offsets, first, last, given, labels, scores):
    """Labels are -1 where no other labelling is allowed."""
    longest = _longest(offsets, first, last)
    v, same = np.empty((longest, unary.shape[1])), np.empty(longest)
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        labels[lo:hi] = -1
        a = _steps(transitions, lo, hi)
        scores[i] = best_different(
            unary[lo:hi], a, start, end, given[lo:hi], v[: hi - lo], same, labels[lo:hi]
        )


@kernel
def k_best_batch(unary, transitions, start, end, offsets, first, last, k, labels, scores):
    """``labels`` (k, N), ``scores`` (S, k)."""
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        k_best(unary[lo:hi], _steps(transitions, lo, hi), start, end, k, labels[:, lo:hi], scores[i])


@kernel
def log_partition_batch(unary, transitions, start, end, offsets, first, last, log_z):
    K = unary.shape[1]
    longest = _longest(offsets, first, last)
    rows = min(longest, transitions.shape[0])
    size = lanes(K)
    ea, ea_t, shift = np.zeros((rows, size, size)), np.zeros((rows, size, size)), np.empty(rows)
    alpha, e, scale = np.empty((longest, size)), np.zeros((longest, size)), np.empty(longest)
    shared = transitions.shape[0] == 1
    floor = exp_transitions(transitions, ea, ea_t, shift) if shared and longest > 0 else -1.0
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        log_z[i] = 0.0
        if lo == hi:
            continue
        u, a = unary[lo:hi], _steps(transitions, lo, hi)
        m = len(a)
        if not shared:
            floor = exp_transitions(a, ea[:m], ea_t[:m], shift)
        log_z[i] = np.nan
        if floor >= 0.0:
            log_z[i] = scaled_forward(u, start, end, ea_t[:m], shift, floor, alpha, e, scale)
        if np.isnan(log_z[i]):
            log_z[i] = filter_log_partition(u, a, start, end, np.empty((hi - lo, K)))


@kernel
def marginals_batch(unary, transitions, start, end, offsets, first, last, log_z, marginals, pairs):
    """``marginals`` (N, K) and ``pairs``, (1, K, K) summed or (N, K, K), come as zeros."""
    K = unary.shape[1]
    longest = _longest(offsets, first, last)
    rows = min(longest, transitions.shape[0])
    size = lanes(K)
    ea, ea_t, shift = np.zeros((rows, size, size)), np.zeros((rows, size, size)), np.empty(rows)
    alpha, e, scale = np.empty((longest, size)), np.zeros((longest, size)), np.empty(longest)
    beta, outer = np.empty(size), np.zeros((size, size))
    shared = transitions.shape[0] == 1
    floor = exp_transitions(transitions, ea, ea_t, shift) if shared and longest > 0 else -1.0
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        log_z[i] = 0.0
        if lo == hi:
            continue
        u, a, block = unary[lo:hi], _steps(transitions, lo, hi), _steps(pairs, lo, hi)
        m = len(a)
        if not shared:
            floor = exp_transitions(a, ea[:m], ea_t[:m], shift)
        log_z[i] = forward_backward(
            u,
            a,
            start,
            end,
            floor,
            ea[:m],
            ea_t[:m],
            shift,
            alpha,
            e,
            scale,
            beta,
            marginals[lo:hi],
            outer,
            block,
        )
    if floor >= 0.0 and pairs.shape[0] == 1:
        for j in range(K):
            for k in range(K):
                pairs[0, j, k] += outer[j, k] * ea[0, j, k]


@kernel
def entropy_batch(unary, transitions, start, end, offsets, first, last, values):
    f = np.empty((_longest(offsets, first, last), unary.shape[1]))
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        values[i] = entropy(unary[lo:hi], _steps(transitions, lo, hi), start, end, f)


@kernel
def sample_batch(unary, transitions, start, end, offsets, first, last, uniforms, labels):
    """``uniforms`` and ``labels`` are (m, N); returns the first sequence that has no labelling, or -1."""
    f = np.empty((_longest(offsets, first, last), unary.shape[1]))
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        a = _steps(transitions, lo, hi)
        if not sample(unary[lo:hi], a, start, end, uniforms[:, lo:hi], f, labels[:, lo:hi]):
            return i
    return -1


@kernel
def expected_loss_batch(
    unary, transitions, start, end, offsets, first, last, cost, values, d_unary, d_trans, d_start, d_end
):
    """The gradients are added to, ``d_trans`` being (1, K, K) or (N, K, K)."""
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        a, d_a = _steps(transitions, lo, hi), _steps(d_trans, lo, hi)
        values[i] = expected_loss(
            unary[lo:hi], a, start, end, cost[lo:hi], d_unary[lo:hi], d_a, d_start, d_end, 1.0
        )

# mypy: allow-untyped-defs
"""The oracles of a chain for the sequences ``first..last-1`` of a packed batch: one call for each shard.

``unary`` (N, K), ``transitions`` (1, K, K) or (N, K, K), ``start``, ``end`` (K,), ``offsets`` (S + 1,).
Results go to the rows of the outputs that belong to these sequences, so threads do not interfere; sums over
sequences are kept per shard. A sequence with no allowed labelling gets ``-inf``; the caller raises an error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.backward_filter_kernels import filter_log_partition
from trellis.structures.chain.oracle.chain_kernels import (
    exp_transitions,
    forward_backward,
    lanes,
    max_length,
    scaled_forward,
    score_labels,
    viterbi,
)
from trellis.structures.chain.oracle.risk_kernels import expected_loss
from trellis.structures.chain.oracle.sample_kernels import entropy, sample
from trellis.structures.chain.oracle.search_kernels import best_different, k_best
from trellis.structures.chain.oracle.small_viterbi_kernels import FEW, grouped_transitions, small_viterbi


@kernel
def _steps(parts, lo, hi):
    """The rows of one sequence in an array that is per step (N, ...) or shared (1, ...)."""
    return parts if parts.shape[0] == 1 else parts[lo:hi]


@kernel
def score_batch(unary, transitions, start, end, offsets, first, last, labels, scores):
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        scores[i] = score_labels(unary[lo:hi], _steps(transitions, lo, hi), start, end, labels[lo:hi])


def viterbi_batch(transitions: FloatArray) -> Callable[..., None]:
    """The kernel that labels best with these transitions: only that one is compiled."""
    shared, K = transitions.shape[0] == 1, transitions.shape[1]
    chosen: Callable[..., None] = few_labels_batch if shared and 0 < K <= FEW else many_labels_batch
    return chosen


@kernel
def few_labels_batch(unary, transitions, start, end, offsets, first, last, labels, scores):
    a = grouped_transitions(transitions[0])
    v = np.full((max_length(offsets, first, last), a.shape[0]), -np.inf)
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        scores[i] = 0.0
        if hi > lo:
            scores[i] = small_viterbi(unary, lo, hi - lo, a, start, end, v, labels[lo:hi])


@kernel
def many_labels_batch(unary, transitions, start, end, offsets, first, last, labels, scores):
    v = np.empty((max_length(offsets, first, last), unary.shape[1]))
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        scores[i] = viterbi(unary[lo:hi], _steps(transitions, lo, hi), start, end, v, labels[lo:hi])


@kernel
def best_different_batch(unary, transitions, start, end, offsets, first, last, given, labels, scores):
    """Labels are -1 where no other labelling is allowed."""
    n = max_length(offsets, first, last)
    v, same = np.empty((n, unary.shape[1])), np.empty(n)
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
def _message_scratch(transitions, offsets, first, last):
    """Arrays for scaled messages of these sequences, and the exponentials of shared transitions."""
    n, size = max_length(offsets, first, last), lanes(transitions.shape[1])
    rows = min(n, transitions.shape[0])
    ea, ea_t, shift = np.zeros((rows, size, size)), np.zeros((rows, size, size)), np.empty(rows)
    alpha, e, scale = np.empty((n, size)), np.zeros((n, size)), np.empty(n)
    floor = exp_transitions(transitions, ea, ea_t, shift) if transitions.shape[0] == 1 and n > 0 else -1.0
    return floor, ea, ea_t, shift, alpha, e, scale


@kernel
def log_partition_batch(unary, transitions, start, end, offsets, first, last, log_z):
    floor, ea, ea_t, shift, alpha, e, scale = _message_scratch(transitions, offsets, first, last)
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        log_z[i] = 0.0
        if lo == hi:
            continue
        u, a = unary[lo:hi], _steps(transitions, lo, hi)
        m = len(a)
        if transitions.shape[0] > 1:
            floor = exp_transitions(a, ea[:m], ea_t[:m], shift)
        log_z[i] = np.nan
        if floor >= 0.0:
            log_z[i] = scaled_forward(u, start, end, ea_t[:m], shift, floor, alpha, e, scale)
        if np.isnan(log_z[i]):
            log_z[i] = filter_log_partition(u, a, start, end, np.empty(u.shape))


@kernel
def marginals_batch(unary, transitions, start, end, offsets, first, last, log_z, marginals, pairs):
    """``marginals`` (N, K) and ``pairs``, (1, K, K) summed or (N, K, K), come as zeros."""
    floor, ea, ea_t, shift, alpha, e, scale = _message_scratch(transitions, offsets, first, last)
    beta, outer = np.empty(e.shape[1]), np.zeros((e.shape[1], e.shape[1]))
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        log_z[i] = 0.0
        if lo == hi:
            continue
        u, a, block = unary[lo:hi], _steps(transitions, lo, hi), _steps(pairs, lo, hi)
        m = len(a)
        if transitions.shape[0] > 1:
            floor = exp_transitions(a, ea[:m], ea_t[:m], shift)
        own = marginals[lo:hi]
        log_z[i] = forward_backward(
            u, a, start, end, floor, ea[:m], ea_t[:m], shift, alpha, e, scale, beta, own, outer, block
        )  # fmt: skip
    if floor >= 0.0 and pairs.shape[0] == 1:
        for j in range(pairs.shape[1]):
            for k in range(pairs.shape[1]):
                pairs[0, j, k] += outer[j, k] * ea[0, j, k]


@kernel
def entropy_batch(unary, transitions, start, end, offsets, first, last, values):
    f = np.empty((max_length(offsets, first, last), unary.shape[1]))
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        values[i] = entropy(unary[lo:hi], _steps(transitions, lo, hi), start, end, f)


@kernel
def sample_batch(unary, transitions, start, end, offsets, first, last, uniforms, labels):
    """``uniforms`` and ``labels`` are (m, N); returns the first sequence that has no labelling, or -1."""
    f = np.empty((max_length(offsets, first, last), unary.shape[1]))
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

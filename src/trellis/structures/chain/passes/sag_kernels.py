# mypy: allow-untyped-defs
"""A pass of the stochastic average gradient method for dense, smooth objectives, with weights brought up to
date just in time.

With F_i = c_i f_i, lambda = l2 / n, and D = sum_i y_i the sum of the last gradients y_i seen of each F_i, a
visit of i does

    D <- D + grad F_i(w) - y_i,    y_i <- grad F_i(w),    w <- (1 - alpha lambda) w - (alpha / m) D,

m being the number of sequences seen so far. D is dense, but a weight's entry changes only when a sequence
with its feature is visited. So w = b V with one scalar b, and

    b <- (1 - alpha lambda) b,    C <- C + alpha / (m b),
    V_j -= (C - C_j) D_j,  C_j <- C    when weight j is next needed,

for any sequence of step sizes alpha. y_i is kept as the gradient in the *scores* of i, (n, K) and (K, K),
which is far smaller than its gradient in the weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.numerics import kernel
from trellis.solvers.online.step_size_kernels import FLAT, FORGET
from trellis.structures.chain.oracle.chain_kernels import exp_transitions, max_length
from trellis.structures.chain.problem.chain_problem_kernels import (
    dense_at,
    score_sequence,
    score_shared,
)
from trellis.structures.chain.problem.objective_kernels import new_work
from trellis.structures.chain.scores.linear_chain_kernels import Weights, pull_back, score_steps

SCALE, TIME, SEEN = range(3)  # entries of ``clock``: b, C, m
SMALL_SCALE = 1e-6


class Memory(NamedTuple):
    """All that a run carries from pass to pass."""

    v: Weights  # V
    total: Weights  # D
    d_unary: NDArray[np.float64]  # (N, K): y_i in the unary scores
    d_trans: NDArray[np.float64]  # (S, K, K)
    caught_up: NDArray[np.float64]  # (rows + 1,): C_j of each row, and of what all sequences share
    clock: NDArray[np.float64]
    curvature: NDArray[np.float64]  # (S,): L_i, 0 before the first visit
    level: NDArray[np.int64]  # (S,): searches passed at once in a row
    skip: NDArray[np.int64]  # (S,): visits without a search


@kernel
def _catch_up_span(flat, total, mask, first, last, gap):
    """V_j -= (C - C_j) D_j for one row."""
    if mask.shape[0] == 0:
        for q in range(first, last):
            flat[q] -= gap * total[q]
        return
    for q in range(first, last):
        if mask[q] != 0:
            flat[q] -= gap * total[q]


@kernel
def _catch_up(design, rows, mask, i, memory):
    """Bring the weights that sequence i needs up to date."""
    flat, total, caught_up = memory.v.flat, memory.total.flat, memory.caught_up
    pointer, indices, now = rows.pointer, design.indices, memory.clock[TIME]
    n_rows = pointer.shape[0] - 1
    for p in range(design.indptr[design.offsets[i]], design.indptr[design.offsets[i + 1]]):
        f = indices[p]
        if caught_up[f] != now:
            _catch_up_span(flat, total, mask, pointer[f], pointer[f + np.uint32(1)], now - caught_up[f])
            caught_up[f] = now
    _catch_up_span(flat, total, mask, pointer[n_rows], flat.shape[0], now - caught_up[n_rows])
    caught_up[n_rows] = now


@kernel
def settle(rows, mask, memory):
    """Bring all weights up to date: V = w, b = 1, C = 0."""
    flat, clock, pointer = memory.v.flat, memory.clock, rows.pointer
    n_rows = pointer.shape[0] - 1
    for f in range(n_rows + 1):
        last = pointer[f + 1] if f < n_rows else flat.shape[0]
        _catch_up_span(flat, memory.total.flat, mask, pointer[f], last, clock[TIME] - memory.caught_up[f])
        memory.caught_up[f] = 0.0
    for q in range(flat.shape[0]):
        flat[q] *= clock[SCALE]
    clock[SCALE], clock[TIME] = 1.0, 0.0


@kernel
def _score(design, rows, penalties, i, memory, work):
    """Scores under w = b V."""
    b = memory.clock[SCALE]
    score_shared(design, memory.v, penalties, work)
    score_sequence(design, rows, memory.v, penalties, i, work)
    if b == 1.0:
        return
    K = work.start.shape[0]
    for t in range(design.offsets[i + 1] - design.offsets[i]):
        for k in range(K):
            work.u[t, k] *= b
    for k in range(K):
        work.start[k] *= b
        work.end[k] *= b
        for j in range(K):
            work.a[0, j, k] *= b


@kernel
def _direction(design, rows, mask, task, i, g, work, step):
    """Scores of the gradient of F_i, taken as weights, into ``step``; returns its squared norm. ``g``:
    views of a zero vector.

    Overwrites ``step.d_unary``. Moving the weights by -g / L moves the scores by -step / L.
    """
    n, K = design.offsets[i + 1] - design.offsets[i], work.start.shape[0]
    flat, pointer, masked = g.flat, rows.pointer, mask.shape[0] > 0
    step.d_unary[:n] = work.d_unary[:n]
    pull_back(design, rows, g, i, step.d_unary[:n], work.d_trans, task.weight[i])
    begin, end = design.indptr[design.offsets[i]], design.indptr[design.offsets[i + 1]]
    common = pointer[pointer.shape[0] - 1]
    if masked:
        for p in range(begin, end):
            f = design.indices[p]
            for q in range(pointer[f], pointer[f + np.uint32(1)]):
                flat[q] *= mask[q]
        for q in range(common, flat.shape[0]):
            flat[q] *= mask[q]
    score_steps(design, rows, g, i, step.u)
    for k in range(K):
        step.start[k], step.end[k] = g.start[k], g.end[k]
        for j in range(K):
            step.a[0, j, k] = g.transitions[j, k]
    square = 0.0
    for p in range(begin, end):
        f = design.indices[p]
        for q in range(pointer[f], pointer[f + np.uint32(1)]):
            square += flat[q] * flat[q]
            flat[q] = 0.0
    for q in range(common, flat.shape[0]):
        square += flat[q] * flat[q]
        flat[q] = 0.0
    return square


@kernel
def _search(formula, loss_kind, design, task, i, value, square, L, work, step, trial):
    """The smallest L 2^k for which F_i(w - g / L) <= F_i(w) - ||g||^2 / (2 L)."""
    n, K = design.offsets[i + 1] - design.offsets[i], work.start.shape[0]
    weight = task.weight[i]
    for _ in range(100):
        x = 1.0 / L
        for t in range(n):
            for k in range(K):
                trial.u[t, k] = work.u[t, k] - x * step.u[t, k]
        for k in range(K):
            trial.start[k] = work.start[k] - x * step.start[k]
            trial.end[k] = work.end[k] - x * step.end[k]
            for j in range(K):
                trial.a[0, j, k] = work.a[0, j, k] - x * step.a[0, j, k]
        floor = exp_transitions(trial.a, trial.ea, trial.ea_t, trial.shift)
        there = dense_at(formula, loss_kind, design, task, i, floor, trial)
        if weight * there <= weight * value - 0.5 * x * square + 1e-12 * abs(weight * value):
            break
        L *= 2.0
    return L


@kernel
def _estimate_curvature(
    formula, loss_kind, design, rows, mask, task, i, value, mean, g, memory, work, step, trial
):
    """L_i by search, now and then: after k searches passed at once in a row, 2^(k-1) visits go without
    one."""
    fresh = memory.curvature[i] == 0.0
    if memory.skip[i] > 0 and not fresh:
        memory.skip[i] -= 1
        return
    square = _direction(design, rows, mask, task, i, g, work, step)
    L = mean if fresh else FORGET * memory.curvature[i]
    if square < FLAT:
        memory.curvature[i] = L
        return
    found = _search(formula, loss_kind, design, task, i, value, square, L, work, step, trial)
    memory.curvature[i] = found
    if found == L:
        memory.level[i] += 1
        memory.skip[i] = 1 << min(memory.level[i] - 1, 20)
    else:
        memory.level[i] = max(memory.level[i] - 1, 0)


@kernel
def _remember(design, rows, task, i, memory, work):
    """D += grad F_i - y_i, and y_i <- grad F_i."""
    lo, hi = design.offsets[i], design.offsets[i + 1]
    K = work.start.shape[0]
    old, old_pairs = memory.d_unary, memory.d_trans[i]
    for t in range(hi - lo):
        for k in range(K):
            new = work.d_unary[t, k]
            work.d_unary[t, k] = new - old[lo + t, k]
            old[lo + t, k] = new
    for j in range(K):
        for k in range(K):
            new = work.d_trans[0, j, k]
            work.d_trans[0, j, k] = new - old_pairs[j, k]
            old_pairs[j, k] = new
    pull_back(design, rows, memory.total, i, work.d_unary[: hi - lo], work.d_trans, task.weight[i])


@kernel
def sag_pass(formula, loss_kind, design, rows, penalties, mask, task, order, decay, memory, g):
    """Visit the sequences of ``order``. Returns the first whose value is not finite, or -1. ``g``: views of
    a zero vector."""
    K, S = memory.v.start.shape[0], design.offsets.shape[0] - 1
    longest = max_length(design.offsets, 0, S)
    work, step, trial = new_work(longest, K, False), new_work(longest, K, False), new_work(longest, K, False)
    clock, curvature = memory.clock, memory.curvature
    largest, total = 0.0, 0.0
    for i in range(S):
        largest, total = max(largest, curvature[i]), total + curvature[i]
    for i in order:
        if design.offsets[i + 1] == design.offsets[i] or task.weight[i] == 0.0:
            continue
        _catch_up(design, rows, mask, i, memory)
        _score(design, rows, penalties, i, memory, work)
        floor = exp_transitions(work.a, work.ea, work.ea_t, work.shift)
        value = dense_at(formula, loss_kind, design, task, i, floor, work)
        if not np.isfinite(value):
            return i
        before = curvature[i]
        mean = total / clock[SEEN] if clock[SEEN] > 0.0 else 1.0
        _estimate_curvature(
            formula, loss_kind, design, rows, mask, task, i, value, mean, g, memory, work, step, trial
        )
        if before == 0.0:
            clock[SEEN] += 1.0
        total += curvature[i] - before
        largest = max(largest, curvature[i])
        _remember(design, rows, task, i, memory, work)
        alpha = 0.5 / (largest + decay) + 0.5 / (total / clock[SEEN] + decay)
        clock[SCALE] *= 1.0 - alpha * decay
        clock[TIME] += alpha / (clock[SEEN] * clock[SCALE])
        if clock[SCALE] < SMALL_SCALE:
            settle(rows, mask, memory)
    settle(rows, mask, memory)
    return -1

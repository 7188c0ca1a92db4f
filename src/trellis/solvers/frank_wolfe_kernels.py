# mypy: allow-untyped-defs
"""Passes of block-coordinate pairwise Frank-Wolfe, each one call: exact (with the oracle) and cached (without)."""

from __future__ import annotations

import numpy as np

from trellis.inference.chain_kernels import score_labels
from trellis.numerics import kernel
from trellis.objectives.example_kernels import PERCEPTRON, new_work, path_cost
from trellis.objectives.linear_kernels import longest_of, objective_at, score_sequence, score_shared
from trellis.objectives.plane_kernels import room_for
from trellis.solvers.plane_cache_kernels import (
    dot_difference,
    insert_plane,
    make_room,
    move_weights,
    pairwise_steps,
    plane_path,
)

EQUAL = 1e-12  # relative: a plane no higher than the cached ones by more than this is one of them


@kernel
def _plane_values(design, work, cache, i, gold, m, before):
    """m_c of the cached planes from the scores in ``work``, and the alphas into ``before``; returns the largest m."""
    n = gold.shape[0]
    a = work.a if work.a.shape[0] == 1 else work.a[:n]
    gold_score = score_labels(work.u[:n], a, work.start, work.end, gold)
    top = 0.0
    for c in range(cache.count[i]):
        s = score_labels(work.u[:n], a, work.start, work.end, plane_path(cache, design, i, c))
        m[c] = cache.offset[i, c] + cache.coefficient[i, c] * (s - gold_score)
        before[c] = cache.alpha[i, c]
        top = max(top, m[c])
    return top


@kernel
def _mean(alpha, m, count):
    total = 0.0
    for c in range(count):
        total += alpha[c] * m[c]
    return total


@kernel
def exact_pass(mode, loss_kind, design, rows, w, penalties, mask, task, order, cache, l2, inner, scratch):
    """Visit the sequences of ``order``: ask the oracle for the highest plane, then step inside the block.

    Returns (gap, bad): the sum of c_i (f_i(w) - sum_c alpha_c m_c), each at the weights of its visit, and the first sequence
    whose value is not finite (-1: none). ``scratch``: views of a zero vector.
    """
    S = design.offsets.shape[0] - 1
    C = cache.alpha.shape[1]
    work = new_work(longest_of(design.offsets, 0, S), w.transitions.shape[0], w.edge.shape[0] > 0)
    touched = np.empty(room_for(design, 0, S), dtype=np.int64)
    m, before = np.zeros(C), np.zeros(C)
    gap = 0.0
    for i in order:
        lo, hi = design.offsets[i], design.offsets[i + 1]
        weight = task.weight[i]
        if hi == lo or weight == 0.0:
            continue
        gold, rate = task.gold[lo:hi], weight / l2
        score_shared(design, w, penalties, work)
        score_sequence(design, rows, w, penalties, i, work)
        value, q = objective_at(mode, loss_kind, 1.0, design, task, i, True, work)
        if not np.isfinite(value):
            return gap, i
        top = _plane_values(design, work, cache, i, gold, m, before)
        gap += weight * (value - _mean(cache.alpha[i], m, cache.count[i]))
        if value > top + EQUAL * (1.0 + abs(value)):
            slot = make_room(cache, i, m, rate)
            if slot < cache.count[i] - 1 or before[slot] != 0.0:
                move_weights(design, rows, w, mask, cache, i, gold, before, rate)
                before[: cache.count[i]] = cache.alpha[i, : cache.count[i]]
            cost = task.cost[lo:hi] if task.cost.shape[0] > 0 else task.cost
            b = 0.0 if mode == PERCEPTRON else path_cost(loss_kind, cost, gold, work.up, hi - lo)
            insert_plane(design, rows, mask, cache, i, slot, gold, work.up, b, q, scratch, touched)
            m[slot] = b + q * dot_difference(design, rows, w, i, work.up, gold)
            before[slot] = 0.0
        pairwise_steps(cache.alpha[i], m, cache.gram[i], cache.count[i], rate, inner, 0.0)
        move_weights(design, rows, w, mask, cache, i, gold, before, rate)
    return gap, -1


@kernel
def cached_pass(design, rows, w, mask, task, order, cache, l2, inner):
    """Visit the sequences with the planes of their caches only; each is scored along its labelling."""
    C = cache.alpha.shape[1]
    m, before = np.zeros(C), np.zeros(C)
    for i in order:
        count = cache.count[i]
        if count == 1:
            continue
        lo, hi = design.offsets[i], design.offsets[i + 1]
        gold, rate = task.gold[lo:hi], task.weight[i] / l2
        for c in range(count):
            path = plane_path(cache, design, i, c)
            m[c] = cache.offset[i, c]
            m[c] += cache.coefficient[i, c] * dot_difference(design, rows, w, i, path, gold)
            before[c] = cache.alpha[i, c]
        pairwise_steps(cache.alpha[i], m, cache.gram[i], count, rate, inner, 0.0)
        move_weights(design, rows, w, mask, cache, i, gold, before, rate)


@kernel
def upper_values(mode, loss_kind, design, rows, w, penalties, task, first, last, values, excess):
    """f_i(w) of sequences first..last-1, and how far the oracle's own upper bound lies above it (0: exact)."""
    work = new_work(longest_of(design.offsets, first, last), w.transitions.shape[0], w.edge.shape[0] > 0)
    score_shared(design, w, penalties, work)
    for i in range(first, last):
        score_sequence(design, rows, w, penalties, i, work)
        values[i], _ = objective_at(mode, loss_kind, 1.0, design, task, i, True, work)
        excess[i] = work.bound[0]

# mypy: allow-untyped-defs
"""Passes of block-coordinate pairwise Frank-Wolfe, each one call: exact (with the oracle) and cached
(without)."""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.chain_kernels import max_length, score_labels
from trellis.structures.chain.passes.plane_cache_kernels import (
    block_change,
    insert_plane,
    make_room,
    move_edges,
    move_unary,
    pairwise_steps,
    plane_path,
)
from trellis.structures.chain.problem.chain_problem_kernels import (
    path_at,
    score_sequence,
    score_shared,
)
from trellis.structures.chain.problem.objective_kernels import new_work, path_cost
from trellis.structures.chain.problem.plane_kernels import room_for_difference

EQUAL = 1e-12  # relative: a plane no higher than the cached ones by more than this is one of them


@kernel
def _plane_values(design, work, cache, i, gold, m, before):
    """m_c of the cached planes from the scores in ``work``, and the alphas into ``before``; returns
    (largest, mean)."""
    n = gold.shape[0]
    a = work.a if work.a.shape[0] == 1 else work.a[:n]
    gold_score = score_labels(work.u[:n], a, work.start, work.end, gold)
    top, mean = 0.0, 0.0
    for c in range(cache.used[i]):
        s = score_labels(work.u[:n], a, work.start, work.end, plane_path(cache, design, i, c))
        m[c] = cache.offset[i, c] + cache.coefficient[i, c] * (s - gold_score)
        before[c] = cache.alpha[i, c]
        top = max(top, m[c])
        mean += before[c] * m[c]
    return top, mean


@kernel
def _move(design, rows, w, average, mass, mask, cache, i, gold, before, rate, d_unary):
    """Bring w to the block's new alphas; average -= mass * (the change of w)."""
    if not block_change(cache, design, i, gold, before, rate, d_unary):
        return
    move_unary(design, rows, w, mask, i, d_unary, 1.0)
    move_edges(design, w, mask, cache, i, gold, before, rate)
    if average.flat.shape[0] > 0:
        move_unary(design, rows, average, mask, i, d_unary, -mass)
        move_edges(design, average, mask, cache, i, gold, before, -mass * rate)


@kernel
def block_pass(
    exact,
    formula,
    loss_kind,
    design,
    rows,
    w,
    average,
    time,
    penalties,
    mask,
    task,
    order,
    cache,
    l2,
    inner,
    scratch,
):
    """Visit the sequences of ``order``: score, ask the oracle for the highest plane (if ``exact``), step
    inside the block.

    Returns the sum of c_i (f_i(w) - sum_c alpha_c m_c), each at the weights of its visit; the first sequence
    whose value is not finite (-1: none); and how many planes found no room. ``scratch``: views of a zero
    vector. ``average``: views of A, or of nothing; ``time``: t and sum of t.
    """
    S, C = cache.alpha.shape
    K = w.transitions.shape[0]
    work = new_work(max_length(design.offsets, 0, S), K, w.edge.shape[0] > 0)
    room = room_for_difference(design)
    position, value = np.empty(room, dtype=np.int64), np.empty(room)
    m, before = np.zeros(C), np.zeros(C)
    gap, crowded = 0.0, 0
    for i in order:
        lo, hi = design.offsets[i], design.offsets[i + 1]
        weight = task.weight[i]
        if hi == lo or weight == 0.0 or not (exact or cache.used[i] > 1):
            continue
        gold, rate, d_unary = task.gold[lo:hi], weight / l2, work.d_unary[: hi - lo]
        score_shared(design, w, penalties, work)
        score_sequence(design, rows, w, penalties, i, work)
        top, mean = _plane_values(design, work, cache, i, gold, m, before)
        height = top
        if exact:
            height, q = path_at(formula, loss_kind, 1.0, design, task, i, work)
            if not np.isfinite(height):
                return gap, i, crowded
        gap += weight * (height - mean)
        if height > top + EQUAL * (1.0 + abs(height)):
            slot = make_room(cache, i, m)
            if slot < 0:
                crowded += 1
            else:
                cost = task.cost[lo:hi] if task.cost.shape[0] > 0 else task.cost
                b = formula.loss_scale * path_cost(loss_kind, cost, gold, work.up, hi - lo)
                insert_plane(
                    design, rows, mask, cache, i, slot, gold, work.up, b, q, scratch, position, value
                )
                m[slot], before[slot] = height, 0.0
        pairwise_steps(cache.alpha[i], m, cache.gram[i], cache.used[i], rate, inner, 0.0)
        _move(design, rows, w, average, time[1], mask, cache, i, gold, before, rate, d_unary)
        time[0] += 1.0
        time[1] += time[0]
    return gap, -1, crowded


@kernel
def upper_values(formula, loss_kind, design, rows, w, penalties, task, first, last, values, excess):
    """f_i(w) of sequences first..last-1, and how far the oracle's own upper bound lies above it (0:
    exact)."""
    work = new_work(max_length(design.offsets, first, last), w.transitions.shape[0], w.edge.shape[0] > 0)
    score_shared(design, w, penalties, work)
    for i in range(first, last):
        score_sequence(design, rows, w, penalties, i, work)
        values[i], _ = path_at(formula, loss_kind, 1.0, design, task, i, work)
        excess[i] = work.bound[0]

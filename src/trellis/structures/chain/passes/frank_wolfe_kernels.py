# mypy: allow-untyped-defs
"""Passes of block-coordinate pairwise Frank-Wolfe, each one call: exact (with the oracle) and cached
(without)."""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.chain_kernels import max_length
from trellis.structures.chain.passes.plane_cache_kernels import (
    block_change,
    move_edges,
    move_unary,
    pairwise_steps,
)
from trellis.structures.chain.passes.plane_parts_kernels import (
    EQUAL,
    add_labelling,
    plane_values,
    score_parts,
)
from trellis.structures.chain.problem.chain_problem_kernels import (
    path_at,
    score_sequence,
    score_shared,
)
from trellis.structures.chain.problem.objective_kernels import new_work
from trellis.structures.chain.problem.plane_kernels import room_for_difference


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
    gaps,
    least,
    separable,
    l2,
    inner,
    scratch,
):
    """Visit the sequences of ``order``: score, ask the oracle for the highest plane (if ``exact``), step
    inside the block.

    ``gaps`` (S,): c_i (f_i(w) - sum_c alpha_c m_c) at the last visit of each sequence, f_i being the highest
    of the cached planes if not ``exact``; a pass that is not exact leaves out those of at most ``least``.
    Returns the sum of those visited; the first sequence whose value is not finite (-1: none); and how many
    planes found no room. ``scratch``: views of a zero vector. ``average``: views of A, or of nothing;
    ``time``: t and sum of t.
    """
    S, C = cache.alpha.shape
    K = w.transitions.shape[0]
    work = new_work(max_length(design.offsets, 0, S), K, w.edge.shape[0] > 0)
    room = room_for_difference(design)
    position, value = np.empty(room, dtype=np.int64), np.empty(room)
    m, before = np.zeros(C), np.zeros(C)
    piece = np.empty(work.u.shape[0], dtype=np.int32)
    gap, crowded = 0.0, 0
    for i in order:
        lo, hi = design.offsets[i], design.offsets[i + 1]
        weight = task.weight[i]
        if hi == lo or weight == 0.0 or not (exact or gaps[i] > least):
            continue
        gold, rate, d_unary = task.gold[lo:hi], weight / l2, work.d_unary[: hi - lo]
        score_shared(design, w, penalties, work)
        if exact:
            score_sequence(design, rows, w, penalties, i, work)
        else:
            score_parts(design, rows, w, penalties, cache, i, work)
        top, mean = plane_values(design, work, cache, i, gold, m, before)
        height = top
        if exact:
            height, q = path_at(formula, loss_kind, 1.0, design, task, i, work)
            if not np.isfinite(height):
                return gap, i, crowded
        gaps[i] = weight * (height - mean)
        gap += gaps[i]
        if height > top + EQUAL * (1.0 + abs(height)):
            cost = task.cost[lo:hi] if task.cost.shape[0] > 0 else task.cost
            crowded += add_labelling(
                formula, loss_kind, design, rows, mask, cost, cache, i, gold, work, q, separable, m, before,
                piece, scratch, position, value,
            )  # fmt: skip
        pairwise_steps(
            cache.alpha[i], m, cache.gram[i], cache.coefficient[i], cache.first[i], cache.used[i], rate, inner
        )
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

# mypy: allow-untyped-defs
"""One pass of an online solver over the data, in one call: score, ask the oracle, update, sequence by
sequence.

Path objectives (two labellings) and dense ones (marginals) have a kernel each, because the dense oracles
take long to compile. Both take the same ``State``, and the ``Rule`` of the solver, see
``update_kernels``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.numerics import kernel
from trellis.objectives.formula_kernels import BEST, DIRECT
from trellis.solvers.online.step_size_kernels import DESCENT, rate_at
from trellis.structures.chain.oracle.chain_kernels import exp_transitions, max_length, score_labels
from trellis.structures.chain.oracle.search_kernels import best_different
from trellis.structures.chain.passes.update_kernels import (
    SCALE,
    TIME,
    fold,
    list_spans,
    room_for_spans,
    step_along_list,
    tick,
    update_spans,
)
from trellis.structures.chain.problem.chain_problem_kernels import (
    dense_at,
    path_at,
    score_sequence,
    score_shared,
)
from trellis.structures.chain.problem.objective_kernels import new_work
from trellis.structures.chain.problem.plane_kernels import list_difference, room_for_difference
from trellis.structures.chain.scores.linear_chain_kernels import Weights, pull_back

FIXED_EPSILON, DECAYING_EPSILON = range(2)


class State(NamedTuple):
    """``w``: views of W. ``sums``: A. ``squares``, ``moments``: of AdaGrad and Adam. ``clock``: t, d, m, f.
    ``gradient``: views of a zero vector. ``counts``: c_j of each row."""

    w: Weights
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]
    moments: NDArray[np.float64]
    clock: NDArray[np.float64]
    gradient: Weights
    counts: NDArray[np.float64]


@kernel
def _rescale(work, n, d):
    """Scores of W to scores of w = W / d; forbidden (-inf) stays forbidden."""
    if d == 1.0:
        return
    x = 1.0 / d
    K = work.start.shape[0]
    for t in range(n):
        for k in range(K):
            work.u[t, k] *= x
    for k in range(K):
        work.start[k] *= x
        work.end[k] *= x
    for t in range(1 if work.a.shape[0] == 1 else n):
        for j in range(K):
            for k in range(K):
                work.a[t, j, k] *= x


@kernel
def _score(design, rows, state, penalties, i, work):
    n = design.offsets[i + 1] - design.offsets[i]
    score_shared(design, state.w, penalties, work)
    score_sequence(design, rows, state.w, penalties, i, work)
    _rescale(work, n, state.clock[SCALE])


@kernel
def _strict_example(design, task, i, work):
    """The perceptron that takes a tie for a mistake: the best labelling other than y* against y*."""
    lo, hi = design.offsets[i], design.offsets[i + 1]
    n = hi - lo
    gold, u = task.gold[lo:hi], work.u[:n]
    a = work.a if work.a.shape[0] == 1 else work.a[:n]
    work.down[:n] = gold
    gold_score = score_labels(u, a, work.start, work.end, gold)
    other = best_different(u, a, work.start, work.end, gold, work.v[:n], work.scale[:n], work.up)
    if other < gold_score:
        return 0.0, 0.0
    return other - gold_score, 1.0


@kernel
def _is_mistake(formula, gold, work):
    """Whether the prediction differs from the gold labelling. Where no prediction is made: whether the two
    labellings differ, so that the margin is violated or the loss may fall."""
    against_gold = formula.baseline == BEST and (formula.special != DIRECT or formula.direction != 0.0)
    down = against_gold and (formula.special != DIRECT or formula.direction > 0.0)
    for t in range(gold.shape[0]):
        prediction = work.down[t] if down else work.up[t]
        if against_gold and gold[t] >= 0 and prediction != gold[t]:
            return True
        if not against_gold and prediction != work.down[t]:
            return True
    return False


@kernel
def path_pass(
    formula, loss_kind, epsilon, epsilon_kind, design, rows, penalties, mask, task, order, rule, state
):
    """Returns (sum of c_i f_i, each at the weights of its visit; mistakes; the first sequence that is not
    finite, or -1)."""
    S = design.offsets.shape[0] - 1
    w, clock = state.w, state.clock
    work = new_work(max_length(design.offsets, 0, S), w.transitions.shape[0], w.edge.shape[0] > 0)
    room, spans = room_for_difference(design), room_for_spans(design)
    position, value = np.empty(room, dtype=np.int64), np.empty(room)
    start, stop, share = np.empty(spans, np.int64), np.empty(spans, np.int64), np.empty(spans)
    stamp = np.full(state.counts.shape[0], -1, dtype=np.int64)
    direct = formula.special == DIRECT
    total, mistakes = 0.0, 0
    for visit in range(order.shape[0]):
        i = order[visit]
        lo, hi = design.offsets[i], design.offsets[i + 1]
        clock[TIME] += 1.0
        eta = rate_at(rule.schedule, rule.rate, rule.decay, clock[TIME])
        f, c = 0.0, 0.0
        if hi > lo:
            _score(design, rows, state, penalties, i, work)
            if epsilon_kind == DECAYING_EPSILON:
                epsilon = 1.0 / math.sqrt(clock[TIME])
            if rule.strict and task.ambiguous[i] == 0:
                f, c = _strict_example(design, task, i, work)
            else:
                f, c = path_at(formula, loss_kind, epsilon, design, task, i, work)
            if not np.isfinite(f):
                return total, mistakes, i
            if _is_mistake(formula, task.gold[lo:hi], work) and c != 0.0:
                mistakes += 1
        total += task.weight[i] * f
        if direct:
            c *= epsilon  # the rate of the direct objectives counts per labelling, not per 1 / epsilon
        clock[SCALE] /= 1.0 - eta * rule.decay
        c *= task.weight[i]
        size = 0
        if c != 0.0:
            size = list_difference(design, rows, w, mask, i, work.up, work.down, position, value)
        if rule.kind == DESCENT:
            step_along_list(w.flat, state.sums, clock, position, value, size, eta * c)
        elif size > 0 or (rule.l2 > 0.0 and hi > lo):
            gradient = state.gradient.flat
            for p in range(size):
                gradient[position[p]] += value[p]
            size = list_spans(design, rows, w, i, stamp, visit, state.counts, start, stop, share)
            update_spans(
                rule.kind, w.flat, state.sums, state.squares, state.moments, clock, mask, gradient, start,
                stop, share, size, eta, c, rule.l2,
            )  # fmt: skip
        tick(w.flat, state.sums, clock, rule.averaging)
    fold(w.flat, state.sums, clock)
    return total, mistakes, -1


@kernel
def dense_pass(formula, loss_kind, design, rows, penalties, mask, task, order, rule, state):
    """The same for dense objectives; no mistakes are counted."""
    S = design.offsets.shape[0] - 1
    w, clock = state.w, state.clock
    per_step = w.edge.shape[0] > 0
    work = new_work(max_length(design.offsets, 0, S), w.transitions.shape[0], per_step)
    spans = room_for_spans(design)
    start, stop, share = np.empty(spans, np.int64), np.empty(spans, np.int64), np.empty(spans)
    stamp = np.full(state.counts.shape[0], -1, dtype=np.int64)
    total = 0.0
    for visit in range(order.shape[0]):
        i = order[visit]
        n = design.offsets[i + 1] - design.offsets[i]
        clock[TIME] += 1.0
        eta = rate_at(rule.schedule, rule.rate, rule.decay, clock[TIME])
        clock_scale = clock[SCALE] / (1.0 - eta * rule.decay)
        if n > 0:
            _score(design, rows, state, penalties, i, work)
            floor = -1.0
            if not per_step:
                floor = exp_transitions(work.a, work.ea, work.ea_t, work.shift)
            f = dense_at(formula, loss_kind, design, task, i, floor, work)
            if not np.isfinite(f):
                return total, 0, i
            total += task.weight[i] * f
            clock[SCALE] = clock_scale
            d_trans = work.d_trans[:n] if per_step else work.d_trans
            pull_back(design, rows, state.gradient, i, work.d_unary[:n], d_trans, 1.0)
            size = list_spans(design, rows, w, i, stamp, visit, state.counts, start, stop, share)
            update_spans(
                rule.kind, w.flat, state.sums, state.squares, state.moments, clock, mask, state.gradient.flat,
                start, stop, share, size, eta, task.weight[i], rule.l2,
            )  # fmt: skip
        clock[SCALE] = clock_scale
        tick(w.flat, state.sums, clock, rule.averaging)
    fold(w.flat, state.sums, clock)
    return total, 0, -1


@kernel
def gold_margins(design, rows, w, penalties, task, first, last, margins):
    """s(y*) - max over y != y* of s(y), for sequences first..last-1 (+inf where there is no other
    labelling)."""
    work = new_work(max_length(design.offsets, first, last), w.transitions.shape[0], w.edge.shape[0] > 0)
    score_shared(design, w, penalties, work)
    for i in range(first, last):
        lo, hi = design.offsets[i], design.offsets[i + 1]
        n = hi - lo
        margins[i] = np.inf
        if n > 0:
            score_sequence(design, rows, w, penalties, i, work)
            gold, u = task.gold[lo:hi], work.u[:n]
            a = work.a if work.a.shape[0] == 1 else work.a[:n]
            other = best_different(u, a, work.start, work.end, gold, work.v[:n], work.scale[:n], work.up)
            margins[i] = score_labels(u, a, work.start, work.end, gold) - other

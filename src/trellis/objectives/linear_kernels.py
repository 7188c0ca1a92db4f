# mypy: allow-untyped-defs
"""An objective of a linear chain model, summed over a run of sequences: score, ask the oracle, pull back.

The scores of a sequence live in scratch that stays in the cache; only the gradient of the weights is ever as large as the model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.inference.chain_kernels import exp_transitions
from trellis.numerics import kernel
from trellis.objectives.example_kernels import FIRST_DENSE, dense_example, new_work, path_example
from trellis.scores.linear_kernels import add_path, pull_back, score_edges, score_steps


class Task(NamedTuple):
    """What is to be learned: gold labels (-1: see ``allowed``), costs, and the weight of each sequence."""

    gold: NDArray[np.int32]  # (N,)
    ambiguous: NDArray[np.uint8]  # (S,) 1 where some label of the sequence is not known
    allowed: NDArray[np.bool_]  # (N, K), or (0, K) if every label is known
    cost: NDArray[np.float64]  # (N, K), or (0, K) if the loss needs no table
    weight: NDArray[np.float64]  # (S,)


@kernel
def longest_of(offsets, first, last):
    longest = 0
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest


@kernel
def score_sequence(design, rows, w, penalties, i, work):
    """Unaries of sequence i into ``work.u``, its transitions into ``work.a`` if they differ from step to step."""
    n = design.offsets[i + 1] - design.offsets[i]
    score_steps(design, rows, w, i, work.u)
    if work.a.shape[0] > 1:
        score_edges(design, w, penalties, i, work.a[:n])


@kernel
def score_shared(design, w, penalties, work):
    """Start, end and shared transitions, once for as long as the weights stay the same."""
    for k in range(w.start.shape[0]):
        work.start[k] = w.start[k] + penalties.start[k]
        work.end[k] = w.end[k] + penalties.end[k]
    if work.a.shape[0] == 1:
        score_edges(design, w, penalties, 0, work.a)


@kernel
def objective_at(mode, loss_kind, epsilon, design, task, i, safe, work):
    """(value, coefficient) at the scores in ``work``. For dense objectives the gradient is in ``work.d_*`` and coefficient is 1."""
    lo, hi = design.offsets[i], design.offsets[i + 1]
    n = hi - lo
    a = work.a if work.a.shape[0] == 1 else work.a[:n]
    gold = task.gold[lo:hi]
    ambiguous = task.ambiguous[i] != 0
    allowed = task.allowed[lo:hi] if task.allowed.shape[0] > 0 else task.allowed
    cost = task.cost[lo:hi] if task.cost.shape[0] > 0 else task.cost
    if mode >= FIRST_DENSE:
        if a.shape[0] > 1:
            safe = exp_transitions(a, work.ea, work.ea_t, work.shift)
        value = dense_example(
            mode, loss_kind, work.u[:n], a, work.start, work.end, gold, ambiguous, allowed, cost, safe, work
        )
        return value, 1.0
    return path_example(
        mode, loss_kind, epsilon, work.u[:n], a, work.start, work.end, gold, ambiguous, allowed, cost, work
    )


@kernel
def linear_gradient(mode, loss_kind, epsilon, design, rows, w, penalties, mask, task, first, last, g, values):
    """values[i] = f_i (not weighted) and g += sum_i weight_i grad f_i, for sequences first..last-1. Returns the slack oracle's excess."""
    K = w.transitions.shape[0]
    per_step = w.edge.shape[0] > 0
    work = new_work(longest_of(design.offsets, first, last), K, per_step)
    score_shared(design, w, penalties, work)
    safe = True
    if not per_step and mode >= FIRST_DENSE:
        safe = exp_transitions(work.a, work.ea, work.ea_t, work.shift)
    excess = 0.0
    for i in range(first, last):
        score_sequence(design, rows, w, penalties, i, work)
        value, c = objective_at(mode, loss_kind, epsilon, design, task, i, safe, work)
        values[i] = value
        excess = max(excess, work.bound[0])
        weight = task.weight[i]
        if mode >= FIRST_DENSE:
            n = design.offsets[i + 1] - design.offsets[i]
            pull_back(design, rows, g, i, work.d_unary[:n], work.d_trans if work.d_trans.shape[0] == 1 else work.d_trans[:n], weight)
        elif c != 0.0:
            add_path(design, rows, g, mask, i, work.up, work.down, weight * c)
            add_path(design, rows, g, mask, i, work.down, work.up, -weight * c)
    return excess


@kernel
def linear_planes(mode, loss_kind, design, rows, w, penalties, task, first, last, ups, downs, coefficients, values):
    """The maximising labellings of a path objective: ups, downs (N,), coefficients and values (S,)."""
    K = w.transitions.shape[0]
    work = new_work(longest_of(design.offsets, first, last), K, w.edge.shape[0] > 0)
    score_shared(design, w, penalties, work)
    for i in range(first, last):
        score_sequence(design, rows, w, penalties, i, work)
        values[i], coefficients[i] = objective_at(mode, loss_kind, 1.0, design, task, i, True, work)
        lo, hi = design.offsets[i], design.offsets[i + 1]
        for t in range(lo, hi):
            ups[t], downs[t] = work.up[t - lo], work.down[t - lo]


@kernel
def linear_scores(design, rows, w, penalties, first, last, unary, transitions):
    """Part scores of sequences first..last-1 into (N, K) and, where there are edge features, (N, K, K)."""
    per_step = transitions.shape[0] > 1
    for i in range(first, last):
        lo, hi = design.offsets[i], design.offsets[i + 1]
        score_steps(design, rows, w, i, unary[lo:hi])
        if per_step:
            score_edges(design, w, penalties, i, transitions[lo:hi])

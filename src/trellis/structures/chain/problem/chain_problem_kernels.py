# mypy: allow-untyped-defs
"""An objective of a linear chain model, summed over a run of sequences: score, ask the oracle, pull back.

The scores of a sequence live in scratch that stays in the cache; only the gradient of the weights is ever
as large as the model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.chain_kernels import exp_transitions, max_length
from trellis.structures.chain.problem.objective_kernels import dense_example, new_work, path_example
from trellis.structures.chain.scores.linear_chain_kernels import (
    add_path,
    pull_back,
    score_edges,
    score_steps,
)


class Task(NamedTuple):
    """What is to be learned: gold labels (-1: see ``allowed``), costs, and the weight of each sequence."""

    gold: NDArray[np.int32]  # (N,)
    ambiguous: NDArray[np.uint8]  # (S,) 1 where some label of the sequence is not known
    allowed: NDArray[np.bool_]  # (N, K), or (0, K) if every label is known
    cost: NDArray[np.float64]  # (N, K), or (0, K) if the loss needs no table
    weight: NDArray[np.float64]  # (S,)

    def run(self, offsets: NDArray[np.int64], first: int, last: int) -> Task:
        """That of the sequences first..last-1."""
        steps = slice(int(offsets[first]), int(offsets[last]))
        return Task(
            self.gold[steps],
            self.ambiguous[first:last],
            self.allowed[steps],
            self.cost[steps],
            self.weight[first:last],
        )


@kernel
def score_sequence(design, rows, w, penalties, i, work):
    """Unaries of sequence i into ``work.u``, its transitions into ``work.a`` if they differ from step to
    step.
    """
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
def example_at(design, task, i, work):
    """What :func:`path_example` and :func:`dense_example` ask about sequence i at the scores in ``work``."""
    lo, hi = design.offsets[i], design.offsets[i + 1]
    a = work.a if work.a.shape[0] == 1 else work.a[: hi - lo]
    allowed = task.allowed[lo:hi] if task.allowed.shape[0] > 0 else task.allowed
    cost = task.cost[lo:hi] if task.cost.shape[0] > 0 else task.cost
    known = task.gold[lo:hi], task.ambiguous[i] != 0, allowed
    return work.u[: hi - lo], a, work.start, work.end, *known, cost


@kernel
def path_at(formula, loss_kind, epsilon, design, task, i, work):
    """(value, coefficient) of a path objective at the scores in ``work``; the labellings are in ``work.up``
    and ``work.down``.
    """
    u, a, start, end, gold, ambiguous, allowed, cost = example_at(design, task, i, work)
    return path_example(formula, loss_kind, epsilon, u, a, start, end, gold, ambiguous, allowed, cost, work)


@kernel
def dense_at(formula, loss_kind, design, task, i, floor, work):
    """The value of a dense objective at the scores in ``work``; its gradient is in ``work.d_unary`` and
    ``work.d_trans``.
    """
    u, a, start, end, gold, ambiguous, allowed, cost = example_at(design, task, i, work)
    if a.shape[0] > 1:
        floor = exp_transitions(a, work.ea, work.ea_t, work.shift)
    return dense_example(formula, loss_kind, u, a, start, end, gold, ambiguous, allowed, cost, floor, work)


@kernel
def path_gradient(
    formula, loss_kind, epsilon, design, rows, w, penalties, mask, task, first, last, work, g, values
):
    """values[i] = f_i (not weighted) and g += sum_i weight_i grad f_i of a path objective, for sequences
    first..last-1.

    Returns the largest excess of the slack oracle's bound.
    """
    score_shared(design, w, penalties, work)
    excess = 0.0
    for i in range(first, last):
        score_sequence(design, rows, w, penalties, i, work)
        values[i], c = path_at(formula, loss_kind, epsilon, design, task, i, work)
        excess = max(excess, work.bound[0])
        if c != 0.0:
            add_path(design, rows, g, mask, i, work.up, work.down, task.weight[i] * c)
            add_path(design, rows, g, mask, i, work.down, work.up, -task.weight[i] * c)
    return excess


@kernel
def dense_gradient(formula, loss_kind, design, rows, w, penalties, task, first, last, work, g, values):
    """The same for a dense objective. What is masked in ``g`` is for the caller to clear."""
    per_step = w.edge.shape[0] > 0
    score_shared(design, w, penalties, work)
    floor = -1.0
    if not per_step:
        floor = exp_transitions(work.a, work.ea, work.ea_t, work.shift)
    for i in range(first, last):
        n = design.offsets[i + 1] - design.offsets[i]
        score_sequence(design, rows, w, penalties, i, work)
        values[i] = dense_at(formula, loss_kind, design, task, i, floor, work)
        d_trans = work.d_trans[:n] if per_step else work.d_trans
        pull_back(design, rows, g, i, work.d_unary[:n], d_trans, task.weight[i])


@kernel
def linear_planes(
    formula, loss_kind, design, rows, w, penalties, task, first, last,
    epsilon, ups, downs, coefficients, values,
):  # fmt: skip
    """The maximising labellings of a path objective: ups, downs (N,), coefficients and values (S,)."""
    K = w.transitions.shape[0]
    work = new_work(max_length(design.offsets, first, last), K, w.edge.shape[0] > 0)
    score_shared(design, w, penalties, work)
    for i in range(first, last):
        score_sequence(design, rows, w, penalties, i, work)
        values[i], coefficients[i] = path_at(formula, loss_kind, epsilon, design, task, i, work)
        lo, hi = design.offsets[i], design.offsets[i + 1]
        for t in range(lo, hi):
            ups[t], downs[t] = work.up[t - lo], work.down[t - lo]

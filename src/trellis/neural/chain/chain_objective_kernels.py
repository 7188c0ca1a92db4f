# mypy: allow-untyped-defs
"""Every objective on a batch of chains that lies in memory as PyTorch left it: padded or packed.

Sequence i of n steps has the rows ``begins[i] .. begins[i] + n - 1`` of ``unary`` (R, K), so a padded batch
[B, T, K] is read in place as (B T, K). Rows are read into double precision one sequence at a time, all sums
run in double precision, and the gradient is written in the precision of its array.

Gradients stay separate for each sequence: ``d_unary`` (R, K), and ``d_trans`` (S, K, K) where transitions are
shared, (R, K, K) where each step has its own. So a caller may weight sequences afterwards. Those of start and
end scores are the rows of ``d_unary`` at the first and last step.

``gold`` and ``cost`` are packed, with ``offsets``. A loss that is the same at every step may come as
``matrix`` (K, K), rows by gold label, instead of ``cost`` (N, K): a table of one sequence stays in the cache.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.chain_kernels import exp_transitions, max_length
from trellis.structures.chain.problem.objective_kernels import dense_example, new_work, path_example


@kernel
def load_rows(source, target):
    n, K = source.shape
    for t in range(n):
        for k in range(K):
            target[t, k] = source[t, k]


@kernel
def load_matrices(source, target):
    for t in range(source.shape[0]):
        load_rows(source[t], target[t])


@kernel
def _costs(cost, matrix, gold, lo, costs):
    """The costs (n, K) of the sequence with these gold labels, whose steps begin at ``lo``."""
    n = len(gold)
    if matrix.shape[0] == 0:
        return cost[lo : lo + n] if cost.shape[0] > 0 else cost
    for t in range(n):
        for k in range(costs.shape[1]):
            costs[t, k] = matrix[gold[t], k]
    return costs[:n]


@kernel
def path_batch(
    formula, loss_kind, epsilon, unary, transitions, start, end, begins, offsets, first, last,
    gold, ambiguous, allowed, cost, matrix, values, d_unary, d_trans,
):  # fmt: skip
    """Sequences first..last-1: values (S,); coefficient * (1[up] - 1[down]) added to the zeros of ``d_``."""
    shared = transitions.shape[0] == 1
    longest = max_length(offsets, first, last)
    work = new_work(longest, unary.shape[1], not shared)
    costs = np.empty((longest if matrix.shape[0] > 0 else 0, unary.shape[1]))
    if shared:
        load_matrices(transitions, work.a)
    for i in range(first, last):
        n, row, lo = offsets[i + 1] - offsets[i], begins[i], offsets[i]
        load_rows(unary[row : row + n], work.u)
        if not shared:
            load_matrices(transitions[row : row + n], work.a)
        a = work.a[: 1 if shared else n]
        al = allowed[lo : lo + n] if allowed.shape[0] > 0 else allowed
        co = _costs(cost, matrix, gold[lo : lo + n], lo, costs)
        values[i], c = path_example(
            formula, loss_kind, epsilon, work.u[:n], a, start, end,
            gold[lo : lo + n], ambiguous[i], al, co, work,
        )  # fmt: skip
        if d_unary.shape[0] > 0:
            at = i if shared else row
            _add_path(c, work.up[:n], d_unary[row : row + n], d_trans[at : at + (1 if shared else n)])
            _add_path(-c, work.down[:n], d_unary[row : row + n], d_trans[at : at + (1 if shared else n)])


@kernel
def _add_path(c, path, d_unary, d_trans):
    step = 0 if d_trans.shape[0] == 1 else 1
    for t in range(len(path)):
        d_unary[t, path[t]] += c
        if t > 0:
            d_trans[t * step, path[t - 1], path[t]] += c


@kernel
def dense_batch(
    formula, loss_kind, unary, transitions, start, end, begins, offsets, first, last,
    gold, ambiguous, allowed, cost, matrix, values, d_unary, d_trans,
):  # fmt: skip
    """The same for the objectives with dense gradients, which are written over what is in ``d_``."""
    shared = transitions.shape[0] == 1
    longest = max_length(offsets, first, last)
    work = new_work(longest, unary.shape[1], not shared)
    costs = np.empty((longest if matrix.shape[0] > 0 else 0, unary.shape[1]))
    floor = -1.0
    if shared:
        load_matrices(transitions, work.a)
        floor = exp_transitions(work.a, work.ea, work.ea_t, work.shift)
    for i in range(first, last):
        n, row, lo = offsets[i + 1] - offsets[i], begins[i], offsets[i]
        values[i] = 0.0
        if n == 0:
            continue
        load_rows(unary[row : row + n], work.u)
        if not shared:
            load_matrices(transitions[row : row + n], work.a)
            floor = exp_transitions(work.a[:n], work.ea, work.ea_t, work.shift)
        a = work.a[: 1 if shared else n]
        al = allowed[lo : lo + n] if allowed.shape[0] > 0 else allowed
        co = _costs(cost, matrix, gold[lo : lo + n], lo, costs)
        values[i] = dense_example(
            formula, loss_kind, work.u[:n], a, start, end,
            gold[lo : lo + n], ambiguous[i], al, co, floor, work,
        )  # fmt: skip
        if d_unary.shape[0] > 0:
            at, m = (i, 1) if shared else (row, n)
            load_rows(work.d_unary[:n], d_unary[row : row + n])
            load_matrices(work.d_trans[:m], d_trans[at : at + m])

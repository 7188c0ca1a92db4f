# mypy: allow-untyped-defs
"""Objectives on given part scores, for a run of sequences: values, and gradients with respect to the scores.

Path and dense objectives are kernels of their own, so that a user of one does not wait for both to compile.
"""

from __future__ import annotations

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.chain_kernels import exp_transitions
from trellis.structures.chain.problem.chain_problem_kernels import longest_of
from trellis.structures.chain.problem.objective_kernels import dense_example, new_work, path_example


@kernel
def path_scores(
    mode, loss_kind, epsilon, unary, transitions, start, end, offsets, first, last,
    gold, ambiguous, allowed, cost, values, d_unary, d_trans, d_start, d_end,
):  # fmt: skip
    """Sequences first..last-1: values (S,); coefficient * (1[up] - 1[down]) added to the ``d_`` arrays."""
    shared = transitions.shape[0] == 1
    work = new_work(longest_of(offsets, first, last), unary.shape[1], not shared)
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        a = transitions if shared else transitions[lo:hi]
        al = allowed[lo:hi] if allowed.shape[0] > 0 else allowed
        co = cost[lo:hi] if cost.shape[0] > 0 else cost
        values[i], c = path_example(
            mode, loss_kind, epsilon, unary[lo:hi], a, start, end, gold[lo:hi], ambiguous[i], al, co, work
        )
        if c != 0.0:
            _add_indicators(c, work.up, lo, hi, shared, d_unary, d_trans, d_start, d_end)
            _add_indicators(-c, work.down, lo, hi, shared, d_unary, d_trans, d_start, d_end)


@kernel
def dense_scores(
    mode, loss_kind, unary, transitions, start, end, offsets, first, last,
    gold, ambiguous, allowed, cost, values, d_unary, d_trans, d_start, d_end,
):  # fmt: skip
    """The same for a dense objective."""
    K = unary.shape[1]
    shared = transitions.shape[0] == 1
    work = new_work(longest_of(offsets, first, last), K, not shared)
    floor = -1.0
    if shared:
        floor = exp_transitions(transitions, work.ea, work.ea_t, work.shift)
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        n = hi - lo
        if n == 0:
            values[i] = 0.0
            continue
        a = transitions if shared else transitions[lo:hi]
        al = allowed[lo:hi] if allowed.shape[0] > 0 else allowed
        co = cost[lo:hi] if cost.shape[0] > 0 else cost
        if not shared:
            floor = exp_transitions(a, work.ea, work.ea_t, work.shift)
        values[i] = dense_example(
            mode, loss_kind, unary[lo:hi], a, start, end, gold[lo:hi], ambiguous[i], al, co, floor, work
        )
        for k in range(K):
            for t in range(n):
                d_unary[lo + t, k] += work.d_unary[t, k]
            d_start[k] += work.d_unary[0, k]
            d_end[k] += work.d_unary[n - 1, k]
        for t in range(1 if shared else n):
            for j in range(K):
                for k in range(K):
                    d_trans[0 if shared else lo + t, j, k] += work.d_trans[t, j, k]


@kernel
def _add_indicators(c, path, lo, hi, shared, d_unary, d_trans, d_start, d_end):
    """c times the part indicators of ``path``, for the sequence of the steps lo..hi-1."""
    n = hi - lo
    for t in range(n):
        d_unary[lo + t, path[t]] += c
        if t > 0:
            d_trans[0 if shared else lo + t, path[t - 1], path[t]] += c
    d_start[path[0]] += c
    d_end[path[n - 1]] += c

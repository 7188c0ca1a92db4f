# mypy: allow-untyped-defs
"""The log objective of a chain with shared transitions, the one that batch solvers evaluate hundreds of
times.

The same numbers as :func:`.chain_problem_kernels.dense_gradient`, arranged for the cache: features come as a
compact design; a block of sequences is scored, then asked, then pulled back, so that weights and gradient
take turns in the cache instead of competing for it; and the pairwise marginals of a whole shard are summed
before they are multiplied by the transitions, once.

A partly known sequence is two chains of its block: all labellings with its weight, the allowed ones with
minus that.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.backward_filter_kernels import filter_marginals
from trellis.structures.chain.oracle.chain_kernels import exp_transitions
from trellis.structures.chain.oracle.stream_kernels import Block, block_marginals, new_block
from trellis.structures.chain.problem.objective_kernels import restrict
from trellis.structures.chain.scores.compact_kernels import pull_back_compact, score_compact

STEPS = 1024  # whose scores and marginals stay in the cache together


def log_work(longest: int, n_labels: int, ambiguous: bool) -> Block:
    """Scratch of one shard."""
    return new_block(max(STEPS, longest * (2 if ambiguous else 1)), n_labels)


@kernel
def log_gradient(compact, table, w, penalties, task, first, last, block, table_g, g, values):
    """values[i] = log Z_i - s(y*_i), and g += sum_i weight_i grad, for sequences first..last-1; what goes
    to the table's rows is added to ``table_g``.
    """
    K = w.transitions.shape[0]
    u, d, offsets = block.u, block.d, compact.offsets
    start, end, a = np.empty(K), np.empty(K), np.empty((1, K, K))
    for j in range(K):  # loops, because each array expression is one more function to compile
        start[j], end[j] = w.start[j] + penalties.start[j], w.end[j] + penalties.end[j]
        for k in range(K):
            a[0, j, k] = w.transitions[j, k] + penalties.transitions[j, k]
    shift, pairs = np.zeros(1), np.zeros((1, K, K))
    floor = exp_transitions(a, block.ea, block.ea_t, shift)
    for j in range(block.outer.shape[0]):
        for k in range(block.outer.shape[1]):
            block.outer[j, k] = 0.0
    i = first
    while i < last:
        begin, rows, j = offsets[i], 0, i
        while j < last:  # as many sequences as there is room for
            rows += (offsets[j + 1] - offsets[j]) * (2 if task.ambiguous[j] else 1)
            if rows >= u.shape[0]:
                break
            j += 1
        score_compact(compact, table, w, begin, offsets[j], u)
        n_sequences, n_chains = _make_chains(offsets, task, i, j, start, end, block)
        block_marginals(block, n_chains, shift, floor)
        for c in range(n_chains):
            if block.log_z[c] != block.log_z[c]:
                _ask_in_log_space(block, c, a, pairs)
        _subtract_gold(offsets, task, i, j, a, n_sequences, block, g, values)
        pull_back_compact(compact, table_g, g, begin, offsets[j], d)
        i = j
    for j in range(K):
        for k in range(K):
            g.transitions[j, k] += block.outer[j, k] * block.ea[0, j, k] + pairs[0, j, k]


@kernel
def _make_chains(offsets, task, i, j, start, end, block):
    """The chains of sequences i..j-1 whose scores are in ``u``; empty sequences have none. The partly known
    ones have a second chain behind them all. Returns the number of the first, and of all chains."""
    u, K, n = block.u, start.shape[0], 0
    for s in range(i, j):
        lo, hi = offsets[s] - offsets[i], offsets[s + 1] - offsets[i]
        if lo < hi:
            for k in range(K):
                u[lo, k] += start[k]
                u[hi - 1, k] += end[k]
            block.bounds[n], block.weight[n] = lo, task.weight[s]
            n += 1
    n_sequences, place = n, offsets[j] - offsets[i]
    block.bounds[n] = place
    for s in range(i, j):
        lo, hi = offsets[s], offsets[s + 1]
        if task.ambiguous[s] and lo < hi:
            scores = u[lo - offsets[i] : hi - offsets[i]]
            restrict(scores, task.gold[lo:hi], task.allowed[lo:hi], u[place : place + hi - lo])
            place += hi - lo
            block.weight[n], block.bounds[n + 1] = -task.weight[s], place
            n += 1
    return n_sequences, n


@kernel
def _ask_in_log_space(block, c, a, pairs):
    """log Z and marginals of a chain that scaled messages cannot do."""
    K, lo, hi = a.shape[1], block.bounds[c], block.bounds[c + 1]
    once, zero, d = np.zeros((1, K, K)), np.zeros(K), block.d
    block.log_z[c] = filter_marginals(
        block.u[lo:hi, :K], a, zero, zero, np.empty((hi - lo, K)), d[lo:hi, :K], once, False
    )
    for t in range(lo, hi):
        for k in range(K):
            d[t, k] *= block.weight[c]
    for j in range(K):
        for k in range(K):
            pairs[0, j, k] += block.weight[c] * once[0, j, k]


@kernel
def _subtract_gold(offsets, task, i, j, a, n_sequences, block, g, values):
    """What is known about sequences i..j-1 leaves values and gradient; start and end get their gradient."""
    u, d, K = block.u, block.d, a.shape[1]
    chain, second = 0, n_sequences
    for s in range(i, j):
        lo, n = offsets[s] - offsets[i], offsets[s + 1] - offsets[s]
        values[s] = 0.0
        if n == 0:
            continue
        if task.ambiguous[s]:
            values[s] = block.log_z[chain] - block.log_z[second]
            place = block.bounds[second]
            second += 1
            for t in range(n):
                for k in range(K):
                    d[lo + t, k] += d[place + t, k]
        else:
            weight, score, before = task.weight[s], 0.0, task.gold[offsets[s]]
            for t in range(n):
                label = task.gold[offsets[s] + t]
                score += u[lo + t, label]
                d[lo + t, label] -= weight
                if t > 0:
                    score += a[0, before, label]
                    g.transitions[before, label] -= weight
                before = label
            values[s] = block.log_z[chain] - score
        chain += 1
        for k in range(K):
            g.start[k] += d[lo, k]
            g.end[k] += d[lo + n - 1, k]

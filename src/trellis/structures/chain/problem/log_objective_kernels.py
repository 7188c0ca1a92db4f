# mypy: allow-untyped-defs
"""The log objective of a chain with shared transitions, the one that batch solvers evaluate hundreds of
times.

The same numbers as :func:`.chain_problem_kernels.dense_gradient`, arranged for the cache: features come as a
compact design; a block of sequences is scored, then asked, then pulled back, so that weights and gradient
take turns in the cache instead of competing for it; and the pairwise marginals of a whole shard are summed
before they are multiplied by the transitions, once.

What a token costs, with K labels in P = padded(K) columns, r rows and s single weights of the compact design:

    flops   6 P^2 (forward, backward, pairs) + 42 P (exponentials, scales) + 4 r P + 4 s
    bytes   7 P^2 + 8 P (3 r + 17) + 64 s between registers and caches; 4 r + 8 s + 16 of them, the indices,
            and once per evaluation the weights and their gradient, must come from memory

For chunking (K = 22, r = 5, s = 10) that is 5,000 flops, 11,000 bytes in the caches and 150 from memory: a
block waits for arithmetic and for the second-level cache, not for memory (benchmarks/limits.py).

A partly known sequence is two chains of its block: all labellings with its weight, the allowed ones with
minus that. Sequences whose scores are too wide for scaled messages are left to :mod:`.log_space_kernels`,
which few fits ever need and so few processes compile.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.chain_kernels import exp_transitions
from trellis.structures.chain.oracle.stream_kernels import Block, block_marginals, new_block
from trellis.structures.chain.problem.objective_kernels import restrict
from trellis.structures.chain.scores.compact_kernels import Compact, pull_back_compact, score_compact


def log_work(compact: Compact, n_labels: int, ambiguous: bool) -> Block:
    """Scratch of one shard."""
    longest = int(np.diff(compact.offsets[compact.blocks]).max(initial=1))
    return new_block(longest * (2 if ambiguous else 1), n_labels)


@kernel
def log_gradient(compact, table, w, penalties, task, first, last, block, table_g, g, values):
    """values[i] = log Z_i - s(y*_i), and g += sum_i weight_i grad, for the sequences of blocks
    first..last-1; what goes to the table's rows is added to ``table_g``. Sequences that scaled messages
    cannot do have the value NaN and no part in g.
    """
    K = w.transitions.shape[0]
    offsets = compact.offsets
    start, end, a = np.empty(K), np.empty(K), np.empty((1, K, K))
    for j in range(K):  # loops, because each array expression is one more function to compile
        start[j], end[j] = w.start[j] + penalties.start[j], w.end[j] + penalties.end[j]
        for k in range(K):
            a[0, j, k] = w.transitions[j, k] + penalties.transitions[j, k]
    shift = np.zeros(1)
    floor = exp_transitions(a, block.ea, block.ea_t, shift)
    for j in range(block.outer.shape[0]):
        for k in range(block.outer.shape[1]):
            block.outer[j, k] = 0.0
    for b in range(first, last):
        i, j = compact.blocks[b], compact.blocks[b + 1]
        score_compact(compact, table, w, b, block.u)
        n_sequences, n_chains = _make_chains(offsets, task, i, j, start, end, block)
        block_marginals(block, n_chains, shift, floor)
        _subtract_gold(offsets, task, i, j, a, n_sequences, block, g, values)
        pull_back_compact(compact, table_g, g, b, block.d)
    for j in range(K):
        for k in range(K):
            g.transitions[j, k] += block.outer[j, k] * block.ea[0, j, k]


@kernel
def _make_chains(offsets, task, i, j, start, end, block):
    """The chains of sequences i..j-1 whose scores are in ``u``; empty sequences have none. The partly known
    ones have a second chain behind them all. Returns the number of the first, and of all chains."""
    u, bounds, weight, partner = block.u, block.bounds, block.weight, block.partner
    ambiguous, weights, K, n = task.ambiguous, task.weight, start.shape[0], 0
    for s in range(i, j):
        lo, hi = offsets[s] - offsets[i], offsets[s + 1] - offsets[i]
        if lo < hi:
            for k in range(K):
                u[lo, k] += start[k]
                u[hi - 1, k] += end[k]
            bounds[n], weight[n], partner[n] = lo, weights[s], n
            n += 1
    n_sequences, place = n, offsets[j] - offsets[i]
    bounds[n], chain = place, 0
    for s in range(i, j):
        lo, hi = offsets[s], offsets[s + 1]
        if ambiguous[s] and lo < hi:
            scores = u[lo - offsets[i] : hi - offsets[i]]
            restrict(scores, task.gold[lo:hi], task.allowed[lo:hi], u[place : place + hi - lo])
            place += hi - lo
            weight[n], bounds[n + 1] = -weights[s], place
            partner[n], partner[chain] = chain, n
            n += 1
        chain += 1 if lo < hi else 0
    return n_sequences, n


@kernel
def _subtract_gold(offsets, task, i, j, a, n_sequences, block, g, values):
    """What is known about sequences i..j-1 leaves values and gradient; start and end get their gradient."""
    u, d, log_z, bounds, K = block.u, block.d, block.log_z, block.bounds, a.shape[1]
    gold, ambiguous, weights = task.gold, task.ambiguous, task.weight
    g_start, g_end, g_transitions = g.start, g.end, g.transitions
    chain, second = 0, n_sequences
    for s in range(i, j):
        lo, n = offsets[s] - offsets[i], offsets[s + 1] - offsets[s]
        values[s] = 0.0
        if n == 0:
            continue
        if ambiguous[s]:
            values[s] = log_z[chain] - log_z[second]
            place = bounds[second]
            second += 1
            for t in range(n):
                for k in range(K):
                    d[lo + t, k] += d[place + t, k]
        elif log_z[chain] != log_z[chain]:
            values[s] = np.nan
        else:
            weight, score, before = weights[s], 0.0, gold[offsets[s]]
            for t in range(n):
                label = gold[offsets[s] + t]
                score += u[lo + t, label]
                d[lo + t, label] -= weight
                if t > 0:
                    score += a[0, before, label]
                    g_transitions[before, label] -= weight
                before = label
            values[s] = log_z[chain] - score
        chain += 1
        for k in range(K):
            g_start[k] += d[lo, k]
            g_end[k] += d[lo + n - 1, k]

# mypy: allow-untyped-defs
"""The log objective of sequences whose scores are too wide for scaled messages: those that
:func:`.log_objective_kernels.log_gradient` leaves. One after the other, in log space: slower, and right for
any scores.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.backward_filter_kernels import filter_marginals
from trellis.structures.chain.problem.objective_kernels import restrict
from trellis.structures.chain.scores.compact_kernels import pull_back_compact, score_compact


@kernel
def log_space_gradient(compact, table, w, penalties, task, first, last, block, table_g, g, values):
    """The same as ``log_gradient``, for the sequences of blocks first..last-1 whose value is NaN.

    All labellings count with the weight c of the sequence, those that agree with what is known with -c.
    """
    K = w.transitions.shape[0]
    u, d, offsets, weights = block.u, block.d, compact.offsets, task.weight
    start, end, a = np.empty(K), np.empty(K), np.empty((1, K, K))
    for j in range(K):
        start[j], end[j] = w.start[j] + penalties.start[j], w.end[j] + penalties.end[j]
        for k in range(K):
            a[0, j, k] = w.transitions[j, k] + penalties.transitions[j, k]
    for b in range(first, last):
        i, last_sequence = compact.blocks[b], compact.blocks[b + 1]
        begin, wanted = offsets[i], False
        for s in range(i, last_sequence):
            wanted |= values[s] != values[s]
        if not wanted:
            continue
        score_compact(compact, table, w, b, u)
        for t in range(d.shape[0]):
            for k in range(d.shape[1]):
                d[t, k] = 0.0
        for s in range(i, last_sequence):
            if values[s] == values[s]:
                continue
            values[s] = 0.0
            lo, n = offsets[s] - begin, offsets[s + 1] - offsets[s]
            scores = u[lo : lo + n, :K]
            for sign in (1.0, -1.0):
                pairs, marginals, f = np.zeros((1, K, K)), np.zeros((n, K)), np.empty((n, K))
                if sign < 0.0:
                    known = slice(offsets[s], offsets[s + 1])
                    restrict(scores, task.gold[known], task.allowed[known], scores)
                values[s] += sign * filter_marginals(scores, a, start, end, f, marginals, pairs, False)
                c = sign * weights[s]
                for t in range(n):
                    for k in range(K):
                        d[lo + t, k] += c * marginals[t, k]
                for j in range(K):
                    for k in range(K):
                        g.transitions[j, k] += c * pairs[0, j, k]
            for k in range(K):
                g.start[k] += d[lo, k]
                g.end[k] += d[lo + n - 1, k]
        pull_back_compact(compact, table_g, g, b, d)

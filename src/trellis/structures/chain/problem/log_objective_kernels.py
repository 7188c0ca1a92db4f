# mypy: allow-untyped-defs
"""The log objective of a chain with shared transitions, the one that batch solvers evaluate hundreds of
times.

The same numbers as :func:`.chain_problem_kernels.dense_gradient`, arranged for the cache: features come as a
compact design; a block of sequences is scored, then asked, then pulled back, so that weights and gradient
take turns in the cache instead of competing for it; and the pairwise marginals of a whole shard are summed
before they are multiplied by the transitions, once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.chain_kernels import (
    exp_transitions,
    forward_backward,
    lanes,
    score_labels,
)
from trellis.structures.chain.problem.objective_kernels import restrict
from trellis.structures.chain.scores.compact_kernels import pull_back_compact, score_compact

BLOCK = 1024  # steps whose scores and marginals stay in the cache together


class LogWork(NamedTuple):
    """Scratch of one shard, kept from call to call: fresh memory of a long sequence costs as much as the
    work on it.
    """

    u: NDArray[np.float64]  # (steps of a block, lanes(K)) scores
    d: NDArray[np.float64]  # the same shape: their gradient
    u2: NDArray[np.float64]  # (longest, lanes(K)): of weighted or partly known sequences
    d2: NDArray[np.float64]
    alpha: NDArray[np.float64]  # (longest, lanes(K))
    e: NDArray[np.float64]
    scale: NDArray[np.float64]  # (longest,)


def log_work(longest: int, n_labels: int, ambiguous: bool) -> LogWork:
    size = int(lanes(n_labels))
    block, longest = max(longest, BLOCK), max(longest, 1)
    second = longest if ambiguous else 0
    u, d = np.zeros((block, size)), np.zeros((block, size))
    u2, d2 = np.zeros((second, size)), np.zeros((second, size))
    alpha, e = np.zeros((longest, size)), np.zeros((longest, size))
    return LogWork(u, d, u2, d2, alpha, e, np.zeros(longest))


@kernel
def log_gradient(compact, table, w, penalties, task, first, last, work, table_g, g, values):
    """values[i] = log Z_i - s(y*_i), and g += sum_i weight_i grad, for sequences first..last-1; what goes
    to the table's rows is added to ``table_g``.
    """
    K = w.transitions.shape[0]
    size = lanes(K)
    u, d, u2, d2, alpha, e, scale = work
    start, end, a = np.empty(K), np.empty(K), np.empty((1, K, K))
    for j in range(K):  # loops, because each array expression is one more function to compile
        start[j], end[j] = w.start[j] + penalties.start[j], w.end[j] + penalties.end[j]
        for k in range(K):
            a[0, j, k] = w.transitions[j, k] + penalties.transitions[j, k]
    ea, ea_t, shift = np.zeros((1, size, size)), np.zeros((1, size, size)), np.zeros(1)
    floor = exp_transitions(a, ea, ea_t, shift)
    beta, outer, pairs = np.empty(size), np.zeros((size, size)), np.zeros((1, K, K))
    once, once_pairs = np.zeros((size, size)), np.zeros((1, K, K))
    offsets, g_start, g_end, g_transitions = compact.offsets, g.start, g.end, g.transitions
    weights, ambiguous, labels, allowed = task.weight, task.ambiguous, task.gold, task.allowed
    i = first
    while i < last:
        begin, j = offsets[i], i
        while j < last and offsets[j + 1] - begin <= u.shape[0]:
            j += 1
        score_compact(compact, table, w, begin, offsets[j], u)
        for s in range(i, j):
            lo, hi = offsets[s] - begin, offsets[s + 1] - begin
            gold, n = labels[offsets[s] : offsets[s + 1]], hi - lo
            values[s] = 0.0
            if n == 0:
                continue
            us, ds = u[lo:hi], d[lo:hi]
            if weights[s] == 1.0 and ambiguous[s] == 0:
                log_z = forward_backward(
                    us, a, start, end, floor, ea, ea_t, shift, alpha, e, scale, beta, ds, outer, pairs
                )
                values[s] = log_z - score_labels(us, a, start, end, gold)
                for t in range(n):
                    ds[t, gold[t]] -= 1.0
                for t in range(1, n):
                    g_transitions[gold[t - 1], gold[t]] -= 1.0
            else:
                # Weighted or partly known: all labellings with weight c, the allowed ones with weight -c.
                restrict(us, gold, allowed[offsets[s] : offsets[s + 1]], u2[:n])
                ds[:] = 0.0
                for sign in (1.0, -1.0):
                    once[:] = 0.0
                    once_pairs[:] = 0.0
                    scores = us if sign > 0.0 else u2[:n]
                    values[s] += sign * forward_backward(
                        scores, a, start, end, floor, ea, ea_t, shift, alpha, e, scale, beta, d2[:n], once,
                        once_pairs,
                    )  # fmt: skip
                    c = sign * weights[s]
                    for t in range(n):
                        for k in range(size):
                            ds[t, k] += c * d2[t, k]
                    for r in range(size):
                        for k in range(size):
                            outer[r, k] += c * once[r, k]
                    for r in range(K):
                        for k in range(K):
                            pairs[0, r, k] += c * once_pairs[0, r, k]
            for k in range(K):
                g_start[k] += ds[0, k]
                g_end[k] += ds[n - 1, k]
        pull_back_compact(compact, table_g, g, begin, offsets[j], d)
        i = j
    for j in range(K):
        for k in range(K):
            g_transitions[j, k] += outer[j, k] * ea[0, j, k] + pairs[0, j, k]

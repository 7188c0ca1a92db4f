# mypy: allow-untyped-defs
"""The log objective of a chain with shared transitions, the one that batch solvers evaluate hundreds of
times.

The same numbers as :func:`linear_kernels.dense_gradient`, arranged for the cache: a block of sequences is
scored, then asked, then pulled back, so that weights and gradient take turns in the cache in place of
fighting for it; and the pairwise marginals of a whole shard are summed before they are multiplied by the
transitions, once.
"""

from __future__ import annotations

import numpy as np

from trellis.inference.chain_kernels import exp_transitions, forward_backward, score_labels
from trellis.numerics import kernel
from trellis.objectives.example_kernels import new_work, restrict
from trellis.objectives.linear_kernels import longest_of, score_shared
from trellis.scores.linear_kernels import pull_back_steps, score_steps

BLOCK = 512  # steps whose scores and marginals stay in the cache together


@kernel
def _log_example(u, safe, gold, task, s, begin, g_transitions, d, outer, pairs, work):
    """log Z - s(y*) of one sequence; its gradient into ``d``, ``outer`` and ``pairs`` (still without their
    factors), ``g_transitions``.
    """
    n, K = u.shape
    weight = task.weight[s]
    if weight == 1.0 and task.ambiguous[s] == 0:
        log_z = forward_backward(
            u, work.a, work.start, work.end, safe, work.ea, work.ea_t, work.shift, work.alpha, work.e,
            work.scale, work.beta, d, outer, pairs,
        )  # fmt: skip
        for t in range(n):
            d[t, gold[t]] -= 1.0
        for t in range(1, n):
            g_transitions[gold[t - 1], gold[t]] -= 1.0
        return log_z - score_labels(u, work.a, work.start, work.end, gold)
    # Weighted or partly known: all labellings with weight c, the allowed ones with weight -c.
    value = 0.0
    restrict(u, gold, task.allowed[begin : begin + n], work.u2[:n])
    d[:] = 0.0
    for sign in (1.0, -1.0):
        work.outer[:] = 0.0
        work.d_trans[:] = 0.0
        scores = u if sign > 0.0 else work.u2[:n]
        value += sign * forward_backward(
            scores, work.a, work.start, work.end, safe, work.ea, work.ea_t, work.shift, work.alpha, work.e,
            work.scale, work.beta, work.d_unary[:n], work.outer, work.d_trans,
        )  # fmt: skip
        c = sign * weight
        for t in range(n):
            for k in range(K):
                d[t, k] += c * work.d_unary[t, k]
        for j in range(K):
            for k in range(K):
                outer[j, k] += c * work.outer[j, k]
                pairs[0, j, k] += c * work.d_trans[0, j, k]
    return value


@kernel
def log_gradient(design, rows, w, penalties, task, first, last, g, values):
    """values[i] = log Z_i - s(y*_i), and g += sum_i weight_i grad, for sequences first..last-1."""
    K = w.transitions.shape[0]
    longest = longest_of(design.offsets, first, last)
    work = new_work(longest, K, False)
    score_shared(design, w, penalties, work)
    safe = exp_transitions(work.a, work.ea, work.ea_t, work.shift)
    room = max(longest, BLOCK)
    u, d = np.empty((room, K)), np.empty((room, K))
    outer, pairs = np.zeros_like(work.outer), np.zeros((1, K, K))
    offsets, gold = design.offsets, task.gold
    i = first
    while i < last:
        begin, j = offsets[i], i
        while j < last and offsets[j + 1] - begin <= room:
            score_steps(design, rows, w, j, u[offsets[j] - begin :])
            j += 1
        for s in range(i, j):
            lo, hi = offsets[s] - begin, offsets[s + 1] - begin
            y = gold[offsets[s] : offsets[s + 1]]
            n = hi - lo
            if n == 0:
                values[s] = 0.0
            else:
                values[s] = _log_example(
                    u[lo:hi], safe, y, task, s, offsets[s], g.transitions, d[lo:hi], outer, pairs, work
                )
        for s in range(i, j):
            pull_back_steps(design, rows, g, s, d[offsets[s] - begin : offsets[s + 1] - begin])
        i = j
    for a in range(K):
        for b in range(K):
            g.transitions[a, b] += outer[a, b] * work.ea[0, a, b] + pairs[0, a, b]

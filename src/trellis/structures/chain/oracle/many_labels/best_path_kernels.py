# mypy: allow-untyped-defs
"""The best labelling of a chain over allowed pairs of labels: O(n (K + E)) time for E pairs.

    v[t, k] = u[t, k] + max_{e into k} ( v[t-1, j_e] + a[e] )

Ties go to the smallest label, from the last step backwards, as everywhere.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel, max_kernel
from trellis.structures.chain.scores.step_score_kernels import load_steps, step_losses


@max_kernel
def _best_step(bounds, source, a, before, u, out):
    for k in range(u.shape[0]):
        top = -np.inf
        for i in range(bounds[k], bounds[k + 1]):
            x = before[source[i]] + a[i]
            top = x if x > top else top
        out[k] = top + u[k]


@kernel
def _best_block(scores, known, question, scale, pairs, first, lo, hi, work):
    """Scores of steps lo..hi-1 and the best messages into ``work.f[1:]``; ``first``: where the sequence
    begins."""
    load_steps(scores, known, question, scale, lo, hi, work.u)
    for t in range(lo, hi):
        s = t - lo
        if t == first:
            for k in range(work.u.shape[1]):
                work.f[s + 1, k] = pairs.start[k] + work.u[s, k]
        else:
            _best_step(pairs.bounds, pairs.source, pairs.a, work.f[s], work.u[s], work.f[s + 1])


@kernel
def best_path(scores, known, question, scale, pairs, first, last, work, path):
    """The best labelling of steps first..last-1 into ``path`` (N,), and its score; -inf where there is
    none."""
    B, K = work.u.shape
    if first == last:
        return 0.0
    blocks = (last - first + B - 1) // B
    for b in range(blocks):
        lo = first + b * B
        hi = min(lo + B, last)
        for k in range(K):
            work.kept[b, k] = work.f[0, k]
        _best_block(scores, known, question, scale, pairs, first, lo, hi, work)
        for k in range(K):
            work.f[0, k] = work.f[hi - lo, k]
    best, label = -np.inf, np.int64(0)
    for k in range(K):
        if work.f[0, k] + pairs.end[k] > best:
            best, label = work.f[0, k] + pairs.end[k], np.int64(k)
    if best == -np.inf:
        return best
    for b in range(blocks - 1, -1, -1):
        lo = first + b * B
        hi = min(lo + B, last)
        for k in range(K):
            work.f[0, k] = work.kept[b, k]
        if b < blocks - 1:
            _best_block(scores, known, question, scale, pairs, first, lo, hi, work)
        for t in range(hi - 1, lo - 1, -1):
            path[t] = label
            if t > first:
                before = work.f[t - lo]
                top, previous = -np.inf, label
                for i in range(pairs.bounds[label], pairs.bounds[label + 1]):
                    x = before[pairs.source[i]] + pairs.a[i]
                    if x > top:
                        top, previous = x, pairs.source[i]
                label = np.int64(previous)
    return best


@kernel
def best_batch(scores, known, question, scale, pairs, offsets, first, last, work, paths, values, losses):
    """Best labellings of sequences first..last-1, their scores and losses."""
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        values[i] = best_path(scores, known, question, scale, pairs, lo, hi, work, paths)
        losses[i] = 0.0
        if values[i] > -np.inf and known.gold.shape[0] > 0:
            losses[i] = step_losses(known, lo, hi, paths)

# mypy: allow-untyped-defs
"""Given labellings of chains over allowed pairs of labels: their scores, and their parts as a gradient."""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.many_labels.pair_kernels import pair_place
from trellis.structures.chain.scores.step_score_kernels import add_label, load_steps


@kernel
def score_path(scores, known, pairs, first, last, work, path):
    """The score of a labelling, -inf where it is forbidden."""
    B = work.u.shape[0]
    total = 0.0
    for t in range(first, last):
        if (t - first) % B == 0:
            load_steps(scores, known, 0, 0.0, t, min(t + B, last), work.u)
        total += work.u[(t - first) % B, path[t]]
        if t == first:
            total += pairs.start[path[t]]
        else:
            place = pair_place(pairs, path[t - 1], path[t])
            if place < 0:
                return -np.inf
            total += pairs.a[place]
    return total + pairs.end[path[last - 1]] if last > first else 0.0


@kernel
def score_batch(scores, known, pairs, offsets, first, last, work, paths, values):
    """Scores of the labellings ``paths``."""
    for i in range(first, last):
        values[i] = score_path(scores, known, pairs, offsets[i], offsets[i + 1], work, paths)


@kernel
def add_paths(scores, pairs, offsets, first, last, c, paths, g):
    """g += sum_i c[i] * (features, pairs and ends of path i)."""
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        if lo == hi or c[i] == 0.0:
            continue
        for t in range(lo, hi):
            add_label(scores, t, paths[t], c[i], g.mask, g.flat)
            if t > lo:
                place = pair_place(pairs, paths[t - 1], paths[t])
                if place >= 0:
                    g.pairs[place] += c[i]
        g.start[paths[lo]] += c[i]
        g.end[paths[hi - 1]] += c[i]

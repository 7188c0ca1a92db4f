# mypy: allow-untyped-defs
"""The best sequence of classes when any may follow any other, with boundary scores computed as needed."""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import max_kernel


@max_kernel
def free_path(frames, around, left, right, weight, offset, factor, sources, targets, path, gains):
    """``path[t]``: the class of frame t; ``gains[t]``: its frame score, and that of the boundary before it.

        score_t[b] = frames[t, b] + max(score_{t-1}[b], max_a score_{t-1}[a] + factor s(t; a, b))
        s(t; a, b) = offset + sum_h weight[h] max(around[t - 1, h] + left[a, h] + right[b, h], 0)

    with a only among the ``len(sources)`` best classes at t - 1, and b among the ``len(targets)`` best at t
    by their frame score (both are room to work in).
    """
    n_frames, n_classes = frames.shape
    score, new = frames[0].copy(), np.empty(n_classes)
    came = np.empty((n_frames, n_classes), dtype=np.int64)
    switch = np.zeros((n_frames, n_classes))
    for t in range(1, n_frames):
        _best(score, sources)
        _best(frames[t], targets)
        for b in range(n_classes):
            new[b] = score[b]
            came[t, b] = b
        for j in range(len(targets)):
            b = targets[j]
            for i in range(len(sources)):
                a = sources[i]
                if a == b:
                    continue
                total = np.float32(0.0)
                for h in range(len(weight)):
                    total += weight[h] * max(around[t - 1, h] + left[a, h] + right[b, h], np.float32(0.0))
                between = factor * (offset + total)
                if score[a] + between > new[b]:
                    new[b] = score[a] + between
                    came[t, b] = a
                    switch[t, b] = between
        for b in range(n_classes):
            score[b] = new[b] + frames[t, b]
    b = 0
    for c in range(1, n_classes):
        if score[c] > score[b]:
            b = c
    for t in range(n_frames - 1, 0, -1):
        path[t] = b
        gains[t] = frames[t, b] + switch[t, b]
        b = came[t, b]
    path[0] = b
    gains[0] = frames[0, b]


@max_kernel
def _best(values, chosen):
    """The places of the ``len(chosen)`` largest values, largest first."""
    for k in range(len(chosen)):
        top = -1
        for c in range(len(values)):
            taken = False
            for j in range(k):
                if chosen[j] == c:
                    taken = True
            if not taken and (top < 0 or values[c] > values[top]):
                top = c
        chosen[k] = top

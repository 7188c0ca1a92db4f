# mypy: allow-untyped-defs
"""Frame-level Viterbi search: roughly where in a long recording each phone is."""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import max_kernel


@max_kernel
def frame_viterbi(emission, codes, pred_indptr, pred, score, back):
    """score_t[i] = emission[t, codes[i]] + max(score_{t-1}[i], max_{p in pred(i)} score_{t-1}[p]), from node
    0.

    Nodes come after their predecessors, so going through them backwards needs one row of scores. ``score``
    ends as that of the last frame; ``back[t, i]`` is 0 for "stayed", else 1 + the position of the predecessor
    in its list.
    """
    n_nodes = len(codes)
    score[:] = -np.inf
    score[0] = emission[0, codes[0]]
    for t in range(1, len(emission)):
        for i in range(n_nodes - 1, -1, -1):
            best, move = score[i], 0
            for k in range(pred_indptr[i], pred_indptr[i + 1]):
                before = score[pred[k]]
                if before > best:
                    best, move = before, k - pred_indptr[i] + 1
            score[i] = best + emission[t, codes[i]]
            back[t, i] = move


@max_kernel
def frame_trace(pred_indptr, pred, back, last, path):
    """path[t]: the node at frame t on the best path into ``last`` at the last frame."""
    i = last
    for t in range(len(path) - 1, -1, -1):
        path[t] = i
        move = back[t, i]
        if move > 0:
            i = pred[pred_indptr[i] + move - 1]

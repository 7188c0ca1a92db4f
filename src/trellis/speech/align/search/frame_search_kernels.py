# mypy: allow-untyped-defs
"""Frame-level Viterbi search through a lattice, a block of frames at a time."""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import max_kernel


@max_kernel
def search_block(emission, codes, pred_indptr, pred, reach, beam, low, high, score, moves):
    """One block of frames, from scores of the frame before it; returns the nodes that are left, and the most.

        score_t[i] = emission[t, codes[i]] + max(score_{t-1}[i], max_{p in pred(i)} score_{t-1}[p])

    Only the nodes ``low`` to ``high - 1`` are alive at the start; ``reach`` is how far a node lies behind its
    first predecessor, at most. Nodes more than ``beam`` below the best of a frame die. Nodes come after their
    predecessors, so going through them backwards needs one row of scores. ``moves[t, i - low]`` is 0 for
    "stayed", else 1 + the position of the predecessor in its list; a table without columns takes none.
    """
    n_nodes, first, widest = len(codes), low, high
    keep_moves = moves.shape[1] > 0
    for t in range(len(emission)):
        top = min(n_nodes, high + reach)
        best = -np.inf
        for i in range(top - 1, low - 1, -1):
            value, move = score[i], 0
            for k in range(pred_indptr[i], pred_indptr[i + 1]):
                before = score[pred[k]]
                if before > value:
                    value, move = before, k - pred_indptr[i] + 1
            value += emission[t, codes[i]]
            score[i] = value
            if value > best:
                best = value
            if keep_moves:
                moves[t, i - first] = move
        least = best - beam
        while low < top and score[low] < least:
            score[low] = -np.inf
            low += 1
        while top > low and (score[top - 1] < least or score[top - 1] == -np.inf):
            score[top - 1] = -np.inf
            top -= 1
        high = top
        widest = max(widest, top + reach)
    return low, high, min(widest, n_nodes)


@max_kernel
def trace_block(pred_indptr, pred, moves, low, last, path):
    """path[t]: the node at frame t of a block on the best path into ``last``; returns the node before it."""
    i = last
    for t in range(len(path) - 1, -1, -1):
        path[t] = i
        move = moves[t, i - low]
        if move > 0:
            i = pred[pred_indptr[i] + move - 1]
    return i

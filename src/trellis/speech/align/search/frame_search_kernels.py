# mypy: allow-untyped-defs
"""Viterbi search through a lattice with longest lengths of segments, a block of frames at a time.

With the sum S_i(t) of the evidence for node i in frames before t, A_i(t) the score of the best path whose
segment of node i ends at t, L_i its longest length and M the shortest one of all:

    E_i(s) = max over p before i of A_p(s)                                  node i begins at s
    A_i(t) = S_i(t) + max over s = t - L_i .. t - M of E_i(s) - S_i(s)

The maximum over a sliding window is kept as a queue of falling values (each beaten by none that is younger),
a ring of entries per node: ``value``, ``when``, with ``head`` and ``size``. A node without a limit keeps its
best entry only. Entries wait for M frames before they join the queue, in ``waiting[i, s % M]``; ``begun`` is
the last frame at which the node was entered.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import max_kernel


@max_kernel
def search_block(
    emission, first, codes, longest, pred_indptr, pred, reach, beam, low, high, total,
    value, when, head, size, waiting, begun, ends, starts, moves,
):  # fmt: skip
    """One block of frames from ``first`` on; returns the nodes that are left, and the most there were.

    Only the nodes ``low`` to ``high - 1`` have entries at the start; ``reach`` is how far a node lies behind
    its first predecessor, at most. Nodes more than ``beam`` below the best of a frame lead nowhere, and die
    at either end of them. ``total``: S of each class, ``ends``: A of each node, -inf outside.
    ``starts[t, i - low]``: where the segment begins that ends after frame t; ``moves[t, i - low]``: the
    position in its list of the predecessor of a segment that begins there; tables without columns take none.
    """
    n_nodes, bottom, widest, width = len(codes), low, high, value.shape[1]
    keep, shortest = moves.shape[1] > 0, waiting.shape[1]
    for t in range(len(emission)):
        now = first + t + 1
        slot = now % shortest
        for c in range(len(total)):
            total[c] += emission[t, c]
        best = -np.inf
        for i in range(low, high):
            entry = waiting[i, slot]
            if entry > -np.inf:
                waiting[i, slot] = -np.inf
                if longest[i] >= width:  # no limit: only the best entry matters
                    if size[i] == 0 or entry > value[i, head[i]]:
                        head[i], size[i] = 0, 1
                        value[i, 0], when[i, 0] = entry, now - shortest
                else:
                    while size[i] > 0 and value[i, (head[i] + size[i] - 1) % width] < entry:
                        size[i] -= 1
                    place = (head[i] + size[i]) % width
                    value[i, place], when[i, place] = entry, now - shortest
                    size[i] += 1
            if longest[i] < width:
                while size[i] > 0 and now - when[i, head[i]] > longest[i]:
                    head[i] = (head[i] + 1) % width
                    size[i] -= 1
            if size[i] == 0:
                ends[i] = -np.inf
                continue
            ends[i] = total[codes[i]] + value[i, head[i]]
            best = max(best, ends[i])
            if keep:
                starts[t, i - bottom] = when[i, head[i]]
        least = best - beam
        while low < high and (ends[low] < least or ends[low] == -np.inf) and now - begun[low] >= shortest:
            ends[low] = -np.inf
            size[low] = 0
            low += 1
        while (
            high > low
            and (ends[high - 1] < least or ends[high - 1] == -np.inf)
            and (now - begun[high - 1] >= shortest)
        ):
            ends[high - 1] = -np.inf
            size[high - 1] = 0
            high -= 1
        top = min(n_nodes, high + reach)
        last = high
        for i in range(low, top):
            entry, move = -np.inf, 0
            for k in range(pred_indptr[i], pred_indptr[i + 1]):
                before = ends[pred[k]]
                if before > entry and before >= least:
                    entry, move = before, k - pred_indptr[i]
            if entry == -np.inf:
                continue
            waiting[i, slot], begun[i] = entry - total[codes[i]], now
            last = max(last, i + 1)
            if keep:
                moves[t, i - bottom] = move
        high = last
        widest = max(widest, high)
    return low, high, widest


@max_kernel
def pack_queues(value, when, head, size, low, high, values, whens):
    """All entries of the nodes ``low`` to ``high - 1``, one node after the other."""
    width, at = value.shape[1], 0
    for i in range(low, high):
        for k in range(size[i]):
            place = (head[i] + k) % width
            values[at], whens[at] = value[i, place], when[i, place]
            at += 1


@max_kernel
def unpack_queues(values, whens, sizes, low, value, when, head, size):
    """The inverse of :func:`pack_queues`, into empty queues."""
    at = 0
    for j in range(len(sizes)):
        head[low + j], size[low + j] = 0, sizes[j]
        for k in range(sizes[j]):
            value[low + j, k], when[low + j, k] = values[at], whens[at]
            at += 1


@max_kernel
def trace_block(pred_indptr, pred, first, low, starts, moves, node, at, begun, path):
    """The best path backwards through a block of frames from ``first`` on, into ``path``.

    ``begun``: ``node`` begins at frame ``at``, and what is before it is asked; otherwise it ends there, and
    where it begins is asked. Returns the same of the frame where the block before has to answer.
    """
    while at > first:
        if begun:
            node = pred[pred_indptr[node] + moves[at - 1 - first, node - low]]
            begun = False
        else:
            start = starts[at - 1 - first, node - low]
            for t in range(start, at):
                path[t] = node
            at = start
            begun = True
    return node, at, begun

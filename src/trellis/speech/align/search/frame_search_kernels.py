# mypy: allow-untyped-defs
"""Viterbi search through a lattice with longest lengths of segments, a block of frames at a time.

With the sum S_i(t) of the evidence for node i in frames before t, A_i(t) the score of the best path whose
segment of node i ends at t, L_i its longest length and M the shortest one of all:

    E_i(s) = max over p before i of A_p(s)                                  node i begins at s
    A_i(t) = S_i(t) + max over s = t - L_i .. t - M of E_i(s) - S_i(s)

The maximum over a sliding window is kept as a queue of falling values (each beaten by none that is younger),
a ring of entries per node: ``value``, ``when``, with ``head`` and ``size``. A node without a limit keeps its
best entry only. Entries wait for M frames before they join the queue, in ``waiting[i, s % M]``.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import max_kernel


@max_kernel
def search_block(
    emission, first, codes, longest, pred_indptr, pred, reach, floor, ceiling, low, high, total,
    value, when, head, size, waiting, ends, starts, moves,
):  # fmt: skip
    """One block of frames from ``first`` on; returns the nodes that are left, and the most there were.

    Only the nodes ``low`` to ``high - 1`` have entries at the start; ``reach`` is how far a node lies behind
    its first predecessor, at most. After frame t of the block only the nodes from ``floor[t]`` to
    ``ceiling[t] - 1`` may be entered or left; neither bound ever falls. ``total``: S of each class, ``ends``:
    A of each node, -inf outside. ``starts[t, i - low]``: where the segment begins that ends after frame t;
    ``moves[t, i - low]``: the position in its list of the predecessor of a segment that begins there; tables
    without columns take none.
    """
    bottom, widest, width = low, high, value.shape[1]
    keep, shortest = moves.shape[1] > 0, waiting.shape[1]
    for t in range(len(emission)):
        now = first + t + 1
        slot = now % shortest
        for c in range(len(total)):
            total[c] += emission[t, c]
        while low < floor[t]:
            ends[low] = -np.inf
            size[low] = 0
            low += 1
        for i in range(low, high):
            entry, behind, n = waiting[i, slot], head[i], size[i]
            if entry > -np.inf:
                waiting[i, slot] = -np.inf
                if longest[i] >= width:  # no limit: only the best entry matters
                    if n == 0 or entry > value[i, behind]:
                        behind, n = 0, 1
                        value[i, 0], when[i, 0] = entry, now - shortest
                else:
                    place = behind + n  # of a ring: places from width on begin again at 0
                    if place >= width:
                        place -= width
                    while n > 0:
                        youngest = place - 1 if place > 0 else width - 1
                        if value[i, youngest] >= entry:
                            break
                        place = youngest
                        n -= 1
                    value[i, place], when[i, place] = entry, now - shortest
                    n += 1
            if longest[i] < width:
                while n > 0 and now - when[i, behind] > longest[i]:
                    behind = behind + 1 if behind + 1 < width else 0
                    n -= 1
            head[i], size[i] = behind, n
            if n == 0:
                ends[i] = -np.inf
                continue
            ends[i] = total[codes[i]] + value[i, behind]
            if keep:
                starts[t, i - bottom] = when[i, behind]
        last = high
        for i in range(low, min(ceiling[t], high + reach, len(codes))):
            entry, move = -np.inf, 0
            for k in range(pred_indptr[i], pred_indptr[i + 1]):
                before = ends[pred[k]]
                if before > entry:
                    entry, move = before, k - pred_indptr[i]
            if entry == -np.inf:
                continue
            waiting[i, slot] = entry - total[codes[i]]
            last = max(last, i + 1)
            if keep:
                moves[t, i - bottom] = move
        high = last
        widest = max(widest, high)
    return low, high, widest


@max_kernel
def coarse_block(emission, codes, pred_indptr, pred, low, high, ends, moves):
    """Viterbi through a block of ``emission`` (U, classes), at least one of its rows for each node of a path:

        A_i(u) = e_i(u) + max(A_i(u - 1), max over p before i of A_p(u - 1))

    ``ends``: A of each node before the block, (n,), and after it, for the nodes ``low`` to ``high - 1``; -inf
    for those before them. ``moves[u, i - low]``: 0 to stay in a node, or one more than the position of the
    predecessor in its list; a table without rows takes none.
    """
    keep = len(moves) > 0
    for u in range(len(emission)):
        for i in range(high - 1, low - 1, -1):  # predecessors come first: theirs are still those before
            best, move = ends[i], 0
            for k in range(pred_indptr[i], pred_indptr[i + 1]):
                before = ends[pred[k]]
                if before > best:
                    best, move = before, k - pred_indptr[i] + 1
            ends[i] = best + emission[u, codes[i]]
            if keep:
                moves[u, i - low] = move


@max_kernel
def coarse_trace(pred_indptr, pred, moves, low, node, path):
    """The nodes of a block's rows, into ``path``, and the node before them; ``node`` is the last one."""
    for u in range(len(moves) - 1, -1, -1):
        path[u] = node
        move = moves[u, node - low]
        if move > 0:
            node = pred[pred_indptr[node] + move - 1]
    return node


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

# mypy: allow-untyped-defs
"""Beyond the single best labelling of one chain: the best one that differs from a given one, and the k best.

Scores of one sequence: ``u`` (n, K), ``a`` (1, K, K) or (n, K, K) where row t leads into step t, ``start``
and ``end`` (K,). Both searches are exact, O(n K^2) and O(n K^2 k), and keep the tie rule of Viterbi: among
labellings of equal score the one comes first that has the smaller label at the last step where they differ.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import max_kernel


@max_kernel
def best_different(u, a, start, end, given, v, same, path):
    """Best labelling that differs from ``given`` in at least one step, into ``path``; returns its score.

    Returns ``-inf`` (and leaves ``path`` as it was) when there is none. Scratch: ``v`` (n, K), ``same`` (n,).

    One bit, "already differs", doubles the states of Viterbi, but only one prefix does not differ yet:

        same[t] = score of given[0..t]
        v[t, k] = u[t, k] + max( max_j v[t-1, j] + a[t, j, k],
                                 same[t-1] + a[t, given[t-1], k]  if k != given[t] )
    """
    n, K = u.shape
    if n == 0:
        return -np.inf
    step = 0 if a.shape[0] == 1 else 1
    for k in range(K):
        v[0, k] = start[k] + u[0, k]
    same[0] = v[0, given[0]]
    v[0, given[0]] = -np.inf
    for t in range(1, n):
        now, before, arc, g, h = v[t], v[t - 1], a[t * step], given[t], given[t - 1]
        for k in range(K):
            now[k] = same[t - 1] + arc[h, k]
        now[g] = -np.inf
        for j in range(K):
            reached = before[j]
            row = arc[j]
            for k in range(K):
                value = reached + row[k]
                now[k] = value if value > now[k] else now[k]
        for k in range(K):
            now[k] += u[t, k]
        same[t] = same[t - 1] + arc[h, g] + u[t, g]
    return _trace_different(a, step, end, given, v, same, path)


@max_kernel
def _trace_different(a, step, end, given, v, same, path):
    """Walk back. Once a later label differs from the given one, the earlier ones are free: there the given
    prefix competes too, with the value ``same[t]`` at its label."""
    n, K = v.shape
    best, label = -np.inf, -1
    for k in range(K):
        if v[n - 1, k] + end[k] > best:
            best, label = v[n - 1, k] + end[k], k
    if label < 0:
        return best
    path[n - 1] = label
    free = label != given[n - 1]
    for t in range(n - 1, 0, -1):
        arc, h = a[t * step], given[t - 1]
        top, arg = -np.inf, -1
        for j in range(K):
            value = v[t - 1, j]
            if free and j == h:
                value = max(value, same[t - 1])
            value += arc[j, label]
            if value > top:
                top, arg = value, j
        label = arg
        path[t - 1] = label
        free = free or label != h
    return best


@max_kernel
def k_best(u, a, start, end, k, paths, scores):
    """The ``k`` best labellings, best first, into ``paths`` (k, n) and ``scores`` (k,); returns their number.

    Rows past that number get label -1 and score ``-inf``.

    List Viterbi: cell (t, l) holds the k best prefixes that end in l, by merging K sorted lists,

        value[t, l, r] = u[t, l] + (r-th largest over j, s of  value[t-1, j, s] + a[t, j, l]),

    and ``back`` keeps where each came from, as j * k + s.
    """
    n, K = u.shape
    for rank in range(k):
        scores[rank] = -np.inf
        for t in range(n):
            paths[rank, t] = -1
    if n == 0:
        scores[0] = 0.0
        return 1
    step = 0 if a.shape[0] == 1 else 1
    value = np.full((2, K, k), -np.inf)
    back = np.empty((n, K, k), dtype=np.int32)
    heads = np.empty(K, dtype=np.int64)
    offers = np.empty(K)
    for label in range(K):
        value[0, label, 0] = start[label] + u[0, label]
    for t in range(1, n):
        before, now, arc = value[(t - 1) % 2], value[t % 2], a[t * step]
        for label in range(K):
            _merge(before, arc[:, label], heads, offers, now[label], back[t, label])
            for rank in range(k):
                now[label, rank] += u[t, label]
    # The K lists of the last step, with the end scores added, merge into one; row 0 of back is free for it.
    _merge(value[(n - 1) % 2], end, heads, offers, scores, back[0, 0])
    found = 0
    while found < k and scores[found] > -np.inf:
        cell = back[0, 0, found]
        for t in range(n - 1, 0, -1):
            paths[found, t] = cell // k
            cell = back[t, cell // k, cell % k]
        paths[found, 0] = cell // k
        found += 1
    return found


@max_kernel
def _merge(lists, extra, heads, offers, out, source):
    """The largest of ``lists[j, s] + extra[j]`` into ``out``, and j * k + s into ``source``.

    Each list is sorted downwards; ``offers[j]`` is the head of list j. The strict > takes the smallest j
    among equals, which is the tie rule.
    """
    K, k = lists.shape
    for j in range(K):
        heads[j] = 0
        offers[j] = lists[j, 0] + extra[j]
    for rank in range(k):
        top, arg = -np.inf, -1
        for j in range(K):
            if offers[j] > top:
                top, arg = offers[j], j
        if arg < 0:
            for rest in range(rank, k):
                out[rest] = -np.inf
            return
        out[rank] = top
        source[rank] = arg * k + heads[arg]
        heads[arg] += 1
        offers[arg] = lists[arg, heads[arg]] + extra[arg] if heads[arg] < k else -np.inf

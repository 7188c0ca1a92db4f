# mypy: allow-untyped-defs
"""Kernel of the elimination orders: greedy elimination on sorted lists of neighbours.

Eliminating v connects its neighbours N(v) with each other and removes v. The next v is the one of least cost:

    fill     cost(v) = sum over pairs u, w of N(v) that are not yet connected of weight_u weight_w
    weight   cost(v) = product of the cardinalities of v and N(v)

With weight 1 the first is min-fill, with cardinalities it is weighted min-fill. Ties go to the smaller
cluster {v} + N(v), then to the smaller tie-break key of the node.

A pool holds the lists one after another. A list that outgrows its place moves to the end of the pool; where
the pool is full the kernel returns, and the caller tries again with a larger one.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel

FILL, WEIGHT = 0, 1


@kernel
def greedy_order(
    start, degree, room, pool, used, log_sizes, weights, keys, stale, mode, bound, order, clusters, widths
):
    """Fills ``order``, ``clusters`` (log sizes) and ``widths``; returns how many, total size, work.

    Node v has its neighbours at pool[start[v] : start[v] + degree[v]], with room for ``room[v]``; ``used`` is
    where free places begin. ``stale``: 1 for nodes whose costs must be found, -1 for nodes that are never
    eliminated. Stops early, with a total above ``bound``, when it cannot win; with -1 when the pool is full.
    """
    n = len(start)
    cost, size = np.zeros(n), np.zeros(n)
    mark = np.zeros(n, np.int32)
    total, work, count = 0.0, 0, 0
    while True:
        best = -1
        for v in range(n):
            if stale[v] < 0:
                continue
            if stale[v] > 0:
                work += _find_costs(v, start, degree, pool, log_sizes, weights, mark, mode, cost, size)
                stale[v] = 0
            if best < 0 or (
                cost[v] < cost[best]
                or (
                    cost[v] == cost[best]
                    and (
                        size[v] < size[best] - 1e-9 or (size[v] < size[best] + 1e-9 and keys[v] < keys[best])
                    )
                )
            ):
                best = v
        if best < 0:
            return count, total, work
        order[count] = best
        clusters[count] = size[best]
        widths[count] = degree[best]
        count += 1
        total += np.exp(size[best])
        stale[best] = -1
        if total > bound:
            return count, total, work
        used = _eliminate(best, start, degree, room, pool, used, stale, mode)
        if used < 0:
            return -1, total, work
        work += n // 8 + degree[best] * degree[best]


@kernel
def _find_costs(v, start, degree, pool, log_sizes, weights, mark, mode, cost, size):
    """Fill: sum_u w_u (W - w_u - weight of N(u) within N(v)), W the weight of N(v): each pair twice."""
    size[v] = log_sizes[v]
    whole = 0.0
    work = degree[v]
    for a in range(start[v], start[v] + degree[v]):
        u = pool[a]
        size[v] += log_sizes[u]
        whole += weights[u]
        mark[u] = v + 1
    cost[v] = np.rint(size[v] * 1e9)  # sums in different orders must tie
    if mode == FILL:
        cost[v] = 0.0
        for a in range(start[v], start[v] + degree[v]):
            u = pool[a]
            known = weights[u]
            for b in range(start[u], start[u] + degree[u]):
                if mark[pool[b]] == v + 1:
                    known += weights[pool[b]]
            work += degree[u]
            cost[v] += weights[u] * (whole - known)
    return work


@kernel
def _eliminate(v, start, degree, room, pool, used, stale, mode):
    """Each neighbour's list becomes its union with N(v), without itself and v; marks changed costs."""
    d = degree[v]
    for a in range(start[v], start[v] + d):
        u = pool[a]
        most = degree[u] + d
        if used + most > len(pool):
            return -1
        # The union is written to the free end, then copied back where it fits.
        i, last_i, j, last_j, end = start[u], start[u] + degree[u], start[v], start[v] + d, used
        while i < last_i or j < last_j:
            if j == last_j or (i < last_i and pool[i] <= pool[j]):
                w = pool[i]
                if j < last_j and pool[j] == w:
                    j += 1
                i += 1
            else:
                w = pool[j]
                j += 1
            if w != u and w != v:
                pool[end] = w
                end += 1
        count = end - used
        grew = count >= degree[u]  # it lost v, so an equal number means a new neighbour
        if count <= room[u]:
            for b in range(count):
                pool[start[u] + b] = pool[used + b]
        else:
            start[u], room[u] = used, most
            used += most
        degree[u] = count
        if stale[u] == 0:
            stale[u] = 1
        if grew and mode == FILL:  # a new edge changes the fill of all common neighbours of its ends
            for b in range(start[u], start[u] + count):
                if stale[pool[b]] == 0:
                    stale[pool[b]] = 1
    return used

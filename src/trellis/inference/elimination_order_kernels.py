# mypy: allow-untyped-defs
"""Kernel of the elimination orders: greedy elimination on sorted lists of neighbours.

Eliminating v connects its neighbours N(v) with each other and removes v. The next v is the one of least cost:

    fill     cost(v) = sum over pairs u, w of N(v) that are not yet connected of weight_u weight_w
    weight   cost(v) = product of the cardinalities of v and N(v)

With weight 1 the first is min-fill, with cardinalities it is weighted min-fill. Ties go to the smaller
cluster {v} + N(v), then to the smaller tie-break key of the node.
"""

from __future__ import annotations

import numpy as np

from trellis.numerics import kernel

FILL, WEIGHT = 0, 1


@kernel
def greedy_order(starts, neighbours, log_sizes, weights, keys, kept, mode, bound):
    """Order, log sizes of the clusters, their total size, and the work done.

    ``kept`` nodes are never eliminated. Stops early (with a total above ``bound``) when it cannot win.
    """
    n = len(starts) - 1
    degree = np.diff(starts).astype(np.int32)
    capacity = 8
    for v in range(n):
        capacity = max(capacity, 2 * degree[v])
    lists = np.empty((n, capacity), np.int32)
    for v in range(n):
        lists[v, : degree[v]] = neighbours[starts[v] : starts[v + 1]]
    alive = np.logical_not(kept)
    cost, size = np.zeros(n), np.zeros(n)
    stale = np.ones(n, np.bool_)
    mark = np.full(n, -1, np.int32)
    order = np.empty(n, np.int32)
    clusters = np.empty(n)
    total, work, count = 0.0, 0, 0
    for _ in range(n):
        best = -1
        for v in range(n):
            if not alive[v]:
                continue
            if stale[v]:
                work += _costs(v, lists, degree, log_sizes, weights, mark, mode, cost, size)
                stale[v] = False
            if best < 0 or _before(v, best, cost, size, keys):
                best = v
        if best < 0:
            break
        order[count] = best
        clusters[count] = size[best]
        count += 1
        total += np.exp(size[best])
        alive[best] = False
        if total > bound:
            break
        d = degree[best]
        needed = 0  # a neighbour's list may come to hold all the others
        for a in range(d):
            needed = max(needed, degree[lists[best, a]] + d)
        if needed > capacity:
            wider = np.empty((n, 2 * needed), np.int32)
            wider[:, :capacity] = lists
            lists, capacity = wider, 2 * needed
        work += n // 8 + _eliminate(best, lists, degree, stale, mode)
    return order[:count], clusters[:count], total, work


@kernel
def _before(v, best, cost, size, keys):
    """Whether v goes before the best so far; equal up to rounding counts as equal."""
    if cost[v] != cost[best]:
        return cost[v] < cost[best]
    if abs(size[v] - size[best]) > 1e-9:
        return size[v] < size[best]
    return keys[v] < keys[best]


@kernel
def _costs(v, lists, degree, log_sizes, weights, mark, mode, cost, size):
    """Fill: half of sum_u w_u (W - w_u - weight of N(u) within N(v)), W the weight of N(v)."""
    d = degree[v]
    size[v] = log_sizes[v]
    whole = 0.0
    for a in range(d):
        u = lists[v, a]
        size[v] += log_sizes[u]
        whole += weights[u]
        mark[u] = v
    if mode == WEIGHT:
        cost[v] = np.rint(size[v] * 1e9)  # sums in different orders must tie
        return d
    fill, work = 0.0, d
    for a in range(d):
        u = lists[v, a]
        known = weights[u]
        for b in range(degree[u]):
            w = lists[u, b]
            if mark[w] == v:
                known += weights[w]
        work += degree[u]
        fill += weights[u] * (whole - known)
    cost[v] = fill
    return work


@kernel
def _eliminate(v, lists, degree, stale, mode):
    """Each neighbour's list becomes its union with N(v), without itself and v; marks changed costs."""
    d = degree[v]
    merged = np.empty(lists.shape[1], np.int32)
    work = 0
    for a in range(d):
        u = lists[v, a]
        stale[u] = True
        i = j = count = 0
        while i < degree[u] or j < d:
            if j == d or (i < degree[u] and lists[u, i] <= lists[v, j]):
                w = lists[u, i]
                if j < d and lists[v, j] == w:
                    j += 1
                i += 1
            else:
                w = lists[v, j]
                j += 1
            if w != u and w != v:
                merged[count] = w
                count += 1
        work += count
        grew = count >= degree[u]  # it lost v, so an equal number means a new neighbour
        lists[u, :count] = merged[:count]
        degree[u] = count
        if grew and mode == FILL:  # a new edge changes the fill of all common neighbours of its ends
            for b in range(count):
                stale[lists[u, b]] = True
    return work

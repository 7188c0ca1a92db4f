# mypy: allow-untyped-defs
"""Beam search with a bound on what it may have missed, for chains of many labels and full tables of
transitions.

Backward, an upper bound of the rest of a labelling after label k at step t, exact in the transitions into
the M labels S of the next step that promise most:

    g[k'] = u[t+1, k'] + h[t+1, k'],      h[n-1, k] = end[k]
    h[t, k] = max( max_{k' in S} a[k, k'] + g[k'],   min( max_{k' not in S} into[k'] + g[k'],
                                                          out[k] + max_{k' not in S} rest[k'] + g[k'] ) )

with into[k'] = max_j a[j, k'], out[k] = max_k' a[k, k'] and rest[k'] = max_j (a[j, k'] - out[j]), so that
a[k, k'] is at most into[k'] and at most out[k] + rest[k']. Forward, v[t, k] from the kept labels alone; the
M labels with the largest v + h are kept. A labelling leaves the beam for the first time at some step t and
label k, and scores at most v[t, k] + h[t, k] there. So

    bound = max( value of the best labelling found,  max over all that was dropped of v + h )  >=  optimum

and the two are equal where the beam proves that it missed nothing. O(n M K) time, against O(n K^2).
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel, max_kernel


@max_kernel
def transition_bounds(a, into, out, rest):
    """into, out and rest (K,) of a table (K, K), see above."""
    K = a.shape[0]
    for j in range(K):
        top, row = -np.inf, a[j]
        for k in range(K):
            top = row[k] if row[k] > top else top
        out[j] = top
    for k in range(K):
        into[k], rest[k] = -np.inf, -np.inf
    for j in range(K):
        if out[j] == -np.inf:
            continue
        row, most = a[j], out[j]
        for k in range(K):
            into[k] = row[k] if row[k] > into[k] else into[k]
            rest[k] = row[k] - most if row[k] - most > rest[k] else rest[k]


@kernel
def _lowest_of_most(values, m, heap):
    """The m-th largest value, 0 < m < K: the root of a heap of the m largest so far, which few values
    enter."""
    for k in range(m):
        heap[k] = values[k]
    for start in range(m // 2 - 1, -1, -1):
        _sift(heap, m, start)
    for k in range(m, values.shape[0]):
        if values[k] > heap[0]:
            heap[0] = values[k]
            _sift(heap, m, 0)
    return heap[0]


@kernel
def _sift(heap, m, place):
    """Move what stands at ``place`` down to where it belongs."""
    x = heap[place]
    while 2 * place + 1 < m:
        below = 2 * place + 1
        if below + 1 < m and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= x:
            break
        heap[place] = heap[below]
        place = below
    heap[place] = x


@kernel
def _most(values, m, heap, chosen):
    """The indices of the m largest values that are above -inf, rising; returns how many. Ties: the smaller
    index."""
    K = values.shape[0]
    least = -np.inf
    if 4 * m <= K:
        least = _lowest_of_most(values, m, heap)
    elif m < K:
        least = np.partition(values, K - m)[K - m]
    above = 0
    for k in range(K):
        if values[k] > least:
            above += 1
    ties, size = m - above, 0
    for k in range(K):
        if values[k] > least:
            chosen[size] = k
            size += 1
        elif values[k] == least and values[k] > -np.inf and ties > 0:
            chosen[size] = k
            size += 1
            ties -= 1
    return size


@max_kernel
def _gather(table, chosen, size, plus, out):
    """out = max(out, max_i table[chosen[i]] + plus[chosen[i]]); four rows at a time, so that ``out`` is
    read less."""
    i = 0
    while i + 3 < size:
        j0, j1, j2, j3 = chosen[i], chosen[i + 1], chosen[i + 2], chosen[i + 3]
        r0, r1, r2, r3 = table[j0], table[j1], table[j2], table[j3]
        p0, p1, p2, p3 = plus[j0], plus[j1], plus[j2], plus[j3]
        for k in range(out.shape[0]):
            y0, y1, y2, y3 = r0[k] + p0, r1[k] + p1, r2[k] + p2, r3[k] + p3
            y0 = y1 if y1 > y0 else y0
            y2 = y3 if y3 > y2 else y2
            y0 = y2 if y2 > y0 else y0
            out[k] = y0 if y0 > out[k] else out[k]
        i += 4
    while i < size:
        row, p = table[chosen[i]], plus[chosen[i]]
        for k in range(out.shape[0]):
            x = row[k] + p
            out[k] = x if x > out[k] else out[k]
        i += 1


@kernel
def _backward(u, a_t, into, out, rest, end, m, h, g, heap, chosen, left):
    """h (n, K), see above."""
    n, K = u.shape
    for k in range(K):
        h[n - 1, k] = end[k]
    for t in range(n - 2, -1, -1):
        for k in range(K):
            g[k] = u[t + 1, k] + h[t + 1, k]
            left[k] = into[k] + g[k]
            h[t, k] = -np.inf
        size = _most(left, m, heap, chosen)
        for i in range(size):
            left[chosen[i]] = -np.inf
        by_into, by_rest = -np.inf, -np.inf
        for k in range(K):
            if left[k] > -np.inf:
                by_into = max(by_into, left[k])
                by_rest = max(by_rest, rest[k] + g[k])
        for k in range(K):
            h[t, k] = min(by_into, out[k] + by_rest)
        _gather(a_t, chosen, size, g, h[t])


@kernel
def _beam(
    u, a, a_t, start, end, into, out, rest, m, floor, h, v, g, left, heap, chosen, kept, sizes, reached, path
):
    """The best labelling that stays among the kept labels into ``path``, its score, and the bound.

    ``floor``: the score of a labelling that is known already. What cannot beat it is dropped without
    raising the bound above it. ``kept`` and ``reached`` (n, M): labels, and the v of each."""
    n, K = u.shape
    _backward(u, a_t, into, out, rest, end, m, h, g, heap, chosen, left)
    missed = -np.inf
    for t in range(n):
        now = v[t % 2]
        if t == 0:
            for k in range(K):
                now[k] = start[k] + u[0, k]
        else:
            before = v[(t - 1) % 2]
            for k in range(K):
                now[k] = -np.inf
            _gather(a, kept[t - 1], sizes[t - 1], before, now)
            for k in range(K):
                now[k] += u[t, k]
        for k in range(K):
            x = now[k] + h[t, k]
            g[k] = x
            left[k] = x if x > floor else -np.inf
        size = _most(left, m, heap, chosen)
        sizes[t] = size
        for i in range(size):
            k = chosen[i]
            kept[t, i], reached[t, i] = k, now[k]
            left[k] = -np.inf
        for k in range(K):
            missed = max(missed, left[k])
        if size == 0:
            return -np.inf, max(missed, floor)
    best = -np.inf
    for t in range(n - 1, -1, -1):  # no back pointers: only the labels on the way back are asked where from
        top, label = -np.inf, 0
        for i in range(sizes[t]):
            k = kept[t, i]
            x = reached[t, i] + (end[k] if t == n - 1 else a[k, path[t + 1]])
            if x > top:
                top, label = x, k
        path[t] = label
        if t == n - 1:
            best = top
    return best, max(best, missed)


@kernel
def _magnitude(u, a, start, end, path):
    """The sum of the absolute values of the parts of a labelling: what rounding is relative to."""
    n = u.shape[0]
    total = abs(start[path[0]]) + abs(end[path[n - 1]])
    for t in range(n):
        total += abs(u[t, path[t]])
        if t > 0:
            total += abs(a[path[t - 1], path[t]])
    return total


@kernel
def beam_batch(
    unary, a, a_t, start, end, offsets, first, last, width, most, into, out, rest,
    labels, values, bounds, widths, rounding,
):  # fmt: skip
    """Sequences first..last-1: labels, scores, bounds, the widths that were used, and what rounding may hide.

    The width of a sequence is doubled while its bound is above its value by more than rounding, up to
    ``most``."""
    K, n = unary.shape[1], 0
    for i in range(first, last):
        n = max(n, offsets[i + 1] - offsets[i])
    n = max(n, 1)
    most, width = min(most, K), min(width, K)
    h, v, g, left = np.empty((n, K)), np.empty((2, K)), np.empty(K), np.empty(K)
    heap, chosen, path = np.empty(most), np.empty(K, np.int64), np.empty(n, np.int64)
    kept, reached, sizes = np.empty((n, most), np.int64), np.empty((n, most)), np.empty(n, np.int64)
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        values[i], bounds[i], widths[i], rounding[i] = -np.inf, np.inf, 0, 0.0
        if lo == hi:
            values[i], bounds[i] = 0.0, 0.0
            continue
        u, m = unary[lo:hi], width
        while True:
            value, bound = _beam(
                u, a, a_t, start, end, into, out, rest, m, values[i], h, v, g, left, heap, chosen, kept,
                sizes, reached, path,
            )  # fmt: skip
            widths[i] = m
            if value > values[i]:
                values[i] = value
                for t in range(lo, hi):
                    labels[t] = path[t - lo]
                rounding[i] = 4.0 * np.finfo(np.float64).eps * (hi - lo) * _magnitude(u, a, start, end, path)
            bounds[i] = min(bounds[i], max(bound, values[i]))
            if m >= most or bounds[i] - values[i] <= rounding[i] or bounds[i] == -np.inf:
                break
            m = min(2 * m, most)

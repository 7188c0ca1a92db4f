# mypy: allow-untyped-defs
"""Segmentations without the rate term, in O(P T L): forward, backward, trace, expected parts.

(+) is the maximum or log-sum-exp, by ``mode``; p < i runs over the predecessors of node i. ``into`` is the
total of all that comes before a segment of node i that starts at s, with its boundary score; ``until`` of
all that ends with node i before frame e; ``onward`` of all that starts with node i at s, without its
boundary score; ``after`` of all that comes after node i has ended before e.

    into[i, s]   = boundary[i, s] + (+)_p until[p, s]            0 for the beginning, at s = 0 only
    until[i, e]  = prefix[i, e] + (+)_l  into[i, e - l] - prefix[i, e - l] + duration[i, l]
    onward[i, s] = -prefix[i, s] + (+)_l  duration[i, l] + prefix[i, s + l] + after[i, s + l]
    after[i, e]  = (+)_{q: i before q} boundary[q, e] + onward[q, e]      (+) 0 if i is final and e = T

Each (+) over l is a convolution, computed for one l and all s at a time: such loops are SIMD. Everything
stays inside the windows: node i starts at first[i]..last[i] and is shortest[i]..longest[i] frames long;
first windows leave out what no allowed lengths before and after can reach, later ones what cannot score
enough.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from trellis.core.logspace_kernels import MAX, semiring_add
from trellis.core.numerics import kernel, max_kernel
from trellis.core.numerics_kernels import exp_shifted, highest
from trellis.structures.segments.oracle.segment_convolution_kernels import convolve_max, convolve_sum

BEGIN = -1
TINY = 1e-100  # a probability below it counts for nothing, and products of reciprocals must not overflow
NEVER = np.iinfo(np.int64).max // 4


class Lattice(NamedTuple):
    """The arrays of ``SegmentScores`` and of its graph."""

    prefix: Any
    boundary: Any
    duration: Any
    inverse_mean: Any
    rate: Any
    pred_indptr: Any
    pred: Any
    final: Any


class Windows(NamedTuple):
    """Starts first..last and lengths shortest..longest of each node, (P,) each; empty where last < first."""

    first: Any
    last: Any
    shortest: Any
    longest: Any


@kernel
def feasible_windows(pred_indptr, pred, final, low, high, n_frames):
    """Where lengths allow each node to start, and the shortest and the longest segmentation of all."""
    n = low.shape[0]
    early, late = np.full(n, NEVER), np.full(n, -NEVER)  # start of node i, by what comes before
    for i in range(n):
        for k in range(pred_indptr[i], pred_indptr[i + 1]):
            p = pred[k]
            early[i] = min(early[i], 0 if p == BEGIN else early[p] + low[p])
            late[i] = max(late[i], 0 if p == BEGIN else late[p] + high[p])
    least, most = np.full(n, NEVER), np.full(n, -NEVER)  # frames after node i
    for i in range(n):
        if final[i]:
            least[i], most[i] = 0, 0
    for i in range(n - 1, -1, -1):
        for k in range(pred_indptr[i], pred_indptr[i + 1]):
            p = pred[k]
            if p != BEGIN:
                least[p] = min(least[p], low[i] + least[i])
                most[p] = max(most[p], high[i] + most[i])
    shortest, longest = NEVER, -NEVER
    first, last = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        if final[i]:
            shortest = min(shortest, early[i] + low[i])
            longest = max(longest, late[i] + high[i])
        first[i] = max(early[i], n_frames - most[i] - high[i])
        last[i] = min(late[i], n_frames - least[i] - low[i])
    top = np.empty(n, np.int64)
    for i in range(n):
        top[i] = min(high[i], n_frames - least[i] - first[i])  # no use beyond what the rest leaves over
        if top[i] < low[i]:
            last[i] = first[i] - 1
    return Windows(first, last, low.copy(), top), shortest, longest


@kernel
def plain_forward(mode, lattice, windows, into, until):
    """Fills ``into`` and ``until``, both (P, T + 1); returns the total over paths."""
    n, size = into.shape
    total = -np.inf
    x = np.empty(size)
    for i in range(n):
        first, last = windows.first[i], windows.last[i]
        into[i, :] = -np.inf
        until[i, :] = -np.inf
        for k in range(lattice.pred_indptr[i], lattice.pred_indptr[i + 1]):
            p = lattice.pred[k]
            if p == BEGIN:
                if first == 0 and last >= 0:
                    into[i, 0] = semiring_add(mode, into[i, 0], 0.0)
            else:
                for s in range(first, last + 1):
                    into[i, s] = semiring_add(mode, into[i, s], until[p, s])
        for s in range(first, last + 1):
            into[i, s] += lattice.boundary[i, s]
            x[s] = into[i, s] - lattice.prefix[i, s]
        if mode == MAX:
            convolve_max(
                0, 1, x, lattice.duration[i], first, last, windows.shortest[i], windows.longest[i], until[i]
            )
        else:
            convolve_sum(
                0, 1, x, lattice.duration[i], first, last, windows.shortest[i], windows.longest[i], until[i]
            )
        for e in range(size):
            until[i, e] += lattice.prefix[i, e]
        if lattice.final[i]:
            total = semiring_add(mode, total, until[i, size - 1])
    return total


@kernel
def plain_backward(mode, lattice, windows, onward, after):
    """Fills ``onward`` and ``after``, both (P, T + 1)."""
    n, size = onward.shape
    x = np.empty(size)
    for i in range(n):
        after[i, :] = -np.inf
        onward[i, :] = -np.inf
        if lattice.final[i]:
            after[i, size - 1] = 0.0
    for i in range(n - 1, -1, -1):
        first, last = windows.first[i], windows.last[i]
        for e in range(size):
            x[e] = after[i, e] + lattice.prefix[i, e]
        if mode == MAX:
            convolve_max(
                1, 0, x, lattice.duration[i], first, last, windows.shortest[i], windows.longest[i], onward[i]
            )
        else:
            convolve_sum(
                1, 0, x, lattice.duration[i], first, last, windows.shortest[i], windows.longest[i], onward[i]
            )
        for s in range(first, last + 1):
            onward[i, s] -= lattice.prefix[i, s]
        for k in range(lattice.pred_indptr[i], lattice.pred_indptr[i + 1]):
            p = lattice.pred[k]
            if p != BEGIN:
                for s in range(first, last + 1):
                    after[p, s] = semiring_add(mode, after[p, s], lattice.boundary[i, s] + onward[i, s])


@kernel
def plain_trace(lattice, windows, into, until, nodes, starts):
    """The best path, last segment first, from the maxima along it; ties go to the first. Returns its size."""
    n, size = into.shape
    e, node, size_of_path = size - 1, -1, 0
    best = -np.inf
    for i in range(n):
        if lattice.final[i] and until[i, e] > best:
            best, node = until[i, e], i
    while node != BEGIN:
        best, s = -np.inf, -1
        for length in range(windows.shortest[node], min(windows.longest[node], e) + 1):
            t = e - length
            v = into[node, t] - lattice.prefix[node, t] + lattice.duration[node, length]
            if v > best:
                best, s = v, t
        nodes[size_of_path], starts[size_of_path] = node, s
        size_of_path += 1
        best, before = -np.inf, BEGIN
        if s > 0:
            for k in range(lattice.pred_indptr[node], lattice.pred_indptr[node + 1]):
                p = lattice.pred[k]
                if p != BEGIN and until[p, s] > best:
                    best, before = until[p, s], p
        node, e = before, s
    return size_of_path


@kernel
def plain_parts(lattice, windows, into, after, total, starts, ends, lengths, start_moments, end_moments):
    """Expected parts; the moments (2, P, T + 1) are sums of p l and p l^2 by start and by end.

    p(i, s, l) = exp(into[i, s] - prefix[i, s] + duration[i, l] + prefix[i, s + l] + after[i, s + l] - total)
    """
    n, size = into.shape
    x, y, row, row_exp = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for i in range(n):
        first, last = windows.first[i], windows.last[i]
        for t in range(size):
            x[t] = into[i, t] - lattice.prefix[i, t] - total
            y[t] = lattice.prefix[i, t] + after[i, t]
        for length in range(windows.shortest[i], windows.longest[i] + 1):
            stop = min(last + 1, size - length)
            if stop <= first or lattice.duration[i, length] == -np.inf:
                continue
            exponent, p, weight = row[: stop - first], row_exp[: stop - first], lattice.duration[i, length]
            a, b = slice(first, stop), slice(first + length, stop + length)
            source, target = x[a], y[b]
            for k in range(p.shape[0]):
                exponent[k] = source[k] + target[k] + weight
            exp_shifted(exponent, 0.0, p)
            lengths[i, length] += add_mass(p, float(length), starts[i, a], start_moments[:, i, a])
            add_mass(p, float(length), ends[i, b], end_moments[:, i, b])


@kernel
def add_mass(p, length, mass, moments):
    """mass += p, moments += p l and p l^2; returns the sum of p."""
    total = 0.0
    for k in range(p.shape[0]):
        mass[k] += p[k]
        moments[0, k] += p[k] * length
        moments[1, k] += p[k] * length * length
        total += p[k]
    return total


@kernel
def plain_rate(lattice, windows, until, onward, total, starts, ends, start_moments, end_moments):
    """Expected sum of (a l - b l')^2: given a boundary, the lengths on its two sides are independent.

    sum over edges p -> i and frames s of
        P(p, i, s) (a^2 E[l^2 | i, s] - 2 a b E[l | i, s] E[l' | p, s] + b^2 E[l'^2 | p, s])
    """
    n = until.shape[0]
    expected = 0.0
    for i in range(n):
        a = lattice.inverse_mean[i]
        for k in range(lattice.pred_indptr[i], lattice.pred_indptr[i + 1]):
            p = lattice.pred[k]
            if p == BEGIN:
                continue
            b = lattice.inverse_mean[p]
            for s in range(windows.first[i], windows.last[i] + 1):
                if starts[i, s] > TINY and ends[p, s] > TINY:
                    mass = math.exp(until[p, s] + lattice.boundary[i, s] + onward[i, s] - total)
                    m1, m2 = start_moments[0, i, s] / starts[i, s], start_moments[1, i, s] / starts[i, s]
                    n1, n2 = end_moments[0, p, s] / ends[p, s], end_moments[1, p, s] / ends[p, s]
                    expected += mass * (a * a * m2 - 2.0 * a * b * m1 * n1 + b * b * n2)
    return expected


@max_kernel
def scoring_windows(lattice, windows, into, onward, after, threshold):
    """The smallest windows with all segments through which some path scores ``threshold`` or more."""
    n, size = into.shape
    first, last = windows.first.copy(), windows.last.copy()
    shortest, longest = windows.shortest.copy(), windows.longest.copy()
    row = np.empty(size)
    for i in range(n):
        while first[i] <= last[i] and not into[i, first[i]] + onward[i, first[i]] >= threshold:
            first[i] += 1
        while first[i] <= last[i] and not into[i, last[i]] + onward[i, last[i]] >= threshold:
            last[i] -= 1
        low, high = NEVER, -NEVER
        for length in range(shortest[i], longest[i] + 1):
            stop = min(last[i] + 1, size - length)
            if stop > first[i]:
                x, y = into[i, first[i] : stop], after[i, first[i] + length : stop + length]
                u = lattice.prefix[i, first[i] : stop]
                v = lattice.prefix[i, first[i] + length : stop + length]
                total = row[: stop - first[i]]
                for k in range(total.shape[0]):
                    total[k] = x[k] + (v[k] - u[k]) + y[k]
                if highest(total) + lattice.duration[i, length] >= threshold:
                    low, high = min(low, length), max(high, length)
        shortest[i], longest[i] = low, high
        if high < low:
            last[i], shortest[i], longest[i] = first[i] - 1, 1, 0
    return Windows(first, last, shortest, longest)

# mypy: allow-untyped-defs
"""Segmentations with the rate term: tables over (end, length) of every node.

    M[i, s, l]     = (+)_{p, l'} ended[p, s, l'] - r (a l - b l')^2        a = 1 / mean[i],  b = 1 / mean[p]
    ended[i, e, l] = M[i, e - l, l] + boundary[i, e - l] + prefix[i, e] - prefix[i, e - l] + duration[i, l]

and ``rest`` likewise from behind. The maximum or log-sum-exp over l' is :mod:`segment_pair_kernels`'.

The table of node i holds rows e = first + shortest .. last + longest and columns l = shortest .. longest of
its window, end to end in one array; -inf where e - l is no start.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.logspace_kernels import MAX, SUM, semiring_add
from trellis.core.numerics import kernel
from trellis.core.numerics_kernels import exp_shifted, highest
from trellis.structures.segments.oracle.segment_kernels import BEGIN
from trellis.structures.segments.oracle.segment_pair_kernels import pair_max, pair_sum


@kernel
def table_offsets(windows):
    """Where the table of each node begins, (P + 1,)."""
    n = windows.first.shape[0]
    offsets = np.zeros(n + 1, np.int64)
    for i in range(n):
        offsets[i + 1] = offsets[i] + rows_of(windows, i) * columns_of(windows, i)
    return offsets


@kernel
def columns_of(windows, i):
    return max(windows.longest[i] - windows.shortest[i] + 1, 0)


@kernel
def rows_of(windows, i):
    if windows.last[i] < windows.first[i]:
        return 0
    return windows.last[i] - windows.first[i] + columns_of(windows, i)


@kernel
def table_of(table, offsets, windows, i):
    return table[offsets[i] : offsets[i + 1]].reshape(rows_of(windows, i), columns_of(windows, i))


@kernel
def shared_rows(windows, p, i):
    """The frames at which p can end and i can start: from, to (exclusive)."""
    begin = max(windows.first[p] + windows.shortest[p], windows.first[i])
    stop = min(windows.last[p] + windows.longest[p], windows.last[i]) + 1
    if windows.last[p] < windows.first[p]:
        return begin, begin
    return begin, max(begin, stop)


@kernel
def rate_forward(mode, lattice, windows, offsets, ended, squares):
    """Fills ``ended`` and, under SUM, ``squares``: E[(a l - b l')^2] given the segment. Returns the total."""
    n, size = lattice.prefix.shape
    total = -np.inf
    nothing = np.empty((0, 0))
    for i in range(n):
        first, last, low = windows.first[i], windows.last[i], windows.shortest[i]
        columns = columns_of(windows, i)
        if last < first:
            continue
        # into: M by (start, length)
        into, mean = np.full((last - first + 1, columns), -np.inf), np.zeros((last - first + 1, columns))
        for k in range(lattice.pred_indptr[i], lattice.pred_indptr[i + 1]):
            p = lattice.pred[k]
            if p == BEGIN:
                if first == 0:
                    join(mode, into[:1], mean[:1], np.zeros((1, columns)), nothing)
                continue
            begin, stop = shared_rows(windows, p, i)
            if stop <= begin:
                continue
            v = table_of(ended, offsets, windows, p)
            row = windows.first[p] + windows.shortest[p]
            v = v[begin - row : stop - row]
            out = np.empty((stop - begin, columns))
            b, a = lattice.inverse_mean[p], lattice.inverse_mean[i]
            if mode == MAX:
                pair_max(v, windows.shortest[p], b, low, a, lattice.rate, out)
                join(mode, into[begin - first : stop - first], mean, out, nothing)
            else:
                square = np.empty((stop - begin, columns))
                pair_sum(v, windows.shortest[p], b, low, a, lattice.rate, out, square)
                at = slice(begin - first, stop - first)
                join(mode, into[at], mean[at], out, square)
        place(lattice, windows, i, into, table_of(ended, offsets, windows, i))
        if mode == SUM:
            place_diagonally(mean, table_of(squares, offsets, windows, i))
        e = size - 1 - first - low
        if lattice.final[i] and 0 <= e < rows_of(windows, i):
            v = table_of(ended, offsets, windows, i)[e]
            for x in range(columns):
                total = semiring_add(mode, total, v[x])
    return total


@kernel
def join(mode, into, mean, other, square):
    """into (+)= other; under SUM the means are weighted with their shares."""
    for k in range(into.shape[0]):
        for x in range(into.shape[1]):
            if into[k, x] == -np.inf:  # the first or only predecessor
                into[k, x] = other[k, x]
                if square.shape[0] > 0:
                    mean[k, x] = square[k, x]
                continue
            total = semiring_add(mode, into[k, x], other[k, x])
            if square.shape[0] > 0:
                old, new = math.exp(into[k, x] - total), math.exp(other[k, x] - total)
                mean[k, x] = old * mean[k, x] + new * square[k, x]
            into[k, x] = total


@kernel
def place(lattice, windows, i, into, table):
    """ended[e, l] = M[e - l, l] + the scores of the segment."""
    first, low, size = windows.first[i], windows.shortest[i], lattice.prefix.shape[1]
    table[:, :] = -np.inf
    for k in range(into.shape[0]):
        s = first + k
        head = lattice.boundary[i, s] - lattice.prefix[i, s]
        for x in range(min(into.shape[1], size - s - low)):
            table[k + x, x] = (
                into[k, x] + (head + lattice.prefix[i, s + low + x]) + lattice.duration[i, low + x]
            )


@kernel
def place_diagonally(mean, table):
    """table[s + l, l] = mean[s, l]."""
    table[:, :] = 0.0
    for k in range(mean.shape[0]):
        for x in range(mean.shape[1]):
            table[k + x, x] = mean[k, x]


@kernel
def rate_backward(mode, lattice, windows, offsets, ended, rest, best_of_edge):
    """Fills ``rest[i, e, l]``: the total of all that comes after a segment of node i.

    ``best_of_edge``: the best path along each entry of ``pred`` (only if ``mode`` is MAX)."""
    n, size = lattice.prefix.shape
    rest[:] = -np.inf
    nothing = np.empty((0, 0))
    for i in range(n - 1, -1, -1):
        first, last, low = windows.first[i], windows.last[i], windows.shortest[i]
        columns = columns_of(windows, i)
        if last < first:
            continue
        table = table_of(rest, offsets, windows, i)
        e = size - 1 - first - low
        if lattice.final[i] and 0 <= e < table.shape[0]:
            join(mode, table[e : e + 1], table, np.zeros((1, columns)), nothing)
        # onward: the segment and the rest, by (start, length)
        onward = np.full((last - first + 1, columns), -np.inf)
        for k in range(onward.shape[0]):
            s = first + k
            head = lattice.boundary[i, s] - lattice.prefix[i, s]
            for x in range(min(columns, size - s - low)):
                length = low + x
                onward[k, x] = (
                    table[k + x, x] + (head + lattice.prefix[i, s + length]) + lattice.duration[i, length]
                )
        for k in range(lattice.pred_indptr[i], lattice.pred_indptr[i + 1]):
            p = lattice.pred[k]
            if p == BEGIN:
                if mode == MAX and first == 0:
                    best_of_edge[k] = highest(onward[0])
                continue
            begin, stop = shared_rows(windows, p, i)
            if stop <= begin:
                continue
            v = onward[begin - first : stop - first]
            out = np.empty((stop - begin, columns_of(windows, p)))
            a, b = lattice.inverse_mean[p], lattice.inverse_mean[i]
            row = windows.first[p] + windows.shortest[p]
            at = slice(begin - row, stop - row)
            if mode == MAX:
                pair_max(v, low, b, windows.shortest[p], a, lattice.rate, out)
                before = table_of(ended, offsets, windows, p)[at]
                for y in range(out.shape[0]):
                    for x in range(out.shape[1]):
                        best_of_edge[k] = max(best_of_edge[k], before[y, x] + out[y, x])
            else:
                pair_sum(v, low, b, windows.shortest[p], a, lattice.rate, out, nothing)
            join(mode, table_of(rest, offsets, windows, p)[at], out, out, nothing)


@kernel
def rate_trace(lattice, windows, offsets, ended, nodes, starts):
    """The best path, last segment first, from the maxima along it; ties go to the first. Returns its size."""
    n, size = lattice.prefix.shape
    node, length, best, e = BEGIN, 0, -np.inf, size - 1
    for i in range(n):
        row = e - windows.first[i] - windows.shortest[i]
        if lattice.final[i] and 0 <= row < rows_of(windows, i):
            v = table_of(ended, offsets, windows, i)[row]
            for x in range(v.shape[0]):
                if v[x] > best:
                    node, length, best = i, windows.shortest[i] + x, v[x]
    count = 0
    while node != BEGIN:
        s = e - length
        nodes[count], starts[count] = node, s
        count += 1
        before, its_length, best = BEGIN, 0, -np.inf
        if s > 0:
            here = length * lattice.inverse_mean[node]
            for k in range(lattice.pred_indptr[node], lattice.pred_indptr[node + 1]):
                p = lattice.pred[k]
                if p == BEGIN:
                    continue
                row = s - windows.first[p] - windows.shortest[p]
                if 0 <= row < rows_of(windows, p):
                    v = table_of(ended, offsets, windows, p)[row]
                    for x in range(v.shape[0]):
                        d = here - (windows.shortest[p] + x) * lattice.inverse_mean[p]
                        score = v[x] - lattice.rate * d * d
                        if score > best:
                            before, its_length, best = p, windows.shortest[p] + x, score
        node, length, e = before, its_length, s
    return count


@kernel
def rate_parts(windows, offsets, ended, rest, squares, total, starts, ends, lengths):
    """Expected parts, with p(i, e, l) = exp(ended + rest - total); returns the expected sum of
    (a l - b l')^2."""
    expected = 0.0
    for i in range(starts.shape[0]):
        first, low = windows.first[i], windows.shortest[i]
        u, v = table_of(ended, offsets, windows, i), table_of(rest, offsets, windows, i)
        square = table_of(squares, offsets, windows, i)
        exponent, mass = np.empty(u.shape[1]), np.empty(u.shape[1])
        for y in range(u.shape[0]):
            e = first + low + y
            for x in range(mass.shape[0]):
                exponent[x] = u[y, x] + v[y, x]
            exp_shifted(exponent, total, mass)
            for x in range(mass.shape[0]):
                if mass[x] > 0.0:
                    starts[i, e - low - x] += mass[x]
                    ends[i, e] += mass[x]
                    lengths[i, low + x] += mass[x]
                    expected += mass[x] * square[y, x]
    return expected


@kernel
def best_by_start(windows, offsets, ended, rest, best):
    """best[i, s] = max_l ended + rest: the best path on which node i starts at s."""
    for i in range(best.shape[0]):
        first = windows.first[i]
        u, v = table_of(ended, offsets, windows, i), table_of(rest, offsets, windows, i)
        for y in range(u.shape[0]):
            for x in range(u.shape[1]):
                if u[y, x] > -np.inf:
                    s = first + y - x
                    best[i, s] = max(best[i, s], u[y, x] + v[y, x])


@kernel
def best_at_end(lattice, windows, offsets, ended, best):
    """best[i] = max_l ended[i, T, l] of final nodes: the best path that ends in node i."""
    for i in range(best.shape[0]):
        row = lattice.prefix.shape[1] - 1 - windows.first[i] - windows.shortest[i]
        if lattice.final[i] and 0 <= row < rows_of(windows, i):
            best[i] = highest(table_of(ended, offsets, windows, i)[row])

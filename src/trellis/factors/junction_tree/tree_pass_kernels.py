# mypy: allow-untyped-defs
"""Kernels of the junction tree: a pass to the roots, a pass back, and the marginals in between.

A plan (``plan``) is a list of steps on flat arrays: ``values`` holds all tables, ``slopes`` the
derivatives of Z with respect to their entries. To the roots, with sum or max over k:

    O[batch, a, b] = sum_k A[batch, a, k] B[batch, b, k],    then O is divided by its maximum

Back, the chain rule (Shafer-Shenoy messages, without any division, so that zeros need no care):

    A'[batch, a, k] = sum_b O'[batch, a, b] B[batch, b, k],   B' likewise,   each divided by its maximum

    P(x_v = i, evidence) is proportional to the sum of T T' over the entries with x_v = i of any table T of v

``log_scale`` and ``log_slope`` keep the logarithms of what was divided away, one column for each row of
evidence. A product below 1e-308 is lost, before its table O is divided; what it could have added to Z (to the
roots) or to Z through a derivative (back) is at most 1e-308 exp(log_slope - log_scale) of O, so that the
caller can tell whether anything that matters was lost.

All numbers of places are unsigned, so that no wrap-around test runs in the inner loops.
"""

from __future__ import annotations

import numpy as np

from trellis.core.logspace_kernels import MAX, SUM
from trellis.core.numerics import kernel, max_kernel

from trellis.factors.junction_tree.step_records import (  # isort: skip
    A_BY, A_INNER, A_K, A_SLOPE_INNER, A_SLOPE_SIZE, A_SLOPES, A_TABLE, A_VALUES, B_BY, B_INNER, B_K,
    B_SLOPE_INNER, B_SLOPE_SIZE, B_SLOPES, B_TABLE, B_VALUES, FIRST_AXIS, INNER, MAP, N_AXES, O_BY, O_ROWS,
    O_SIZE, O_SLOPES, O_TABLE, O_VALUES, SCATTER, SLOPE_INNER, K,
)  # fmt: skip

CHUNK = 1024  # entries of the inner axis at a time: accumulators stay in the first-level cache


@kernel
def scatter_maps(steps, map_axes, maps):
    """maps[MAP of step + j] = place of inner entry j in the output: all digits of j times their strides."""
    first = 0
    while first < len(map_axes):
        step = map_axes[first, 0]
        last = first
        while last < len(map_axes) and map_axes[last, 0] == step:
            last += 1
        start = steps[step, MAP]
        maps[start] = 0
        filled = np.uint64(1)
        for axis in range(last - 1, first - 1, -1):
            for digit in range(np.uint64(1), map_axes[axis, 1]):
                for j in range(filled):
                    place = start + digit * filled + j
                    maps[place] = maps[start + j] + digit * map_axes[axis, 2]
            filled *= map_axes[axis, 1]
        first = last


@kernel
def to_roots(steps, axes, maps, first, last, mode, n_rows, values, log_scale):
    """Steps first..last-1 in order; fills the values of their outputs and ``log_scale`` (tables, rows)."""
    work = np.empty(max(CHUNK, n_rows))
    count = np.empty(64, np.uint64)
    one, chunk = np.uint64(1), np.uint64(max(CHUNK, n_rows))
    for number in range(first, last):
        s = steps[number]
        n_outer = _n_outer(axes, s, count)
        for start in range(np.uint64(0), s[INNER], chunk):
            n = min(chunk, s[INNER] - start)
            a = s[A_VALUES] + start * s[A_INNER]
            b = s[B_VALUES] + start * s[B_INNER]
            o = s[O_VALUES]
            for _ in range(n_outer):
                if n == one:
                    work[0] = _dot(values, a, s[A_K], b, s[B_K], s[K], mode)
                else:
                    for j in range(n):
                        work[j] = 0.0
                    pa, pb = a, b
                    for _ in range(s[K]):
                        _add_product(work, n, values, pa, s[A_INNER], pb, s[B_INNER], mode)
                        pa += s[A_K]
                        pb += s[B_K]
                if s[SCATTER]:
                    at = s[MAP] + start
                    for j in range(n):
                        values[o + maps[at + j]] = work[j]
                else:
                    for j in range(n):
                        values[o + start + j] = work[j]
                a, b, o = _advance(axes, s, count, a, b, o)
        by_row = n_rows if s[O_ROWS] else 1
        rescale(values, s[O_VALUES], s[O_SIZE], np.uint64(by_row), log_scale, s[O_TABLE])
        for r in range(by_row, n_rows):
            log_scale[s[O_TABLE], r] = log_scale[s[O_TABLE], 0]


@kernel
def from_roots(steps, axes, maps, first, last, n_rows, values, slopes, log_scale, log_slope):
    """Steps last-1..first in this order; the derivatives of their outputs must be set. Fills ``slopes`` and
    ``log_slope``.
    """
    work = np.empty(max(CHUNK, n_rows))
    count = np.empty(64, np.uint64)
    chunk = np.uint64(max(CHUNK, n_rows))
    for number in range(last - 1, first - 1, -1):
        s = steps[number]
        two = s[B_SLOPE_SIZE] != 0
        for i in range(s[A_SLOPES], s[A_SLOPES] + s[A_SLOPE_SIZE]):
            slopes[i] = 0.0
        for i in range(s[B_SLOPES], s[B_SLOPES] + s[B_SLOPE_SIZE]):
            slopes[i] = 0.0
        n_outer = _n_outer(axes, s, count)
        for start in range(np.uint64(0), s[SLOPE_INNER], chunk):
            n = min(chunk, s[SLOPE_INNER] - start)
            a, b, o = np.uint64(0), np.uint64(0), np.uint64(0)  # from the starts of the tables, in values
            value_a = s[A_VALUES] + start * s[A_INNER]
            value_b = s[B_VALUES] + start * s[B_INNER]
            slope_a = s[A_SLOPES] + start * s[A_SLOPE_INNER]
            slope_b = s[B_SLOPES] + start * s[B_SLOPE_INNER]
            for _ in range(n_outer):
                at = s[O_SLOPES] + o * s[O_BY]
                if s[SCATTER]:
                    for j in range(n):
                        work[j] = slopes[at + maps[s[MAP] + start + j]]
                else:
                    for j in range(n):
                        work[j] = slopes[at + start + j]
                pa, pb = a, b
                for _ in range(s[K]):
                    at = slope_a + pa * s[A_BY]
                    _add_slope(slopes, at, s[A_SLOPE_INNER], work, n, values, value_b + pb, s[B_INNER])
                    if two:
                        at = slope_b + pb * s[B_BY]
                        _add_slope(slopes, at, s[B_SLOPE_INNER], work, n, values, value_a + pa, s[A_INNER])
                    pa += s[A_K]
                    pb += s[B_K]
                a, b, o = _advance(axes, s, count, a, b, o)
        rows, out = np.uint64(n_rows), s[O_TABLE]
        rescale(slopes, s[A_SLOPES], s[A_SLOPE_SIZE], rows, log_slope, s[A_TABLE])
        if two:
            rescale(slopes, s[B_SLOPES], s[B_SLOPE_SIZE], rows, log_slope, s[B_TABLE])
        for r in range(n_rows):
            further = log_slope[out, r] - log_scale[out, r]
            log_slope[s[A_TABLE], r] += further
            if two:
                log_slope[s[B_TABLE], r] += further


@kernel
def scatter(s, axes, maps, product, values):
    """The output of step ``s``, as rows of its loops by its inner axis, to its place in ``values``."""
    count = np.empty(64, np.uint64)
    nothing, o = np.uint64(0), s[O_VALUES]
    for row in range(_n_outer(axes, s, count)):
        for j in range(s[INNER]):
            values[o + (maps[s[MAP] + j] if s[SCATTER] else j)] = product[row, j]
        _, _, o = _advance(axes, s, count, nothing, nothing, o)


@kernel
def gather(s, axes, maps, slopes, product):
    """The derivatives of the output of step ``s`` as rows of its loops by its inner axis."""
    count = np.empty(64, np.uint64)
    nothing, o = np.uint64(0), s[O_SLOPES]
    for row in range(_n_outer(axes, s, count)):
        for j in range(s[INNER]):
            product[row, j] = slopes[o + (maps[s[MAP] + j] if s[SCATTER] else j)]
        _, _, o = _advance(axes, s, count, nothing, nothing, o)


@kernel
def _n_outer(axes, s, count):
    """How often the inner axis is gone through; sets the counters of the other axes to 0."""
    n = np.uint64(1)
    for x in range(s[N_AXES]):
        n *= axes[s[FIRST_AXIS] + x, 0]
        count[x] = 0
    return n


@kernel
def _advance(axes, s, count, a, b, o):
    """The next place in A, B and O: the last axis goes fastest, and after the last place all are at 0."""
    x = s[N_AXES]
    while x > 0:
        x -= np.uint64(1)
        y = s[FIRST_AXIS] + x
        a += axes[y, 1]
        b += axes[y, 2]
        o += axes[y, 3]
        count[x] += np.uint64(1)
        if count[x] < axes[y, 0]:
            break
        a -= axes[y, 0] * axes[y, 1]
        b -= axes[y, 0] * axes[y, 2]
        o -= axes[y, 0] * axes[y, 3]
        count[x] = 0
    return a, b, o


@kernel
def _dot(values, a, step_a, b, step_b, n, mode):
    total = 0.0
    for _ in range(n):
        x = values[a] * values[b]
        if mode == SUM:
            total += x
        elif x > total:
            total = x
        a += step_a
        b += step_b
    return total


@kernel
def _add_product(work, n, values, a, a_inner, b, b_inner, mode):
    """work[j] += A[j] B[j] (or the maximum of both), where an input without the inner axis is one number."""
    if mode == MAX:
        _keep_largest(work, n, values, a, a_inner, b, b_inner)
    elif a_inner != 0 and b_inner != 0:
        for j in range(n):
            work[j] += values[a + j] * values[b + j]
    elif a_inner != 0:
        x = values[b]
        if x != 0.0:
            for j in range(n):
                work[j] += x * values[a + j]
    else:
        x = values[a]
        if x != 0.0:
            for j in range(n):
                work[j] += x * values[b + j]


@max_kernel
def _keep_largest(work, n, values, a, a_inner, b, b_inner):
    for j in range(n):
        work[j] = max(work[j], values[a + j * a_inner] * values[b + j * b_inner])


@kernel
def _add_slope(slopes, at, inner, work, n, values, other, other_inner):
    """A'[j] += O'[j] B[j]; without the inner axis in A, the sum over j; without it in B, B is one number."""
    if inner != 0:
        if other_inner != 0:
            for j in range(n):
                slopes[at + j] += work[j] * values[other + j]
        else:
            x = values[other]
            if x != 0.0:
                for j in range(n):
                    slopes[at + j] += work[j] * x
    else:
        total = 0.0
        if other_inner != 0:
            for j in range(n):
                total += work[j] * values[other + j]
        else:
            for j in range(n):
                total += work[j]
            total *= values[other]
        slopes[at] += total


@kernel
def rescale(array, start, size, n_rows, logs, table):
    """Divide a table by its maximum, separately for each row; logs of the maxima (0 where all is zero)."""
    _tops(array, start, size, n_rows, logs, table)
    inverse = np.empty(n_rows)
    for r in range(n_rows):
        top = logs[table, r]
        logs[table, r] = np.log(top) if top > 0.0 else 0.0
        if 0.0 < top < 1e-290:  # its inverse is no number
            for i in range(start + r, start + size, n_rows):
                array[i] *= 1e290
            top *= 1e290
        inverse[r] = 1.0 / top if top > 0.0 else 1.0
    if n_rows == 1:
        for i in range(start, start + size):
            array[i] *= inverse[0]
    else:
        for i in range(start, start + size, n_rows):
            for r in range(n_rows):
                array[i + r] *= inverse[r]


@max_kernel
def _tops(array, start, size, n_rows, tops, table):
    if n_rows == 1:
        top = 0.0
        for i in range(start, start + size):
            top = max(top, array[i])
        tops[table, 0] = top
    else:
        for r in range(n_rows):
            tops[table, r] = 0.0
        for i in range(start, start + size, n_rows):
            for r in range(n_rows):
                tops[table, r] = max(tops[table, r], array[i + r])


@max_kernel
def smallest_positive(values, offsets, lows):
    """lows[table] = the smallest entry above 0 (1 where there is none), of tables whose entries are <= 1."""
    for table in range(len(lows)):
        low = 1.0
        for i in range(offsets[table], offsets[table + 1]):
            low = min(low, values[i] if values[i] > 0.0 else 1.0)
        lows[table] = low


@kernel
def table_marginals(places, n_rows, values, slopes, marginals):
    """marginals[first + i, row] = sum of T T' over the entries with x_v = i.

    ``places`` has one row for each variable v: where T and T' start, whether T has rows, the shape of T
    around the axis of v (slow, states, fast), and ``first``.
    """
    rows = np.uint64(n_rows)
    for p in range(len(places)):
        value, slope, by_row, first = places[p, 0], places[p, 1], places[p, 2], places[p, 6]
        slow, states, fast = places[p, 3], places[p, 4], places[p, 5]
        for h in range(slow):
            for i in range(states):
                for f in range(fast):
                    entry = (h * states + i) * fast + f
                    at = slope + entry * rows
                    if by_row:
                        base = value + entry * rows
                        for r in range(rows):
                            marginals[first + i, r] += values[base + r] * slopes[at + r]
                    else:
                        x = values[value + entry]
                        for r in range(rows):
                            marginals[first + i, r] += x * slopes[at + r]

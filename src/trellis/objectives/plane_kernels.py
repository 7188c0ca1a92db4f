# mypy: allow-untyped-defs
"""Sparse vectors c (Phi(up) - Phi(down)) in weight space: the directions of cutting planes and of
Frank-Wolfe steps.
"""

from __future__ import annotations

import numpy as np

from trellis.numerics import kernel
from trellis.scores.linear_kernels import weight_position


@kernel
def collect(q, x, mask, scratch, touched, size):
    """scratch[q] += x, remembering q the first time. Cancelled and refilled entries may be remembered
    twice: harmless.
    """
    if q < 0 or (mask.shape[0] > 0 and mask[q] == 0):
        return size
    if scratch[q] == 0.0:
        touched[size] = q
        size += 1
    scratch[q] += x
    return size


@kernel
def collect_step(design, rows, g, mask, t, k, weight, scratch, touched, size):
    """weight * (features of step t with label k)."""
    n_hot, K = g.hot.shape
    one = design.values.shape[0] == 1
    for p in range(design.indptr[t], design.indptr[t + 1]):
        q = weight_position(rows, n_hot, K, design.indices[p], k)
        size = collect(q, weight * (1.0 if one else design.values[p]), mask, scratch, touched, size)
    return size


@kernel
def collect_edge(design, g, mask, t, j, k, weight, scratch, touched, size):
    """weight * (transition j -> k into step t, with its edge features)."""
    K = g.start.shape[0]
    at_start = g.flat.shape[0] - 2 * K
    at_transitions = at_start - K * K
    size = collect(at_transitions + j * K + k, weight, mask, scratch, touched, size)
    n_edge = g.edge.shape[0]
    if n_edge > 0:
        at_edge = at_transitions - n_edge * K * K
        one = design.edge_values.shape[0] == 1
        for p in range(design.edge_indptr[t], design.edge_indptr[t + 1]):
            q = at_edge + (np.int64(design.edge_indices[p]) * K + j) * K + k
            size = collect(q, weight * (1.0 if one else design.edge_values[p]), mask, scratch, touched, size)
    return size


@kernel
def collect_difference(design, rows, g, mask, i, up, down, up_weight, down_weight, scratch, touched, size):
    """scratch += up_weight * Phi(up) - down_weight * Phi(down); parts that cancel exactly are not visited."""
    first, last = design.offsets[i], design.offsets[i + 1]
    K = g.start.shape[0]
    at_start = g.flat.shape[0] - 2 * K
    equal = up_weight == down_weight
    for t in range(first, last):
        s = t - first
        same = equal and up[s] == down[s]
        if not same:
            size = collect_step(design, rows, g, mask, t, up[s], up_weight, scratch, touched, size)
            size = collect_step(design, rows, g, mask, t, down[s], -down_weight, scratch, touched, size)
            if s == 0:
                size = collect(at_start + up[s], up_weight, mask, scratch, touched, size)
                size = collect(at_start + down[s], -down_weight, mask, scratch, touched, size)
            if t == last - 1:
                size = collect(at_start + K + up[s], up_weight, mask, scratch, touched, size)
                size = collect(at_start + K + down[s], -down_weight, mask, scratch, touched, size)
        if s > 0 and not (same and up[s - 1] == down[s - 1]):
            size = collect_edge(design, g, mask, t, up[s - 1], up[s], up_weight, scratch, touched, size)
            size = collect_edge(
                design, g, mask, t, down[s - 1], down[s], -down_weight, scratch, touched, size
            )
    return size


@kernel
def room_for(design, first, last):
    """The most weights that the difference of two labellings can touch, over sequences first..last-1.

    Three labellings take part in the widest update, and an entry may be remembered again after it cancelled.
    """
    room = 0
    for i in range(first, last):
        lo, hi = design.offsets[i], design.offsets[i + 1]
        size = design.indptr[hi] - design.indptr[lo] + hi - lo + 2
        if design.edge_indptr.shape[0] > 1:
            size += design.edge_indptr[hi] - design.edge_indptr[lo]
        room = max(room, size)
    return 6 * room + 16


@kernel
def planes_to_rows(design, rows, g, mask, ups, downs, coefficients):
    """CSR rows c_i (Phi(up_i) - Phi(down_i)). ``g``: views of a zero vector, left zero."""
    n = design.offsets.shape[0] - 1
    touched = np.empty(room_for(design, 0, n), dtype=np.int64)
    scratch = g.flat
    indptr = np.zeros(n + 1, dtype=np.int64)
    indices, data = np.empty(1024, dtype=np.int64), np.empty(1024)
    filled = 0
    for i in range(n):
        lo, hi = design.offsets[i], design.offsets[i + 1]
        c = coefficients[i]
        size = 0
        if c != 0.0:
            size = collect_difference(
                design, rows, g, mask, i, ups[lo:hi], downs[lo:hi], c, c, scratch, touched, size
            )
        if filled + size > indices.shape[0]:
            room = 2 * (filled + size)
            grown, grown_data = np.empty(room, dtype=np.int64), np.empty(room)
            grown[:filled], grown_data[:filled] = indices[:filled], data[:filled]
            indices, data = grown, grown_data
        for p in range(size):
            q = touched[p]
            if scratch[q] != 0.0:
                indices[filled], data[filled] = q, scratch[q]
                filled += 1
                scratch[q] = 0.0
        indptr[i + 1] = filled
    return indptr, indices[:filled].copy(), data[:filled].copy()

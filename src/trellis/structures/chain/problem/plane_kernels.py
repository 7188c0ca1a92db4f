# mypy: allow-untyped-defs
"""The direction Phi(up) - Phi(down) between two labellings of a sequence: as a sparse list, multiplied with a
vector, and as the rows of cutting planes.

Only parts in which the labellings differ are visited. Both kernels take their arrays out of the named
tuples once and call nothing in their loops: a reference count per feature would cost more than the feature.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.scores.linear_chain_kernels import weight_position


@kernel
def room_for_difference(design):
    """The longest list that :func:`list_difference` can write."""
    room = 0
    for i in range(design.offsets.shape[0] - 1):
        lo, hi = design.offsets[i], design.offsets[i + 1]
        size = design.indptr[hi] - design.indptr[lo] + hi - lo + 2
        if design.edge_indptr.shape[0] > 1:
            size += design.edge_indptr[hi] - design.edge_indptr[lo]
        room = max(room, size)
    return 2 * room


@kernel
def _list_edges(design, w, t, pair, sign, position, value, size):
    """Transition ``pair`` = j K + k into step t, with its edge features."""
    K = w.start.shape[0]
    at = w.flat.shape[0] - 2 * K - K * K
    position[size], value[size] = at + pair, sign
    size += 1
    n_edge = w.edge.shape[0]
    if n_edge > 0:
        indices, values = design.edge_indices, design.edge_values
        one = values.shape[0] == 1
        at -= n_edge * K * K
        for p in range(design.edge_indptr[t], design.edge_indptr[t + 1]):
            position[size] = at + np.int64(indices[p]) * K * K + pair
            value[size] = sign * (1.0 if one else values[p])
            size += 1
    return size


@kernel
def list_difference(design, rows, w, mask, i, up, down, position, value):
    """Entries of Phi(up) - Phi(down) into ``position`` and ``value``; returns their number. A position may
    come more than once.

    ``mask`` (flat) leaves out weights that do not exist; empty: all exist.
    """
    indptr, indices, values = design.indptr, design.indices, design.values
    first, last = design.offsets[i], design.offsets[i + 1]
    n_hot, K = w.hot.shape
    at_start = w.flat.shape[0] - 2 * K
    one = values.shape[0] == 1
    size = 0
    for t in range(first, last):
        s = t - first
        same = up[s] == down[s]
        if not same:
            for side in range(2):
                k = up[s] if side == 0 else down[s]
                sign = 1.0 if side == 0 else -1.0
                for p in range(indptr[t], indptr[t + 1]):
                    q = weight_position(rows, n_hot, K, indices[p], k)
                    if q >= 0:
                        position[size], value[size] = q, sign * (1.0 if one else values[p])
                        size += 1
                if s == 0:
                    position[size], value[size] = at_start + k, sign
                    size += 1
                if t == last - 1:
                    position[size], value[size] = at_start + K + k, sign
                    size += 1
        if s > 0 and not (same and up[s - 1] == down[s - 1]):
            size = _list_edges(design, w, t, up[s - 1] * K + up[s], 1.0, position, value, size)
            size = _list_edges(design, w, t, down[s - 1] * K + down[s], -1.0, position, value, size)
    if mask.shape[0] == 0:
        return size
    kept = 0
    for p in range(size):
        if mask[position[p]] != 0:
            position[kept], value[kept] = position[p], value[p]
            kept += 1
    return kept


@kernel
def _dot_edge(design, w, t, j, k):
    """w . (transition j -> k into step t, with its edge features)."""
    total = w.transitions[j, k]
    if w.edge.shape[0] > 0:
        one = design.edge_values.shape[0] == 1
        for p in range(design.edge_indptr[t], design.edge_indptr[t + 1]):
            total += w.edge[design.edge_indices[p], j, k] * (1.0 if one else design.edge_values[p])
    return total


@kernel
def dot_difference(design, rows, w, i, up, down):
    """w . (Phi(up) - Phi(down)); weights that do not exist must be zero in w."""
    indptr, indices, values = design.indptr, design.indices, design.values
    flat, hot = w.flat, w.hot
    transitions, edges = w.transitions, w.edge.shape[0] > 0
    first, last = design.offsets[i], design.offsets[i + 1]
    n_hot, K = hot.shape
    one = values.shape[0] == 1
    total = 0.0
    for t in range(first, last):
        s = t - first
        k, below = up[s], down[s]
        if k != below:
            for p in range(indptr[t], indptr[t + 1]):
                f = indices[p]
                x = 0.0
                if f < n_hot:
                    x = hot[f, k] - hot[f, below]
                else:
                    q = weight_position(rows, n_hot, K, f, k)
                    x += flat[q] if q >= 0 else 0.0
                    q = weight_position(rows, n_hot, K, f, below)
                    x -= flat[q] if q >= 0 else 0.0
                total += x * (1.0 if one else values[p])
            if s == 0:
                total += w.start[k] - w.start[below]
            if t == last - 1:
                total += w.end[k] - w.end[below]
        if s > 0 and (k != below or up[s - 1] != down[s - 1]):
            if edges:
                total += _dot_edge(design, w, t, up[s - 1], k) - _dot_edge(design, w, t, down[s - 1], below)
            else:
                total += transitions[up[s - 1], k] - transitions[down[s - 1], below]
    return total


@kernel
def planes_to_rows(design, rows, w, mask, ups, downs, coefficients):
    """CSR rows c_i (Phi(up_i) - Phi(down_i)), as (indptr, indices, data); a column may come again."""
    n = design.offsets.shape[0] - 1
    room = room_for_difference(design)
    position, value = np.empty(room, dtype=np.int64), np.empty(room)
    indptr = np.zeros(n + 1, dtype=np.int64)
    indices, data = np.empty(1024, dtype=np.int64), np.empty(1024)
    filled = 0
    for i in range(n):
        lo, hi = design.offsets[i], design.offsets[i + 1]
        size = 0
        if coefficients[i] != 0.0:
            size = list_difference(design, rows, w, mask, i, ups[lo:hi], downs[lo:hi], position, value)
        if filled + size > indices.shape[0]:
            grown, grown_data = np.empty(2 * (filled + size), dtype=np.int64), np.empty(2 * (filled + size))
            grown[:filled], grown_data[:filled] = indices[:filled], data[:filled]
            indices, data = grown, grown_data
        for p in range(size):
            indices[filled + p], data[filled + p] = position[p], coefficients[i] * value[p]
        filled += size
        indptr[i + 1] = filled
    return indptr, indices[:filled].copy(), data[:filled].copy()

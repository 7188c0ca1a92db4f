# mypy: allow-untyped-defs
"""A cache of planes per sequence, and the exact block steps of pairwise Frank-Wolfe inside it.

The objective of sequence i is a maximum of planes, one per labelling y_c,

    m_c(w) = b_c + g_c . w,      g_c = q_c (Phi(y_c) - Phi(y*)),

with (b, q) = (L, 1) for margin rescaling, (L, L) for slack rescaling, (0, 1) for the perceptron. The dual point gives every
plane a weight alpha_ic >= 0 with sum_c alpha_ic = 1, and

    w = -(1 / l2) sum_i c_i sum_c alpha_ic g_ic,       dual = sum_i c_i sum_c alpha_ic b_ic - (l2 / 2) ||w||^2.

Slot 0 of a cache is the gold labelling (b = q = 0); it holds all the mass at the start. The inner products
G_cd = g_c . g_d of a sequence are kept, so that many steps inside a block cost one visit of its features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.numerics import kernel
from trellis.objectives.plane_kernels import collect_difference
from trellis.scores.linear_kernels import add_path, weight_position


class PlaneCache(NamedTuple):
    """C slots for each of S sequences. Labelling c of sequence i: ``path[offsets[i] * C + c * n_i:][:n_i]``."""

    path: NDArray[np.int32]  # (N * C,)
    alpha: NDArray[np.float64]  # (S, C)
    offset: NDArray[np.float64]  # (S, C)
    coefficient: NDArray[np.float64]  # (S, C)
    gram: NDArray[np.float64]  # (S, C, C)
    count: NDArray[np.int64]  # (S,) slots in use


@kernel
def plane_path(cache, design, i, c):
    """The labelling of slot c of sequence i."""
    lo, hi = design.offsets[i], design.offsets[i + 1]
    at = lo * cache.alpha.shape[1] + c * (hi - lo)
    return cache.path[at : at + hi - lo]


@kernel
def _dot_step(design, rows, w, t, k):
    """w . (features of step t with label k)."""
    n_hot, K = w.hot.shape
    one = design.values.shape[0] == 1
    total = 0.0
    for p in range(design.indptr[t], design.indptr[t + 1]):
        q = weight_position(rows, n_hot, K, design.indices[p], k)
        if q >= 0:
            total += w.flat[q] * (1.0 if one else design.values[p])
    return total


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
    """w . (Phi(up) - Phi(down)), visiting only the parts in which they differ."""
    first, last = design.offsets[i], design.offsets[i + 1]
    total = 0.0
    for t in range(first, last):
        s = t - first
        same = up[s] == down[s]
        if not same:
            total += _dot_step(design, rows, w, t, up[s]) - _dot_step(design, rows, w, t, down[s])
            if s == 0:
                total += w.start[up[s]] - w.start[down[s]]
            if t == last - 1:
                total += w.end[up[s]] - w.end[down[s]]
        if s > 0 and not (same and up[s - 1] == down[s - 1]):
            total += _dot_edge(design, w, t, up[s - 1], up[s]) - _dot_edge(design, w, t, down[s - 1], down[s])
    return total


@kernel
def _lightest(cache, i, m):
    """The slot of least mass (the lowest plane among equals), never the gold one."""
    slot = 1
    for c in range(2, cache.count[i]):
        lighter = cache.alpha[i, c] < cache.alpha[i, slot]
        if lighter or (cache.alpha[i, c] == cache.alpha[i, slot] and m[c] < m[slot]):
            slot = c
    return slot


@kernel
def make_room(cache, i, m, rate):
    """A slot for a new plane: a fresh one, or that of the lightest plane of a full cache.

    What mass that plane has goes to the gold one, or to the highest of the others if that is higher; ``m`` follows.
    """
    if cache.count[i] < cache.alpha.shape[1]:
        cache.count[i] += 1
        return cache.count[i] - 1
    slot = _lightest(cache, i, m)
    gamma = cache.alpha[i, slot]
    if gamma > 0.0:
        heir = 0
        for c in range(1, cache.count[i]):
            if c != slot and m[c] > m[heir]:
                heir = c
        cache.alpha[i, slot] = 0.0
        cache.alpha[i, heir] += gamma
        for c in range(cache.count[i]):
            m[c] -= rate * gamma * (cache.gram[i, c, heir] - cache.gram[i, c, slot])
    return slot


@kernel
def insert_plane(design, rows, mask, cache, i, slot, gold, up, offset, coefficient, scratch, touched):
    """Write a labelling into a slot, with alpha = 0. ``scratch``: views of a zero vector, left zero."""
    path = plane_path(cache, design, i, slot)
    for t in range(path.shape[0]):
        path[t] = up[t]
    cache.alpha[i, slot] = 0.0
    cache.offset[i, slot] = offset
    cache.coefficient[i, slot] = coefficient
    size = collect_difference(
        design, rows, scratch, mask, i, path, gold, coefficient, coefficient, scratch.flat, touched, 0
    )
    gram = cache.gram[i]
    for c in range(cache.count[i]):
        q = cache.coefficient[i, c]
        value = 0.0
        if q != 0.0:
            value = q * dot_difference(design, rows, scratch, i, plane_path(cache, design, i, c), gold)
        gram[slot, c], gram[c, slot] = value, value
    for p in range(size):
        scratch.flat[touched[p]] = 0.0


@kernel
def pairwise_steps(alpha, m, gram, count, rate, max_steps, precision):
    """Move mass from the lowest plane that has some to the highest one, by exact line search, until they are level.

        gamma = (m_s - m_a) / (rate ||g_s - g_a||^2)  clipped to [0, alpha_a],   rate = c_i / l2,

    after which every value changes by -rate gamma (G_cs - G_ca). Stops when m_s - m_a <= precision.
    """
    for _ in range(max_steps):
        s, a = 0, -1
        for c in range(count):
            if m[c] > m[s]:
                s = c
            if alpha[c] > 0.0 and (a < 0 or m[c] < m[a]):
                a = c
        rise = m[s] - m[a]
        if rise <= precision:
            return
        square = gram[s, s] - 2.0 * gram[s, a] + gram[a, a]
        gamma = alpha[a]
        if rate * square * gamma > rise:
            gamma = rise / (rate * square)
            alpha[a] -= gamma
        else:
            alpha[a] = 0.0
        alpha[s] += gamma
        for c in range(count):
            m[c] -= rate * gamma * (gram[c, s] - gram[c, a])


@kernel
def move_weights(design, rows, w, mask, cache, i, gold, before, rate):
    """w -= rate sum_c (alpha_c - before_c) g_c."""
    for c in range(1, cache.count[i]):
        change = rate * (cache.alpha[i, c] - before[c]) * cache.coefficient[i, c]
        if change != 0.0:
            path = plane_path(cache, design, i, c)
            add_path(design, rows, w, mask, i, path, gold, -change)
            add_path(design, rows, w, mask, i, gold, path, change)

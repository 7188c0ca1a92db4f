# mypy: allow-untyped-defs
"""A cache of planes per sequence, and the exact block steps of pairwise Frank-Wolfe inside it.

The objective of sequence i is a maximum of planes, one per labelling y_c,

    m_c(w) = b_c + g_c . w,      g_c = q_c (Phi(y_c) - Phi(y*)),

with (b, q) = (L, 1) for margin rescaling, (L, L) for slack rescaling, (0, 1) for the perceptron. The dual
point gives every plane a weight alpha_ic >= 0, which adds up to 1 in each *part* of the sequence
(:mod:`.plane_parts_kernels`), and

    w = -(1 / l2) sum_i c_i sum_c alpha_ic g_ic,      dual = sum_i c_i sum_c alpha_ic b_ic - (l2 / 2) ||w||^2.

Every part has a slot for the gold labelling (b = q = 0), which holds all the mass at the start; a sequence
without planes has no parts. The inner products G_cd = g_c . g_d of a sequence are kept, so that many steps
inside a block cost one visit of its features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.numerics import kernel
from trellis.structures.chain.problem.plane_kernels import dot_difference, list_difference
from trellis.structures.chain.scores.linear_chain_kernels import weight_position


class PlaneCache(NamedTuple):
    """C slots for each of S sequences. Labelling c of sequence i: ``path[offsets[i] * C + c *
    n_i:][:n_i]``. Slots of one part have the same ``first``; outside their part the labels are gold."""

    path: NDArray[np.int32]  # (N * C,)
    alpha: NDArray[np.float64]  # (S, C)
    offset: NDArray[np.float64]  # (S, C)
    coefficient: NDArray[np.float64]  # (S, C): 0 for the gold labelling, and for it alone
    gram: NDArray[np.float64]  # (S, C, C)
    first: NDArray[np.int32]  # (S, C): the first step of the slot's part
    last: NDArray[np.int32]  # (S, C): the step after its last
    used: NDArray[np.int64]  # (S,) slots in use


@kernel
def plane_path(cache, design, i, c):
    """The labelling of slot c of sequence i."""
    lo, hi = design.offsets[i], design.offsets[i + 1]
    at = lo * cache.alpha.shape[1] + c * (hi - lo)
    return cache.path[at : at + hi - lo]


@kernel
def free_slot(cache, i, m):
    """A slot for a new plane: a fresh one, or that of the lowest plane without mass; -1 if every plane has
    some."""
    count = cache.used[i]
    if count < cache.alpha.shape[1]:
        cache.used[i] += 1
        return count
    slot = -1
    for c in range(count):
        idle = cache.alpha[i, c] == 0.0 and cache.coefficient[i, c] != 0.0
        if idle and (slot < 0 or m[c] < m[slot]):
            slot = c
    return slot


@kernel
def copy_cache(design, old, new):
    """Everything into a cache with more slots."""
    for i in range(old.used.shape[0]):
        new.used[i] = count = old.used[i]
        for c in range(count):
            new.alpha[i, c] = old.alpha[i, c]
            new.offset[i, c] = old.offset[i, c]
            new.coefficient[i, c] = old.coefficient[i, c]
            new.first[i, c], new.last[i, c] = old.first[i, c], old.last[i, c]
            new.gram[i, c, :count] = old.gram[i, c, :count]
            source, target = plane_path(old, design, i, c), plane_path(new, design, i, c)
            for t in range(source.shape[0]):
                target[t] = source[t]


@kernel
def insert_plane(design, rows, mask, cache, i, slot, gold, up, offset, coefficient, scratch, position, value):
    """Write a labelling into a slot, with alpha = 0. ``scratch``: views of a zero vector, left zero."""
    path = plane_path(cache, design, i, slot)
    for t in range(path.shape[0]):
        path[t] = up[t]
    cache.alpha[i, slot] = 0.0
    cache.offset[i, slot] = offset
    cache.coefficient[i, slot] = coefficient
    flat, gram = scratch.flat, cache.gram[i]
    size = list_difference(design, rows, scratch, mask, i, path, gold, position, value)
    for p in range(size):
        flat[position[p]] += coefficient * value[p]
    for c in range(cache.used[i]):
        gram[slot, c] = gram[c, slot] = 0.0
        if size > 0 and cache.coefficient[i, c] != 0.0:
            product = dot_difference(design, rows, scratch, i, plane_path(cache, design, i, c), gold)
            gram[slot, c] = gram[c, slot] = cache.coefficient[i, c] * product
    for p in range(size):
        flat[position[p]] = 0.0


@kernel
def pairwise_steps(alpha, m, gram, coefficient, first, count, rate, max_rounds):
    """In each part, move mass from the lowest plane that has some to the highest one, by exact line search;
    ``max_rounds`` times, or until no part has anything to gain.

        gamma = (m_s - m_a) / (rate ||g_s - g_a||^2)  clipped to [0, alpha_a],   rate = c_i / l2,

    after which every value changes by -rate gamma (G_cs - G_ca).
    """
    for _ in range(max_rounds):
        moved = False
        for part in range(count):
            if coefficient[part] != 0.0:
                continue
            s, a = part, -1
            for c in range(count):
                if first[c] == first[part]:
                    if m[c] > m[s]:
                        s = c
                    if alpha[c] > 0.0 and (a < 0 or m[c] < m[a]):
                        a = c
            rise = m[s] - m[a]
            if rise <= 0.0:
                continue
            moved = True
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
        if not moved:
            return


@kernel
def block_change(cache, design, i, gold, before, rate, d_unary):
    """The change of the block's unary scores' coefficients, -rate sum_c (alpha_c - before_c) q_c (1[y_c] -
    1[y*]), into ``d_unary``.

    Planes of one sequence share most of their labels, so adding them up before the features are visited
    saves most of the visits. Returns whether anything changes."""
    n, K = d_unary.shape
    changed = False
    for t in range(n):
        for k in range(K):
            d_unary[t, k] = 0.0
    for c in range(cache.used[i]):
        change = rate * (cache.alpha[i, c] - before[c]) * cache.coefficient[i, c]
        if change != 0.0:
            changed = True
            path = plane_path(cache, design, i, c)
            for t in range(cache.first[i, c], cache.last[i, c]):
                if path[t] != gold[t]:
                    d_unary[t, path[t]] -= change
                    d_unary[t, gold[t]] += change
    return changed


@kernel
def move_unary(design, rows, w, mask, i, d_unary, scale):
    """w += scale * (d_unary pulled back through the features); only its non-zero entries are visited."""
    indptr, indices, values = design.indptr, design.indices, design.values
    flat, n_hot = w.flat, w.hot.shape[0]
    first = design.offsets[i]
    n, K = d_unary.shape
    one, masked = values.shape[0] == 1, mask.shape[0] > 0
    at_start = flat.shape[0] - 2 * K
    for s in range(n):
        t = first + s
        for k in range(K):
            if d_unary[s, k] == 0.0:
                continue
            d = scale * d_unary[s, k]
            for p in range(indptr[t], indptr[t + 1]):
                q = weight_position(rows, n_hot, K, indices[p], k)
                if q >= 0 and (not masked or mask[q] != 0):
                    flat[q] += d if one else d * values[p]
            if s == 0 and (not masked or mask[at_start + k] != 0):
                flat[at_start + k] += d
            if s == n - 1 and (not masked or mask[at_start + K + k] != 0):
                flat[at_start + K + k] += d


@kernel
def move_edges(design, w, mask, cache, i, gold, before, rate):
    """w -= rate sum_c (alpha_c - before_c) q_c * (transition part of Phi(y_c) - Phi(y*))."""
    K = w.start.shape[0]
    transitions, n_edge = w.transitions, w.edge.shape[0]
    at, masked = w.flat.shape[0] - 2 * K - K * K, mask.shape[0] > 0
    for c in range(cache.used[i]):
        change = rate * (cache.alpha[i, c] - before[c]) * cache.coefficient[i, c]
        if change == 0.0:
            continue
        path = plane_path(cache, design, i, c)
        for s in range(max(1, cache.first[i, c]), min(cache.last[i, c] + 1, path.shape[0])):
            j, k, g, h = path[s - 1], path[s], gold[s - 1], gold[s]
            if j == g and k == h:
                continue
            if not masked or mask[at + j * K + k] != 0:
                transitions[j, k] -= change
            if not masked or mask[at + g * K + h] != 0:
                transitions[g, h] += change
            if n_edge > 0:
                _move_edge_features(design, w, design.offsets[i] + s, j, k, -change)
                _move_edge_features(design, w, design.offsets[i] + s, g, h, change)


@kernel
def _move_edge_features(design, w, t, j, k, change):
    """Edge weights always exist: no mask."""
    one = design.edge_values.shape[0] == 1
    for p in range(design.edge_indptr[t], design.edge_indptr[t + 1]):
        w.edge[design.edge_indices[p], j, k] += change * (1.0 if one else design.edge_values[p])

# mypy: allow-untyped-defs
"""How online solvers change the weights after one sequence.

Scaled descent keeps the weights as w = W / d and the sum of iterates as A + m W, so that shrinking all
weights and averaging over all visits cost O(1) a visit, and only weights that the sequence touches are
written:

    shrink   w <- (1 - eta lambda) w           d <- d / (1 - eta lambda)
    step     w <- w - eta g                    W -= eta d g,   A += m eta d g        (sparse)
    average  sum <- sum + omega w,  f += omega     m <- m + omega / d

The average is (A + m W) / f. ``fold`` brings d and m back to 1 and 0 before they cost digits.

AdaGrad and lazy Adam have rates per weight and d = 1. Their L2 term is spread over the visits that can
touch a weight: with c_j sequences that contain weight j's feature,

    (l2 / 2) w_j^2 = sum over those sequences of (l2 / (2 c_j)) w_j^2       exactly,

so a visit updates every weight of the sequence's features, and no other.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.numerics import kernel
from trellis.solvers.online.step_size_kernels import ADAGRAD, BETA1, BETA2, DESCENT, TINY

TIME, SCALE, MASS, TOTAL = range(4)  # entries of ``clock``: t, d, m, f
LARGE = 1e4  # digits that d may cost in A + m W


@kernel
def fold(weights, sums, clock):
    """W <- W / d, A <- A + m W: the same weights and average with d = 1 and m = 0."""
    d, m = clock[SCALE], clock[MASS]
    for q in range(weights.shape[0]):
        w = weights[q]
        if w != 0.0:
            sums[q] += m * w
            weights[q] = w / d
    clock[SCALE], clock[MASS] = 1.0, 0.0


@kernel
def tick(weights, sums, clock, averaging):
    """The end of a visit: the average takes in the new weights. ``averaging``: 0 none, 1 plain, 2 by t."""
    if averaging > 0:
        omega = 1.0 if averaging == 1 else clock[TIME]
        clock[TOTAL] += omega
        clock[MASS] += omega / clock[SCALE]
    if clock[SCALE] > LARGE:
        fold(weights, sums, clock)


@kernel
def step_along_list(weights, sums, clock, position, value, size, change):
    """w -= change * (the listed direction)."""
    scaled = change * clock[SCALE]
    mass = clock[MASS]
    for p in range(size):
        x = scaled * value[p]
        weights[position[p]] -= x
        sums[position[p]] += mass * x


@kernel
def list_spans(design, rows, w, i, stamp, visit, counts, start, stop, share):
    """The weights that sequence i can touch, as disjoint spans start..stop-1 of the flat vector; returns
    their number.

    ``share`` gets 1 / c_j. ``stamp`` (rows, then edge rows) remembers the visit in which a row was last
    listed."""
    indptr, indices, pointer = design.indptr, design.indices, rows.pointer
    first, last = design.offsets[i], design.offsets[i + 1]
    K = w.start.shape[0]
    size = 0
    for p in range(indptr[first], indptr[last]):
        f = indices[p]
        if stamp[f] != visit:
            stamp[f] = visit
            start[size], stop[size] = pointer[f], pointer[f + np.uint32(1)]
            share[size] = 1.0 / counts[f]
            size += 1
    n_rows, n_edge = pointer.shape[0] - 1, w.edge.shape[0]
    common = w.flat.shape[0] - 2 * K - K * K
    if n_edge > 0:
        at = common - n_edge * K * K
        for p in range(design.edge_indptr[min(first + 1, last)], design.edge_indptr[last]):
            e = np.int64(design.edge_indices[p])
            if stamp[n_rows + e] != visit:
                stamp[n_rows + e] = visit
                start[size], stop[size] = at + e * K * K, at + (e + 1) * K * K
                share[size] = 1.0 / counts[n_rows + e]
                size += 1
    start[size], stop[size], share[size] = common, w.flat.shape[0], 1.0 / (design.offsets.shape[0] - 1)
    return size + 1


@kernel
def count_sequences(design, rows, w, counts):
    """c_j: in how many sequences each row, then each edge row, occurs."""
    n_rows = rows.pointer.shape[0] - 1
    stamp = np.full(counts.shape[0], -1, dtype=np.int64)
    for i in range(design.offsets.shape[0] - 1):
        first, last = design.offsets[i], design.offsets[i + 1]
        for p in range(design.indptr[first], design.indptr[last]):
            f = design.indices[p]
            if stamp[f] != i:
                stamp[f] = i
                counts[f] += 1.0
        if w.edge.shape[0] > 0:
            for p in range(design.edge_indptr[min(first + 1, last)], design.edge_indptr[last]):
                e = n_rows + np.int64(design.edge_indices[p])
                if stamp[e] != i:
                    stamp[e] = i
                    counts[e] += 1.0


@kernel
def room_for_spans(design):
    """The most spans that one sequence can have."""
    room = 0
    for i in range(design.offsets.shape[0] - 1):
        lo, hi = design.offsets[i], design.offsets[i + 1]
        size = design.indptr[hi] - design.indptr[lo]
        if design.edge_indptr.shape[0] > 1:
            size += design.edge_indptr[hi] - design.edge_indptr[lo]
        room = max(room, size)
    return room + 1


@kernel
def update_spans(
    rule, weights, sums, squares, moments, clock, mask, gradient, start, stop, share, size, eta, scale, l2
):
    """Use up the gradient (times ``scale``) of one sequence, kept in ``gradient``: its spans are left zero.

    DESCENT   w -= eta g
    ADAGRAD   g += l2 w / c,   s += g^2,   w -= eta g / (sqrt(s) + 1e-8)
    ADAM      g += l2 w / c,   r <- b1 r + (1 - b1) g,   s <- b2 s + (1 - b2) g^2,
              w -= eta (r / (1 - b1^t)) / (sqrt(s / (1 - b2^t)) + 1e-8)       at touched weights only
    """
    d, mass, t = clock[SCALE], clock[MASS], clock[TIME]
    masked = mask.shape[0] > 0
    first_bias, second_bias = 1.0 - BETA1**t, 1.0 - BETA2**t
    for s in range(size):
        decay = l2 * share[s]
        for q in range(start[s], stop[s]):
            g = gradient[q] * scale
            gradient[q] = 0.0
            if masked and mask[q] == 0:
                continue
            if rule == DESCENT:
                x = eta * d * g
            else:
                g += decay * weights[q]
                if rule == ADAGRAD:
                    squares[q] += g * g
                    x = eta * g / (math.sqrt(squares[q]) + TINY)
                else:
                    moments[q] = BETA1 * moments[q] + (1.0 - BETA1) * g
                    squares[q] = BETA2 * squares[q] + (1.0 - BETA2) * g * g
                    x = eta * (moments[q] / first_bias) / (math.sqrt(squares[q] / second_bias) + TINY)
            weights[q] -= x
            sums[q] += mass * x

# mypy: allow-untyped-defs
"""A pass of stochastic gradient descent on the log objective, from which a quasi-Newton method starts.

The last weights are the answer, so nothing is averaged, and the gradient of a sequence in its scores goes
straight into the weights: a visit reads and writes what scoring reads, and nothing else. As in
``update_kernels`` the weights are kept as w = W / scale, which makes shrinking them one division.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.solvers.online.step_size_kernels import INVERSE, rate_at
from trellis.structures.chain.oracle.chain_kernels import (
    exp_transitions,
    forward_backward,
    lanes,
    max_length,
    score_labels,
)
from trellis.structures.chain.passes.update_kernels import LARGE
from trellis.structures.chain.scores.linear_chain_kernels import LABEL, LAST, score_steps


@kernel
def _add_rows(design, rows, w, mask, t, dt, squared):
    """Row f of w gets x[t, f] dt (x^2 dt where ``squared``), at the weights that exist: hot rows have masked
    ones.
    """
    K, places, values, label = dt.shape[0], design.places, design.values, rows.label
    hot, kept, flat = w.hot, mask.hot, w.flat
    one = values.shape[0] == 1
    for p in range(design.indptr[t], design.indptr[t + 1]):
        x = 1.0 if one else values[p]
        if squared:
            x *= x
        if p < design.middle[t]:
            row, keep = hot[places[p]], kept[places[p]]
            for k in range(K):
                row[k] += x * dt[k] * keep[k]
        else:
            q = places[p]
            k = label[q]
            while k < LAST:
                flat[q] += x * dt[k]
                q += np.uint32(1)
                k = label[q]
            flat[q] += x * dt[k & LABEL]


@kernel
def descent_pass(design, rows, penalties, mask, task, order, rate, decay, visits, w, squares):
    """w <- (1 - eta_t lambda) w - eta_t c_i grad f_i(w), eta_t = rate / (1 + rate lambda t), for the
    sequences of ``order``, all of known labels; t goes on from ``visits``.

    Returns the sum of c_i f_i, each at the weights of its visit; NaN where one is not finite. ``squares``
    gets, for each weight, c_i times the squares of d f_i / d (score) over the scores it is part of: those of
    the steps for features, those of the sequence for transitions; no entries: they are not wanted. ``w``,
    ``mask``, ``squares``: views of flat vectors, the mask 1 where a weight exists."""
    K, longest = w.start.shape[0], max(max_length(design.offsets, 0, design.offsets.shape[0] - 1), 1)
    size, flat, measured = lanes(K), w.flat, squares.flat.shape[0] > 0
    u, d, d2 = np.empty((longest, K)), np.empty((longest, K)), np.empty(K)
    alpha, e, norm, beta = (
        np.empty((longest, size)), np.zeros((longest, size)), np.empty(longest), np.empty(size),
    )  # fmt: skip
    start, end, a, pairs = np.empty(K), np.empty(K), np.empty((1, K, K)), np.empty((1, K, K))
    ea, ea_t, shift = np.zeros((1, size, size)), np.zeros((1, size, size)), np.zeros(1)
    outer = np.empty((size, size))
    total, scale = 0.0, 1.0  # w = W / scale
    for i in order:
        lo, n, weight = design.offsets[i], design.offsets[i + 1] - design.offsets[i], task.weight[i]
        visits += 1.0
        eta = rate_at(INVERSE, rate, decay, visits)
        before, scale = scale, scale / (1.0 - eta * decay)
        if n == 0 or weight == 0.0:
            continue
        gold, x = task.gold[lo : lo + n], 1.0 / before
        score_steps(design, rows, w, i, u)
        for t in range(n):
            for k in range(K):
                u[t, k] *= x
        for j in range(K):
            start[j] = x * w.start[j] + penalties.start[j]
            end[j] = x * w.end[j] + penalties.end[j]
            for k in range(K):
                a[0, j, k] = x * w.transitions[j, k] + penalties.transitions[j, k]
                pairs[0, j, k] = 0.0
        for j in range(size):
            for k in range(size):
                outer[j, k] = 0.0
        floor = exp_transitions(a, ea, ea_t, shift)
        f = forward_backward(
            u[:n], a, start, end, floor, ea, ea_t, shift, alpha, e, norm, beta, d, outer, pairs
        ) - score_labels(u[:n], a, start, end, gold)
        if not np.isfinite(f):
            return np.nan
        total += weight * f
        for t in range(n):
            d[t, gold[t]] -= 1.0
            if t > 0:
                pairs[0, gold[t - 1], gold[t]] -= 1.0
        c = -eta * scale * weight
        for t in range(n):
            if measured:
                for k in range(K):
                    d2[k] = weight * d[t, k] * d[t, k]
                _add_rows(design, rows, squares, mask, lo + t, d2, True)
                for k in range(K):
                    if t == 0:
                        squares.start[k] += d2[k] * mask.start[k]
                    if t == n - 1:
                        squares.end[k] += d2[k] * mask.end[k]
            for k in range(K):
                d[t, k] *= c
            _add_rows(design, rows, w, mask, lo + t, d[t], False)
        for j in range(K):
            w.start[j] += d[0, j] * mask.start[j]
            w.end[j] += d[n - 1, j] * mask.end[j]
            for k in range(K):
                g = (pairs[0, j, k] + outer[j, k] * ea[0, j, k]) * mask.transitions[j, k]
                w.transitions[j, k] += c * g
                if measured:
                    squares.transitions[j, k] += weight * g * g
        if scale > LARGE:
            for q in range(flat.shape[0]):
                flat[q] /= scale
            scale = 1.0
    for q in range(flat.shape[0]):
        flat[q] /= scale
    return total

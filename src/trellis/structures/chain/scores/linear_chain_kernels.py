# mypy: allow-untyped-defs
"""Linear scores of one sequence from sparse features, and the gradients of weights from those of scores.

    u[t, k] = sum_f x[t, f] W[f, k]          a[t, j, k] = A[j, k] + sum_f z[t, f] B[f, j, k]

The weights of one feature are a *row*. Frequent features have full rows of K weights ("hot", contiguous,
SIMD); the many rare ones keep only the labels they may score ("tail": labels and weights side by side).
Features are arranged so that, within each step, hot rows come first (up to ``middle``): both loops then run
without a branch per feature.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.numerics import kernel

LAST = np.uint16(0x8000)
LABEL = np.uint16(0x7FFF)


class Design(NamedTuple):
    """Arranged features of a packed batch. ``values`` has one entry, 1.0, when every value is one.

    ``indices`` are rows. ``places`` locate a row without its pointer: the row itself if it is hot, otherwise
    its beginning in the flat vector.
    """

    offsets: NDArray[np.int64]
    indptr: NDArray[np.int64]
    middle: NDArray[np.int64]
    indices: NDArray[np.uint32]
    places: NDArray[np.uint32]
    values: FloatArray
    edge_indptr: NDArray[np.int64]
    edge_indices: NDArray[np.uint32]
    edge_values: FloatArray


class Rows(NamedTuple):
    """The weights of row f are ``flat[pointer[f]:pointer[f + 1]]``, for the labels ``label[...]``.

    The last label of a tail row has the bit ``LAST``, so kernels need only the beginning of a row.
    """

    pointer: NDArray[np.uint32]
    label: NDArray[np.uint16]


class Weights(NamedTuple):
    """Views of one flat weight (or gradient) vector; the tail rows lie between hot and edge rows."""

    flat: FloatArray
    hot: FloatArray
    edge: FloatArray
    transitions: FloatArray
    start: FloatArray
    end: FloatArray


class Penalties(NamedTuple):
    """0 where allowed, -inf where forbidden."""

    start: FloatArray
    transitions: FloatArray
    end: FloatArray

    @classmethod
    def none(cls, n_labels: int) -> Penalties:
        return cls(np.zeros(n_labels), np.zeros((n_labels, n_labels)), np.zeros(n_labels))

    @classmethod
    def where_not(
        cls, start_ok: NDArray[np.bool_], pair_ok: NDArray[np.bool_], end_ok: NDArray[np.bool_]
    ) -> Penalties:
        return cls(*(np.where(ok, 0.0, -np.inf) for ok in (start_ok, pair_ok, end_ok)))


@kernel
def score_steps(design, rows, w, i, u):
    """u[t] = sum_f x[t, f] W[f] for the steps of sequence i."""
    score_features(design, rows.label, w, design.offsets[i], design.offsets[i + 1], u)


@kernel
def score_features(design, label, w, lo, hi, u):
    """The same for the steps lo..hi-1 of all, into the rows of ``u`` from 0."""
    K = u.shape[1]
    hot, flat, places, values = w.hot, w.flat, design.places, design.values
    one = values.shape[0] == 1
    for t in range(lo, hi):
        ut = u[t - lo]
        for k in range(K):
            ut[k] = 0.0
        p, middle = design.indptr[t], design.middle[t]
        if one:
            while p + 3 < middle:
                r0, r1 = hot[places[p]], hot[places[p + 1]]
                r2, r3 = hot[places[p + 2]], hot[places[p + 3]]
                for k in range(K):
                    ut[k] += (r0[k] + r1[k]) + (r2[k] + r3[k])
                p += 4
        while p < middle:
            r0 = hot[places[p]]
            x = 1.0 if one else values[p]
            for k in range(K):
                ut[k] += x * r0[k]
            p += 1
        for p in range(middle, design.indptr[t + 1]):
            q = places[p]
            x = 1.0 if one else values[p]
            k = label[q]
            while k < LAST:
                ut[k] += x * flat[q]
                q += np.uint32(1)
                k = label[q]
            ut[k & LABEL] += x * flat[q]


@kernel
def score_edges(design, w, penalties, i, a):
    """a = transitions + penalties, shared (1, K, K), or with the edge features of sequence i (n, K, K)."""
    K = w.transitions.shape[0]
    if a.shape[0] == 1:
        for j in range(K):
            for k in range(K):
                a[0, j, k] = w.transitions[j, k] + penalties.transitions[j, k]
        return
    first = design.offsets[i]
    values = design.edge_values
    one = values.shape[0] == 1
    for t in range(first + 1, design.offsets[i + 1]):
        at = a[t - first]
        for j in range(K):
            for k in range(K):
                at[j, k] = w.transitions[j, k] + penalties.transitions[j, k]
        for p in range(design.edge_indptr[t], design.edge_indptr[t + 1]):
            row = w.edge[design.edge_indices[p]]
            x = 1.0 if one else values[p]
            for j in range(K):
                for k in range(K):
                    at[j, k] += x * row[j, k]


@kernel
def linear_scores(design, rows, w, penalties, first, last, unary, transitions):
    """Part scores of sequences first..last-1 into (N, K) and, where there are edge features, (N, K, K)."""
    per_step = transitions.shape[0] > 1
    for i in range(first, last):
        lo, hi = design.offsets[i], design.offsets[i + 1]
        score_steps(design, rows, w, i, unary[lo:hi])
        if per_step:
            score_edges(design, w, penalties, i, transitions[lo:hi])


@kernel
def pull_back(design, rows, g, i, d_unary, d_trans, weight):
    """g += weight * (score gradient of sequence i, pulled back through the features)."""
    if d_unary.shape[0] == 0:
        return  # no steps: the scratch holds the transitions of another sequence
    if weight != 1.0:
        for t in range(d_unary.shape[0]):
            for k in range(d_unary.shape[1]):
                d_unary[t, k] *= weight
    pull_back_steps(design, rows, g, i, d_unary)
    pull_back_edges(design, g, i, d_trans, weight)


@kernel
def pull_back_steps(design, rows, g, i, d_unary):
    """The gradient of the unaries; its first and last rows are also those of the start and end scores."""
    first, last = design.offsets[i], design.offsets[i + 1]
    n, K = last - first, d_unary.shape[1]
    if n == 0:
        return
    pull_back_features(design, rows.label, g, first, last, d_unary)
    for k in range(K):
        g.start[k] += d_unary[0, k]
        g.end[k] += d_unary[n - 1, k]


@kernel
def pull_back_features(design, label, g, lo, hi, d):
    """The transpose of :func:`score_features`: rows of ``g`` get the gradient ``d`` of the scores."""
    K = d.shape[1]
    hot, flat, places, values = g.hot, g.flat, design.places, design.values
    one = values.shape[0] == 1
    for t in range(lo, hi):
        dt = d[t - lo]
        middle = design.middle[t]
        for p in range(design.indptr[t], middle):
            row = hot[places[p]]
            if one:
                for k in range(K):
                    row[k] += dt[k]
            else:
                x = values[p]
                for k in range(K):
                    row[k] += x * dt[k]
        for p in range(middle, design.indptr[t + 1]):
            q = places[p]
            x = 1.0 if one else values[p]
            k = label[q]
            while k < LAST:
                flat[q] += x * dt[k]
                q += np.uint32(1)
                k = label[q]
            flat[q] += x * dt[k & LABEL]


@kernel
def pull_back_edges(design, g, i, d_trans, weight):
    """The transition part of :func:`pull_back`; ``d_trans`` is (1, K, K), summed, or (n, K, K)."""
    first, last = design.offsets[i], design.offsets[i + 1]
    K = d_trans.shape[1]
    if d_trans.shape[0] == 1:
        for j in range(K):
            for k in range(K):
                g.transitions[j, k] += weight * d_trans[0, j, k]
        return
    values = design.edge_values
    one = values.shape[0] == 1
    for t in range(first + 1, last):
        dt = d_trans[t - first]
        for j in range(K):
            for k in range(K):
                g.transitions[j, k] += weight * dt[j, k]
        for p in range(design.edge_indptr[t], design.edge_indptr[t + 1]):
            row = g.edge[design.edge_indices[p]]
            x = weight * (1.0 if one else values[p])
            for j in range(K):
                for k in range(K):
                    row[j, k] += x * dt[j, k]


@kernel
def weight_position(rows, n_hot, K, f, k):
    """The position of the weight of (row f, label k) in the flat vector; -1 if there is none."""
    if f < n_hot:
        return np.int64(f) * K + k
    for q in range(rows.pointer[f], rows.pointer[f + np.uint32(1)]):
        if (rows.label[q] & LABEL) == k:
            return np.int64(q)
    return np.int64(-1)


@kernel
def add_path(design, rows, g, mask, i, path, other, weight):
    """g += weight * Phi(path), but only the parts in which ``path`` differs from ``other``.

    Called twice, for (up, down, +c) and (down, up, -c), it adds c * (Phi(up) - Phi(down)) and touches only
    what changes. ``mask`` (flat, uint8) says which weights exist; an empty mask means all.
    """
    first, last = design.offsets[i], design.offsets[i + 1]
    n_hot, K = g.hot.shape
    masked = mask.shape[0] > 0
    one = design.values.shape[0] == 1
    edge_one = design.edge_values.shape[0] == 1
    edges = g.edge.shape[0] > 0
    for t in range(first, last):
        s = t - first
        k = path[s]
        if k != other[s]:
            for p in range(design.indptr[t], design.indptr[t + 1]):
                q = weight_position(rows, n_hot, K, design.indices[p], k)
                if q >= 0 and (not masked or mask[q] != 0):
                    g.flat[q] += weight * (1.0 if one else design.values[p])
            if s == 0:
                g.start[k] += weight
            if t == last - 1:
                g.end[k] += weight
        if s > 0 and (k != other[s] or path[s - 1] != other[s - 1]):
            j = path[s - 1]
            g.transitions[j, k] += weight
            if edges:
                for p in range(design.edge_indptr[t], design.edge_indptr[t + 1]):
                    x = 1.0 if edge_one else design.edge_values[p]
                    g.edge[design.edge_indices[p], j, k] += weight * x


@kernel
def mark_observed(indptr, indices, gold, allowed, seen):
    """seen[f, k] = 1 where feature f occurs at a step that has, or may have, label k."""
    K = seen.shape[1]
    for t in range(gold.shape[0]):
        for p in range(indptr[t], indptr[t + 1]):
            if gold[t] >= 0:
                seen[indices[p], gold[t]] = 1
            else:
                for k in range(K):
                    if allowed[t, k]:
                        seen[indices[p], k] = 1


@kernel
def arrange(
    indptr, indices, values, row_of, n_hot, pointer, sort, new_indptr, middle, new_indices, places, new_values
):
    """Feature ids to rows and places, hot rows first, without features that have no weights.

    Returns their number. ``sort`` orders the tail of each step by width, which helps branch prediction.
    """
    one = values.shape[0] == 1
    kept = 0
    for t in range(indptr.shape[0] - 1):
        new_indptr[t] = kept
        for p in range(indptr[t], indptr[t + 1]):
            row = row_of[indices[p]]
            if row < n_hot:
                new_indices[kept] = row
                places[kept] = row
                if not one:
                    new_values[kept] = values[p]
                kept += 1
        middle[t] = kept
        for p in range(indptr[t], indptr[t + 1]):
            row = row_of[indices[p]]
            if row >= n_hot and pointer[row] < pointer[row + np.uint32(1)]:
                q = kept
                if sort:
                    while q > middle[t] and new_indices[q - 1] > row:
                        new_indices[q] = new_indices[q - 1]
                        if not one:
                            new_values[q] = new_values[q - 1]
                        q -= 1
                new_indices[q] = row
                if not one:
                    new_values[q] = values[p]
                kept += 1
        for q in range(middle[t], kept):
            places[q] = pointer[new_indices[q]]
    new_indptr[indptr.shape[0] - 1] = kept
    return kept

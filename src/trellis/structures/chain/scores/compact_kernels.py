# mypy: allow-untyped-defs
"""Scores and pull-back of a compact design, in whole SIMD registers.

Three kinds of rows, in this order within a step: rows of the *table*, each the sum of the weight rows of a
bundle (a frequent feature is a bundle of one); other full rows of K weights; and single weights of the ragged
rows, one (place, label) each, which keeps loops predictable.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.numerics import kernel
from trellis.structures.chain.scores.linear_chain_kernels import LABEL


class Compact(NamedTuple):
    """``values`` and ``tail_values`` have one entry, 1.0, when every value is one."""

    offsets: NDArray[np.int64]
    indptr: NDArray[np.int64]  # rows of step t: rows[indptr[t]:indptr[t + 1]], table rows up to middle[t]
    middle: NDArray[np.int64]
    rows: NDArray[np.uint32]
    values: FloatArray
    tail_indptr: NDArray[np.int64]
    tail_places: NDArray[np.uint32]
    tail_labels: NDArray[np.uint16]
    tail_values: FloatArray
    bounds: NDArray[np.int64]  # table row r is the sum of the weight rows members[bounds[r]:bounds[r + 1]]
    members: NDArray[np.uint32]


@kernel
def fill_table(bounds, members, rows, w, table):
    """table[r] = sum of the weight rows of bundle r, 0 beyond K."""
    hot, flat, pointer, label = w.hot, w.flat, rows.pointer, rows.label
    n_hot, K = hot.shape
    for r in range(bounds.shape[0] - 1):
        row = table[r]
        for k in range(row.shape[0]):
            row[k] = 0.0
        for m in range(bounds[r], bounds[r + 1]):
            f = members[m]
            if f < n_hot:
                for k in range(K):
                    row[k] += hot[f, k]
            else:
                for q in range(pointer[f], pointer[f + np.uint32(1)]):
                    row[label[q] & LABEL] += flat[q]


@kernel
def empty_table(bounds, members, rows, table, g):
    """The way back: g += the gradient of the table."""
    hot, flat, pointer, label = g.hot, g.flat, rows.pointer, rows.label
    n_hot, K = hot.shape
    for r in range(bounds.shape[0] - 1):
        row = table[r]
        for m in range(bounds[r], bounds[r + 1]):
            f = members[m]
            if f < n_hot:
                for k in range(K):
                    hot[f, k] += row[k]
            else:
                for q in range(pointer[f], pointer[f + np.uint32(1)]):
                    flat[q] += row[label[q] & LABEL]


@kernel
def score_compact(compact, table, w, first, last, u):
    """u[t - first] = sum_f x[t, f] W[f] for steps first..last-1; -inf beyond K."""
    hot, flat = w.hot, w.flat
    indptr, middle, rows, values = compact.indptr, compact.middle, compact.rows, compact.values
    tail_indptr, places, labels = compact.tail_indptr, compact.tail_places, compact.tail_labels
    tail_values = compact.tail_values
    K, size = hot.shape[1], u.shape[1]
    one = values.shape[0] == 1
    for t in range(first, last):
        ut = u[t - first]
        for k in range(size):
            ut[k] = 0.0
        p, end = indptr[t], middle[t]
        if one:
            while p + 3 < end:
                r0, r1, r2, r3 = table[rows[p]], table[rows[p + 1]], table[rows[p + 2]], table[rows[p + 3]]
                for k in range(size):
                    ut[k] += (r0[k] + r1[k]) + (r2[k] + r3[k])
                p += 4
        while p < end:
            r0, x = table[rows[p]], 1.0 if one else values[p]
            for k in range(size):
                ut[k] += x * r0[k]
            p += 1
        for p in range(end, indptr[t + 1]):
            r0, x = hot[rows[p]], 1.0 if one else values[p]
            for k in range(K):
                ut[k] += x * r0[k]
        if one:
            for q in range(tail_indptr[t], tail_indptr[t + 1]):
                ut[labels[q]] += flat[places[q]]
        else:
            for q in range(tail_indptr[t], tail_indptr[t + 1]):
                ut[labels[q]] += tail_values[q] * flat[places[q]]
        for k in range(K, size):
            ut[k] = -np.inf


@kernel
def pull_back_compact(compact, table, g, first, last, d):
    """Add the score gradient ``d`` of steps first..last-1 to those of table, full and ragged rows."""
    hot, flat = g.hot, g.flat
    indptr, middle, rows, values = compact.indptr, compact.middle, compact.rows, compact.values
    tail_indptr, places, labels = compact.tail_indptr, compact.tail_places, compact.tail_labels
    tail_values = compact.tail_values
    K, size = hot.shape[1], d.shape[1]
    one = values.shape[0] == 1
    for t in range(first, last):
        dt = d[t - first]
        end = middle[t]
        for p in range(indptr[t], end):
            row = table[rows[p]]
            if one:
                for k in range(size):
                    row[k] += dt[k]
            else:
                x = values[p]
                for k in range(size):
                    row[k] += x * dt[k]
        for p in range(end, indptr[t + 1]):
            row, x = hot[rows[p]], 1.0 if one else values[p]
            for k in range(K):
                row[k] += x * dt[k]
        if one:
            for q in range(tail_indptr[t], tail_indptr[t + 1]):
                flat[places[q]] += dt[labels[q]]
        else:
            for q in range(tail_indptr[t], tail_indptr[t + 1]):
                flat[places[q]] += tail_values[q] * dt[labels[q]]


@kernel
def count_entries(indptr, indices, bundle, table_of_bundle, table_of_row, n_hot, pointer):
    """The number of rows (an upper bound) and of single weights of a compact design."""
    n_rows, n_tail = 0, 0
    for p in range(indptr[indptr.shape[0] - 1]):
        f = indices[p]
        if (bundle[p] < 0 or table_of_bundle[bundle[p]] < 0) and table_of_row[f] < 0 and f >= n_hot:
            n_tail += pointer[f + np.uint32(1)] - pointer[f]
        else:
            n_rows += 1
    return n_rows, n_tail


@kernel
def compact_entries(design, label, bundle, table_of_bundle, table_of_row, n_hot, pointer, out):
    """Write the entries of ``out``; returns the number of rows. ``table_of_*``: -1 if not in the table."""
    indptr, indices, values = design.indptr, design.indices, design.values
    one = values.shape[0] == 1
    seen = np.full(max(table_of_bundle.shape[0], 1), -1, np.int64)
    kept, tail = 0, 0
    for t in range(indptr.shape[0] - 1):
        out.indptr[t], out.tail_indptr[t] = kept, tail
        for place in range(3):  # table rows, full rows, tail
            if place == 1:
                out.middle[t] = kept
            for p in range(indptr[t], indptr[t + 1]):
                f, b = indices[p], bundle[p]
                row = np.int64(table_of_row[f])
                if b >= 0 and table_of_bundle[b] >= 0:
                    row = np.int64(table_of_bundle[b])
                    if place == 0:
                        if seen[b] == t:
                            continue
                        seen[b] = t
                if place == 0 and row >= 0:
                    out.rows[kept] = row
                elif place == 1 and row < 0 and f < n_hot:
                    out.rows[kept] = f
                else:
                    if place == 2 and row < 0 and f >= n_hot:
                        for q in range(pointer[f], pointer[f + np.uint32(1)]):
                            out.tail_places[tail], out.tail_labels[tail] = q, label[q] & LABEL
                            if not one:
                                out.tail_values[tail] = values[p]
                            tail += 1
                    continue
                if not one:
                    out.values[kept] = values[p]
                kept += 1
    out.indptr[indptr.shape[0] - 1], out.tail_indptr[indptr.shape[0] - 1] = kept, tail
    return kept

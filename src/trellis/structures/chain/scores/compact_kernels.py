# mypy: allow-untyped-defs
"""Scores and pull-back of a compact design, block by block, in whole SIMD registers.

Three kinds of rows: rows of the *table*, each the sum of the weight rows of a bundle (a frequent feature is a
bundle of one); other full rows of K weights; and single weights of the ragged rows. The first two are read
step by step. The single weights of a block are one list in the order of the weights, so that they are read
and written in a loop without branches, in which no addition waits for the one before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.numerics import kernel
from trellis.core.simd_kernels import WIDTH, fma, load, splat, store
from trellis.structures.chain.scores.linear_chain_kernels import LABEL


class Compact(NamedTuple):
    """``values`` and ``single_values`` have one entry, 1.0, when every value is one."""

    offsets: NDArray[np.int64]
    blocks: NDArray[np.int64]  # the sequences of block b are blocks[b]..blocks[b + 1] - 1
    indptr: NDArray[np.int64]  # rows of step t: rows[indptr[t]:indptr[t + 1]], table rows up to middle[t]
    middle: NDArray[np.int64]
    rows: NDArray[np.uint32]
    values: FloatArray
    single_bounds: NDArray[np.int64]  # the single weights of block b: those from single_bounds[b] on
    single_places: NDArray[np.uint32]  # where in the flat rows the weight is
    single_targets: NDArray[np.uint32]  # where in the scores of the block, row by row, it is added
    single_values: FloatArray
    bounds: NDArray[np.int64]  # table row r is the sum of the weight rows members[bounds[r]:bounds[r + 1]]
    members: NDArray[np.uint32]


class Singles(NamedTuple):
    """The single weights of ragged rows in the order of the steps: of step t, those from indptr[t] on."""

    indptr: NDArray[np.int64]
    places: NDArray[np.uint32]
    labels: NDArray[np.uint16]
    values: FloatArray


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
def score_compact(compact, table, w, block, u):
    """u[t] = sum_f x[t, f] W[f] for the steps of a block, counted from its first; -inf beyond K."""
    hot, flat = w.hot, w.flat
    indptr, middle, rows, values = compact.indptr, compact.middle, compact.rows, compact.values
    K, size = hot.shape[1], u.shape[1]
    several = 0 if values.shape[0] == 1 else 1
    first, last = compact.offsets[compact.blocks[block]], compact.offsets[compact.blocks[block + 1]]
    for t in range(first, last):
        ut = u[t - first]
        begin, end = indptr[t], middle[t]
        k = 0
        while k + 2 * WIDTH < size:  # three vectors at a time, so that a row is looked up once for most K
            x0, x1, x2 = splat(0.0), splat(0.0), splat(0.0)
            for p in range(begin, end):
                row, value = rows[p], values[p * several]
                x0 = fma(value, load(table, row, k), x0)
                x1 = fma(value, load(table, row, k + WIDTH), x1)
                x2 = fma(value, load(table, row, k + 2 * WIDTH), x2)
            store(u, t - first, k, x0)
            store(u, t - first, k + WIDTH, x1)
            store(u, t - first, k + 2 * WIDTH, x2)
            k += 3 * WIDTH
        while k < size:
            x0 = splat(0.0)
            for p in range(begin, end):
                x0 = fma(values[p * several], load(table, rows[p], k), x0)
            store(u, t - first, k, x0)
            k += WIDTH
        for p in range(end, indptr[t + 1]):
            row, value = hot[rows[p]], values[p * several]
            for k in range(K):
                ut[k] += value * row[k]
        for k in range(K, size):
            ut[k] = -np.inf
    places, targets, x = compact.single_places, compact.single_targets, compact.single_values
    scores = u.reshape(u.size)
    for q in range(compact.single_bounds[block], compact.single_bounds[block + 1]):
        scores[targets[q]] += x[q * several] * flat[places[q]]


@kernel
def pull_back_compact(compact, table, g, block, d):
    """Add the score gradient ``d`` of the steps of a block to those of table, full and ragged rows."""
    hot, flat = g.hot, g.flat
    indptr, middle, rows, values = compact.indptr, compact.middle, compact.rows, compact.values
    K, size = hot.shape[1], d.shape[1]
    several = 0 if values.shape[0] == 1 else 1
    first, last = compact.offsets[compact.blocks[block]], compact.offsets[compact.blocks[block + 1]]
    for t in range(first, last):
        dt = d[t - first]
        begin, end = indptr[t], middle[t]
        k = 0
        while k + 2 * WIDTH < size:
            x0, x1, x2 = (
                load(d, t - first, k),
                load(d, t - first, k + WIDTH),
                load(d, t - first, k + 2 * WIDTH),
            )
            for p in range(begin, end):
                row, value = rows[p], values[p * several]
                store(table, row, k, fma(value, x0, load(table, row, k)))
                store(table, row, k + WIDTH, fma(value, x1, load(table, row, k + WIDTH)))
                store(table, row, k + 2 * WIDTH, fma(value, x2, load(table, row, k + 2 * WIDTH)))
            k += 3 * WIDTH
        while k < size:
            x0 = load(d, t - first, k)
            for p in range(begin, end):
                store(table, rows[p], k, fma(values[p * several], x0, load(table, rows[p], k)))
            k += WIDTH
        for p in range(end, indptr[t + 1]):
            row, value = hot[rows[p]], values[p * several]
            for k in range(K):
                row[k] += value * dt[k]
    places, targets, x = compact.single_places, compact.single_targets, compact.single_values
    scores = d.reshape(d.size)
    for q in range(compact.single_bounds[block], compact.single_bounds[block + 1]):
        flat[places[q]] += x[q * several] * scores[targets[q]]


@kernel
def count_alone(indices, bundle, often, n_rows):
    """How often each row is read by itself: outside of bundles, and in those that are not used ``often``. No
    entry is bundled where ``bundle`` is empty."""
    count, bundled = np.zeros(n_rows, np.int64), bundle.shape[0] > 0
    for p in range(indices.shape[0]):
        if not bundled or bundle[p] < 0 or not often[bundle[p]]:
            count[indices[p]] += 1
    return count


@kernel
def compact_entries(design, label, bundle, table_of_bundle, table_of_row, n_hot, pointer, out, singles):
    """Write the rows of ``out`` and ``singles``; returns the number of rows. ``table_of_*``: -1 if not in the
    table."""
    indptr, indices, values = design.indptr, design.indices, design.values
    one, longest = values.shape[0] == 1, 0
    for t in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[t + 1] - indptr[t])
    full = np.empty(longest, np.int64)  # the entries of a step that are full rows outside of the table
    seen = np.full(max(table_of_bundle.shape[0], 1), -1, np.int64)
    kept, tail = 0, 0
    for t in range(indptr.shape[0] - 1):
        out.indptr[t], singles.indptr[t], n_full = kept, tail, 0
        for p in range(indptr[t], indptr[t + 1]):
            f, b = indices[p], bundle[p]
            row = np.int64(table_of_row[f])
            if b >= 0 and table_of_bundle[b] >= 0:
                if seen[b] == t:
                    continue
                row, seen[b] = np.int64(table_of_bundle[b]), t
            if row >= 0:
                out.rows[kept] = row
                if not one:
                    out.values[kept] = values[p]
                kept += 1
            elif f < n_hot:
                full[n_full] = p
                n_full += 1
            else:
                for q in range(pointer[f], pointer[f + np.uint32(1)]):
                    singles.places[tail], singles.labels[tail] = q, label[q] & LABEL
                    if not one:
                        singles.values[tail] = values[p]
                    tail += 1
        out.middle[t] = kept
        for i in range(n_full):
            out.rows[kept] = indices[full[i]]
            if not one:
                out.values[kept] = values[full[i]]
            kept += 1
    out.indptr[indptr.shape[0] - 1], singles.indptr[indptr.shape[0] - 1] = kept, tail
    return kept


@kernel
def group_singles(singles, size, n_places, out):
    """``singles`` block by block, in the order of their places: two counting sorts. ``size``: of a row of
    scores."""
    indptr, places, labels = singles.indptr, singles.places, singles.labels
    n, several = places.shape[0], singles.values.shape[0] > 1
    begin = np.zeros(n_places + 1, np.int64)
    for q in range(n):
        begin[places[q] + np.uint32(1)] += 1
    for i in range(n_places):
        begin[i + 1] += begin[i]
    by_place, step_of = np.empty(n, np.uint32), np.empty(n, np.uint32)
    for t in range(indptr.shape[0] - 1):
        for q in range(indptr[t], indptr[t + 1]):
            i = begin[places[q]]
            by_place[i], step_of[i] = q, t
            begin[places[q]] = i + 1
    blocks, bounds, offsets = out.blocks, out.single_bounds, out.offsets
    block_of = np.empty(indptr.shape[0] - 1, np.uint32)
    fill = np.empty(blocks.shape[0], np.int64)
    for b in range(blocks.shape[0] - 1):
        fill[b] = bounds[b] = indptr[offsets[blocks[b]]]
        for t in range(offsets[blocks[b]], offsets[blocks[b + 1]]):
            block_of[t] = b
    bounds[blocks.shape[0] - 1] = n
    for i in range(n):
        q, t = by_place[i], step_of[i]
        b = block_of[t]
        to = fill[b]
        fill[b] = to + 1
        out.single_places[to] = places[q]
        out.single_targets[to] = (t - offsets[blocks[b]]) * size + labels[q]
        if several:
            out.single_values[to] = singles.values[q]

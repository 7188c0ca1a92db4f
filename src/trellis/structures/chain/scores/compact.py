"""A compact arrangement of features, for data that are scored many times: batch training.

Frequent rows, and sums of rows that always occur together (:mod:`.bundle_kernels`), are copied into a table,
padded to whole SIMD registers and ordered by frequency, so that the most frequent stay in the cache. For
tagging with the usual windows of words and tags this halves the rows that a step reads. The scores are the
same up to rounding. Sequences are taken in blocks of about a thousand steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.simd_kernels import padded
from trellis.structures.chain.scores.bundle_kernels import (
    cover_steps,
    implied_features,
    list_members,
    number_frequent,
)
from trellis.structures.chain.scores.compact_kernels import (
    Compact,
    Singles,
    compact_entries,
    count_alone,
    group_singles,
)
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Design

STEPS = 1024  # of a block: its scores and marginals stay in the cache together
LEAST = 16  # a bundle, or a row of the table, is read at least this often, since filling it costs a read


def compact(layout: LinearLayout, design: Design, least: int = LEAST, steps: int = STEPS) -> Compact:
    """``design`` arranged for :func:`.compact_kernels.score_compact`; table rows are used ``least`` times,
    and blocks of sequences have up to ``steps`` steps."""
    n_rows, n_hot = len(layout.rows.pointer) - 1, layout.n_hot
    indptr, indices = design.indptr, design.indices
    bundle, bundles = _bundles(design, n_rows, least)
    often = bundles.uses >= least
    visits = count_alone(indices, bundle, often, n_rows)
    alone = np.flatnonzero(visits[:n_hot] >= least)
    chosen = np.flatnonzero(often)
    # rank bundles and single rows together, the most frequent first
    rank = np.empty(len(chosen) + len(alone), np.int64)
    order = np.argsort(-np.concatenate([bundles.uses[chosen], visits[alone]]), kind="stable")
    rank[order] = np.arange(len(order))
    table_of_bundle = np.full(len(often), -1, np.int32)
    table_of_bundle[chosen] = rank[: len(chosen)]
    table_of_row = np.full(n_rows, -1, np.int32)
    table_of_row[alone] = rank[len(chosen) :]
    bounds, members = _members(bundles, chosen, alone, order)
    tail = visits[n_hot:]
    n_tail, n_kept = int(tail @ np.diff(layout.rows.pointer[n_hot:])), len(indices) - int(tail.sum())
    ones = len(design.values) == 1
    blocks = _blocks(design.offsets, steps)
    singles = Singles(
        np.empty(len(indptr), np.int64),
        np.empty(n_tail, np.uint32),
        np.empty(n_tail, np.uint16),
        design.values if ones else np.empty(max(n_tail, 2)),
    )
    out = Compact(
        design.offsets,
        blocks,
        np.empty(len(indptr), np.int64),
        np.empty(len(indptr) - 1, np.int64),
        np.empty(n_kept, np.uint32),
        design.values if ones else np.empty(max(n_kept, 2)),
        np.empty(len(blocks), np.int64),
        np.empty(n_tail, np.uint32),
        np.empty(n_tail, np.uint32),
        design.values if ones else np.empty(max(n_tail, 2)),
        bounds,
        members,
    )
    rows = layout.rows
    kept = compact_entries(
        design, rows.label, bundle, table_of_bundle, table_of_row, n_hot, rows.pointer, out, singles
    )
    group_singles(singles, padded(layout.n_labels), int(rows.pointer[-1]), out)
    return out._replace(rows=out.rows[:kept].copy())


def _blocks(offsets: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
    """Runs of whole sequences of up to ``steps`` steps, or of one longer sequence: their bounds."""
    bounds = [0]
    while bounds[-1] < len(offsets) - 1:
        end = int(np.searchsorted(offsets, offsets[bounds[-1]] + steps, side="right")) - 1
        bounds.append(max(end, bounds[-1] + 1))
    return np.array(bounds, np.int64)


class _Bundles(NamedTuple):
    """What features imply, and the bundles with their numbers of uses (:mod:`.bundle_kernels`)."""

    feature_of: NDArray[np.int64]
    begin: NDArray[np.int64]
    members: NDArray[np.int32]
    heads: NDArray[np.uint32]
    sets: NDArray[np.uint64]
    uses: NDArray[np.int64]


def _bundles(design: Design, n_rows: int, least: int) -> tuple[NDArray[np.int32], _Bundles]:
    """The bundle of each entry, or -1; rows add up only where every value is one."""
    if len(design.values) > 1:
        nothing = np.zeros(0, np.int64)
        none = _Bundles(
            nothing,
            nothing,
            nothing.astype(np.int32),
            np.zeros(0, np.uint32),
            np.zeros(0, np.uint64),
            nothing,
        )
        return np.full(len(design.indices), -1, np.int32), none
    count = count_alone(design.indices, np.zeros(0, np.int32), np.zeros(0, np.bool_), n_rows)
    number = np.empty(n_rows, np.int32)
    n = number_frequent(count, least, number)
    feature_of, entries = np.flatnonzero(number >= 0), number[design.indices]
    begin, length, members = implied_features(design.indptr, entries, n)
    covers = cover_steps(design.indptr, entries, count[feature_of], begin, length, members)
    return entries, _Bundles(feature_of, begin, members, *covers)


def _members(
    bundles: _Bundles, chosen: NDArray[np.int64], alone: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """The weight rows of each table row, in the order of the table."""
    bounds = np.empty(len(chosen) + 1, np.int64)
    *parts, _ = bundles
    total = list_members(*parts, chosen, bounds, np.zeros(0, np.uint32))
    members = np.empty(total, np.uint32)
    list_members(*parts, chosen, bounds, members)
    begin = np.concatenate([bounds[:-1], total + np.arange(len(alone))])
    length = np.concatenate([np.diff(bounds), np.ones(len(alone), np.int64)])[order]
    members = np.concatenate([members, alone.astype(np.uint32)])
    new_bounds = np.concatenate([[0], np.cumsum(length)])
    take = np.repeat(begin[order] - new_bounds[:-1], length) + np.arange(new_bounds[-1])
    return new_bounds, members[take]

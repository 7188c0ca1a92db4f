"""Part scores of packed features under linear weights: from here on nothing sees weights."""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.shards import over_shards
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Design, Penalties, linear_scores


def linear_chain_scores(
    layout: LinearLayout, design: Design, penalties: Penalties, weights: FloatArray, n_jobs: int = 1
) -> ChainScores:
    """The part scores of a batch under linear weights."""
    w = layout.views(weights)
    k = layout.n_labels
    steps = int(design.offsets[-1])
    unary = np.empty((steps, k))
    shared = w.transitions + penalties.transitions
    transitions = np.zeros((max(steps, 1), k, k)) if layout.n_edge else shared[None]
    over_shards(
        lambda first, last: linear_scores(design, layout.rows, w, penalties, first, last, unary, transitions),
        design.offsets,
        n_jobs,
    )
    return ChainScores(unary, transitions, w.start + penalties.start, w.end + penalties.end, design.offsets)


def take_run(design: Design, first: int, last: int) -> Design:
    """The features of the sequences first..last-1, without copying them."""
    lo, hi = int(design.offsets[first]), int(design.offsets[last])
    edges = design.edge_indptr[lo : hi + 1] if len(design.edge_indptr) > 1 else design.edge_indptr
    return design._replace(
        offsets=design.offsets[first : last + 1] - lo,
        indptr=design.indptr[lo : hi + 1],
        middle=design.middle[lo:hi],
        edge_indptr=edges,
    )

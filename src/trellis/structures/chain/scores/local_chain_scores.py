"""Part scores of the locally normalised chain (maximum-entropy Markov model)."""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.shards import over_shards
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Design, Penalties
from trellis.structures.chain.scores.local_score_kernels import fill_horizon, local_scores


def local_chain_scores(
    layout: LinearLayout, design: Design, penalties: Penalties, weights: FloatArray, n_jobs: int = 1
) -> ChainScores:
    """Part scores with s(y) = log p(y | x), for every oracle of chains: their log-partition is 0.

    The scores of a chain that is normalised as a whole, less the logarithm of each local normaliser, which
    depends on one label only. Where nothing is allowed all scores are ``-inf``.
    """
    w, k, steps = layout.views(weights), layout.n_labels, int(design.offsets[-1])
    unary = np.empty((steps, k))
    shared = w.transitions + penalties.transitions
    transitions = np.zeros((max(steps, 1), k, k)) if layout.n_edge else shared[None]
    horizon = label_horizon(penalties, design.offsets)
    over_shards(
        lambda first, last: local_scores(
            design, layout.rows, w, penalties, horizon, first, last, unary, transitions
        ),
        design.offsets,
        n_jobs,
    )
    return ChainScores(unary, transitions, w.start + penalties.start, penalties.end, design.offsets)


def label_horizon(penalties: Penalties, offsets: IntArray) -> FloatArray:
    """(longest, K): 0 where a label may be followed by r more labels, up to one that may end a sequence."""
    k = len(penalties.end)
    can_go_on = (penalties.transitions == 0).any(axis=1).all()
    if can_go_on and not penalties.end.any():
        return np.zeros((0, k))
    horizon = np.zeros((max(int(np.diff(offsets).max(initial=1)), 1), k))
    fill_horizon(penalties.transitions, penalties.end, horizon)
    return horizon

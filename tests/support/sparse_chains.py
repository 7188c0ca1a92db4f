"""Random chains over allowed pairs of labels, for tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import coo_array

from trellis.structures.chain import SparseChainScores

FEW = [-300.0, -2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 300.0]  # few values, so that there are ties


@st.composite
def sparse_scores(draw: st.DrawFn, steps: int = 5, sequences: int = 3) -> SparseChainScores:
    """Up to 5 labels; pairs that are missing, stored as -inf, or of score 0; forbidden labels, starts and
    ends; sequences of no steps, of one, of several."""
    k = draw(st.integers(1, 5))
    lengths = draw(st.lists(st.integers(0, steps), min_size=1, max_size=sequences))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density, ties, holes = draw(st.sampled_from([0.3, 0.7, 1.0])), draw(st.booleans()), draw(st.booleans())

    def values(*shape: int) -> np.ndarray:
        drawn = rng.choice(FEW, shape) if ties else 3.0 * rng.normal(size=shape)
        return np.where(rng.random(shape) < 0.1 * holes, -np.inf, drawn)

    j, k2 = np.nonzero(rng.random((k, k)) < density)
    order = rng.permutation(len(j))
    table = coo_array((values(len(j)), (j[order], k2[order])), shape=(k, k))
    return SparseChainScores.of(values(sum(lengths), k), table, values(k), values(k), lengths=lengths)

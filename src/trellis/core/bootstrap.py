"""The bootstrap of statistics that are functions of sums over independent examples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray


def resampled_sums(rows: NDArray[np.number], n_resamples: int, seed: int) -> FloatArray:
    """The sums (n_resamples, k) of as many of the ``rows`` (n, k) as there are, drawn with replacement."""
    rng, n = np.random.default_rng(seed), len(rows)
    sums = np.empty((n_resamples, rows.shape[1]))
    for i in range(n_resamples):
        sums[i] = np.bincount(rng.integers(n, size=n), minlength=n) @ rows
    return sums

"""The bootstrap of statistics that are functions of sums over independent examples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray, IntArray


def resamples(n: int, n_resamples: int, seed: int) -> Iterator[IntArray]:
    """How often each of n examples is drawn, (n,), when n are drawn with replacement."""
    rng = np.random.default_rng(seed)
    for _ in range(n_resamples):
        yield np.bincount(rng.integers(n, size=n), minlength=n)


def resampled_sums(rows: NDArray[np.number], n_resamples: int, seed: int) -> FloatArray:
    """The sums (n_resamples, k) of as many of the ``rows`` (n, k) as there are, drawn with replacement."""
    sums = np.empty((n_resamples, rows.shape[1]))
    for i, counts in enumerate(resamples(len(rows), n_resamples, seed)):
        sums[i] = counts @ rows
    return sums

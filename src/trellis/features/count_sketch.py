"""A sketch of the counts of features: which of them are certainly too rare for a vocabulary.

Counters of one byte, of which each feature adds to two, chosen by a hash of its name. A counter is never less
than the count of any feature that adds to it (up to 255, where it stays), so a feature with a counter below
``min_count`` is below it itself. What is left out by a sketch of all shards is left out of the vocabulary
anyway: counting the others exactly gives the same vocabulary, and holds fewer of the rare ones, which are
most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.features.sketch_kernels import add_counts, reached

MOST = 255  # of a counter, and so of a min_count that a sketch says something about
SIZE = 1 << 24  # counters


@dataclass(frozen=True, eq=False)
class CountSketch:
    """``counters``: uint8, of which there are a power of two."""

    counters: NDArray[np.uint8]

    @classmethod
    def of(
        cls, features: list[tuple[NDArray[np.uint64], NDArray[np.int64]]], size: int = SIZE
    ) -> CountSketch:
        """Of lists of hashes with their counts."""
        counters = np.zeros(size, np.uint8)
        for hashes, counts in features:
            add_counts(counters, hashes, counts, MOST)
        return cls(counters)

    def __add__(self, other: CountSketch) -> CountSketch:
        """That of both shards."""
        counters = np.minimum(self.counters, MOST - other.counters)
        counters += other.counters
        return CountSketch(counters)

    def may_reach(self, hashes: NDArray[np.uint64], least: int) -> NDArray[np.bool_]:
        """False for features whose count is certainly below ``least``."""
        return np.asarray(reached(self.counters, hashes, min(least, MOST)))

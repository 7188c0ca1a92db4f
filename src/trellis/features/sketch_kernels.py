"""Counters of a sketch: each hash has two places, the low and the high bits of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.core.numerics import kernel

HALF = np.uint64(32)


@kernel
def add_counts(counters: Any, hashes: Any, counts: Any, most: Any) -> None:
    """counters[place] += counts[i] for both places of hash i, up to ``most``."""
    last = np.uint64(len(counters) - 1)
    for i in range(len(hashes)):
        for place in (hashes[i] & last, (hashes[i] >> HALF) & last):
            counters[place] = min(np.int64(counters[place]) + counts[i], most)


@kernel
def reached(counters: Any, hashes: Any, least: Any) -> Any:
    """Whether both counters of each hash are at least ``least``."""
    last = np.uint64(len(counters) - 1)
    out = np.empty(len(hashes), np.bool_)
    for i in range(len(hashes)):
        here, there = counters[hashes[i] & last], counters[(hashes[i] >> HALF) & last]
        out[i] = here >= least and there >= least
    return out

"""Work is a sum over shards: runs of sequences of about equal size, one thread each.

The kernels release the GIL, so threads suffice. Shards are cut by the data and the number of threads alone,
and results come back in the order of the shards: the same call gives the same numbers every time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from trellis.data.sequences import IntArray, shard_bounds
from trellis.errors import UnsupportedError

Result = TypeVar("Result")


def over_shards(work: Callable[[int, int], Result], offsets: IntArray, n_jobs: int = 1) -> list[Result]:
    """``[work(first, last), ...]`` over runs of sequences, on ``n_jobs`` threads (-1: all cores)."""
    bounds = shard_bounds(offsets, n_threads(n_jobs))
    if len(bounds) <= 1:
        return [work(first, last) for first, last in bounds]
    with ThreadPoolExecutor(len(bounds)) as pool:
        return list(pool.map(lambda bound: work(*bound), bounds))


def n_threads(n_jobs: int) -> int:
    """The number of threads that ``n_jobs`` asks for."""
    if n_jobs == -1:
        return os.cpu_count() or 1
    if n_jobs < 1:
        raise UnsupportedError(f"n_jobs is {n_jobs}; give a number of threads, or -1 for all cores")
    return n_jobs

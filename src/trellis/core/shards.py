"""Work is a sum over shards: runs of sequences of about equal size, one thread each.

The kernels release the GIL, so threads suffice. Shards depend only on the data and the number of threads, and
results come back in the order of the shards: the same call gives the same numbers every time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import TypeVar

import numpy as np

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError

Result = TypeVar("Result")
MANY = 256  # threads at most

_inside = threading.local()  # set on the threads of the pool


def over_shards(work: Callable[[int, int], Result], offsets: IntArray, n_jobs: int = 1) -> list[Result]:
    """``[work(first, last), ...]`` over runs of sequences, on ``n_jobs`` threads (-1: all cores).

    The caller's own thread takes the first run. Work that shares out work again does so on its own thread.
    """
    bounds = shard_bounds(offsets, n_threads(n_jobs))
    if len(bounds) <= 1 or getattr(_inside, "pool", False):
        return [work(first, last) for first, last in bounds]
    others = [_pool().submit(_on_pool, work, first, last) for first, last in bounds[1:]]
    try:
        own = work(*bounds[0])
    finally:
        wait(others)
    return [own, *(other.result() for other in others)]


def over_items(work: Callable[[int], Result], n: int, n_jobs: int = 1) -> list[Result]:
    """``[work(0), ..., work(n - 1)]``, on ``n_jobs`` threads."""
    if n == 1:  # online solvers ask for one example at a time
        return [work(0)]
    runs = over_shards(lambda a, b: [work(i) for i in range(a, b)], np.arange(n + 1), n_jobs)
    return [result for run in runs for result in run]


def shard_bounds(offsets: IntArray, n_shards: int) -> list[tuple[int, int]]:
    """Cut the sequences into at most ``n_shards`` runs ``(first, last)`` of about equal numbers of steps."""
    n = len(offsets) - 1
    targets = np.linspace(0, offsets[-1], min(n_shards, max(n, 1)) + 1)[1:-1]
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets, targets), [n]]))
    return list(pairwise(cuts.tolist()))


def _on_pool(work: Callable[[int, int], Result], first: int, last: int) -> Result:
    _inside.pool = True
    return work(first, last)


@cache
def _pool() -> ThreadPoolExecutor:
    """Kept between calls: starting threads costs as much as a small shard. It starts threads on demand."""
    return ThreadPoolExecutor(MANY, thread_name_prefix="trellis")


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has the pool, not its threads


def n_threads(n_jobs: int) -> int:
    """The number of threads that ``n_jobs`` asks for."""
    if n_jobs == -1:
        return os.cpu_count() or 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs < 1:
        raise DataError(f"n_jobs is {n_jobs!r}; give a number of threads, or -1 for all cores")
    return int(n_jobs)

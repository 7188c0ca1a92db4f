"""Independent regressions side by side: BLAS releases the GIL, so threads suffice."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def in_threads(work: Callable[[int], Result], n: int, n_jobs: int) -> list[Result]:
    """``[work(0), ..., work(n - 1)]``, whatever the number of threads."""
    if n_jobs <= 1 or n <= 1:
        return [work(i) for i in range(n)]
    with ThreadPoolExecutor(min(n_jobs, n)) as pool:
        return list(pool.map(work, range(n)))

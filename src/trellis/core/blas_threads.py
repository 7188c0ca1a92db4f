"""One thread for each BLAS library, for matrices so small that a second one only spins on a core.

``threadpool_limits.wrap`` looks for libraries once, when it decorates, so that those of modules imported
later keep their threads; to look for them in every call takes milliseconds. Here they are looked for again
where modules have been imported since the last call.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context, or a decorator, in which BLAS has one thread; after it, as many as before."""
    with _libraries(len(sys.modules)).limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """Those that are loaded with this number of modules."""
    return ThreadpoolController()

"""What worker processes of this machine do as they start; Dask loads it by its name.

Ctrl-C in a terminal reaches the workers, too. They go on, and are closed by the process that started them: it
alone says what happened.

Nobody looks at these processes, so Dask does not look at what they do every 10 ms. It has ``malloc`` give
every array back to the system as soon as it is free, to be taken again page by page; here some of it stays.
"""

from __future__ import annotations

import ctypes
import signal
from typing import Any

LOOKS = ("profile", "profile-cycle", "tick")  # callbacks of Dask's workers
KEPT = 128 * 2**20  # bytes of free memory that stay
MAPPED = 32 * 2**20  # bytes; larger arrays go back at once, the most that glibc takes
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as <malloc.h> numbers them


def dask_setup(worker: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in LOOKS:
        if (look := worker.periodic_callbacks.pop(name, None)) is not None:
            look.stop()
    keep_memory()


def keep_memory() -> bool:
    """Whether this system's ``malloc`` can be told so: that of glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT) and mallopt(M_MMAP_THRESHOLD, MAPPED))

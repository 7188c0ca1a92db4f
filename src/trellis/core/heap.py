"""Memory that was freed goes back to the system before training, when the solver wants its own."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def _trim() -> Any:
    """glibc's ``malloc_trim``; None with other C libraries."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # TypeError: Windows has no library of the whole process
        return None


def release_freed_memory() -> None:
    """glibc keeps freed blocks of up to 32 MB for itself once larger ones have come and gone, so that what
    encoding needed for a moment would count until the end. A few milliseconds; elsewhere nothing to do."""
    trim = _trim()
    if trim is not None:
        trim(0)

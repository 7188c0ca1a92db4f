"""How much memory a process takes, and how much it may take."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from trellis.core.errors import DataError
from trellis.core.free_memory import free_memory

_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
UNKNOWN = 2 * 10**9  # bytes, where the system does not tell what is free


def memory_limit(given: int | str | None) -> int:
    """Bytes: a number, "500MB", "2GiB"; None is half of what is free."""
    if given is None:
        free = free_memory()
        return UNKNOWN if free is None else resident_memory() + free // 2
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([kmgt]?i?)b?", str(given).strip().lower())
    if isinstance(given, bool) or found is None or found[2] not in _UNITS or not float(found[1]) > 0:
        raise DataError(f"max_memory is {given!r}; give bytes, or a size such as '500MB' or '2GB'")
    return int(float(found[1]) * _UNITS[found[2]])


def resident_memory() -> int:
    """Bytes that this process takes now; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return _peak() if sys.platform != "win32" else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _peak() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak

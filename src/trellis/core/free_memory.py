"""How much memory can still be had, where the system tells."""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_GROUPS = (  # of a container: its limit, and what it uses
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def free_memory() -> int | None:
    """Bytes: the least of what the machine and a container have left; ``None`` if nothing tells."""
    found = []
    for line in _text(_MEMINFO).splitlines():
        if line.startswith("MemAvailable:"):
            found.append(1024 * int(line.split()[1]))
    for limit, used in _GROUPS:
        numbers = _text(limit).strip(), _text(used).strip()
        if all(number.isdecimal() for number in numbers):  # "max" is no limit
            found.append(max(int(numbers[0]) - int(numbers[1]), 0))
    return min(found, default=None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""

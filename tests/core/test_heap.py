"""Freed memory goes back to the system, where the C library can."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from trellis.core import heap

STATUS = Path("/proc/self/status")


def resident() -> int:
    """Megabytes."""
    return int(re.search(r"VmRSS:\s+(\d+)", STATUS.read_text())[1]) // 1000


@pytest.mark.skipif(not STATUS.exists() or heap._trim() is None, reason="the C library is not glibc")
def test_freed_blocks_leave_the_process() -> None:
    blocks = [np.ones(10_000) for _ in range(2000)]  # 160 MB of blocks too small to be returned one by one
    kept = [*blocks[::100], blocks[-1]]  # the last one, so that the heap cannot shrink from its end
    del blocks
    before = resident()
    heap.release_freed_memory()
    assert resident() < before - 100
    assert all(block.all() for block in kept)


def test_other_c_libraries_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_trim", lambda: None)
    heap.release_freed_memory()

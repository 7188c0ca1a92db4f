"""Kernels work where none can be kept: compiled in memory, and one warning says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trellis.core.kernel_cache import source_key

WORK = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    {limit}
    import numpy as np
    from trellis.core.numerics import kernel
    from trellis.core import logspace_kernels

    @kernel
    def total(values):
        return values.sum()

    @kernel
    def product(values):
        return values.prod()

    print(total(np.ones(3)), product(np.full(3, 2.0)))
print(sum("compiled anew in every process" in str(one.message) for one in said))
"""
FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))"


def _says(folder: Path, tmp_path: Path, limit: str = "pass") -> str:
    script = tmp_path / "work_kernels.py"
    script.write_text(WORK.format(limit=limit))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert _says(tmp_path / "file" / "below", tmp_path) == "3.0 8.0\n1\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "work_kernels.py"]


def test_a_folder_that_can_be_written_says_nothing(tmp_path: Path) -> None:
    assert _says(tmp_path / "kept", tmp_path) == "3.0 8.0\n0\n"
    assert any((tmp_path / "kept").iterdir())


@pytest.mark.skipif(os.name == "nt", reason="there are no such limits")
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    assert _says(tmp_path / "full", tmp_path, FULL) == "3.0 8.0\n1\n"


def test_a_moved_file_has_another_key(tmp_path: Path) -> None:
    """Compiled code names the modules of its records."""
    keys = set()
    for name in ("one_kernels.py", "other_kernels.py"):
        (tmp_path / name).write_text("A = 1\n")
        keys.add(source_key(tmp_path / name))
    assert len(keys) == 2

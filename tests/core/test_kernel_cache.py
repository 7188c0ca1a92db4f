"""Kernels work where none can be kept: compiled in memory, and one warning says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trellis.core.kernel_cache import NUMBA_IS_KNOWN, source_key

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
print(sum("so every process compiles them again" in str(one.message) for one in said))
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


RECORD = """
import sys
from typing import NamedTuple
import numpy as np
from numba import njit
from trellis.core.compile_notice import notice
from trellis.core.numerics import kernel

class Pair(NamedTuple):
    x: np.ndarray
    total: float

@kernel
def pair(x):
    if x.size == 0:
        raise ValueError("no values")
    return Pair(x.copy(), x.sum())  # the type of a new array is among the objects that a wrapper looks up

@kernel
def twice(x):
    return 2.0 * pair(x).total

@kernel
def thrice(x):
    return 3.0 * pair(x).total

@njit
def foreign(x):
    return 4.0 * pair(x).total

def answer(name, n=3):
    x = np.ones(n)
    if name == "pair":
        return pair(x).total
    return {"twice": twice, "thrice": thrice, "foreign": foreign}[name](x)
"""


def test_one_kernel_called_from_both_sides(tmp_path: Path) -> None:
    """From Python, by other kernels and by functions that are not ours, compiled and loaded in any order."""
    (tmp_path / "pair_kernels.py").write_text(RECORD)
    work = """
import sys
from pair_kernels import answer, notice
print(*map(answer, sys.argv[1:]), notice.compiled)
try:
    answer(sys.argv[1], 0)
except ValueError as error:
    print(error)
"""
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
    }
    expected = {"pair": "3.0", "twice": "6.0", "thrice": "9.0", "foreign": "12.0"}
    for order, compiled in (
        (["twice"], 2),  # and keeps what it links of "pair"
        (["twice", "pair"], 0),
        (["pair", "twice"], 0),
        (["thrice", "pair"], 1),  # "pair" is loaded in both forms
        (["foreign", "pair", "twice"], 0),  # a function of the user's calls it
    ):
        done = subprocess.run(
            [sys.executable, "-c", work, *order], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, (order, done.stderr[-2000:])
        assert done.stdout.split() == [*(expected[one] for one in order), str(compiled), "no", "values"]


WRAPPED = """
from typing import NamedTuple
import numpy as np
from trellis.core.compile_notice import notice
from trellis.core.numerics import kernel

class Pair(NamedTuple):
    x: np.ndarray
    total: float

@kernel
def of_record(r, flag):
    return r.total if flag else r.x.sum()

@kernel
def of_tuple(t):
    return t[0] + t[1]

@kernel
def all_of_them(x):
    return of_record(Pair(x, 2.0), True) + of_tuple((1.0, 2.0))

ONES = np.ones(3)
CALLS = {
    "all_of_them": lambda: all_of_them(ONES),
    "of_record": lambda: of_record(Pair(ONES, 2.0), True),
    "of_tuple": lambda: of_tuple((1.0, 2.0)),
}
"""


@pytest.mark.skipif(not NUMBA_IS_KNOWN, reason="another Numba has one form of a kernel, its own")
def test_python_calls_what_only_kernels_called_before(tmp_path: Path) -> None:
    """The linkable form is loaded and the wrapper made, in a process that compiles nothing else."""
    (tmp_path / "wrapped_kernels.py").write_text(WRAPPED)
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
    }
    values = {"all_of_them": 5.0, "of_record": 2.0, "of_tuple": 3.0}
    for name, value in values.items():
        work = f"from wrapped_kernels import CALLS, notice; print(CALLS[{name!r}](), notice.compiled > 0)"
        done = subprocess.run(
            [sys.executable, "-c", work], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, (name, done.stderr[-2000:])
        assert done.stdout.split() == [str(value), str(name == "all_of_them")]

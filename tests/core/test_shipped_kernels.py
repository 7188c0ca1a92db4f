"""Kernels that came with the package: used where everything matches, and never else.

A small package stands in for the wheel: the sources of Trellis with a folder of kernels for one module. A
wheel has the same folder, filled by ``trellis warm-up --ship``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import trellis
from trellis.core.kernel_cache import NUMBA_IS_KNOWN
from trellis.core.kernel_folders import only_we_write, shipped_level, shipped_name

LEVEL = shipped_level()
WORK = """
import numpy as np
from trellis.core.compile_notice import notice
from trellis.core.logspace_kernels import log_sum_exp
print(round(float(log_sum_exp(np.log([1.0, 3.0]))), 6), notice.compiled)
"""
ANSWER = "1.386294"
FILE = "trellis/core/logspace_kernels.py"

pytestmark = pytest.mark.skipif(
    LEVEL is None or not LEVEL.suits_this_machine(), reason="nothing is shipped for this processor"
)


def _answer(package: Path, cache: Path, work: str = WORK, **settings: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache), **settings}
    done = subprocess.run(
        [sys.executable, "-c", work], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, with the kernels of one module compiled for the common level of processors."""
    assert LEVEL is not None
    package = tmp_path_factory.mktemp("built")
    source = Path(trellis.__file__).parent
    shutil.copytree(source, package / "trellis", ignore=shutil.ignore_patterns("__pycache__", "_kernels"))
    kernels = package / "trellis" / "_kernels" / shipped_name(LEVEL)
    settings = {"NUMBA_CPU_NAME": LEVEL.name, "NUMBA_CPU_FEATURES": LEVEL.features}
    answer, compiled = _answer(package, kernels, **settings)
    assert answer == ANSWER
    assert int(compiled) > 0
    return package


@pytest.fixture
def package(built: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil; all its files are newer than its kernels."""
    shutil.copytree(built, tmp_path / "package", copy_function=shutil.copyfile)
    return tmp_path / "package"


def test_nothing_is_compiled_and_nothing_written(package: Path, tmp_path: Path) -> None:
    assert _answer(package, tmp_path / "cache") == [ANSWER, "0"]
    assert not (tmp_path / "cache").exists()


def test_where_nothing_can_be_written(package: Path, tmp_path: Path) -> None:
    """Neither the package nor the cache: containers, and packages that root installed."""
    (tmp_path / "file").write_text("")
    for path in (package, *package.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert _answer(package, tmp_path / "file" / "below") == [ANSWER, "0"]
    finally:
        for path in (package, *package.rglob("*")):
            path.chmod(0o755)


def _edit(package: Path) -> None:
    path = package / FILE
    path.write_text(path.read_text() + "\n# edited\n")


def _edit_below(package: Path) -> None:
    path = package / "trellis/core/numerics.py"
    path.write_text(path.read_text() + "\n# edited\n")


def _let_others_write(package: Path) -> None:
    next((package / "trellis/_kernels").iterdir()).chmod(0o777)


def _cut(package: Path) -> None:
    for path in (package / "trellis/_kernels").rglob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])


def _cut_indices(package: Path) -> None:
    for path in (package / "trellis/_kernels").rglob("*.nbi"):
        path.write_bytes(path.read_bytes()[:60])


def _name_another_python(package: Path) -> None:
    folder = next((package / "trellis/_kernels").iterdir())
    folder.rename(folder.with_name(folder.name.replace("cpython-3", "cpython-2")))


@pytest.mark.parametrize(
    "spoil", [_edit, _edit_below, _let_others_write, _cut, _cut_indices, _name_another_python]
)
def test_what_does_not_match_is_compiled(
    spoil: Callable[[Path], None], package: Path, tmp_path: Path
) -> None:
    spoil(package)
    answer, compiled = _answer(package, tmp_path / "cache")
    assert answer == ANSWER
    assert int(compiled) > 0
    assert _answer(package, tmp_path / "cache") == [ANSWER, "0"]  # from the user's own folder


def test_a_processor_below_the_level_compiles(package: Path, tmp_path: Path) -> None:
    older = """
import llvmlite.binding
host = llvmlite.binding.get_host_cpu_features()
host["avx2"] = False
llvmlite.binding.get_host_cpu_features = lambda: host
"""
    answer, compiled = _answer(package, tmp_path / "cache", older + WORK)
    assert answer == ANSWER
    assert int(compiled) > 0


def test_new_kernels_can_call_shipped_ones(package: Path, tmp_path: Path) -> None:
    """A wheel brings machine code alone: what a new kernel calls is compiled again, as a part of it. (Another
    Numba than the one we know ships what it can link, and compiles the new kernel only.)"""
    script = tmp_path / "new_kernels.py"
    script.write_text(
        "from trellis.core.numerics import kernel\nfrom trellis.core.logspace_kernels import log_sum_exp\n"
        "@kernel\ndef twice(x):\n    return 2.0 * log_sum_exp(x)\n"
    )
    work = f"""{WORK}
import sys
sys.path.insert(0, {str(tmp_path)!r})
from new_kernels import twice
print(round(float(twice(np.log([1.0, 3.0]))), 6), notice.compiled)
"""
    assert _answer(package, tmp_path / "cache", work) == [
        ANSWER,
        "0",
        "2.772589",
        "2" if NUMBA_IS_KNOWN else "1",
    ]


@pytest.mark.skipif(os.name == "nt", reason="there are no such modes")
@pytest.mark.parametrize(("mode", "safe"), [(0o755, True), (0o700, True), (0o757, False), (0o777, False)])
def test_folders_that_others_can_write_are_not_trusted(mode: int, safe: bool, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    assert only_we_write(tmp_path) is safe
    tmp_path.chmod(0o755)


@pytest.mark.skipif(os.name == "nt", reason="there are no such modes")
def test_the_cache_of_everybody_is_not_used(tmp_path: Path) -> None:
    """Code in a folder that others can write is neither run nor added to; a warning says so."""
    source = str(Path(trellis.__file__).parent.parent)
    cache = tmp_path / "cache"
    assert _answer(Path(source), cache)[0] == ANSWER
    kept = sorted(cache.iterdir())
    cache.chmod(0o777)
    work = "import warnings\nwith warnings.catch_warnings(record=True) as said:"
    work += WORK.replace("\n", "\n    ") + "\nprint(len(said))"
    answer, compiled, warnings_said = _answer(Path(source), cache, work)
    assert answer == ANSWER
    assert int(compiled) > 0
    assert warnings_said == "1"
    assert sorted(cache.iterdir()) == kept

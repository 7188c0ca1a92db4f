"""The processes of ``trellis warm-up``: one for each area, as many at a time as there are cores.

Each does a little of an area's everyday work, and Numba keeps what it compiles on the way. What is there
already is loaded and costs no compilation. How far they are is read from the folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from trellis.core.errors import TrellisError
from trellis.core.kernel_cache import LINKABLE
from trellis.core.kernel_folders import PACKAGE, Level, shipped_name
from trellis.core.progress import terminal_bar

_PAUSE = 0.25  # seconds between two looks


def shipping_settings(ship: str, level: Level) -> tuple[Path, dict[str, str]]:
    """The folder of kernels to be shipped, and the environment that compiles for their level."""
    folder = Path(ship).absolute() / shipped_name(level)
    return folder, {
        "NUMBA_CACHE_DIR": str(folder),
        "NUMBA_CPU_NAME": level.name,
        "NUMBA_CPU_FEATURES": level.features,
    }


def compile_areas(areas: list[str], folder: Path, settings: dict[str, str], jobs: int | None) -> int:
    """Compile what areas need; returns the number of kernels that were not there."""
    before = _count(folder)
    environment = {**os.environ, **settings, "PYTHONPATH": _import_path()}
    waiting = list(areas)
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        with terminal_bar("compiling", len(areas), None) as update:
            while waiting or running:
                while waiting and len(running) < (jobs or os.cpu_count() or 1):
                    area = waiting.pop(0)
                    running[area] = _start(area, environment)
                _wait(running)
                if update is not None:
                    done = len(areas) - len(waiting) - len(running)
                    names = ", ".join(running)
                    update(done, f"compiling  {_count(folder) - before} kernels  {names}")
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    return _count(folder) - before


def keep_what_python_calls(areas: list[str], folder: Path, settings: dict[str, str]) -> None:
    """Remove the kernels that only other kernels call, whose code is in these, and what other kernels would
    link: a wheel should be small."""
    environment = {**os.environ, **settings, "PYTHONPATH": _import_path()}
    called: set[str] = set()
    for area in areas:
        code = f"from trellis.cli.warm_up.workloads import print_loaded; print_loaded({area!r})"
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise TrellisError(f"trellis warm-up {area} failed: {done.stderr.strip().splitlines()[-1]}")
        called.update(done.stderr.split())
    for path in folder.iterdir():
        base = path.name.removesuffix(".nbi") if path.suffix == ".nbi" else path.name.rsplit(".", 2)[0]
        if base not in called:
            path.unlink()


def _import_path() -> str:
    """Workers import the package that runs this."""
    given = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(PACKAGE.parent), *([given] if given else [])])


def _start(area: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    code = f"from trellis.cli.warm_up.workloads import run; run({area!r})"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def _wait(running: dict[str, subprocess.Popen[bytes]]) -> None:
    """Take a pause, and the processes that have ended out of the table."""
    time.sleep(_PAUSE)
    for area, process in list(running.items()):
        if process.poll() is None:
            continue
        _, said = process.communicate()
        del running[area]
        if process.returncode != 0:
            lines = said.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
            raise TrellisError(f"trellis warm-up {area} failed: {lines[-1]}")


def _count(folder: Path) -> int:
    """The kernels of which a folder has a compiled form."""
    names = os.listdir(folder) if folder.is_dir() else []
    return len({name.rsplit(".", 2)[0].removesuffix(LINKABLE) for name in names if name.endswith(".nbc")})

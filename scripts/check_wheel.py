"""Install the newest wheel of dist/ into a new environment and use it there (``make test-wheel``).

The first block of docs/tour.md has to run without compiling anything, also where neither the package nor a
cache can be written; a processor below the wheel's level has to compile for itself. Dependencies are those of
the environment that runs this.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
MEGABYTES = 12  # a wheel should not be larger
COUNT = """
import trellis
from trellis.core.compile_notice import notice
print(trellis.__file__)
print(notice.compiled)
"""
OLDER_PROCESSOR = """
import llvmlite.binding
host = llvmlite.binding.get_host_cpu_features()
host["avx2"] = False
llvmlite.binding.get_host_cpu_features = lambda: host
"""


def blocks() -> list[str]:
    text = (CHECKOUT / "docs/tour.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def install(wheel: Path, folder: Path) -> Path:
    """A new environment with the wheel; its other packages are found in this one."""
    venv.create(folder, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--target", str(site), str(wheel)], check=True)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def run(python: Path, code: str, home: Path) -> tuple[Path, int]:
    """Where the package was found, and how many kernels some code compiled."""
    hidden = {"NUMBA_CACHE_DIR", "PYTHONPATH", "XDG_CACHE_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [str(python), "-c", code + COUNT],
            env={**environment, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        sys.exit(done.stderr)
    *_, place, compiled = done.stdout.splitlines()
    return Path(place), int(compiled)


def expect(what: str, holds: bool) -> None:
    print(f"{'as it should be' if holds else 'WRONG'}: {what}")
    if not holds:
        sys.exit(1)


def main() -> None:
    wheel = max((CHECKOUT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    size = wheel.stat().st_size / 1e6
    expect(f"{wheel.name} has {size:.1f} MB, of at most {MEGABYTES}", size <= MEGABYTES)
    version = "cp" + "".join(map(str, sys.version_info[:2]))
    machine = platform.machine().lower()
    expect(
        "its tags name this Python and this kind of machine",
        re.search(f"-{version}-{version}-.*{machine}", wheel.stem.lower()) is not None,
    )
    first = blocks()[0]
    network = next(block for block in blocks() if "NetworkBuilder" in block)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        python = install(wheel, folder / "new")
        (folder / "home").mkdir()
        place, compiled = run(python, first, folder / "home")
        expect(
            f"the package is {place.parent}",
            place.is_relative_to(folder.resolve()) or place.is_relative_to(folder),
        )
        expect(f"the tour's first block compiled {compiled} kernels", compiled == 0)
        expect("nothing was written to the home folder", not list((folder / "home").iterdir()))
        for name in ("HMM(", "NetworkBuilder", "GraphLabeler"):
            _, compiled = run(python, next(block for block in blocks() if name in block), folder / "home")
            expect(f"the tour's block with {name.rstrip('(')} compiled {compiled}", compiled == 0)
        (folder / "file").write_text("")
        for path in (place.parent, *place.parent.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        _, compiled = run(python, first, folder / "file" / "below")
        expect(f"where nothing can be written it compiled {compiled}", compiled == 0)
        for path in (place.parent, *place.parent.rglob("*")):
            path.chmod(0o755)
        _, compiled = run(python, OLDER_PROCESSOR + network, folder / "home")
        expect(f"an older processor compiled {compiled} for a network's first query", compiled > 0)
        _, compiled = run(python, OLDER_PROCESSOR + network, folder / "home")
        expect(f"and then {compiled}", compiled == 0)


if __name__ == "__main__":
    main()

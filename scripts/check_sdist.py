"""Build the source distribution into dist/, a wheel from it, and run tests from it (``make test-sdist``).

The archive has every file of the checkout that git tracks; the wheel that is built from it has the same files
as one that is built from the checkout, no corpus but the six recordings of the demo, and is not larger than
``MEGABYTES``. The tests run in the unpacked archive, against the wheel. Dependencies, hatchling among them,
are those of the environment that runs this.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
MEGABYTES = 3.0  # of a wheel without compiled kernels: see docs/wheel.md
RECORDINGS = 6
TESTS = ("tests/test_release.py", "tests/core/test_storage.py", "tests/data")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--output", type=Path, default=CHECKOUT / "dist")
    options.add_argument("--no-tests", action="store_true", help="only build and compare")
    given = options.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    archive = build(CHECKOUT, "sdist", given.output)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        (source,) = folder.iterdir()
        missing = tracked() - {path.relative_to(source).as_posix() for path in source.rglob("*")}
        expect(
            f"{archive.name} has every tracked file, {', '.join(sorted(missing)) or 'none'} missing",
            not missing,
        )
        wheel = build(source, "wheel", given.output)
        direct = build(CHECKOUT, "wheel", folder)
        expect("the wheel has the files of one built from the checkout", names(wheel) == names(direct))
        check_content(wheel)
        if not given.no_tests:
            run_tests(wheel, source, folder / "installed")


def build(source: Path, kind: str, output: Path) -> Path:
    """By hatchling itself: pip cannot make source distributions."""
    environment = {name: value for name, value in os.environ.items() if name != "TRELLIS_SHIP_KERNELS"}
    code = f"import hatchling.build as b; print(b.build_{kind}({str(output)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=source, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    return output / done.stdout.split()[-1]


def tracked() -> set[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return set(listed.stdout.splitlines())


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as content:
        return set(content.namelist())


def check_content(wheel: Path) -> None:
    size = wheel.stat().st_size / 1e6
    expect(f"{wheel.name} has {size:.2f} MB, of at most {MEGABYTES}", size <= MEGABYTES)
    sounds = [name for name in names(wheel) if name.endswith((".flac", ".wav", ".mp3", ".ogg"))]
    expect(f"it has {len(sounds)} recordings, for the demo", len(sounds) == RECORDINGS)
    licences = [name for name in names(wheel) if "/licenses/" in name]
    expect(f"it has {len(licences)} files of licences", len(licences) == 2)


def run_tests(wheel: Path, source: Path, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--target", str(target), str(wheel)], check=True)
    path = {**os.environ, "PYTHONPATH": str(target)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *TESTS]
    expect(
        "the tests run from it", subprocess.run(command, cwd=source, env=path, check=False).returncode == 0
    )


def expect(what: str, holds: bool) -> None:
    print(f"{'as it should be' if holds else 'WRONG'}: {what}", flush=True)
    if not holds:
        sys.exit(1)


if __name__ == "__main__":
    main()

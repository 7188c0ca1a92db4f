"""Run every benchmark, whatever becomes of the others, and write one table of what they measured.

python benchmarks/_all.py [--only NAME] [--table FILE] [--limit SECONDS] [options of every benchmark, --quick]

The table (Markdown, ``bench_output/figures.md``) has the figures of this run and nothing else, and is written
anew after each benchmark, so that a run that is stopped leaves what it had. A benchmark whose data or whose
library are not there is listed with the reason. The exit code is 1 if one failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import IO, Any, NamedTuple

HERE = Path(__file__).resolve().parent
NOT_MEASURED = "not measured"
FIGURES = "TRELLIS_BENCH_FIGURES"  # names the file to which a benchmark adds its figures (_common.Figures)
PEERS = (
    "python-crfsuite", "hmmlearn", "statsmodels", "pykalman", "dynamax", "pyagrum", "pgmpy", "networkx",
    "torch", "pytorch-crf", "numpy", "numba",
)  # fmt: skip
# Speech takes hours, so it comes last: a run that is stopped has the others.
LAST = ("adapt", "alignment", "builtin", "doubt", "long_recordings", "padding", "unknown_words")
_MISSING = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'")
_MISSING_EXTRA = re.compile(r"^trellis\.core\.errors\.MissingExtraError: (.+)")


class End(NamedTuple):
    """How a benchmark ended, in a few words, and what it measured."""

    words: str
    seconds: float
    figures: list[dict[str, Any]]


def in_order(scripts: Iterable[Path]) -> list[Path]:
    """By name, those of ``LAST`` at the end."""
    return sorted(scripts, key=lambda path: (path.stem in LAST, path.name))


def run(script: Path, options: list[str], limit: float) -> End:
    """Run a benchmark and repeat what it prints; after ``limit`` seconds it is stopped."""
    print(f"== {script.name}", flush=True)
    began = time.perf_counter()
    reasons: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.jsonl"
        child = subprocess.Popen(
            [sys.executable, "-u", str(script), *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            env={**os.environ, FIGURES: str(figures)},
        )  # fmt: skip
        errors: list[str] = []
        readers = [
            threading.Thread(target=_repeat, args=(child.stdout, sys.stdout, reasons)),
            threading.Thread(target=_repeat, args=(child.stderr, sys.stderr, errors)),
        ]
        for reader in readers:
            reader.start()
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
            errors.append(f"stopped after {limit:.0f} s")
        except BaseException:
            child.kill()
            raise
        finally:
            for reader in readers:
                reader.join(10.0)
        found = figures.read_text(encoding="utf-8").splitlines() if figures.exists() else []
    words = _ending(code, [line for line in reasons if NOT_MEASURED in line], errors)
    return End(words, time.perf_counter() - began, [json.loads(line) for line in found])


def _repeat(source: IO[str], target: IO[str], lines: list[str]) -> None:
    for line in source:
        print(line, end="", flush=True, file=target)
        lines.append(line.strip())


def _ending(code: int, reasons: list[str], errors: list[str]) -> str:
    if code == 0:
        return "; ".join(reasons) or "measured"
    last = errors[-1] if errors else ""
    if missing := _MISSING.match(last):
        package = missing[1].split(".")[0]
        if package not in ("trellis", *(path.stem for path in HERE.glob("*.py"))):
            return f"{NOT_MEASURED}: {package} is not installed"
    if extra := _MISSING_EXTRA.match(last):
        return f"{NOT_MEASURED}: {extra[1]}"
    return f"failed with exit code {code}{': ' + last if last else ''}"


def table(ends: dict[str, End], options: list[str]) -> str:
    """The figures of a run as Markdown."""
    lines = [
        "# Figures of one run",
        "",
        f"`python benchmarks/_all.py {' '.join(options)}`".replace(" `", "`")
        + f", {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, Python {platform.python_version()}, "
        f"{platform.platform()}, {os.cpu_count()} processors{_load()}.",
        "",
        "Versions: " + ", ".join(_versions()) + ".",
        "",
        "| benchmark | figure | ours | peer | ratio | target | met |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, end in ends.items():
        for figure in end.figures:
            lines.append(_row(name, figure))
        if not end.figures or end.words != "measured":
            lines.append(_cells(name, f"{end.words}, {end.seconds:.0f} s", "", "", "", "", ""))
    spent = ", ".join(f"{name} {end.seconds / 60:.1f}" for name, end in ends.items())
    lines += ["", f"Minutes: {sum(end.seconds for end in ends.values()) / 60:.1f} in all; {spent}."]
    return "\n".join(lines) + "\n"


def _row(name: str, figure: dict[str, Any]) -> str:
    """Columns other than those of the table are named in their cells."""
    cells = dict(zip(figure["columns"], figure["cells"], strict=False))
    known = [str(cells.pop(column, "")) for column in ("ours", "peer", "ratio", "target", "met")]
    title = f"{figure['title']}: {figure['name']}"
    others = ", ".join(f"{column} {value}" for column, value in cells.items() if value)
    return _cells(name, f"{title} ({others})" if others else title, *known)


def _cells(*cells: str) -> str:
    plain = (re.sub(r"\[/?\w*\]", "", cell).replace("|", "\\|").replace("\n", " ") for cell in cells)
    return "| " + " | ".join(plain) + " |"


def _load() -> str:
    return f", load {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""


def _versions() -> list[str]:
    found = {dist.metadata["Name"].lower(): dist.version for dist in metadata.distributions()}
    return [f"{name} {found.get(name, 'not installed')}" for name in PEERS]


def main() -> None:
    own = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    own.add_argument("--only", action="append", default=[], metavar="NAME", help="again for each further one")
    own.add_argument("--table", type=Path, default=Path("bench_output") / "figures.md")
    own.add_argument("--limit", type=float, default=7200.0, metavar="SECONDS", help="for one benchmark")
    given, options = own.parse_known_args()
    given.table.parent.mkdir(parents=True, exist_ok=True)
    ends: dict[str, End] = {}
    scripts = in_order(path for path in HERE.glob("*.py") if not path.name.startswith("_"))
    if unknown := sorted(set(given.only) - {path.stem for path in scripts}):
        own.error(f"there is no benchmark {unknown[0]!r}; benchmarks/README.md lists them")
    for script in scripts:
        if given.only and script.stem not in given.only:
            continue
        ends[script.name] = run(script, options, given.limit)
        given.table.write_text(table(ends, options), encoding="utf-8")
    print("\n== summary")
    for name, end in ends.items():
        print(f"{name:28} {end.words} ({end.seconds:.0f} s)")
    print(f"the table of figures: {given.table}")
    sys.exit(any(end.words.startswith("failed") for end in ends.values()))


if __name__ == "__main__":
    main()

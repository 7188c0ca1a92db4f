"""Run every benchmark, whatever becomes of the others, and sum up at the end.

python benchmarks/_all.py [options of every benchmark, such as --quick]

A benchmark whose data are not there says "not measured" and is listed so. The exit code is 1 if one failed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_MEASURED = "not measured"


def run(script: Path, options: list[str]) -> str:
    """Run a benchmark, repeat what it prints, and say in a few words how it ended."""
    print(f"== {script.name}", flush=True)
    child = subprocess.Popen(
        [sys.executable, "-u", str(script), *options], stdout=subprocess.PIPE, text=True, errors="replace"
    )
    reason = ""
    if child.stdout is not None:
        for line in child.stdout:
            print(line, end="", flush=True)
            if NOT_MEASURED in line:
                reason = f"{reason}; {line.strip()}" if reason else line.strip()
    code = child.wait()
    if code:
        return f"failed with exit code {code}"
    return reason or "measured"


def main() -> None:
    scripts = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("_"))
    ends = {script.name: run(script, sys.argv[1:]) for script in scripts}
    print("\n== summary")
    for name, end in ends.items():
        print(f"{name:28} {end}")
    sys.exit(any(end.startswith("failed") for end in ends.values()))


if __name__ == "__main__":
    main()

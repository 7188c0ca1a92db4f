"""What the first call costs: processor seconds of fresh processes, for the first things that people do.

Each case runs in processes of its own, with three kinds of kernels: on an *empty* cache, which compiles; on a
*warm* one; and *shipped*, from a copy of the package that has its kernels compiled for a common level of
processors, as ``make wheel`` puts them into a wheel, and Python's bytecode of its modules, as ``pip install``
makes it. Seconds are user and system time of the process and of all its threads, so a busy machine changes
them little. Every run is printed. Columns: what was compiled and loaded (of our kernels), and what importing
scikit-learn or PyTorch alone takes, where a goal is counted from there.

    python benchmarks/cold_start.py                        # warm and empty
    python benchmarks/cold_start.py labeler network --modes warm --repeats 5
    python benchmarks/cold_start.py --modes shipped        # first compiles all kernels, once: some minutes
    python benchmarks/cold_start.py labeler --imports      # which packages the imports go to
"""

from __future__ import annotations

import compileall
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from _common import parser

CHECKOUT = Path(__file__).resolve().parent.parent
TOUR = (CHECKOUT / "docs/tour.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TOUR, re.DOTALL)
KALMAN = """
import numpy as np
from trellis import LinearGaussian
rng = np.random.default_rng(0)
walks = [np.cumsum(rng.normal(size=(100, 2)), 0) + rng.normal(size=(100, 2)) for _ in range(3)]
LinearGaussian(n_states=2, random_state=0).fit(walks).smooth(walks)
"""
HELP = "import sys\nfrom trellis.cli import main\nsys.argv = ['trellis', '--help']\nmain()"
FIT = BLOCKS[0].split("print(", 1)[0]  # up to the first answer


def _block(name: str) -> str:
    return next(block for block in BLOCKS if name in block)


CASES = {
    "labeler": _block("SequenceLabeler"),
    "first fit": FIT,
    "hmm": _block("HMM("),
    "kalman": KALMAN,
    "network": _block("NetworkBuilder"),
    "graph": _block("GraphLabeler"),
    "neural": _block("structured_loss"),
    "help": HELP,
}
BASES = {"labeler": "sklearn.base", "first fit": "sklearn.base", "neural": "torch"}
# seconds: of the whole process with an empty cache; beyond the base, if there is one, from a wheel (a first
# fit no longer imports scikit-learn, so it may take less than that alone)
GOALS = {
    ("first fit", "shipped"): 0.7,
    ("network", "shipped"): 0.8,
    ("neural", "shipped"): 1.0,
    ("labeler", "empty"): 20.0,
    ("hmm", "empty"): 6.0,
    ("network", "empty"): 5.0,
}
COUNT = """
import atexit, json, sys
def _count():
    notice = sys.modules.get("trellis.core.compile_notice")
    loaded = 0
    for name, module in list(sys.modules.items()):
        if name.startswith("trellis.") and name.endswith("_kernels"):
            for one in vars(module).values():
                if getattr(one, "__module__", "") == name and hasattr(one, "stats"):
                    loaded += sum(one.stats.cache_hits.values())
    print(json.dumps([notice.notice.compiled if notice else 0, loaded]), file=sys.stderr)
atexit.register(_count)
"""


def measure(code: str, source: Path, cache: Path, count: bool = True) -> tuple[float, list[int]]:
    """Processor seconds of some Python in a fresh process; kernels that it compiled and loaded."""
    environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", (COUNT if count else "") + code],
            env=environment, cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"a run failed:\n{done.stderr}")
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, json.loads(done.stderr.strip().splitlines()[-1]) if count else [0, 0]


def imports(code: str, source: Path, cache: Path) -> Counter[str]:
    """Microseconds (wall) of the imports of each top-level package."""
    environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", code],
            env=environment, cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
    taken: Counter[str] = Counter()
    for own, name in re.findall(r"import time: +(\d+) \| +\d+ \| +(\S+)", done.stderr):
        taken[name.split(".")[0]] += int(own)
    return taken


def shipped_package(folder: Path) -> Path:
    """A copy of the package with compiled kernels in it."""
    shutil.copytree(CHECKOUT / "src" / "trellis", folder / "trellis")
    command = [
        "-c",
        "from trellis.cli import main; main()",
        "warm-up",
        "--ship",
        str(folder / "trellis/_kernels"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run([sys.executable, *command], env=environment, check=True)
    compileall.compile_dir(folder, quiet=1)
    return folder


def main() -> None:
    options = parser(__doc__)
    options.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="CASE", help=", ".join(CASES))
    options.add_argument("--modes", default="warm,empty", help="of: empty, warm, shipped")
    options.add_argument(
        "--repeats", type=int, default=3, help="runs of each case, but one on an empty cache"
    )
    options.add_argument("--shipped", type=Path, help="a folder that holds a package with kernels")
    options.add_argument("--imports", action="store_true", help="which packages the imports go to")
    given = options.parse_args()
    cases = given.cases or (["network", "first fit"] if given.quick else list(CASES))
    modes = "warm" if given.quick else given.modes
    with tempfile.TemporaryDirectory() as scratch:
        source, base = CHECKOUT / "src", {}
        for mode in modes.split(","):
            if mode == "shipped":
                source = given.shipped or shipped_package(Path(scratch) / "shipped")
            for case in cases:
                cache = Path(scratch) / mode / case
                code = CASES[case]
                if mode == "warm":
                    measure(code, source, cache)
                runs = [measure(code, source, cache) for _ in range(1 if mode == "empty" else given.repeats)]
                least, (_, loaded) = min(runs)
                compiled = max(counts[0] for _, counts in runs)
                line = f"{mode:8} {case:10} {least:6.2f} s  compiled {compiled:3}, loaded {loaded:3}"
                if case in BASES and mode != "empty":
                    name = BASES[case]
                    if name not in base:
                        again = [measure(f"import {name}", source, cache, count=False) for _ in runs]
                        base[name] = min(again)[0]
                    least -= base[name]
                    line += f"; {least:.2f} s beyond {name} ({base[name]:.2f} s)"
                if (case, mode) in GOALS:
                    goal = GOALS[case, mode]
                    line += f"; goal {goal:g} s {'met' if least <= goal else 'not met'}"
                print(line, " runs:", " ".join(f"{seconds:.2f}" for seconds, _ in runs), flush=True)
                if given.imports:
                    for package, micro in imports(code, source, cache).most_common(8):
                        print(f"         {micro / 1e6:6.2f} s  {package}")


if __name__ == "__main__":
    main()

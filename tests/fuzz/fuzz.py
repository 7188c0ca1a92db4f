"""Feed changed files to every reader and changed models to every loader: only a ``TrellisError`` may result.

python tests/fuzz/fuzz.py                         every target, some minutes
python tests/fuzz/fuzz.py HMM sound --seconds 60  some targets
python tests/fuzz/fuzz.py HMM --case 17           one case again, with its traceback

Each case may take ``SECONDS`` of processor time and ``MEMORY`` more than what the process has when it begins.
The cases of a seed are the same every time. A worker process runs them; if one hangs or crashes, the next
worker goes on after it. Files that make trouble are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS = 10.0  # of processor time, for one case
MEMORY = 3 * 2**30  # bytes, beyond what the worker has after it has warmed up
PATIENCE = 240.0  # seconds without a word from the worker
RESTARTS = 40
FINE = ("ok", "refused")
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]


def targets() -> dict[str, Any]:
    from fuzz_models import MODELS
    from fuzz_readers import READERS

    return {**READERS, **MODELS}


# -- the parent --------------------------------------------------------------------------------------------


def fuzz(names: list[str], cases: int, seconds: float, seed: int, kept: Path) -> dict[str, Counter[str]]:
    """How the cases of each target ended; what is not fine is printed and its file kept."""
    ends: dict[str, Counter[str]] = {name: Counter() for name in names}
    todo = dict.fromkeys(names, 0)
    for _ in range(RESTARTS):
        current = ("", 0)
        for said in _worker(todo, cases, seconds, seed, kept):
            current = said["target"], said["case"]
            if "end" in said:
                ends[said["target"]][said["end"]] += 1
                todo[said["target"]] = said["case"] + 1
                if said["end"] not in FINE:
                    print(
                        f"{said['target']}, case {said['case']}: {said['end']} ({said['detail']})", flush=True
                    )
            elif "died" in said:
                name, case = current
                ends.setdefault(name or names[0], Counter())[said["died"]] += 1
                print(f"{name}, case {case}: {said['died']}", flush=True)
                todo[name or names[0]] = case + 1
            elif "finished" in said:
                del todo[said["target"]]
            elif "done" in said:
                return ends
    print(f"stopped after {RESTARTS} crashes", flush=True)
    return ends


def _worker(
    todo: dict[str, int], cases: int, seconds: float, seed: int, kept: Path
) -> Iterator[dict[str, Any]]:
    plan = json.dumps({"todo": todo, "cases": cases, "seconds": seconds, "seed": seed, "kept": str(kept)})
    command = [sys.executable, "-X", "faulthandler", __file__, "--worker", plan]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    lines: queue.Queue[str | None] = queue.Queue()

    def listen() -> None:
        assert child.stdout is not None
        for line in child.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=listen, daemon=True).start()
    last: dict[str, Any] = {"target": "", "case": 0}
    try:
        while True:
            try:
                line = lines.get(timeout=PATIENCE)
            except queue.Empty:
                child.kill()
                yield {**last, "died": f"no answer for {PATIENCE:g} s"}
                return
            if line is None:
                break
            if line.startswith("#"):
                last = json.loads(line[1:])
                yield last
        code = child.wait()
        if "done" not in last:
            yield {"target": last["target"], "case": last["case"], "died": f"the process ended with {code}"}
    finally:
        child.kill()
        child.wait()


# -- the worker --------------------------------------------------------------------------------------------


class TooLongError(BaseException):
    """Not an ``Exception``: nothing may catch it."""


def work(plan: dict[str, Any]) -> None:
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w")
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115

    def say(**words: Any) -> None:
        out.write("#" + json.dumps(words) + "\n")
        out.flush()

    every = targets()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, first in plan["todo"].items():
            target = every[name]
            say(target=name, case=first)
            _limit_memory(None)
            known = target.known(Path(folder, "known"))  # also compiles and loads what the target needs
            for path, _ in known[:1]:
                _end_of(target, path, None)
            _limit_memory(MEMORY)
            deadline = time.monotonic() + plan["seconds"]
            for case in range(first, plan["cases"]):
                if time.monotonic() > deadline:
                    break
                say(target=name, case=case)
                path, detail = _case(target, name, case, plan["seed"], known, Path(folder, "case"))
                end, why = _end_of(target, path, SECONDS)
                if end not in FINE:
                    _keep(path, Path(plan["kept"], name.replace(" ", "_")), case)
                say(target=name, case=case, end=end, detail=f"{detail} {why}"[:400])
            say(target=name, case=0, finished=True)
    say(target="", case=0, done=True)


def _case(
    target: Any, name: str, case: int, seed: int, known: list[tuple[Path, str]], path: Path
) -> tuple[Path, str]:
    """The known files first, then changed ones."""
    if case < len(known):
        return known[case]
    made: tuple[Path, str] = target.make(random.Random(f"{name} {seed} {case}"), path)
    return made


def _end_of(target: Any, path: Path, seconds: float | None) -> tuple[str, str]:
    from trellis.core.errors import TrellisError

    def too_long(*_: Any) -> None:
        raise TooLongError

    limited = seconds is not None and hasattr(signal, "setitimer")
    if limited:
        signal.signal(signal.SIGPROF, too_long)
        signal.setitimer(signal.ITIMER_PROF, seconds or 0.0)
    try:
        try:
            target.use(path)
        finally:
            if limited:
                signal.setitimer(signal.ITIMER_PROF, 0.0)
    except TrellisError as error:
        return ("two lines", str(error)) if "\n" in str(error) else ("refused", "")
    except TooLongError:
        return f"more than {SECONDS:g} s", ""
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if f"{os.sep}trellis{os.sep}" in f.filename] or list(frames)
        place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        return f"{type(error).__name__} at {place}", str(error)[:200]
    return "ok", ""


def _limit_memory(more: int | None) -> None:
    """Allow this process ``more`` bytes than it has; None takes the limit away."""
    try:
        import resource
    except ImportError:  # Windows
        return
    size = resource.RLIM_INFINITY
    if more is not None and os.path.exists("/proc/self/statm"):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        size = pages * os.sysconf("SC_PAGE_SIZE") + more
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _keep(path: Path, folder: Path, case: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, folder / f"{case}{path.suffix}")


def again(name: str, case: int, seed: int) -> None:
    """Run one case without any limit."""
    target = targets()[name]
    with tempfile.TemporaryDirectory() as folder:
        known = target.known(Path(folder, "known"))
        path, detail = _case(target, name, case, seed, known, Path(folder, "case"))
        print(detail, flush=True)
        target.use(path)
    print("ok")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", help="all of them if none is named")
    parser.add_argument("--seconds", type=float, default=240.0, help="for all targets together")
    parser.add_argument("--cases", type=int, default=10**9, help="of each target, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run only this one, and show its traceback")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz_finds"), help="folder of files that make trouble"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        work(json.loads(given.worker))
        return
    names = given.targets or list(targets())
    if given.case is not None:
        again(names[0], given.case, given.seed)
        return
    began = time.monotonic()
    ends = fuzz(names, given.cases, given.seconds / len(names), given.seed, given.keep.absolute())
    bad = 0
    for name, counts in ends.items():
        wrong = {end: n for end, n in counts.items() if end not in FINE}
        bad += sum(wrong.values())
        said = "; ".join(f"{n} {end}" for end, n in wrong.items())
        print(f"{name:24} {counts.total():7} cases, {counts['refused']:7} refused  {said}")
    total = sum(counts.total() for counts in ends.values())
    print(f"{total} cases in {time.monotonic() - began:.0f} s with seed {given.seed}, {bad} wrong")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

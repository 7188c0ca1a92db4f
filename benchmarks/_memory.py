"""Peak memory of a child process. Imports nothing large: each side pays for its own imports only."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path


def peak_memory(script: str, *arguments: str) -> float:
    """MB at the peak of ``python script arguments``, which ends by calling :func:`print_peak_memory`."""
    done = subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, check=False, env=os.environ
    )
    if done.returncode:
        raise RuntimeError(f"{script} {' '.join(arguments)} failed: {done.stderr[-2000:]}")
    return float(json.loads(done.stdout.splitlines()[-1])["peak_mb"])


def print_peak_memory() -> None:
    """This process's peak. On Linux VmHWM: ru_maxrss starts from the size of the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        kilobytes = next(int(x.split()[1]) for x in status.read_text().splitlines() if x.startswith("VmHWM"))
    else:
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # bytes on macOS
    print(json.dumps({"peak_mb": kilobytes / 1000.0}))

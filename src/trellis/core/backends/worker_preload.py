"""What worker processes of this machine do as they start; Dask loads it by its name.

Ctrl-C in a terminal reaches the workers, too. They go on, and are closed by the process that started them: it
alone says what happened.
"""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

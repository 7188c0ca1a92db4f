"""Functions of items, for maps in other processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from trellis.core.errors import DataError


def make_square(log: Path | None = None) -> Callable[[int], float]:
    """``log``: a file that gets a line each time this is called."""
    if log is not None:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
    return square


def square(x: int) -> float:
    if x < 0:
        raise DataError(f"{x} is negative")
    return x * x + 0.1


def make_deadly(folder: Path) -> Callable[[int], float]:
    return partial(deadly, folder)


def deadly(folder: Path, x: int) -> float:
    """7 always kills its process, 3 kills the first one."""
    time.sleep(0.02)
    if x == 7 or (x == 3 and not (folder / "killed").exists()):
        (folder / "killed").touch()
        os._exit(1)
    return square(x)


def noisy_threshold(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.random((n, 1))
    return x, ((x[:, 0] > 0.4) ^ (rng.random(n) < 0.1)).astype(int)

"""States and questions for tests of backends: workers import them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from trellis.core.errors import DataError

SIZE = 1000


def make(seed: int) -> dict[str, Any]:
    return {"values": np.random.default_rng(seed).normal(size=SIZE) * 10.0 ** (seed % 7 - 3), "seed": seed}


def make_from_data(values: np.ndarray) -> dict[str, Any]:
    return {"values": values, "seed": int(abs(values[0]) * 1e6)}


def weighted(state: dict[str, Any], factor: Any) -> tuple[int, np.ndarray]:
    return state["seed"], factor * state["values"]


def slowly_weighted(state: dict[str, Any], factor: Any, seconds: float) -> tuple[int, np.ndarray]:
    time.sleep(seconds)
    return weighted(state, factor)


def doubled(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "values": 2.0 * state["values"]}


def shifted(state: dict[str, Any], own: float, factor: float) -> dict[str, Any]:
    return {**state, "values": factor * state["values"] + own}


def with_own(state: dict[str, Any], own: np.ndarray, factor: float) -> float:
    return float(factor * (state["values"][: len(own)] @ own[: len(state["values"])]))


def process(state: dict[str, Any]) -> tuple[int, bool]:
    """Where the state is, and whether its arrays can be written, as kernels expect."""
    return os.getpid(), bool(state["values"].flags.writeable)


def counted(state: dict[str, Any], folder: str, seconds: float) -> int:
    """Leaves a file for each time that it is begun."""
    Path(folder, f"{state['seed']}-{time.time_ns()}").touch()
    time.sleep(seconds)
    return 1


def dies_once(state: dict[str, Any], factor: float, flag: str, victim: int) -> tuple[int, np.ndarray]:
    """Kills its worker in the middle of the question, the first time that shard ``victim`` is asked."""
    time.sleep(0.05)
    if state["seed"] == victim and not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return weighted(state, factor)


def read_text(path: str) -> dict[str, Any]:
    text = Path(path).read_text()
    if "damaged" in text:
        raise DataError("line 3 is damaged")
    return {"values": np.ones(3), "seed": len(text)}


def divides(state: dict[str, Any], by: float) -> float:
    return state["seed"] // by


def fills_memory(seed: int) -> dict[str, Any]:
    """More than any worker of the tests may have, in small steps, so that its nanny sees it."""
    held = []
    for _ in range(200 if seed == 3 else 1):
        held.append(np.ones(2**20))
        time.sleep(0.02)
    return {"values": np.concatenate(held), "seed": seed}


def big(seed: int) -> dict[str, Any]:
    return {"values": np.full(4_000_000, float(seed)), "seed": seed}


def mean(state: dict[str, Any]) -> float:
    return float(state["values"].mean())


def no_room(state: dict[str, Any]) -> dict[str, Any]:
    raise OSError(28, "No space left on device")

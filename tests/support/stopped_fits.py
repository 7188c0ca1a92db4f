"""Fits that are stopped again and again, as a kill would, and taken up from their checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis.training import checkpoints, driver

MOST = 500  # stops


class Killed(BaseException):
    """Nothing catches it, so that nothing is tidied up but by what a killed process leaves as well."""


@contextmanager
def storing(share: float = np.inf) -> Any:
    """Store after every iteration."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "SHARE", share)
        yield patch


def stopped_again_and_again(
    fit: Callable[[Path], Any], folder: Path, every: int, most: int = 500
) -> tuple[Any, int]:
    """``fit(folder)``, stopped after each ``every`` iterations of the driver until it comes to its end; and
    how often it was stopped."""
    append, steps = driver._append, 0

    def count(history: Any, measured: Any) -> None:
        nonlocal steps
        append(history, measured)
        if "seconds" in measured:
            steps += 1
            if steps > every:  # the iteration that is lost
                raise Killed

    with storing() as patch:
        patch.setattr(driver, "_append", count)
        for times in range(MOST):
            steps = 0
            try:
                return fit(folder), times
            except Killed:
                assert len(list(folder.rglob("checkpoint.*"))) <= 2 * len(list(folder.rglob("checkpoint.0")))
    raise AssertionError(f"stopped {MOST} times, and not at the end")


def learned(model: Any) -> Any:
    """All that a fitted model holds but its parameters and the clock, for a comparison to the last bit."""
    if hasattr(model, "fit_"):  # a network
        history = {key: values for key, values in model.fit_.history.items() if key != "seconds"}
        return model.fit_.status, history, [table.tobytes() for table in model.tables]
    meta, arrays = model.to_state()
    fitted = {
        name: value for name, value in meta["fitted"].items() if name not in ("history_", "fit_seconds_")
    }
    history = {key: values for key, values in model.history_.items() if key not in ("seconds", "cpu_seconds")}
    held = {
        name: (array.dtype.str, array.shape, array.tobytes())
        for name, array in arrays.items()
        if not name.startswith("parameters")
    }
    return repr(fitted), repr(history), held

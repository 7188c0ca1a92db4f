"""Checkpoints: all that a run needs to go on, in one file of the library's format, replaced after each step.

The file knows the *identity* of its run, such as its parameters and a checksum of its data; a run of anything
else refuses it. It holds arrays and JSON, no code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trellis.core import storage
from trellis.core.arrays import FloatArray
from trellis.core.codec import Arrays, decode, encode
from trellis.core.errors import DataError, ModelFileError
from trellis.core.status import Status
from trellis.solvers.online.online_run import OnlineRun

KIND = "Checkpoint"


class ResumableRun:
    """A run of an online solver that can be stored: all it has is its ``OnlineState`` and a random stream."""

    def __init__(self, run: OnlineRun) -> None:
        self._run = run

    @property
    def weights(self) -> FloatArray:
        return self._run.weights

    def step(self) -> Mapping[str, float]:
        return self._run.step()

    def status(self) -> Status | None:
        return self._run.status()

    def state(self) -> dict[str, Any]:
        return {"solver": dict(vars(self._run.state)), "random": self._run.rng.bit_generator.state}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._run.take_up(type(self._run.state)(**state["solver"]))
        self._run.rng.bit_generator.state = state["random"]


@dataclass(frozen=True)
class CheckpointFile:
    """For a run with ``state()``, any value that model files may hold, and ``restore(state)``."""

    path: storage.PathLike
    identity: Mapping[str, Any]

    def save(self, run: Any, history: Mapping[str, list[float]]) -> None:
        arrays: Arrays = {}
        state = encode({"run": run.state(), "history": history}, arrays)
        storage.save(self.path, KIND, {"identity": dict(self.identity), "state": state}, arrays)

    def restore(self, run: Any) -> dict[str, list[float]]:
        """Bring a new run to where the file stands; its history, empty where there is no file yet."""
        if not os.path.exists(self.path):
            return {}
        shown = os.fspath(self.path)
        kind, meta, arrays = storage.read(self.path)
        if kind != KIND:
            raise ModelFileError(f"{shown}: holds a {kind}, not a checkpoint; give checkpoint= another path")
        different = [key for key in self.identity if meta["identity"].get(key) != self.identity[key]]
        if different:
            raise DataError(
                f"{shown}: the checkpoint is of a run with other {different[0]}; remove it to start anew"
            )
        try:
            state = decode(meta["state"], arrays)
            run.restore(state["run"])
            history: dict[str, list[float]] = state["history"]
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelFileError(
                f"{shown}: the checkpoint does not fit this model; remove the file"
            ) from error
        return history

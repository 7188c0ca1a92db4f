"""Checkpoints: a fit that was stopped at any moment goes on from its folder and ends in the same model.

A fit is a sequence of *stages*, one for each run of the driver: a warm start, the folds of a hold-out, starts
of EM, the search for epsilon, the last run. What a stage does follows from the data, the options and the
results of the stages before it, so that its place in the sequence is name enough. A checkpoint holds, in one
file, the results of all finished stages and the snapshot of the run of the present one
(:mod:`trellis.solvers.resumable`) with its history, and what the fit drew at random (its seed).

Resumed, the fit does the same again: finished stages answer with their results, the present one goes on from
its snapshot. The file knows the identity of its fit (:mod:`.run_identity`); others are refused.

A snapshot is stored after an iteration if all that was spent on checkpoints (checksums of the data among it),
and what this one will take, is at most ``SHARE`` of the time since the fit began. At the end there is one
more, of results alone, with which the same call answers at once; a fit that took no longer than some fifty
such files leaves none, unless it has left some on its way. Where a file cannot be written, one warning says
so, and training goes on.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from trellis.core import storage
from trellis.core.codec import Arrays, decode, encode
from trellis.core.errors import DataError, ModelFileError, TrellisError
from trellis.core.status import Status
from trellis.solvers.run import Trace
from trellis.training.checkpoint_folder import CheckpointFolder, CheckpointWarning
from trellis.training.options import draw_seed
from trellis.training.run_identity import difference, run_identity

SHARE, END_SHARE = 0.015, 0.02  # of the time of the fit, in its course and with its end
LATENCY, BYTES_PER_SECOND = 0.02, 1e8  # of the first file, before one was measured
SMALL = 1_000_000  # bytes, too few to tell how fast files are written

History = dict[str, list[float]]
Value = TypeVar("Value")


class Checkpoints:
    """The stages of one fit. ``folder`` None: nothing is stored. ``extensible``: the last run is kept with
    its snapshot, so that it can go on under a larger limit of iterations. ``began``: when work on checkpoints
    began (``time.perf_counter``), if that was before."""

    def __init__(
        self,
        folder: storage.PathLike | None,
        identity: Mapping[str, Any] | None = None,
        *,
        extensible: bool = False,
        began: float | None = None,
    ) -> None:
        self.extensible = extensible
        self._identity = dict(identity or {})
        self._began = time.perf_counter() if began is None else began
        self._folder: CheckpointFolder | None = None
        self._kept: dict[str, Any] = {}
        self._done: list[Any] = []
        self._current: dict[str, Any] | None = None  # the stored run: its stage, snapshot and history
        self._arrays: Arrays = {}
        self._stage, self._open = 0, False
        self._spent, self._expected, self._per_byte = 0.0, LATENCY, 1.0 / BYTES_PER_SECOND
        self._warned, self._changed = False, False
        if folder is not None:
            self._folder = CheckpointFolder(folder)
            self._read(self._folder)
            self._spent = time.perf_counter() - self._began

    @property
    def stored(self) -> bool:
        """Whether there is a folder."""
        return self._folder is not None

    def seed(self, random_state: Any) -> int:
        """The seed that a fit draws; a resumed one has that of the first."""
        seed: int = self._kept.setdefault("seed", draw_seed(random_state))
        return seed

    def random_state(self, given: Any) -> Any:
        """The same for those who make a generator of it."""
        fixed = self._folder is None or isinstance(given, int | np.integer)
        return given if fixed else self.seed(given)

    def stage(self) -> Stage | None:
        """The next one; None where nothing is stored."""
        if self._folder is None:
            return None
        self._stage, self._open = self._stage + 1, True
        return Stage(self, self._stage - 1)

    def once(self, work: Callable[[], Value]) -> Value:
        """``work()`` as a stage without iterations: done again if it was stopped."""
        stage = self.stage()
        found = None if stage is None else stage.result()
        if found is not None:
            kept: Value = found[0]
            return kept
        answer = work()
        if stage is not None:
            stage.finish(answer, Trace(status=Status(True, "done"), history={}, n_iter=0))
        return answer

    @contextmanager
    def kept_when_stopped(self) -> Iterator[None]:
        """The fit: at its end it is closed, and Ctrl-C between two stages stores those that are finished."""
        try:
            yield
        except KeyboardInterrupt:
            if self._changed:
                self._write()
            raise
        self.close()

    def close(self) -> None:
        """The fit has ended. What is left is its results."""
        if self._folder is None or self._open:  # a stage was interrupted
            return
        if self._changed and not self.extensible:
            self._expect(self._arrays)
            if not self._folder.empty or self._is_time(END_SHARE):
                self._write()
        if not self._changed:
            self._folder.remove_older()

    # -- what stages ask for ----------------------------------------------------------------------------

    def result_of(self, stage: int) -> dict[str, Any] | None:
        if stage >= len(self._done):
            return None
        path = f"done.{stage}"
        own = {name: array.copy() for name, array in self._arrays.items() if name.startswith(f"{path}.")}
        found: dict[str, Any] = self._decoded(self._done[stage], own, path)
        return found

    def snapshot_of(self, stage: int) -> dict[str, Any] | None:
        if self._current is None or self._current["stage"] != stage:
            return None
        found: dict[str, Any] = self._decoded(self._current["run"], self._arrays, "run")
        return found

    def offer(self, stage: int, snapshot: Callable[[], dict[str, Any]], *, now: bool) -> None:
        """Store what ``snapshot()`` gives, if it is time, or ``now``."""
        if not now and not self._is_time():
            return
        began = time.perf_counter()
        arrays: Arrays = {}
        encoded = encode(snapshot(), arrays, "run")
        self._forget_run()
        self._expect({**self._arrays, **arrays})  # runs grow
        if not now and not self._is_time():
            self._spent += time.perf_counter() - began
            return
        self._arrays |= arrays
        self._current = {"stage": stage, "run": encoded}
        self._write(began)

    def finish(self, stage: int, result: Mapping[str, Any]) -> None:
        """Keep the result of a stage; it is stored with the next snapshot, or at once if it is time."""
        self._open = False
        if self.extensible or stage < len(self._done):
            return
        self._forget_run()
        arrays: Arrays = {}
        encoded = encode(result, arrays, f"done.{stage}")
        self._arrays |= {name: array.copy() for name, array in arrays.items()}  # first: Ctrl-C may store now
        self._done.append(encoded)
        self._changed = True
        if self._is_time():
            self._write()

    def refuse(self, why: str) -> ModelFileError:
        shown = "" if self._folder is None else self._folder.shown
        return ModelFileError(f"the checkpoint in {shown} {why}; remove it, or give another folder")

    # -- the file ---------------------------------------------------------------------------------------

    def _read(self, folder: CheckpointFolder) -> None:
        found = folder.read()
        if found is None:
            return
        meta, self._arrays = found
        try:
            other = difference(meta["identity"], self._identity)
            self._kept, self._done, self._current = dict(meta["kept"]), list(meta["done"]), meta["current"]
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise self.refuse("does not contain what it should") from error
        if other is not None:
            raise DataError(f"the checkpoint in {folder.shown} is {other}; remove it, or give another folder")

    def _decoded(self, value: Any, arrays: Arrays, path: str) -> Any:
        try:
            return decode(value, arrays, path)
        except (KeyError, TypeError, ValueError) as error:
            raise self.refuse("does not contain what it should") from error

    def _expect(self, arrays: Arrays) -> None:
        """How long it takes to write these."""
        self._expected = LATENCY + sum(array.nbytes for array in arrays.values()) * self._per_byte

    def _is_time(self, share: float | None = None) -> bool:
        elapsed = time.perf_counter() - self._began
        return self._spent + self._expected <= (SHARE if share is None else max(share, SHARE)) * elapsed

    def _forget_run(self) -> None:
        self._current = None
        self._arrays = {name: array for name, array in self._arrays.items() if name.startswith("done.")}

    def _write(self, began: float | None = None) -> None:
        if self._folder is None:
            return
        began = time.perf_counter() if began is None else began
        if self._current is None:
            self._forget_run()
        content = {
            "kind": "fit",
            "identity": self._identity,
            "kept": self._kept,
            "done": self._done,
            "current": self._current,
        }
        try:
            self._folder.write(content, self._arrays)
            self._changed = False
        except (ModelFileError, OSError, MemoryError) as error:
            self._changed = True
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"no checkpoint could be written ({error}); training continues, and any earlier "
                    "checkpoint is unchanged",
                    CheckpointWarning,
                    stacklevel=2,
                )
        cost = time.perf_counter() - began
        size = sum(array.nbytes for array in self._arrays.values())
        if size > SMALL:
            self._per_byte = max(cost - LATENCY, 0.0) / size
        self._expected = cost
        self._spent += cost
        if self._current is not None:  # arrays of a run that goes on change
            self._forget_run()


class Stage:
    """One run of the driver."""

    def __init__(self, owner: Checkpoints, number: int) -> None:
        self._owner, self._number = owner, number

    def result(self) -> tuple[Any, Trace, Any] | None:
        """Of a finished stage: its answer, how the run went, and what else it left."""
        found = self._owner.result_of(self._number)
        if found is None:
            return None
        trace = Trace(
            status=found["status"], history=_as_lists(found["history"]), n_iter=int(found["n_iter"])
        )
        self._owner.finish(self._number, {})
        return found["answer"], trace, found["memory"]

    def finish(self, answer: Any, trace: Trace, memory: Any = None) -> None:
        result = {
            "answer": answer,
            "status": trace.status,
            "history": _as_arrays(trace.history),
            "n_iter": trace.n_iter,
            "memory": memory,
        }
        self._owner.finish(self._number, result)

    def restore(self, run: Any) -> History:
        """Bring a run that was just started to where the stored one stands; its history, empty if there is
        none."""
        found = self._owner.snapshot_of(self._number)
        if found is None:
            return {}
        try:
            run.restore(found["snapshot"])
        except (LookupError, TypeError, ValueError, RuntimeError) as error:
            if isinstance(error, TrellisError):  # of the data, not of the file
                raise
            raise self._owner.refuse("does not fit this model") from error
        return _as_lists(found["history"])

    def save(self, run: Any, history: Mapping[str, list[float]], *, now: bool = False) -> None:
        """After an iteration: store the run if it is time for it, or ``now``. One that has no snapshots, of a
        solver from outside the package, begins this stage anew when it is resumed."""
        if hasattr(run, "snapshot"):
            self._owner.offer(
                self._number,
                lambda: {"snapshot": run.snapshot(), "history": _as_arrays(history)},
                now=now,
            )


def open_checkpoints(
    model: Any, data: Mapping[str, Any], *, free: Collection[str] = (), extensible: bool = False
) -> Checkpoints:
    """The checkpoints of ``model.fit``, in the folder that its parameter ``checkpoint`` names, if any.

    ``data``: what is learned from, by name. ``free``: options that may change in between."""
    folder = model.checkpoint
    if folder is None:
        return Checkpoints(None)
    options = model.get_params(deep=False)
    return keep_checkpoints(folder, type(model).__name__, options, data, free=free, extensible=extensible)


def keep_checkpoints(
    folder: Any,
    kind: str,
    options: Mapping[str, Any],
    data: Mapping[str, Any],
    *,
    free: Collection[str] = (),
    extensible: bool = False,
    began: float | None = None,
) -> Checkpoints:
    """The same for functions that learn: ``kind`` is what they make, ``options`` are their arguments.
    ``began``: when ``data`` was begun to be looked at, if that takes time (``time.perf_counter``)."""
    if folder is None:
        return Checkpoints(None)
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise DataError(f"checkpoint is {folder!r}; give the path of a folder, or None")
    began = time.perf_counter() if began is None else began
    identity = run_identity(kind, options, data, free)
    return Checkpoints(folder, identity, extensible=extensible, began=began)


def _as_arrays(history: Mapping[str, list[float]]) -> dict[str, Any]:
    return {key: np.array(values, dtype=np.float64) for key, values in history.items()}


def _as_lists(history: Mapping[str, Any]) -> History:
    return {key: np.asarray(values).tolist() for key, values in history.items()}

"""Training in passes over the data: one run of the driver, and one stage of the checkpoints of a fit.

A pass that Ctrl-C interrupts is undone, so that the run stands between two passes and can be stored there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, Generic, TypeVar

from trellis.core.shards import over_items
from trellis.core.status import Status
from trellis.solvers.resumable import Resumable
from trellis.training.checkpoints import Checkpoints
from trellis.training.driver import minimise_run

Answer = TypeVar("Answer")
Report = Callable[[float], None]


class Passes(Resumable, ABC, Generic[Answer]):
    """``passes`` of them, ``done`` are behind. A class names what else the next one depends on (``kept``),
    does one in ``one_pass``, and gives what was learned as ``weights``."""

    kept: ClassVar[tuple[str, ...]] = ("done",)
    passes: int
    done: int = 0

    @abstractmethod
    def one_pass(self) -> Mapping[str, float] | None:
        """All data once; what was measured, if anything was."""

    @property
    @abstractmethod
    def weights(self) -> Answer:
        """What was learned, in memory of its own."""

    def step(self) -> Mapping[str, float]:
        before = deepcopy(self.snapshot())
        try:
            measured = self.one_pass()
        except KeyboardInterrupt:
            self.restore(before)
            raise
        self.done += 1
        return measured or {}

    def status(self) -> Status | None:
        return None

    @property
    def whole_steps(self) -> int:
        """The steps that the run consists of, also after an interrupt."""
        return self.done


def train_passes(
    run: Passes[Answer], report: Report | None = None, checkpoints: Checkpoints | None = None
) -> Answer:
    """What a run has learned after all its passes; ``report(share)`` is called after each, and each may be
    stored. BLAS runs on one thread, so that sums have one order on any number of cores."""

    def tell(iteration: int, measured: Mapping[str, float], weights: Answer) -> None:
        if report is not None:
            report(iteration / run.passes)

    answer, _ = minimise_run(
        run,
        max_iter=run.passes,
        on_iteration=None if report is None else tell,
        checkpoints=checkpoints,
    )
    return answer


class Converted(Passes[Answer]):
    """A run whose answer becomes another one."""

    kept = ("run",)

    def __init__(self, run: Passes[Any], convert: Callable[[Any], Answer]) -> None:
        self.run, self.passes, self._convert = run, run.passes, convert

    def one_pass(self) -> Mapping[str, float]:
        return self.run.step()

    @property
    def weights(self) -> Answer:
        return self._convert(self.run.weights)


class SideBySide(Passes[list[Any]]):
    """Several runs as one, each on a thread: a pass is one of each that is not at its end."""

    def __init__(self, runs: Sequence[Passes[Any]], n_jobs: int) -> None:
        self._runs, self._n_jobs = runs, n_jobs
        self.passes = max((run.passes for run in runs), default=0)

    def one_pass(self) -> None:
        going = [run for run in self._runs if run.done < run.passes]
        over_items(lambda i: going[i].step(), len(going), self._n_jobs)

    @property
    def weights(self) -> list[Any]:
        return [run.weights for run in self._runs]

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "runs": [run.snapshot() for run in self._runs]}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        super().restore(snapshot)
        for run, stored in zip(self._runs, snapshot["runs"], strict=True):
            run.restore(stored)

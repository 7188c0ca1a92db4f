"""One loop runs every solver and every EM: history, progress, early stopping on a hold-out set, Ctrl-C, and
an honest status."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.blas_threads import one_blas_thread
from trellis.core.errors import StepError
from trellis.core.status import INTERRUPTED, Status
from trellis.core.stop_requests import listening, stop_was_asked
from trellis.solvers.dc.algorithm import DCProblem, DCRun, DCSolution
from trellis.solvers.run import Solution, Solver, Steps, Trace
from trellis.training.checkpoints import Checkpoints, Stage

U = TypeVar("U")
V = TypeVar("V")
W = TypeVar("W")
W_co = TypeVar("W_co", covariant=True)


@dataclass(frozen=True)
class EarlyStopping(Generic[W]):
    """Keep the weights with the smallest hold-out loss; stop after ``patience`` iterations without one,
    counted from iteration ``patience_from``.

    Examples
    --------
    >>> from trellis.training import EarlyStopping
    >>> stopping = EarlyStopping(loss=lambda weights: float(abs(weights - 1.0).sum()), patience=3)
    >>> stopping.patience, stopping.patience_from
    (3, 0)
    """

    loss: Callable[[W], float]
    patience: int = 5
    min_improvement: float = 0.0
    patience_from: int = 0


class WeightedRun(Steps, Protocol[W_co]):
    """A run with weights of any form: a vector, or the state of a network."""

    @property
    def weights(self) -> W_co: ...


def minimise(
    solver: Solver,
    problem: Any,
    weights: FloatArray,
    *,
    max_iter: int,
    rng: np.random.Generator,
    early_stopping: EarlyStopping[FloatArray] | None = None,
    on_iteration: Callable[[int, Mapping[str, float], FloatArray], None] | None = None,
    keep_interrupted: bool = False,
    checkpoints: Checkpoints | None = None,
) -> Solution:
    """Run ``solver`` on ``problem`` from ``weights`` for at most ``max_iter`` iterations.

    ``on_iteration(iteration, measured, weights)`` is called after each one: progress bars hang there.
    ``keep_interrupted``: see :func:`drive`. ``checkpoints``: of the fit that this run is a stage of.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.objectives import Margin
    >>> from trellis.solvers import FrankWolfe
    >>> from trellis.structures.segments import (
    ...     SegmentExample, SegmentFeatures, SegmentGraph, SegmentPath, SegmentProblem, TauAlignment
    ... )
    >>> from trellis.training import minimise
    >>> graph = SegmentGraph.chain(min_length=[1, 1], max_length=[3, 3])
    >>> frames = np.array([[0.0, 1, 2, 1, 0], [0, -1, -2, -1, 0]])
    >>> features = SegmentFeatures.of(graph, n_frames=4, prefix=frames[None])
    >>> example = SegmentExample(features, SegmentPath.of_chain([0, 2], 4))
    >>> problem = SegmentProblem([example], Margin(), TauAlignment(0.0), l2=1.0)
    >>> start, rng = np.zeros(features.dimension), np.random.default_rng(0)
    >>> minimise(FrankWolfe(), problem, start, max_iter=50, rng=rng).status.converged
    True
    """
    start = np.array(weights, dtype=np.float64)
    run = solver.start(problem, start.copy(), rng)
    warm = start if start.any() else None
    found, trace = minimise_run(
        run,
        max_iter=max_iter,
        early_stopping=early_stopping,
        on_iteration=on_iteration,
        warm_start=warm,
        keep_interrupted=keep_interrupted,
        checkpoints=checkpoints,
    )
    return Solution(weights=found, **vars(trace))


def minimise_run(
    run: WeightedRun[W],
    *,
    max_iter: int,
    early_stopping: EarlyStopping[W] | None = None,
    on_iteration: Callable[[int, Mapping[str, float], W], None] | None = None,
    warm_start: W | None = None,
    limit: str = "max_iter",
    keep_interrupted: bool = False,
    checkpoints: Checkpoints | None = None,
) -> tuple[W, Trace]:
    """The weights that a run ends with, those of the smallest hold-out loss under ``early_stopping``.

    A ``warm_start`` competes with what is learned from it. ``limit`` is what the caller calls ``max_iter``.
    ``keep_interrupted``: see :func:`drive`. ``checkpoints``: of the fit that this run is a stage of.
    """
    driven = run if early_stopping is None else _EarlyStoppingRun(run, early_stopping, warm_start)

    def work(stage: Stage | None) -> Trace:
        trace: Trace = drive(
            driven,
            max_iter,
            on_iteration,
            lambda: run.weights,
            stage=stage,
            limit=limit,
            keep_interrupted=keep_interrupted,
        )
        return trace

    return _as_stage(checkpoints, driven, work, lambda: driven.weights)


def minimise_dc(
    problem: DCProblem[U, V],
    start: U,
    *,
    max_iter: int,
    tol: float,
    on_iteration: Callable[[int, Mapping[str, float], U], None] | None = None,
    keep_interrupted: bool = False,
    checkpoints: Checkpoints | None = None,
) -> DCSolution[U]:
    """Run the DC algorithm from ``start`` until an iteration lowers the primal by at most ``tol``.

    The answer is a critical point (the subdifferentials of g and h meet there), which need not be the global
    minimum: start from several points (:func:`trellis.training.restarts.keep_best`).
    ``on_iteration(iteration, measured, point)`` sees the ``primal`` and ``dual`` of each iteration.
    ``keep_interrupted``: see :func:`drive`. ``checkpoints``: of the fit that this run is a stage of.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.solvers import ArrayDC
    >>> from trellis.training import minimise_dc
    >>> size = lambda u: (float(abs(u).sum()), np.sign(u))
    >>> problem = ArrayDC(lambda u: 0.5 * float(u @ u), size, lambda v: v)
    >>> minimise_dc(problem, np.array([-0.2]), max_iter=100, tol=1e-9).point.tolist()
    [-1.0]
    """
    run = DCRun(problem, start, tol)

    def work(stage: Stage | None) -> Trace:
        trace: Trace = drive(
            run, max_iter, on_iteration, lambda: run.point, stage=stage, keep_interrupted=keep_interrupted
        )
        return trace

    point, trace = _as_stage(checkpoints, run, work, lambda: run.point)
    trace.history = {"primal": [], "dual": [], "seconds": [], **trace.history}
    return DCSolution(point=point, **vars(trace))


def _as_stage(
    checkpoints: Checkpoints | None,
    run: Any,
    work: Callable[[Stage | None], Trace],
    answer: Callable[[], W],
) -> tuple[W, Trace]:
    """The answer of a run and how it went: by work, or as a finished stage of the checkpoints has it."""
    stage = None if checkpoints is None else checkpoints.stage()
    found = None if stage is None else stage.result()
    if found is not None:
        if hasattr(run, "recall_losses"):
            run.recall_losses(found[2])
        return found[0], found[1]
    trace = work(stage)
    if stage is not None and checkpoints is not None and not trace.interrupted:
        if checkpoints.extensible:
            stage.save(run, trace.history, now=True)
        memory = run.loss_memory() if hasattr(run, "loss_memory") else None
        stage.finish(answer(), trace, memory)
    return answer(), trace


# Solvers' vector work is bound by memory: a second BLAS thread gains nothing, and spins on a core that a
# shard needs.
@one_blas_thread()
def drive(
    run: Steps,
    max_iter: int,
    on_iteration: Callable[[int, Mapping[str, float], U], None] | None,
    point: Callable[[], U],
    *,
    stage: Stage | None = None,
    limit: str = "max_iter",
    keep_interrupted: bool = False,
) -> Trace:
    """Step until the run's status says why to stop, ``max_iter`` is reached, or a step breaks down
    (``StepError``). A run with a ``doubt`` has not converged.

    ``point()``: what the run has reached, for ``on_iteration``. ``limit``: the name of ``max_iter`` in
    messages. Ctrl-C ends the whole program, as everywhere in Python: ``KeyboardInterrupt`` goes through.
    ``keep_interrupted`` is for callers that have a place for what was reached by then: they get it, marked
    ``interrupted``, put it there, and must raise ``KeyboardInterrupt`` themselves (``Model._finished``).

    ``stage``: where the run is stored. A request to stop then waits for the end of the iteration
    (:mod:`trellis.core.stop_requests`), which is stored before it is followed like Ctrl-C. Ctrl-C itself does
    not wait; a run that undoes what it has begun (``whole_steps`` counts the rest) is stored then as well."""
    history = {} if stage is None else stage.restore(run)
    seconds = history.get("seconds", [])
    iteration, interrupted = len(seconds), False
    status = run.status() if iteration else None
    started = time.perf_counter() - (seconds[-1] if seconds else 0.0)
    try:
        if hasattr(run, "begin") and not iteration:
            _append(history, run.begin())
        with nullcontext() if stage is None else listening():
            while status is None and iteration < max_iter:
                measured = dict(run.step())
                iteration += 1
                status = run.status()
                measured["seconds"] = time.perf_counter() - started
                _append(history, measured)
                asked = stage is not None and stop_was_asked()
                if stage is not None:
                    stage.save(run, history, now=asked)
                if asked:
                    raise KeyboardInterrupt
                if on_iteration is not None:
                    on_iteration(iteration, measured, point())
    except KeyboardInterrupt:
        n_whole = getattr(run, "whole_steps", None)
        if stage is not None and not stop_was_asked() and n_whole == len(history.get("seconds", ())):
            stage.save(run, history, now=True)
        if not keep_interrupted:
            raise
        interrupted = True
        status = Status(False, f"{INTERRUPTED}; the last complete iteration is kept")
    except StepError as error:
        status = Status(False, f"{error}; the last complete iteration is kept")
    if status is None:
        status = Status(False, _ran_out(history, max_iter, limit))
    doubt = getattr(run, "doubt", "")
    reason = f"{status.reason}; {doubt}" if doubt else status.reason
    status = Status(status.converged and not doubt, reason, iteration)
    return Trace(status=status, history=history, n_iter=iteration, interrupted=interrupted)


class _EarlyStoppingRun(Generic[W]):
    """A run that also measures the hold-out loss, and answers with the weights that had the smallest."""

    def __init__(self, run: WeightedRun[W], options: EarlyStopping[W], warm_start: W | None) -> None:
        self._run, self._options = run, options
        self._iteration, self._best_iteration = 0, 0
        self._best_loss, self._best_weights = np.inf, warm_start
        if warm_start is not None:
            self._best_loss = options.loss(warm_start)

    @property
    def weights(self) -> W:
        if self._best_weights is None or not np.isfinite(self._best_loss):
            return self._run.weights
        return self._best_weights

    def step(self) -> Mapping[str, float]:
        measured = self._run.step()
        self._iteration += 1
        loss = self._options.loss(self._run.weights)
        if loss < self._best_loss - self._options.min_improvement:
            self._best_loss, self._best_iteration = loss, self._iteration
            self._best_weights = deepcopy(self._run.weights)
        return {**measured, "holdout_loss": loss}

    def status(self) -> Status | None:
        status = self._run.status()
        waited = self._iteration - max(self._best_iteration, self._options.patience_from)
        if status is None and waited >= self._options.patience:
            return Status(
                False,
                f"early on the hold-out set, whose loss did not fall below {self._best_loss:.6g} for "
                f"{waited} iterations; its best weights are kept",
            )
        return status

    def snapshot(self) -> dict[str, Any]:
        """What :meth:`restore` takes, of a run that offers the same two methods."""
        run: Any = self._run
        own = (self._iteration, self._best_iteration, self._best_loss, self._best_weights)
        return {"run": run.snapshot(), "early_stopping": own, "memory": self.loss_memory()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        run: Any = self._run
        run.restore(snapshot["run"])
        own = snapshot["early_stopping"]
        self._iteration, self._best_iteration, self._best_loss, self._best_weights = own
        self.recall_losses(snapshot["memory"])

    def loss_memory(self) -> Any:
        """What the measure of hold-out losses remembers of its calls, if it does."""
        loss: Any = self._options.loss
        return loss.loss_memory() if hasattr(loss, "loss_memory") else None

    def recall_losses(self, memory: Any) -> None:
        loss: Any = self._options.loss
        if hasattr(loss, "recall_losses"):
            loss.recall_losses(memory)


def _append(history: dict[str, list[float]], measured: Mapping[str, float]) -> None:
    for key, value in measured.items():
        history.setdefault(key, []).append(float(value))


def _ran_out(history: dict[str, list[float]], max_iter: int, limit: str) -> str:
    """The remedy that fits: what was still open when the iterations ran out."""
    last = {key: values[-1] for key, values in history.items()}
    primal = history.get("primal", [])
    if "gap" in last:
        still = f" at most {last['gap']:.3g} above the optimum"
    elif "gradient_norm" in last:
        still = f" with a gradient norm of {last['gradient_norm']:.3g}"
    elif len(primal) > 1:
        still = f" with the objective still falling by {primal[-2] - primal[-1]:.2g}"
    else:
        return f"{limit}={max_iter} was reached; raise {limit} for more iterations"
    return f"{limit}={max_iter} was reached{still}; raise {limit} or tol"

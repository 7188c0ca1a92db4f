"""One loop runs every solver and every EM: history, progress, early stopping on a hold-out set, Ctrl-C, and
an honest status."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from trellis.core.arrays import FloatArray
from trellis.solvers.dc.algorithm import DCProblem, DCRun, DCSolution
from trellis.solvers.run import Run, Solution, Solver, Status, Steps, Trace

U = TypeVar("U")
V = TypeVar("V")


@dataclass(frozen=True)
class EarlyStopping:
    """Keep the weights with the smallest hold-out loss; stop after ``patience`` iterations without one."""

    loss: Callable[[FloatArray], float]
    patience: int = 5
    min_improvement: float = 0.0


def minimise(
    solver: Solver,
    problem: Any,
    weights: FloatArray,
    *,
    max_iter: int,
    rng: np.random.Generator,
    early_stopping: EarlyStopping | None = None,
    on_iteration: Callable[[int, Mapping[str, float], FloatArray], None] | None = None,
) -> Solution:
    """Run ``solver`` on ``problem`` from ``weights`` for at most ``max_iter`` iterations.

    ``on_iteration(iteration, measured, weights)`` is called after each one: progress bars and checkpoints
    hang there. Ctrl-C stops the loop and returns the weights reached, with a status that says so.
    """
    run = plain = solver.start(problem, np.array(weights, dtype=np.float64), rng)
    if early_stopping is not None:
        run = _EarlyStoppingRun(plain, early_stopping, weights)
    trace = drive(run, max_iter, on_iteration, lambda: plain.weights)
    return Solution(weights=run.weights, **vars(trace))


def minimise_dc(
    problem: DCProblem[U, V],
    start: U,
    *,
    max_iter: int,
    tol: float,
    on_iteration: Callable[[int, Mapping[str, float], U], None] | None = None,
) -> DCSolution[U]:
    """Run the DC algorithm from ``start`` until an iteration lowers the primal by at most ``tol``.

    The answer is a critical point (the subdifferentials of g and h meet there), which need not be the global
    minimum: start from several points (:func:`trellis.training.restarts.best_of`).
    ``on_iteration(iteration, measured, point)`` sees the ``primal`` and ``dual`` of each iteration. Ctrl-C
    returns the point reached.
    """
    run = DCRun(problem, start, tol)
    trace = drive(run, max_iter, on_iteration, lambda: run.point)
    trace.history = {"primal": [], "dual": [], "seconds": [], **trace.history}
    return DCSolution(point=run.point, **vars(trace))


# Solvers' vector work is bound by memory: a second BLAS thread gains nothing, and spins on a core that a
# shard needs.
@threadpool_limits.wrap(limits=1, user_api="blas")
def drive(
    run: Steps,
    max_iter: int,
    on_iteration: Callable[[int, Mapping[str, float], U], None] | None,
    point: Callable[[], U],
) -> Trace:
    """Step until the run's status says why to stop, ``max_iter`` is reached, or Ctrl-C is pressed.

    ``point()``: what the run has reached, for ``on_iteration``."""
    history: dict[str, list[float]] = {}
    status, iteration, interrupted = None, 0, False
    started = time.perf_counter()
    try:
        if hasattr(run, "begin"):
            _append(history, run.begin())
        while status is None and iteration < max_iter:
            measured = dict(run.step())
            iteration += 1
            status = run.status()
            measured["seconds"] = time.perf_counter() - started
            _append(history, measured)
            if on_iteration is not None:
                on_iteration(iteration, measured, point())
    except KeyboardInterrupt:
        interrupted = True
        status = Status(False, "interrupted from the keyboard; the last complete iteration is kept")
    if status is None:
        status = Status(False, _ran_out(history, max_iter))
    status = Status(status.converged, status.reason, iteration)
    return Trace(status=status, history=history, n_iter=iteration, interrupted=interrupted)


class _EarlyStoppingRun:
    """A run that also measures the hold-out loss, and answers with the weights that had the smallest."""

    def __init__(self, run: Run, options: EarlyStopping, start: FloatArray) -> None:
        self._run, self._options = run, options
        self._best_loss, self._best_weights, self._since_best = np.inf, run.weights, 0
        if start.any():  # a warm start competes with what is learned from it
            self._best_loss, self._best_weights = options.loss(start), np.array(start)

    @property
    def weights(self) -> FloatArray:
        return self._best_weights if np.isfinite(self._best_loss) else self._run.weights

    def step(self) -> Mapping[str, float]:
        measured = self._run.step()
        loss = self._options.loss(self._run.weights)
        if loss < self._best_loss - self._options.min_improvement:
            self._best_loss, self._best_weights, self._since_best = loss, self._run.weights.copy(), 0
        else:
            self._since_best += 1
        return {**measured, "holdout_loss": loss}

    def status(self) -> Status | None:
        status = self._run.status()
        if status is None and self._since_best >= self._options.patience:
            return Status(
                True,
                f"the hold-out loss did not fall below {self._best_loss:.6g} for {self._since_best} "
                "iterations; its best weights are kept",
            )
        return status


def _append(history: dict[str, list[float]], measured: Mapping[str, float]) -> None:
    for key, value in measured.items():
        history.setdefault(key, []).append(float(value))


def _ran_out(history: dict[str, list[float]], max_iter: int) -> str:
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
        return f"max_iter={max_iter} was reached; raise max_iter for more iterations"
    return f"max_iter={max_iter} was reached{still}; raise max_iter or tol"

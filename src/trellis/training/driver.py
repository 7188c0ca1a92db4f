"""One loop runs every solver: history, progress, early stopping on a hold-out, checkpoints, Ctrl-C, and an
honest status."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from trellis.core.arrays import FloatArray
from trellis.solvers.run import Solution, Solver, Status


@dataclass(frozen=True)
class EarlyStopping:
    """Keep the weights with the smallest hold-out loss; stop after ``patience`` iterations without one."""

    loss: Callable[[FloatArray], float]
    patience: int = 5
    min_improvement: float = 0.0


# Solvers' vector work is bound by memory: a second BLAS thread gains nothing, and spins on a core that a
# shard needs.
@threadpool_limits.wrap(limits=1, user_api="blas")
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
    run = solver.start(problem, np.array(weights, dtype=np.float64), rng)
    history: dict[str, list[float]] = {}
    best_loss, best_weights, since_best = np.inf, run.weights, 0
    if early_stopping is not None and weights.any():
        best_loss, best_weights = early_stopping.loss(weights), np.array(weights)
    status = None
    iteration = 0
    began = time.perf_counter()
    try:
        while status is None and iteration < max_iter:
            measured = dict(run.step())
            iteration += 1
            status = run.status()
            measured["seconds"] = time.perf_counter() - began
            if early_stopping is not None:
                measured["holdout_loss"] = loss = early_stopping.loss(run.weights)
                if loss < best_loss - early_stopping.min_improvement:
                    best_loss, best_weights, since_best = loss, run.weights.copy(), 0
                else:
                    since_best += 1
                if status is None and since_best >= early_stopping.patience:
                    status = Status(
                        True,
                        f"the hold-out loss did not fall below {best_loss:.6g} for {since_best} iterations; "
                        "its best weights are kept",
                    )
            for key, value in measured.items():
                history.setdefault(key, []).append(float(value))
            if on_iteration is not None:
                on_iteration(iteration, measured, run.weights)
    except KeyboardInterrupt:
        status = Status(False, "interrupted from the keyboard; the weights reached so far are kept")
    if status is None:
        status = Status(False, _ran_out(history, max_iter))
    final = best_weights if early_stopping is not None and np.isfinite(best_loss) else run.weights
    return Solution(final, Status(status.converged, status.reason, iteration), history, iteration)


def _ran_out(history: dict[str, list[float]], max_iter: int) -> str:
    """The remedy that fits: what was still open when the iterations ran out."""
    last = {key: values[-1] for key, values in history.items() if values}
    if "gap" in last:
        still = f" at most {last['gap']:.3g} above the optimum"
    elif "gradient_norm" in last:
        still = f" with a gradient norm of {last['gradient_norm']:.3g}"
    else:
        return f"max_iter={max_iter} was reached; raise max_iter for more passes"
    return f"max_iter={max_iter} was reached{still}; raise max_iter or tol"

"""Fine-tuning trained weights for the task loss: how the direct objective learns under ``epsilon="auto"``.

1. Weights w_0 that minimise a convex objective on the examples that are not held out. Of ``L2_FACTORS`` times
   the l2 of the estimator, the hold-out loss chooses one.
2. eps_0, the typical gap of a wrong prediction on the hold-out set (:func:`typical_gap`).
3. :class:`~trellis.solvers.FineTuning` from w_0. The hold-out loss chooses the pass; the 0-th is w_0 itself.
4. All examples: a new w_0 with that l2, and as many passes from there.

Without a hold-out set, w_0 has the l2 of the estimator, eps_0 is that of the training examples, and the last
pass is the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.status import Status
from trellis.solvers import Solution
from trellis.training.driver import EarlyStopping

L2_FACTORS = (3.0, 1.0, 0.3)


@dataclass(frozen=True, eq=False)
class Parts:
    """The problems that fine-tuning needs beside that of the training examples. ``held``: the held-out ones,
    and ``held_out`` their loss at given weights. ``whole``: all of them, None where nothing is refitted."""

    held: Any
    held_out: Callable[[FloatArray], float]
    whole: Any = None


@dataclass(frozen=True, eq=False)
class Tuned:
    solution: Solution
    epsilon: float | None


def typical_gap(problem: Any, weights: FloatArray) -> float | None:
    """eps_0: the median of (s(y_hat) - s(y*)) / L(y_hat) over the examples that are predicted wrongly.

    At eps_0 half of them change their prediction for the gold output. It grows with the scores, so no unit of
    the features or of the loss is left in it. None where no prediction is wrong, or all are ties.
    """
    gaps, losses = problem.score_gaps(weights), problem.task_losses(weights)
    wrong = (losses > 0.0) & np.isfinite(gaps) & (gaps > 0.0)
    return float(np.median(gaps[wrong] / losses[wrong])) if wrong.any() else None


def fine_tune(
    problem: Any,
    parts: Parts | None,
    minimise_start: Callable[[Any, FloatArray, float], Solution],
    run: Callable[[Any, FloatArray, EarlyStopping[FloatArray] | None, int | None, str], Solution],
    start: FloatArray,
) -> Tuned:
    """``minimise_start(problem, weights, factor)``: w_0 for the examples of a problem, with ``factor`` times
    the l2. ``run(problem, weights, early_stopping, passes, note)``: the solver, for some passes or its own
    number."""
    held_out = None if parts is None else parts.held_out
    starts: list[tuple[float, float, Solution]] = []
    for factor in (1.0,) if held_out is None else L2_FACTORS:
        found = minimise_start(problem, starts[-1][2].weights if starts else start, factor)
        if found.interrupted:
            return Tuned(found, None)
        starts.append((0.0 if held_out is None else held_out(found.weights), factor, found))
    before, factor, first = min(starts, key=lambda one: one[0])
    epsilon = typical_gap(problem if parts is None else parts.held, first.weights)
    epsilon = epsilon or typical_gap(problem, first.weights)
    if epsilon is None:
        reason = "the starting weights predict every example right, so there is nothing to fine-tune"
        return Tuned(replace(first, status=Status(False, reason, first.n_iter)), None)
    stopping = None if held_out is None else EarlyStopping(held_out, patience=10**9)
    tuned = run(problem.with_(epsilon=epsilon), first.weights, stopping, None, "")
    if parts is None or tuned.interrupted:
        return Tuned(tuned, epsilon)
    losses = tuned.history["holdout_loss"]
    best = int(np.argmin(losses)) + 1 if losses and min(losses) < before else 0
    said = f"the hold-out loss is smallest after {best} of {len(losses)} passes"
    if best == 0:
        said = f"no pass brought the hold-out loss below the {before:.6g} of the starting weights"
    weights = tuned.weights
    if parts.whole is not None:
        again = minimise_start(parts.whole, first.weights, factor)
        if best and not again.interrupted:
            again = run(parts.whole.with_(epsilon=epsilon), again.weights, None, best, ", all data")
        if again.interrupted:
            return Tuned(again, epsilon)
        weights, said = again.weights, f"{said}; then trained on all data for as many"
    status = Status(False, said, tuned.n_iter)
    return Tuned(replace(tuned, weights=weights, status=status), epsilon)

"""Stochastic gradient descent on mini-batches, in plain Python: for objectives whose loss is Python anyway.

    w <- w - eta_t ( (1/|B|) grad sum_{i in B} c_i f_i(w) + (l2 / n) w ),      a batch B of the n sequences

A batch is a contiguous run of sequences; one step visits all runs in random order. The regulariser is left
out for the direct objective, whose loss does not change when w is scaled. ``schedule``: eta_t =
``learning_rate`` at every batch ("constant"), or ``learning_rate`` / sqrt(t) at the t-th ("inverse_sqrt");
Direct(epsilon="decay") uses eps_t = 1/sqrt(t) with it.

With ``average`` the answer is sum_t t w_t / sum_t t, which forgets the first iterates. The history's
``objective`` adds up the batches, each at the weights of its visit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.registration import register
from trellis.core.status import Status


@register
@dataclass(frozen=True)
class MiniBatch:
    """Needs ``problem.run_value_and_gradient(weights, first, last)`` and nothing else; no L1 norm."""

    learning_rate: float = 1.0
    batch_size: int = 32
    average: bool = True
    schedule: Literal["constant", "inverse_sqrt"] = "inverse_sqrt"

    name = "minibatch"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise DataError(f"learning_rate must be positive, got {self.learning_rate}")
        if self.batch_size < 1:
            raise DataError(f"batch_size must be at least 1, got {self.batch_size}")
        if self.schedule not in ("constant", "inverse_sqrt"):
            raise DataError(f"schedule {self.schedule!r} is unknown; use 'constant' or 'inverse_sqrt'")

    def start(self, problem: Any, weights: FloatArray, rng: np.random.Generator) -> _MiniBatchRun:
        if problem.l1 > 0:
            raise UnsupportedError(
                "solver 'minibatch' cannot handle an L1 norm (l1 > 0); set l1=0, or use solver='owlqn'"
            )
        return _MiniBatchRun(problem, weights, rng, self)


class _MiniBatchRun:
    def __init__(
        self, problem: Any, weights: FloatArray, rng: np.random.Generator, options: MiniBatch
    ) -> None:
        self._problem, self._rng, self._options = problem, rng, options
        self._current = weights
        self._average = weights.copy()
        self._batches = 0
        self._finite = True
        self._l2 = 0.0 if problem.objective.scale_free else problem.l2
        self._decaying = problem.objective.decaying

    @property
    def weights(self) -> FloatArray:
        return self._average if self._options.average else self._current

    def step(self) -> Mapping[str, float]:
        n, size = self._problem.n_examples, self._options.batch_size
        total = 0.0
        for first in self._rng.permutation(np.arange(0, n, size)):
            total += self._visit(int(first), min(int(first) + size, n), n)
        norm = float(self._current @ self._current)
        objective = total + 0.5 * self._l2 * norm
        self._finite = bool(np.isfinite(objective))
        return {"objective": objective, "batches": float(self._batches)}

    def status(self) -> Status | None:
        if self._finite:
            return None
        return Status(False, "the objective is no longer finite; lower learning_rate or scale the features")

    def _visit(self, first: int, last: int, n: int) -> float:
        self._batches += 1
        t, options = self._batches, self._options
        problem = self._problem.with_(epsilon=1.0 / np.sqrt(t)) if self._decaying else self._problem
        value, gradient = problem.run_value_and_gradient(self._current, first, last)
        rate = options.learning_rate / (np.sqrt(t) if options.schedule == "inverse_sqrt" else 1.0)
        if self._l2 > 0:
            # Implicit in the regulariser: a large rate shrinks to 0 and never beyond.
            self._current *= 1.0 / (1.0 + rate * self._l2 / n)
        gradient *= rate / (last - first)
        self._current -= gradient
        if options.average:
            self._average += (2.0 / (t + 1.0)) * (self._current - self._average)
        return float(value)

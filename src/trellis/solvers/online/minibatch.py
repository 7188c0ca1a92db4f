"""Stochastic gradient descent on mini-batches: for objectives whose loss is a Python function, and for any
other.

    w <- w / (1 + eta_t l2 / n) - eta_t (1 / |B|) grad sum_{i in B} c_i f_i(w),      a batch B of n examples

A batch is a contiguous run of examples; one step visits all runs in random order. The shrinkage is implicit
in the regulariser: a large rate shrinks to 0 and never beyond. It is left out for the direct objective, whose
loss does not change when w is scaled. ``schedule``: eta_t = ``learning_rate`` at every batch ("constant"), or
``learning_rate`` / sqrt(t) at the t-th ("inverse_sqrt"); Direct(epsilon="decay") uses eps_t = 1/sqrt(t) with
it. Unlike that of ``SGD``, the rate multiplies the gradient of the direct objective with its 1 / eps.
``learning_rate=None`` is 1, and less for a squared link if 1 would overshoot
(:func:`~trellis.solvers.online.online_run.stable_rate`). From weights other than 0 it is what
:func:`~trellis.solvers.online.online_run.relative_rate` says for the direct objective, and at most that for
others that are not convex.

With ``average`` the answer is sum_t t w_t / sum_t t, which forgets the first iterates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trellis.core.arguments import check_choice, check_int, check_positive
from trellis.core.arrays import FloatArray
from trellis.core.registration import register
from trellis.solvers.online.online_run import OnlineRun, OnlineState, new_rule, relative_rate, stable_rate
from trellis.solvers.online.parameter_mixing import mixed
from trellis.solvers.online.step_size_kernels import CONSTANT, DESCENT, SQRT
from trellis.solvers.problem import check_problem

SCHEDULES = {"constant": CONSTANT, "inverse_sqrt": SQRT}


@register
@dataclass(frozen=True)
class MiniBatch:
    """Needs ``problem.run_value_and_gradient(weights, first, last)`` and nothing else; no L1 norm.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import MiniBatch
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("log", solver=MiniBatch(batch_size=4), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    learning_rate: float | None = None
    batch_size: int = 32
    average: bool = True
    schedule: Literal["constant", "inverse_sqrt"] = "inverse_sqrt"

    name = "minibatch"

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)
        check_int("batch_size", self.batch_size, 1)
        check_choice("schedule", self.schedule, tuple(SCHEDULES))

    def start(
        self, problem: Any, weights: FloatArray, rng: np.random.Generator, state: OnlineState | None = None
    ) -> OnlineRun:
        check_problem(problem, self.name, "run_value_and_gradient")
        schedule, averaging, rate = SCHEDULES[self.schedule], 2 * self.average, self.learning_rate
        at = weights if state is None else state.weights
        if rate is None and not problem.objective.convex:
            rate = relative_rate(problem, at, schedule, self.batch_size, per_output=False)
            if rate is not None and not problem.objective.scale_free:
                rate = min(1.0, rate)
        if self.learning_rate is None and problem.objective.link == "square":
            rate = min(1.0 if rate is None else rate, stable_rate(problem, at, schedule, self.batch_size))
        rule = new_rule(problem, DESCENT, schedule, 1.0 if rate is None else rate, averaging)
        return mixed(_MiniBatchRun(problem, weights, rng, rule, state, self.batch_size), self)


class _MiniBatchRun(OnlineRun):
    rate_per_output = False

    def shrinkage(self, eta: float) -> float:
        return 1.0 / (1.0 + eta * self.rule.decay)

"""The (averaged) structured perceptron, which stops with a certificate when it has separated the data.

    on a mistake   w <- w + c_i (Phi(x, y*) - Phi(x, y_hat)),      answer: the mean of w over all visits

It descends the perceptron objective with rate 1 and no regulariser (l2 is not used). On separable data it
makes at most R^2 / gamma^2 mistakes. When a pass makes none, every inequality

    s(y*) > s(y)   for all y != y*

is checked with the best labelling different from y*, first for the averaged weights, then for the last
ones; those that pass are the answer, and the status says so with the smallest margin. A pass may make no
mistake and yet leave ties: from then on a tie counts as a mistake, which the bound allows.

Each pass measures ``pass_objective`` (the sum of c_i (max s - s(y*)), each at the weights of its visit) and
``mistakes``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.registration import register
from trellis.core.shards import over_shards
from trellis.core.status import Status
from trellis.solvers.online import update_kernels as rules
from trellis.solvers.online.linear_problem import linear_chain_problem
from trellis.solvers.online.stochastic import OnlineRun, OnlineState
from trellis.structures.chain.passes.online_kernels import Rule, gold_margins


@register
@dataclass(frozen=True)
class Perceptron:
    """``average=False`` returns the last weights."""

    average: bool = True

    name = "perceptron"

    def start(
        self, problem: Any, weights: FloatArray, rng: np.random.Generator, state: OnlineState | None = None
    ) -> PerceptronRun:
        problem = linear_chain_problem(problem, self.name)
        if problem.objective.name != "perceptron":
            raise UnsupportedError(
                f"solver 'perceptron' goes with objective='perceptron', not {problem.objective.name!r}; use "
                "solver='sgd' for this one"
            )
        rule = Rule(rules.DESCENT, rules.CONSTANT, 1.0, 0.0, 0.0, int(self.average), False)
        return PerceptronRun(problem, weights, rng, rule, state)


class PerceptronRun(OnlineRun):
    """Passes until one makes no mistake and the certificate holds."""

    _certified: Status | None = None

    def step(self) -> Mapping[str, float]:
        measured = super().step()
        if measured["mistakes"] == 0 and not self.diverged:
            self._certify()
        return measured

    def status(self) -> Status | None:
        return super().status() or self._certified

    def _certify(self) -> None:
        if self.problem.task.ambiguous.any():
            self._weights = self.state.weights
            self._certified = Status(
                True, "a pass without a mistake: every prediction agrees with what is known of its labelling"
            )
            return
        for weights in (self.weights, self.state.weights):
            margin = self.smallest_margin(weights)
            if margin > 0:
                self._weights = weights
                self._certified = Status(
                    True,
                    "separable: every gold labelling scores strictly above all others (smallest margin "
                    f"{margin:.3g}), after {self.state.mistakes} mistakes",
                )
                return
        self.rule = self.rule._replace(strict=True)

    def smallest_margin(self, weights: FloatArray) -> float:
        """min over sequences of s(y*) - max over y != y* of s(y)."""
        problem = self.problem
        margins = np.empty(problem.n_examples)
        w = problem.layout.views(weights)

        def shard(first: int, last: int) -> None:
            gold_margins(
                problem.design, problem.layout.rows, w, problem.penalties, problem.task, first, last, margins
            )

        over_shards(shard, problem.design.offsets, problem.n_jobs)
        return float(margins.min(initial=np.inf))

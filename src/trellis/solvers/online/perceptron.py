"""The (averaged) structured perceptron, which stops with a certificate when it has separated the data.

    on a mistake   w <- w + c_i (Phi(x, y*) - Phi(x, y_hat)),      answer: the mean of w over all visits

It descends the perceptron objective with rate 1 and no regulariser (l2 is not used). On separable data it
makes at most R^2 / gamma^2 mistakes. When a pass makes none, the status says what that proves:

* Where the problem offers ``gold_margins(weights)``, by the best output different from y* (chains do), every
  inequality  s(y*) > s(y)  for all y != y*  is checked, first for the averaged weights, then for the last
  ones; those that pass are the answer, with the smallest margin. If ties remain, they count as mistakes from
  then on, which the bound allows, in passes that can find them.
* Elsewhere the weights are the averaged ones if no example has a mistake under them either, and otherwise the
  last ones: inference finds no output that scores above a gold one, but ties are not excluded.

Each pass measures ``pass_objective`` (the sum of c_i (max s - s(y*)), each at the weights of its visit) and
``mistakes``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.registration import register
from trellis.core.status import Status
from trellis.solvers.online.online_run import OnlineRun, OnlineState, Rule
from trellis.solvers.online.parameter_mixing import mixed
from trellis.solvers.online.step_size_kernels import CONSTANT, DESCENT
from trellis.solvers.problem import check_problem, compiled_run


@register
@dataclass(frozen=True)
class Perceptron:
    """``average=False`` returns the last weights.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import Perceptron
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("perceptron", solver=Perceptron(), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    average: bool = True

    name = "perceptron"

    def start(
        self, problem: Any, weights: FloatArray, rng: np.random.Generator, state: OnlineState | None = None
    ) -> PerceptronRun:
        rule = self.rule(problem)
        compiled: PerceptronRun | None = compiled_run(problem, self, weights, rng, rule=rule, state=state)
        return compiled or mixed(PerceptronRun(problem, weights, rng, rule, state), self)

    def rule(self, problem: Any) -> Rule:
        check_problem(problem, self.name, "run_value_and_gradient")
        if problem.objective.uses_loss or not problem.objective.piecewise_linear:
            raise UnsupportedError(
                "solver 'perceptron' works only with objective='perceptron', not "
                f"{problem.objective.name!r}; use solver='sgd' for this one"
            )
        return Rule(DESCENT, CONSTANT, 1.0, 0.0, 0.0, int(self.average))


class PerceptronRun(OnlineRun):
    """Passes until one makes no mistake and the certificate holds."""

    finds_ties = False  # whether a pass with ``rule.strict`` takes ties for mistakes

    _certified: Status | None = None
    kept = ("_certified",)

    @property
    def answered(self) -> bool:
        return self._certified is not None

    def end_pass(self, moved: int) -> None:
        if moved:
            return
        if getattr(self.problem, "latent", False):
            self._accept(
                self.state.weights,
                "a pass without a mistake: every prediction agrees with what is known of its labelling",
            )
        elif not self._separates_strictly():
            if self.finds_ties:
                self.rule = self.rule._replace(strict=True)
                return
            averaged = self.weights
            found = self.state.weights if self._has_mistake(averaged) else averaged
            self._accept(
                found,
                "separated: inference finds no output that scores above a gold one (ties are not excluded), "
                f"after {self.state.mistakes} mistakes",
            )

    def status(self) -> Status | None:
        return super().status() or self._certified

    def _separates_strictly(self) -> bool:
        if not hasattr(self.problem, "gold_margins"):
            return False
        for weights in (self.weights, self.state.weights):
            margin = float(self.problem.gold_margins(weights).min(initial=np.inf))
            if margin > 0:
                self._accept(
                    weights,
                    "separable: every gold labelling scores strictly above all others (smallest margin "
                    f"{margin:.3g}), after {self.state.mistakes} mistakes",
                )
                return True
        return False

    def _has_mistake(self, weights: FloatArray) -> bool:
        if hasattr(self.problem, "batch_samples"):  # shards answer for all examples at once
            runs = [(i, i + 1) for i in range(self.problem.n_examples)]
            return any(square > 0.0 for _, square in self.problem.batch_samples(weights, runs))
        planes = (
            self.problem.run_value_and_gradient(weights, i, i + 1) for i in range(self.problem.n_examples)
        )
        return any(gradient.any() for _, gradient in planes)

    def _accept(self, weights: FloatArray, reason: str) -> None:
        self._answer, self._certified = weights, Status(True, reason)

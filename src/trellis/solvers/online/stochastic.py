"""Stochastic solvers: one update per example, one pass per step, every objective.

    min_w  sum_i c_i f_i(w) + (l2 / 2) ||w||^2,      lambda = l2 / n,   n examples

    Subgradient   w <- (1 - eta_t lambda) w - eta_t c_i g_i,    eta_t = 1 / (lambda (t + 1)),  Pegasos
    SGD           the same with eta_t = learning_rate ("constant"), learning_rate / sqrt(t) ("sqrt"), or
                  learning_rate / (1 + learning_rate lambda t) ("inverse")
    AdaGrad       a rate per weight: learning_rate / sqrt(sum of its squared gradients)
    Adam          a rate and a momentum per weight

t = 1, 2, ... counts visits, g_i is a (sub)gradient of f_i at the weights of the visit. Where f_i is a hinge
that is not violated, g_i = 0: the weights shrink and do not move. The exact updates, what they measure, and
what changes for the direct objective: :mod:`trellis.solvers.online.online_run`. A problem's compiled passes
may update AdaGrad's and Adam's weights lazily, only where an example touches them, and spread the L2 term
over those examples: then it is exact over a pass.

With ``Direct(epsilon="decay")`` SGD's rate falls like epsilon, eta_t = learning_rate / sqrt(t), whatever the
schedule. ``average`` returns sum_t t w_t / sum_t t in place of the last weights;
``Subgradient(average="plain")`` the mean of all w_t. These solvers run for as many passes as they are given.

The default rates are those that came nearest to the optimum of the log objective on OCR letters (704 words)
in ten passes: 4% above it for SGD, 8% for Adam, 18% for AdaGrad, and more at a third or thrice the rate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from trellis.core.arguments import check_choice, check_positive
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.registration import register
from trellis.solvers.online.online_run import (
    OnlineRun,
    OnlineState,
    Rule,
    new_rule,
    relative_rate,
    stable_rate,
)
from trellis.solvers.online.parameter_mixing import mixed
from trellis.solvers.online.step_size_kernels import (
    ADAGRAD,
    ADAM,
    CONSTANT,
    DESCENT,
    INVERSE,
    PEGASOS,
    SQRT,
)
from trellis.solvers.problem import check_problem, compiled_run

SCHEDULES = {"constant": CONSTANT, "sqrt": SQRT, "inverse": INVERSE}
RATE = 0.1  # of SGD


class StochasticSolver(ABC):
    """What these solvers share: they differ in the rule of their updates."""

    name: ClassVar[str]

    def start(
        self, problem: Any, weights: FloatArray, rng: np.random.Generator, state: OnlineState | None = None
    ) -> OnlineRun:
        check_problem(problem, self.name, "run_value_and_gradient")
        rule = self.rule(problem, weights if state is None else state.weights)
        compiled: OnlineRun | None = compiled_run(problem, self, weights, rng, rule=rule, state=state)
        return compiled or mixed(OnlineRun(problem, weights, rng, rule, state), self)

    @abstractmethod
    def rule(self, problem: Any, weights: FloatArray) -> Rule:
        """The update on this problem, from these weights."""


@register
@dataclass(frozen=True)
class Subgradient(StochasticSolver):
    """Pegasos: the subgradient method with eta_t = 1 / (lambda (t + 1)). Needs l2 > 0.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import Subgradient
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("margin", solver=Subgradient(), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    average: Literal["weighted", "plain"] | None = "weighted"

    name = "subgradient"

    def __post_init__(self) -> None:
        if self.average not in ("weighted", "plain", None):
            raise DataError(f"average={self.average!r} is unknown; use 'weighted', 'plain' or None")

    def rule(self, problem: Any, weights: FloatArray) -> Rule:
        check_problem(problem, self.name, l2=True)
        if problem.objective.scale_free:
            raise UnsupportedError(
                "the subgradient solver's rate comes from l2, which means nothing for the direct objective; "
                "use solver='sgd'"
            )
        if problem.objective.link != "identity":
            raise UnsupportedError(
                f"the subgradient solver's rate needs gradients that are bounded, and those of "
                f"{problem.objective.name!r} grow with the scores; use solver='cutting_plane' or 'adagrad'"
            )
        averaging = {None: 0, "plain": 1, "weighted": 2}[self.average]
        return new_rule(problem, DESCENT, PEGASOS, 1.0, averaging)


@register
@dataclass(frozen=True)
class SGD(StochasticSolver):
    """Stochastic gradient descent with L2 shrinkage.

    ``learning_rate=None`` is 0.1, and less for objectives that are not convex if the start asks for less
    (:func:`~trellis.solvers.online.online_run.relative_rate`), and for squared ones if 0.1 would overshoot
    (:func:`~trellis.solvers.online.online_run.stable_rate`). For the direct objective it is what the start
    asks for, and from w = 0 it is 0.1 / m where the problem tells m, the mean squared length of a step's
    features: there one update must move a score by less than epsilon, or y_direct and y_hat soon agree
    everywhere.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import SGD
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("log", solver=SGD(schedule="sqrt"), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    learning_rate: float | None = None
    schedule: Literal["constant", "sqrt", "inverse"] = "inverse"
    average: bool = True

    name = "sgd"

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)
        check_choice("schedule", self.schedule, tuple(SCHEDULES))

    def rule(self, problem: Any, weights: FloatArray) -> Rule:
        schedule = SQRT if problem.objective.decaying else SCHEDULES[self.schedule]
        rate = self.learning_rate
        if rate is None:
            relative = None if problem.objective.convex else relative_rate(problem, weights, schedule)
            if problem.objective.scale_free:
                rate = relative or self._rate_from_zero(problem)
            else:
                rate = RATE if relative is None else min(RATE, relative)
            if problem.objective.link == "square":
                rate = min(rate, stable_rate(problem, weights, schedule))
        rule = new_rule(problem, DESCENT, schedule, rate, 2 * self.average)
        if schedule != INVERSE and rule.rate * rule.decay >= 1.0:
            raise UnsupportedError(
                f"learning_rate={rate} times l2 / n = {rule.decay:.3g} is not below 1, so the "
                "weights would change sign as they shrink; lower learning_rate, or use schedule='inverse'"
            )
        return rule

    def _rate_from_zero(self, problem: Any) -> float:
        squares, steps = getattr(problem, "squared_features", (0.0, 0))
        return RATE * steps / squares if squares > 0 else RATE


@register
@dataclass(frozen=True)
class AdaGrad(StochasticSolver):
    """Stochastic gradient descent with a rate per weight that falls with the gradients it has seen.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import AdaGrad
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("log", solver=AdaGrad(learning_rate=0.1), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    learning_rate: float = 0.3
    average: bool = False

    name = "adagrad"

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)

    def rule(self, problem: Any, weights: FloatArray) -> Rule:
        return new_rule(problem, ADAGRAD, CONSTANT, self.learning_rate, 2 * self.average)


@register
@dataclass(frozen=True)
class Adam(StochasticSolver):
    """Adam: moments with decay rates 0.9 and 0.999.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import Adam
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("log", solver=Adam(learning_rate=0.05), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    learning_rate: float = 0.01
    average: bool = True

    name = "adam"

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)

    def rule(self, problem: Any, weights: FloatArray) -> Rule:
        return new_rule(problem, ADAM, CONSTANT, self.learning_rate, 2 * self.average)

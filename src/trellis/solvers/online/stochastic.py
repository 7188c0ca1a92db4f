"""Stochastic solvers: one update per sequence, one pass per step, every objective.

    min_w  sum_i c_i f_i(w) + (l2 / 2) ||w||^2,      lambda = l2 / n,   n sequences

    Subgradient   w <- (1 - eta_t lambda) w - eta_t c_i g_i,    eta_t = 1 / (lambda (t + 1)),  Pegasos
    SGD           the same with eta_t = learning_rate ("constant"), learning_rate / sqrt(t) ("sqrt"), or
                  learning_rate / (1 + learning_rate lambda t) ("inverse")
    AdaGrad       a rate per weight: learning_rate / sqrt(sum of its squared gradients)
    Adam          its lazy variant: weights that a sequence does not touch keep their values and moments

t = 1, 2, ... counts visits, g_i is a (sub)gradient of f_i at the weights of the visit. Where f_i is a hinge
that is not violated, g_i = 0: the weights shrink and do not move. AdaGrad and Adam spread the L2 term over
the sequences that can touch a weight, which keeps it exact over a pass and the updates sparse.

For the direct objectives the rate counts per labelling, w <- w + eta_t (Phi(y_direct) - Phi(y_hat)), and l2
is not used (a penalty on the norm means nothing there). With ``Direct(epsilon="decay")``, eps_t = 1 /
sqrt(t) and SGD's rate falls likewise, eta_t = learning_rate / sqrt(t), whatever the schedule.

``average`` returns sum_t t w_t / sum_t t in place of the last weights; ``Subgradient(average="plain")`` the
mean of all w_t. Each pass measures ``pass_objective``: the sum as seen during the pass, each f_i at the
weights of its visit, plus (l2 / 2) ||w||^2 at the end of it; and for path objectives ``mistakes``
(predictions that differ from the gold labelling) or ``violations`` (of the margin). These solvers run for
as many passes as they are given.

The default rates are those that came nearest to the optimum of the log objective on OCR letters (704 words)
in ten passes: 4% above it for SGD, 8% for Adam, 18% for AdaGrad, and more at a third or thrice the rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.registration import register
from trellis.core.status import Status
from trellis.solvers.online import update_kernels as rules
from trellis.solvers.online.linear_problem import linear_chain_problem
from trellis.structures.chain.passes.online_kernels import (
    DECAYING_EPSILON,
    FIXED_EPSILON,
    Rule,
    State,
    dense_pass,
    path_pass,
)
from trellis.structures.chain.problem.chain_problem import LinearChainProblem

SCHEDULES = {"constant": rules.CONSTANT, "sqrt": rules.SQRT, "inverse": rules.INVERSE}


@dataclass
class OnlineState:
    """All that a later run needs to go on: hand it to ``start(..., state=...)``."""

    weights: FloatArray
    sums: FloatArray
    squares: FloatArray
    moments: FloatArray
    visits: float = 0.0
    total: float = 0.0
    mistakes: int = 0

    @classmethod
    def new(cls, weights: FloatArray, kind: int) -> OnlineState:
        n = len(weights)
        adaptive, adam = kind != rules.DESCENT, kind == rules.ADAM
        return cls(weights, np.zeros(n), np.zeros(n * adaptive), np.zeros(n * adam))


@register
@dataclass(frozen=True)
class Subgradient:
    """Pegasos: the subgradient method with eta_t = 1 / (lambda (t + 1)). Needs l2 > 0."""

    average: Literal["weighted", "plain"] | None = "weighted"

    name = "subgradient"

    def __post_init__(self) -> None:
        if self.average not in ("weighted", "plain", None):
            raise DataError(f"average={self.average!r} is unknown; use 'weighted', 'plain' or None")

    def start(
        self, problem: Any, weights: FloatArray, rng: np.random.Generator, state: OnlineState | None = None
    ) -> OnlineRun:
        problem = linear_chain_problem(problem, self.name)
        if not problem.l2 > 0:
            raise UnsupportedError(
                "the subgradient solver divides its rate by l2; set l2 > 0, or use solver='sgd'"
            )
        if problem.objective.scale_free:
            raise UnsupportedError(
                "the subgradient solver's rate comes from l2, which means nothing for the direct objective; "
                "use solver='sgd'"
            )
        averaging = {None: 0, "plain": 1, "weighted": 2}[self.average]
        rule = new_rule(problem, rules.DESCENT, rules.PEGASOS, 1.0, averaging)
        return OnlineRun(problem, weights, rng, rule, state)


@register
@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with L2 shrinkage.

    ``learning_rate=None`` is 0.1, and 0.1 / m for the direct objectives, with m the mean squared length of
    a step's features: there one update must move a score by less than epsilon, or y_direct and y_hat soon
    agree everywhere.
    """

    learning_rate: float | None = None
    schedule: Literal["constant", "sqrt", "inverse"] = "inverse"
    average: bool = True

    name = "sgd"

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            check_rate(self.learning_rate)
        if self.schedule not in SCHEDULES:
            raise DataError(f"schedule={self.schedule!r} is unknown; use one of {', '.join(SCHEDULES)}")

    def start(
        self, problem: Any, weights: FloatArray, rng: np.random.Generator, state: OnlineState | None = None
    ) -> OnlineRun:
        problem = linear_chain_problem(problem, self.name)
        schedule = SCHEDULES[self.schedule]
        if problem.objective.decaying:
            schedule = rules.SQRT
        rate = _own_rate(problem) if self.learning_rate is None else self.learning_rate
        rule = new_rule(problem, rules.DESCENT, schedule, rate, 2 * self.average)
        if schedule != rules.INVERSE and rule.rate * rule.decay >= 1.0:
            raise UnsupportedError(
                f"learning_rate={rate} times l2 / n = {rule.decay:.3g} is not below 1, so the "
                "weights would change sign as they shrink; lower learning_rate, or use schedule='inverse'"
            )
        return OnlineRun(problem, weights, rng, rule, state)


@register
@dataclass(frozen=True)
class AdaGrad:
    """Stochastic gradient descent with a rate per weight that falls with the gradients it has seen."""

    learning_rate: float = 0.3
    average: bool = False

    name = "adagrad"

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)

    def start(
        self, problem: Any, weights: FloatArray, rng: np.random.Generator, state: OnlineState | None = None
    ) -> OnlineRun:
        problem = linear_chain_problem(problem, self.name)
        rule = new_rule(problem, rules.ADAGRAD, rules.CONSTANT, self.learning_rate, 2 * self.average)
        return OnlineRun(problem, weights, rng, rule, state)


@register
@dataclass(frozen=True)
class Adam:
    """Lazy Adam: moments with decay rates 0.9 and 0.999, updated only where a sequence touches them."""

    learning_rate: float = 0.01
    average: bool = True

    name = "adam"

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)

    def start(
        self, problem: Any, weights: FloatArray, rng: np.random.Generator, state: OnlineState | None = None
    ) -> OnlineRun:
        problem = linear_chain_problem(problem, self.name)
        rule = new_rule(problem, rules.ADAM, rules.CONSTANT, self.learning_rate, 2 * self.average)
        return OnlineRun(problem, weights, rng, rule, state)


def _own_rate(problem: LinearChainProblem) -> float:
    if not problem.objective.scale_free:
        return 0.1
    values, size = problem.design.values, len(problem.design.indices)
    squares = float(size) if len(values) == 1 else float(values[:size] @ values[:size])
    return 0.1 * len(problem.task.gold) / squares if squares > 0 else 0.1


def check_rate(rate: float) -> None:
    if not (np.isfinite(rate) and rate > 0):
        raise DataError(f"learning_rate must be a positive number, got {rate}")


def new_rule(problem: LinearChainProblem, kind: int, schedule: int, rate: float, averaging: int) -> Rule:
    """Shrinking (descent) and spreading (adaptive rates) are two ways to the same l2."""
    l2 = 0.0 if problem.objective.scale_free else problem.l2
    decay = l2 / max(problem.n_examples, 1) if kind == rules.DESCENT else 0.0
    return Rule(kind, schedule, float(rate), float(decay), float(l2), averaging, False)


@dataclass
class OnlineRun:
    """Passes in a new random order each; the answer is the average or the last weights."""

    problem: LinearChainProblem
    start: FloatArray
    rng: np.random.Generator
    rule: Rule
    resumed: OnlineState | None = None
    state: OnlineState = field(init=False)
    diverged: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.state = self.resumed or OnlineState.new(np.array(self.start), self.rule.kind)
        if len(self.state.weights) != self.problem.dimension:
            raise DataError(
                f"the state to go on from has {len(self.state.weights)} weights, the problem "
                f"{self.problem.dimension}; they must come from the same model"
            )
        self._gradient = np.zeros(self.problem.dimension)
        self._counts = self._sequences_per_row()
        self._weights: FloatArray | None = None

    @property
    def weights(self) -> FloatArray:
        if self._weights is None:
            state = self.state
            averaged = self.rule.averaging > 0 and state.total > 0
            self._weights = state.sums / state.total if averaged else state.weights
        return self._weights

    def step(self) -> Mapping[str, float]:
        value, mistakes = self.run_pass(self.rule)
        last = self.state.weights
        objective = value + 0.5 * self.rule.l2 * float(last @ last)
        self.diverged = self.diverged or not np.isfinite(objective)
        measured = {"pass_objective": objective}
        if self.problem.objective.two_labelings:
            record = self.problem.objective
            counted = "violations" if record.uses_loss and record.baseline == "gold" else "mistakes"
            measured[counted] = float(mistakes)
        return measured

    def status(self) -> Status | None:
        if self.diverged:
            return Status(
                False, "the weights are no longer finite; lower the learning rate or scale the features"
            )
        return None

    def run_pass(self, rule: Rule) -> tuple[float, int]:
        """One pass; returns the sum of c_i f_i and the mistakes."""
        problem, state, views = self.problem, self.state, self.problem.layout.views
        clock = np.array([state.visits, 1.0, 0.0, state.total])
        kernel_state = State(
            views(state.weights),
            state.sums,
            state.squares,
            state.moments,
            clock,
            views(self._gradient),
            self._counts,
        )
        order = self.rng.permutation(problem.n_examples)
        shared = problem.design, problem.layout.rows, problem.penalties, problem.layout.mask, problem.task
        formula = problem.objective.formula
        if problem.objective.two_labelings:
            kind = DECAYING_EPSILON if problem.objective.decaying else FIXED_EPSILON
            value, mistakes, bad = path_pass(
                formula, problem.loss_kind, float(problem.epsilon), kind, *shared, order, rule, kernel_state
            )
        else:
            value, mistakes, bad = dense_pass(formula, problem.loss_kind, *shared, order, rule, kernel_state)
        state.visits, state.total = float(clock[rules.TIME]), float(clock[rules.TOTAL])
        state.mistakes += mistakes
        self._weights = None
        if bad >= 0:
            # Not finite already at zero weights: no allowed labelling. Otherwise the run has diverged.
            problem.values_and_gradient(np.zeros(problem.dimension))
            self.diverged = True
        return float(value), int(mistakes)

    def _sequences_per_row(self) -> FloatArray:
        layout = self.problem.layout
        counts = np.zeros(len(layout.rows.pointer) - 1 + layout.n_edge)
        if self.rule.kind != rules.DESCENT:
            rules.count_sequences(self.problem.design, layout.rows, layout.views(self._gradient), counts)
        else:
            counts += 1.0  # not used
        return counts

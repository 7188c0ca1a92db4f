"""Passes that update the weights after every example or batch: the run that the online solvers share.

    min_w  sum_i c_i f_i(w) + (l2 / 2) ||w||^2,      n examples

Visit t takes a batch B (one example, for all but ``MiniBatch``) and the gradient g of sum_{i in B} c_i f_i(w)
/ |B| at the weights w of the visit. With lambda = l2 / n,

    descent   w <- (1 - eta_t lambda) w - eta_t g
    AdaGrad   g <- g + lambda w,   s <- s + g^2,   w <- w - eta g / (sqrt(s) + 1e-8)
    Adam      g <- g + lambda w,   r <- 0.9 r + 0.1 g,   s <- 0.999 s + 0.001 g^2,
              w <- w - eta (r / (1 - 0.9^t)) / (sqrt(s / (1 - 0.999^t)) + 1e-8)

with eta_t from the schedule: rate ("constant"), rate / sqrt(t) ("sqrt"), rate / (1 + rate lambda t)
("inverse") or 1 / (lambda (t + 1)) (Pegasos). The answer is the last w, the mean of all w, or sum_t t w_t /
sum_t t. A pass visits all examples in a new random order.

For the direct objective the rate counts per output, w <- w + eta_t (Phi(y_direct) - Phi(y_hat)), and l2 is
not used; under ``Direct(epsilon="decay")``, eps_t = 1 / sqrt(t). Scaling w changes none of its predictions,
so the only measure of a step is the start w_0: where no rate is given, it is that at which the first typical
update moves the weights by ||w_0|| / ``STEPS`` (:func:`relative_rate`).

Each pass measures ``pass_objective``: the sum of c_i f_i, each at the weights of its visit, plus (l2 / 2)
||w||^2 at its end; and, where an example is a visit and f_i a hinge, how many had a gradient other than 0:
``mistakes`` for the perceptron objective, ``violations`` of the margin otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, InfeasibleError
from trellis.core.status import Status
from trellis.solvers.online.step_size_kernels import (
    ADAGRAD,
    ADAM,
    BETA1,
    BETA2,
    DESCENT,
    SQRT,
    TINY,
    rate_at,
)
from trellis.solvers.problem import BatchProblem
from trellis.solvers.resumable import Resumable

STEPS = 25.0  # typical updates that move the weights as far as the start is from 0
SAMPLE = 50  # batches that tell how long an update is


class Rule(NamedTuple):
    """The options of the update, as numbers. ``decay``: lambda for descent, otherwise 0. ``averaging``: 0
    none, 1 plain, 2 by t. ``strict``: a tie counts as a mistake, where a pass can find ties."""

    kind: int
    schedule: int
    rate: float
    decay: float
    l2: float
    averaging: int
    strict: bool = False


def new_rule(problem: BatchProblem, kind: int, schedule: int, rate: float, averaging: int) -> Rule:
    """The rule with the problem's l2: descent shrinks the weights, adaptive rates add it to the gradient."""
    l2 = 0.0 if problem.objective.scale_free else problem.l2
    decay = l2 / max(problem.n_examples, 1) if kind == DESCENT else 0.0
    return Rule(kind, schedule, float(rate), float(decay), float(l2), averaging)


def relative_rate(
    problem: BatchProblem, weights: FloatArray, schedule: int, batch_size: int = 1, *, per_output: bool = True
) -> float | None:
    """The rate at which updates move the weights by ||w|| / ``STEPS``, in the root mean square of those that
    move them at all, among ``SAMPLE`` batches spread over the data; None where w = 0 or none moves.

    That is for a ``schedule`` of rate / sqrt(t). A rate that stays is as much smaller as gives a pass the
    same sum of rates. ``per_output``: whether the rate counts per output, so that epsilon is taken out of the
    gradient.
    """
    size = float(np.linalg.norm(weights))
    if not size > 0.0:
        return None
    if problem.objective.decaying:
        problem = problem.with_(epsilon=1.0)
    moving = [square for _, square in _sampled_batches(problem, weights, batch_size) if square > 0.0]
    if not moving:
        return None
    scale = problem.epsilon if per_output else 1.0
    rate = size / (STEPS * scale * float(np.sqrt(np.mean(moving))))
    n_batches = -(-problem.n_examples // batch_size)
    return rate if schedule == SQRT else rate * min(1.0, 2.0 / np.sqrt(n_batches))


def stable_rate(problem: BatchProblem, weights: FloatArray, schedule: int, batch_size: int = 1) -> float:
    """A rate that does not run away under a squared link, from ``SAMPLE`` batches; inf where none moves.

    f = xi^2 / 2 with xi linear in w near the weights, so along the gradient g = xi d its curvature is ||d||^2
    = ||g||^2 / (2 f): an update with rate 1 / ||d||^2 ends at xi = 0, and one with more than twice that rate
    ends further from 0 than it began. Half of it for a rate that stays, because other outputs, met later, may
    have a longer d; twice for rate / sqrt(t), which is below it from the fourth visit on.
    """
    curvatures = [
        square / (2.0 * value)
        for value, square in _sampled_batches(problem, weights, batch_size)
        if value > 0.0
    ]
    steepest = max(curvatures, default=0.0)
    return (2.0 if schedule == SQRT else 0.5) / steepest if steepest > 0.0 else np.inf


def _sampled_batches(
    problem: BatchProblem, weights: FloatArray, batch_size: int
) -> Iterator[tuple[float, float]]:
    """The mean f and the squared norm of its gradient, of ``SAMPLE`` batches spread over the data."""
    starts = np.arange(0, problem.n_examples, batch_size)
    chosen = starts[np.unique(np.linspace(0, len(starts) - 1, min(SAMPLE, len(starts))).astype(np.int64))]
    runs = [(int(first), min(int(first) + batch_size, problem.n_examples)) for first in chosen]
    if hasattr(problem, "batch_samples"):  # shards answer for all of them at once
        yield from problem.batch_samples(weights, runs)
        return
    for first, last in runs:
        value, gradient = problem.run_value_and_gradient(weights, first, last)
        yield value / (last - first), float(gradient @ gradient) / (last - first) ** 2


@dataclass
class OnlineState:
    """All that a later run needs to go on: hand it to ``start(..., state=...)``.

    ``sums / total`` is the average, ``squares`` and ``moments`` are s and r of AdaGrad and Adam."""

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
        return cls(weights, np.zeros(n), np.zeros(n * (kind != DESCENT)), np.zeros(n * (kind == ADAM)))


class OnlineRun(Resumable):
    """The passes over a problem's runs of examples, in plain NumPy."""

    kept: ClassVar[tuple[str, ...]] = ("rng", "diverged")

    rate_per_output = True  # whether epsilon is taken out of the gradient of the direct objective
    pass_over_shards: Callable[[], tuple[float, int]] | None = None  # where examples lie in shards

    def __init__(
        self,
        problem: Any,
        weights: FloatArray,
        rng: np.random.Generator,
        rule: Rule,
        state: OnlineState | None = None,
        batch_size: int = 1,
    ) -> None:
        self.problem, self.rng, self.rule, self.batch_size = problem, rng, rule, batch_size
        self.state = OnlineState.new(np.array(weights), rule.kind) if state is None else state
        if len(self.state.weights) != problem.dimension:
            raise DataError(
                f"the state to resume from has {len(self.state.weights)} weights, the problem "
                f"{problem.dimension}; they must come from the same model"
            )
        self.diverged = False
        self._answer: FloatArray | None = None

    def take_up(self, state: OnlineState) -> None:
        """Go on from where another run of this solver on this problem stands."""
        self.state, self._answer = state, None

    def snapshot(self) -> dict[str, Any]:
        own = {"solver": dict(vars(self.state)), "strict": self.rule.strict}
        return {**super().snapshot(), **own, "answer": self._answer if self.answered else None}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        super().restore(snapshot)
        self.take_up(type(self.state)(**snapshot["solver"]))
        self.rule = self.rule._replace(strict=bool(snapshot["strict"]))
        self._answer = snapshot["answer"]

    @property
    def answered(self) -> bool:
        """Whether the run has ended with weights other than those of its options."""
        return False

    @property
    def weights(self) -> FloatArray:
        if self._answer is None:
            state = self.state
            averaged = self.rule.averaging > 0 and state.total > 0
            self._answer = state.sums / state.total if averaged else state.weights
        return self._answer

    def step(self) -> Mapping[str, float]:
        value, moved = self.run_pass() if self.pass_over_shards is None else self.pass_over_shards()
        self._answer = None
        self.state.mistakes += moved
        last = self.state.weights
        objective = value + 0.5 * self.rule.l2 * float(last @ last)
        self.diverged = self.diverged or not np.isfinite(objective)
        counted = self.counted()
        if not self.diverged:
            self.end_pass(moved)
        return {"pass_objective": objective, **({counted: float(moved)} if counted else {})}

    def status(self) -> Status | None:
        if self.diverged:
            return Status(
                False, "the weights are no longer finite; lower the learning rate or scale the features"
            )
        return None

    def run_pass(self) -> tuple[float, int]:
        """One pass; returns the sum of c_i f_i, and how many visits had a gradient other than 0."""
        n, size, state = self.problem.n_examples, self.batch_size, self.state
        total, moved = 0.0, 0
        for first in self.rng.permutation(np.arange(0, n, size)):
            last = min(int(first) + size, n)
            state.visits += 1.0
            problem, scale = self._at_epsilon(state.visits)
            try:
                value, gradient = problem.run_value_and_gradient(state.weights, int(first), last)
            except InfeasibleError:
                # Already at zero weights: no allowed output. Otherwise the run has diverged.
                problem.run_value_and_gradient(np.zeros(problem.dimension), int(first), last)
                self.diverged = True
                break
            gradient *= scale / (last - first)
            total += value
            moved += self.update(value, gradient)
            if not np.isfinite(state.weights).all():
                self.diverged = True
                break
            if self.rule.averaging:
                omega = 1.0 if self.rule.averaging == 1 else state.visits
                state.sums += omega * state.weights
                state.total += omega
        return total, moved

    def update(self, value: float, gradient: FloatArray) -> int:
        """Move the weights; returns whether the gradient was other than 0."""
        rule, state, t = self.rule, self.state, self.state.visits
        eta, w = rate_at(rule.schedule, rule.rate, rule.decay, t), self.state.weights
        moved = int(gradient.any())
        if rule.kind == DESCENT:
            w *= self.shrinkage(eta)
            w -= eta * gradient
            return moved
        gradient += (rule.l2 / self.problem.n_examples) * w
        if rule.kind == ADAGRAD:
            state.squares += gradient * gradient
            w -= eta * gradient / (np.sqrt(state.squares) + TINY)
            return moved
        state.moments += (1.0 - BETA1) * (gradient - state.moments)
        state.squares += (1.0 - BETA2) * (gradient * gradient - state.squares)
        mean, square = state.moments / (1.0 - BETA1**t), state.squares / (1.0 - BETA2**t)
        w -= eta * mean / (np.sqrt(square) + TINY)
        return moved

    def shrinkage(self, eta: float) -> float:
        return 1.0 - eta * self.rule.decay

    def counted(self) -> str | None:
        """What the visits with a gradient other than 0 are called, where they are worth counting."""
        objective = self.problem.objective
        if self.batch_size > 1 or not (objective.convex and objective.two_labelings):
            return None
        return "violations" if objective.uses_loss else "mistakes"

    def end_pass(self, moved: int) -> None:
        """For solvers that stop by themselves."""

    def _at_epsilon(self, t: float) -> tuple[BatchProblem, float]:
        """The problem at visit t, and what its gradient is multiplied by."""
        problem, objective = self.problem, self.problem.objective
        if objective.special != "direct":
            return problem, 1.0
        if objective.decaying:
            problem = problem.with_(epsilon=1.0 / np.sqrt(t))
        return problem, problem.epsilon if self.rate_per_output else 1.0

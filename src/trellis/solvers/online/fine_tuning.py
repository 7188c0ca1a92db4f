"""Fine-tuning: descent from trained weights w_0, with steps in proportion to them and an epsilon that falls.

    w <- w - eta_t g_t,      eta_t = step ||w_0|| / sqrt(sum_{s <= t} ||g_s||^2)

g_t is the gradient of the mean of c_i f_i over the t-th batch. A pass visits ``batches`` runs of examples
in a new random order; the answer is sum_t t w_t / sum_t t. Neither step nor epsilon has a unit: with features
ten times as large, w_0 is a tenth, g ten times and every w a tenth of what it was, and no prediction changes.

Under ``Direct(epsilon="auto")`` the problem's epsilon is eps_0, the typical gap of a wrong prediction
(:func:`trellis.training.direct_recipe.typical_gap`), and falls visit by visit for ``passes`` passes as
:mod:`trellis.solvers.online.epsilon_schedule` says.

Each pass measures ``pass_objective`` and ``relative_norm``, ||w|| / ||w_0||; for a direct objective also
``update_share`` and ``gold_share`` after it (:mod:`trellis.objectives.update_shares`) and, under "auto", the
last ``epsilon``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arguments import check_int, check_positive
from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.registration import register
from trellis.core.status import Status
from trellis.objectives.update_shares import update_shares
from trellis.solvers.online.epsilon_schedule import NARROW, WIDE, EpsilonSchedule
from trellis.solvers.online.online_run import OnlineRun, OnlineState, new_rule
from trellis.solvers.online.parameter_mixing import mixed
from trellis.solvers.online.step_size_kernels import CONSTANT, DESCENT
from trellis.solvers.problem import BatchProblem, check_problem, other_solver


@register
@dataclass(frozen=True)
class FineTuning:
    """Needs ``problem.run_value_and_gradient(weights, first, last)`` and weights other than 0; no L1 norm.

    The problem's l2 is not used: the hold-out set ends training before it leaves the start behind.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import FineTuning
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 10, [["D", "N"], ["D", "N"]] * 10
    >>> model = SequenceLabeler("direct", solver=FineTuning(passes=2), random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    step: float = 0.1
    batches: int = 30
    passes: int = 20
    wide: float = WIDE
    narrow: float = NARROW

    name = "fine_tuning"

    def __post_init__(self) -> None:
        for name in ("step", "wide", "narrow"):
            check_positive(name, getattr(self, name))
        check_int("batches", self.batches, 1)
        check_int("passes", self.passes, 1)

    def start(
        self, problem: Any, weights: FloatArray, rng: np.random.Generator, state: OnlineState | None = None
    ) -> FineTuningRun:
        check_problem(problem, self.name, "run_value_and_gradient")
        return mixed(FineTuningRun(problem, weights, rng, self, state), self)


@dataclass
class FineTuningState(OnlineState):
    """``size``: ||w_0||. ``travelled``: the sum of all ||g||^2. ``share``: of updates after the last pass."""

    size: float = 0.0
    travelled: float = 0.0
    share: float = 1.0


class FineTuningRun(OnlineRun):
    """One pass a step."""

    state: FineTuningState

    def __init__(
        self,
        problem: Any,
        weights: FloatArray,
        rng: np.random.Generator,
        options: FineTuning,
        state: OnlineState | None,
    ) -> None:
        if state is None:
            start, size = np.array(weights), float(np.linalg.norm(weights))
            state = FineTuningState(start, np.zeros_like(start), np.zeros(0), np.zeros(0), size=size)
        batch_size = max(1, -(-problem.n_examples // options.batches))
        rule = new_rule(problem.with_(l2=0.0), DESCENT, CONSTANT, options.step, averaging=2)
        super().__init__(problem, weights, rng, rule, state, batch_size)
        self._options = options
        self._visits = options.passes * -(-problem.n_examples // batch_size)  # of the whole schedule

    def step(self) -> Mapping[str, float]:
        if not self.state.size > 0.0:
            name, other = self.problem.objective.name, other_solver(self.problem)
            raise UnsupportedError(
                "solver 'fine_tuning' takes steps in proportion to the weights that it starts from, which "
                f"are 0 for objective {name!r}; use solver={other!r}, or start from trained weights"
            )
        measured = dict(super().step())
        weights = self.weights
        measured["relative_norm"] = float(np.linalg.norm(weights)) / self.state.size
        if self.problem.objective.special == "direct" and not self.diverged:
            problem: Any = self._at_epsilon(self.state.visits)[0]
            shares = update_shares(problem, weights, self.batch_size)
            self.state.share = shares.update_share
            measured |= shares._asdict()
            if self.problem.objective.fine_tuned:
                measured["epsilon"] = problem.epsilon
        return measured

    def status(self) -> Status | None:
        if super().status() is None and self.state.share == 0.0:
            return Status(
                False,
                "no example changes the weights any more: epsilon is too small beside the gaps between "
                "scores, or there is nothing left to learn",
            )
        return super().status()

    def update(self, value: float, gradient: FloatArray) -> int:
        state, square = self.state, float(gradient @ gradient)
        state.travelled += square
        if square > 0.0:
            state.weights -= (self.rule.rate * state.size / np.sqrt(state.travelled)) * gradient
        return int(square > 0.0)

    def _at_epsilon(self, t: float) -> tuple[BatchProblem, float]:
        if not self.problem.objective.fine_tuned:
            return self.problem, 1.0
        options = self._options
        falling = EpsilonSchedule(self.problem.epsilon, self._visits, options.wide, options.narrow)
        return self.problem.with_(epsilon=falling(t - 1.0)), 1.0

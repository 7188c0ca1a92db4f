"""The objectives that the formula of :mod:`trellis.objectives.records` does not cover: slack, risk, direct.

Each record says with which formula it shares what it can (``Slack`` is the margin objective where L is 0 or
1), and gives its own reading of a list of candidates, and of an oracle where one suffices. The compiled
readings are in ``structures/chain/problem/objective_kernels.py``, those on tensors in
``neural/tensor_objectives.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Literal

from trellis.core.errors import DataError, UnsupportedError
from trellis.objectives.records import Objective, names, register

if TYPE_CHECKING:
    from trellis.core.arrays import FloatArray
    from trellis.core.oracle import Answers, BatchOracle, Oracle
    from trellis.objectives.candidates import CandidateList
    from trellis.objectives.formula_kernels import Formula


@register
@dataclass(frozen=True)
class Slack(Objective):
    """max_y L(y) (1 + s(y) - s(y*)): the slack-rescaled hinge.

    Exact for the 0-1 loss. For losses that are sums of costs the maximum is searched over the upper hull of
    {(L(y), s(y))} by margin-type oracles; the history's ``oracle_excess`` bounds what points inside the
    hull could add (0: exact).
    """

    name = "slack"
    special = "slack"

    def value_and_gradient(self, oracle: Oracle, epsilon: float = 1.0) -> tuple[float, FloatArray]:
        raise _no_oracle(self)

    def over_candidates(self, candidates: CandidateList, epsilon: float) -> tuple[FloatArray, FloatArray]:
        values, chosen = candidates.best(candidates.rescaled_margins())
        coefficients = chosen * candidates.losses
        coefficients[-1] -= coefficients.sum(axis=0)
        return values, coefficients


@register
@dataclass(frozen=True)
class Direct(Objective):
    """L(y_hat), descended along (1[y_hat] - 1[y_direct]) / eps with y_direct = argmax s - eps L
    (``sign="better"``), or along (1[y_direct] - 1[y_hat]) / eps with y_direct = argmax s + eps L
    (``sign="worse"``); y_hat = argmax s.

    ``epsilon``: a number; ``"decay"`` for 1/sqrt(t) at the t-th example, with a learning rate that falls
    likewise; or ``"holdout"`` to choose among ``candidates`` the one with the smallest hold-out loss. A
    penalty on the norm means nothing here (the loss does not change when w is scaled), so l2 is not used:
    early stopping on a hold-out set is the regulariser.
    """

    epsilon: float | Literal["decay", "holdout"] = 1.0
    sign: Literal["better", "worse"] = "better"
    candidates: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    name = "direct"
    baseline = "best"
    special = "direct"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.epsilon, str):
            if self.epsilon not in ("decay", "holdout"):
                raise DataError(f"epsilon={self.epsilon!r}: give a positive number, 'decay' or 'holdout'")
        elif not self.epsilon > 0:
            raise DataError(f"epsilon={self.epsilon} must be positive; choose the direction by sign=")
        if self.sign not in ("better", "worse"):
            raise DataError(f"sign={self.sign!r}: give 'better' or 'worse'")

    @property
    def direction(self) -> float:
        """The sign of eps L in y_direct."""
        return -1.0 if self.sign == "better" else 1.0

    @property
    def decaying(self) -> bool:
        return self.epsilon == "decay"

    @property
    def formula(self) -> Formula:
        return super().formula._replace(direction=self.direction)

    def value_and_gradient(self, oracle: Oracle, epsilon: float = 1.0) -> tuple[float, FloatArray]:
        best, adjusted = oracle.best(0.0), oracle.best(self.direction * epsilon)
        return best.loss, (adjusted.parts - best.parts) * (self.direction / epsilon)

    def over_batch(
        self, oracle: BatchOracle, epsilon: float
    ) -> tuple[FloatArray, FloatArray | float, Answers, Answers]:
        best, adjusted = oracle.best(0.0), oracle.best(self.direction * epsilon)
        return best.losses, self.direction / epsilon, adjusted, best

    def over_candidates(self, candidates: CandidateList, epsilon: float) -> tuple[FloatArray, FloatArray]:
        _, best = candidates.best(candidates.scores)
        _, adjusted = candidates.best(candidates.scores + self.direction * epsilon * candidates.losses)
        return (best * candidates.losses).sum(axis=0), (adjusted - best) * (self.direction / epsilon)


@register
@dataclass(frozen=True)
class Risk(Objective):
    """E_{p(y|x)} L(y): the expected loss of an output drawn from the CRF, not convex."""

    name = "risk"
    total = "sum"
    loss_scale = 0.0
    special = "risk"

    def value_and_gradient(self, oracle: Oracle, epsilon: float = 1.0) -> tuple[float, FloatArray]:
        raise _no_oracle(self)

    def over_candidates(self, candidates: CandidateList, epsilon: float) -> tuple[FloatArray, FloatArray]:
        _, p = candidates.log_sum(candidates.scores)
        values = (p * candidates.losses).sum(axis=0)
        return values, p * (candidates.losses - values)


def _no_oracle(objective: Objective) -> UnsupportedError:
    return UnsupportedError(
        f"the objective {objective.name!r} needs more than best outputs and marginals; choose one of "
        f"{names('for_oracles')}"
    )


def fixed_epsilon(objective: Objective, epsilon: float | None) -> float:
    """The number that divides the direct gradient; 1 for objectives that have none."""
    if not isinstance(objective, Direct):
        return 1.0
    if epsilon is None:
        if isinstance(objective.epsilon, str):
            raise UnsupportedError(
                f"epsilon={objective.epsilon!r} is a schedule of a solver; give a positive number here"
            )
        epsilon = objective.epsilon
    if not (isfinite(epsilon) and epsilon > 0):
        raise DataError(f"epsilon={epsilon} must be positive and finite; choose the direction by sign=")
    return float(epsilon)

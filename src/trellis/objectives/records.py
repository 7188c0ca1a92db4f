"""The objectives by name, as small records of their options.

Each docstring gives the value for one sequence; a problem sums them over sequences and adds ``(l2 / 2)
||w||^2 + l1 ||w||_1`` (sums, not means). s is the score, L the loss against the gold labelling y*, y_hat =
argmax s.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from trellis.core.errors import UnsupportedError
from trellis.structures.chain.problem import objective_kernels as modes


@dataclass(frozen=True)
class Objective:
    """What all objectives share.

    ``convex``: in the weights. ``path``: a difference of two labellings, so piecewise linear where convex.
    ``uses_loss``: whether the task loss enters the objective.
    """

    name: ClassVar[str]
    mode: ClassVar[int]
    convex: ClassVar[bool] = True
    path: ClassVar[bool] = True
    uses_loss: ClassVar[bool] = True

    @property
    def kernel_mode(self) -> int:
        return self.mode


@dataclass(frozen=True)
class Perceptron(Objective):
    """max_y s(y) - s(y*)."""

    name = "perceptron"
    mode = modes.PERCEPTRON
    uses_loss = False


@dataclass(frozen=True)
class Margin(Objective):
    """max_y (s(y) + L(y)) - s(y*): the margin-rescaled hinge of the structural SVM."""

    name = "margin"
    mode = modes.MARGIN


@dataclass(frozen=True)
class Slack(Objective):
    """max_y L(y) (1 + s(y) - s(y*)): the slack-rescaled hinge.

    Exact for the 0-1 loss. For losses that are sums of costs the maximum is searched over the upper hull of
    {(L(y), s(y))} by margin-type oracles; the history's ``oracle_excess`` bounds what points inside the
    hull could add (0: exact).
    """

    name = "slack"
    mode = modes.SLACK


@dataclass(frozen=True)
class Log(Objective):
    """log sum_y exp s(y) - s(y*): the negative conditional log-likelihood of a CRF."""

    name = "log"
    mode = modes.LOG
    path = False
    uses_loss = False


@dataclass(frozen=True)
class SoftmaxMargin(Objective):
    """log sum_y exp(s(y) + L(y)) - s(y*)."""

    name = "softmax_margin"
    mode = modes.SOFTMAX_MARGIN
    path = False


@dataclass(frozen=True)
class Direct(Objective):
    """L(y_hat), descended along (1[y_hat] - 1[y_direct]) / eps with y_direct = argmax s - eps L
    (``sign="better"``), or along (1[y_direct] - 1[y_hat]) / eps with y_direct = argmax s + eps L
    (``sign="worse"``).

    ``epsilon``: a number; ``"decay"`` for 1/sqrt(t) at the t-th example, with a learning rate that falls
    likewise; or ``"holdout"`` to choose among ``candidates`` the one with the smallest hold-out loss. A
    penalty on the norm means nothing here (the loss does not change when w is scaled), so l2 is not used:
    early stopping on a hold-out set is the regulariser.
    """

    epsilon: float | Literal["decay", "holdout"] = 1.0
    sign: Literal["better", "worse"] = "better"
    candidates: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    name = "direct"
    mode = modes.DIRECT_BETTER
    convex = False

    def __post_init__(self) -> None:
        if isinstance(self.epsilon, str):
            if self.epsilon not in ("decay", "holdout"):
                raise UnsupportedError(
                    f"epsilon={self.epsilon!r}: give a positive number, 'decay' or 'holdout'"
                )
        elif not self.epsilon > 0:
            raise UnsupportedError(f"epsilon={self.epsilon} must be positive; choose the direction by sign=")
        if self.sign not in ("better", "worse"):
            raise UnsupportedError(f"sign={self.sign!r}: give 'better' or 'worse'")

    @property
    def kernel_mode(self) -> int:
        return modes.DIRECT_BETTER if self.sign == "better" else modes.DIRECT_WORSE


@dataclass(frozen=True)
class Ramp(Objective):
    """max_y (s(y) + L(y)) - max_y s(y): between the loss and the margin objective, not convex."""

    name = "ramp"
    mode = modes.RAMP
    convex = False


@dataclass(frozen=True)
class Risk(Objective):
    """E_{p(y|x)} L(y): the expected loss of a labelling drawn from the CRF, not convex."""

    name = "risk"
    mode = modes.RISK
    convex = False
    path = False


OBJECTIVES: dict[str, type[Objective]] = {
    c.name: c for c in (Perceptron, Margin, Slack, Log, SoftmaxMargin, Direct, Ramp, Risk)
}


def get_objective(objective: str | Objective) -> Objective:
    """An objective by its name, or as given."""
    if isinstance(objective, Objective):
        return objective
    if objective not in OBJECTIVES:
        raise UnsupportedError(f"objective={objective!r} is not known; choose one of {', '.join(OBJECTIVES)}")
    return OBJECTIVES[objective]()


def options_of(objective: Objective) -> dict[str, Any]:
    """The options that differ from their defaults."""
    return {
        f.name: getattr(objective, f.name)
        for f in fields(objective)
        if getattr(objective, f.name) != f.default
    }

"""The objectives by name, as small records of their options.

Each docstring gives the value for one sequence; a problem sums them over sequences and adds ``(l2 / 2)
||w||^2 + l1 ||w||_1`` (sums, not means). s is the score, L the loss against the gold labelling y*, y_hat =
argmax s.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from trellis.core.errors import UnsupportedError
from trellis.core.registration import register
from trellis.structures.chain.problem import objective_kernels as modes


@dataclass(frozen=True)
class Objective:
    """f = link(total_y (s(y) + loss_scale L(y)) - baseline), with

    * ``total``: ``"max"`` for max_y, ``"sum"`` for log sum_y exp;
    * ``baseline``: ``"gold"`` for the same total over the gold outputs alone (s(y*) where there is one),
      ``"best"`` for max_y s(y);
    * ``link``: ``"identity"``, or ``"square"`` for (1/2) [.]_+^2. Links are convex and never fall.

    ``special`` names the objectives that this formula does not cover. The flags follow from these fields.
    """

    name: ClassVar[str]
    total: ClassVar[Literal["max", "sum"]] = "max"
    loss_scale: ClassVar[float] = 1.0
    baseline: ClassVar[Literal["gold", "best"]] = "gold"
    link: ClassVar[Literal["identity", "square"]] = "identity"
    special: ClassVar[Literal["", "slack", "risk", "direct"]] = ""
    mode: ClassVar[int]

    @property
    def kernel_mode(self) -> int:
        return self.mode

    @property
    def convex(self) -> bool:
        """In the part scores, and so in the weights of a linear model, where the gold output is one."""
        return self.baseline == "gold" and self.special in ("", "slack")

    @property
    def two_labelings(self) -> bool:
        """Whether the gradient is a coefficient times the difference of two outputs: c (Phi(up) - Phi(down)).

        The coefficient may depend on the scores, so this says nothing about planes."""
        return self.total == "max"

    @property
    def piecewise_linear(self) -> bool:
        """Whether f is the maximum of finitely many affine functions of the scores: convex, and made of
        planes, so that the dual over planes is exact."""
        return self.convex and self.two_labelings and self.link == "identity"

    @property
    def smooth(self) -> bool:
        """Whether f is differentiable everywhere. A maximum has kinks wherever two outputs share it."""
        return self.total == "sum" and self.baseline == "gold"

    @property
    def uses_loss(self) -> bool:
        """Whether the task loss enters the objective."""
        return self.loss_scale != 0.0 or self.special != ""


@dataclass(frozen=True)
class Perceptron(Objective):
    """max_y s(y) - s(y*)."""

    name = "perceptron"
    loss_scale = 0.0
    mode = modes.PERCEPTRON


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
    special = "slack"
    mode = modes.SLACK


@dataclass(frozen=True)
class Log(Objective):
    """log sum_y exp s(y) - s(y*): the negative conditional log-likelihood of a CRF."""

    name = "log"
    total = "sum"
    loss_scale = 0.0
    mode = modes.LOG


@dataclass(frozen=True)
class SoftmaxMargin(Objective):
    """log sum_y exp(s(y) + L(y)) - s(y*)."""

    name = "softmax_margin"
    total = "sum"
    mode = modes.SOFTMAX_MARGIN


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
    baseline = "best"
    special = "direct"
    mode = modes.DIRECT_BETTER

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
    baseline = "best"
    mode = modes.RAMP


@dataclass(frozen=True)
class Risk(Objective):
    """E_{p(y|x)} L(y): the expected loss of a labelling drawn from the CRF, not convex."""

    name = "risk"
    total = "sum"
    loss_scale = 0.0
    special = "risk"
    mode = modes.RISK


OBJECTIVES: dict[str, type[Objective]] = {
    c.name: c for c in (Perceptron, Margin, Slack, Log, SoftmaxMargin, Direct, Ramp, Risk)
}

for _record in OBJECTIVES.values():
    register(_record)


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

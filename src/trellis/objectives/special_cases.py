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
from trellis.objectives.records import Log, Margin, Objective, names, register

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

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.objectives import Slack
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> SequenceLabeler(Slack(), random_state=0).fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
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


_STARTS = {"log": Log(), "margin": Margin(), "zero": None}
_DIRECTIONS = {"better": -1.0, "central": 0.0, "worse": 1.0}


@register
@dataclass(frozen=True)
class Direct(Objective):
    """The task loss L(y_hat) of y_hat = argmax s, by differences of outputs. With y+ = argmax s + eps L and
    y- = argmax s - eps L the gradient is

        "central"   (1[y+] - 1[y-]) / 2 eps
        "better"    (1[y_hat] - 1[y-]) / eps
        "worse"     (1[y+] - 1[y_hat]) / eps

    as ``sign`` says. The value is L(y_hat); that of "central" is f_eps = [max (s + eps L) - max (s - eps L)]
    / 2 eps, of which its gradient is a subgradient. Both L(y_hat) and f_eps lie between L(y-) and L(y+).

    By default this is a fine-tuning step: training starts from the weights of a convex objective, and epsilon
    from the scale of the gaps by which their predictions are wrong (:mod:`trellis.training.direct_recipe`).

    ``epsilon``: ``"auto"`` for that, falling from pass to pass; a number; ``"decay"`` for 1/sqrt(t) at the
    t-th example, with a learning rate that falls likewise; or ``"holdout"`` to choose among ``candidates``
    the one with the smallest hold-out loss. ``start``: the convex objective whose weights training starts
    from, "log" or "margin" (graphs, whose sums are seldom exact, take the margin for either), or "zero",
    which needs an epsilon other than "auto". ``refit``: with ``epsilon="auto"`` held-out examples choose how
    long to train, and then all data are trained on for as long. A penalty on the norm means nothing here (the
    loss does not change when w is scaled), so l2 is that of the start alone: stopping on held-out examples is
    the regulariser.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.objectives import Direct
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> SequenceLabeler(Direct(epsilon=1.0), random_state=0).fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    epsilon: float | Literal["auto", "decay", "holdout"] = "auto"
    sign: Literal["central", "better", "worse"] = "central"
    candidates: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    start: Literal["log", "margin", "zero"] = "log"
    refit: bool = True
    name = "direct"
    baseline = "best"
    special = "direct"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.epsilon, str):
            if self.epsilon not in ("auto", "decay", "holdout"):
                raise DataError(
                    f"epsilon={self.epsilon!r}: give a positive number, 'auto', 'decay' or 'holdout'"
                )
        elif not self.epsilon > 0:
            raise DataError(f"epsilon={self.epsilon} must be positive; choose the direction with sign=")
        if self.sign not in _DIRECTIONS:
            raise DataError(f"sign={self.sign!r}: give 'central', 'better' or 'worse'")
        if self.start not in _STARTS:
            raise DataError(f"start={self.start!r}: give 'log', 'margin' or 'zero'")
        if self.start == "zero" and self.epsilon == "auto":
            raise DataError(
                "epsilon='auto' goes by the scores of trained weights, of which start='zero' has none; give "
                "epsilon a number, or start='log'"
            )

    @property
    def starts_from(self) -> Objective | None:
        return _STARTS[self.start]

    @property
    def direction(self) -> float:
        """The sign of eps L in the output that is compared with y_hat; 0 where both signs are compared."""
        return _DIRECTIONS[self.sign]

    @property
    def decaying(self) -> bool:
        return self.epsilon == "decay"

    @property
    def fine_tuned(self) -> bool:
        return self.epsilon == "auto"

    @property
    def formula(self) -> Formula:
        return super().formula._replace(direction=self.direction)

    def value_and_gradient(self, oracle: Oracle, epsilon: float = 1.0) -> tuple[float, FloatArray]:
        if self.sign == "central":
            worse, better = oracle.best(epsilon), oracle.best(-epsilon)
            width = 2.0 * epsilon
            return (worse.value - better.value) / width, (worse.parts - better.parts) / width
        best, adjusted = oracle.best(0.0), oracle.best(self.direction * epsilon)
        return best.loss, (adjusted.parts - best.parts) * (self.direction / epsilon)

    def over_batch(
        self, oracle: BatchOracle, epsilon: float
    ) -> tuple[FloatArray, FloatArray | float, Answers, Answers]:
        if self.sign == "central":
            worse, better = oracle.best(epsilon), oracle.best(-epsilon)
            return (worse.values - better.values) / (2.0 * epsilon), 0.5 / epsilon, worse, better
        best, adjusted = oracle.best(0.0), oracle.best(self.direction * epsilon)
        return best.losses, self.direction / epsilon, adjusted, best

    def over_candidates(self, candidates: CandidateList, epsilon: float) -> tuple[FloatArray, FloatArray]:
        if self.sign == "central":
            high, worse = candidates.best(candidates.scores + epsilon * candidates.losses)
            low, better = candidates.best(candidates.scores - epsilon * candidates.losses)
            return (high - low) / (2.0 * epsilon), (worse - better) / (2.0 * epsilon)
        _, best = candidates.best(candidates.scores)
        _, adjusted = candidates.best(candidates.scores + self.direction * epsilon * candidates.losses)
        return (best * candidates.losses).sum(axis=0), (adjusted - best) * (self.direction / epsilon)


@register
@dataclass(frozen=True)
class Risk(Objective):
    """E_{p(y|x)} L(y): the expected loss of an output drawn from the CRF, not convex.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.objectives import Risk
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> SequenceLabeler(Risk(), random_state=0).fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

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
    """The number that divides the direct gradient; 1 for objectives that have none. A schedule has no number
    of its own."""
    if not isinstance(objective, Direct):
        return 1.0
    if epsilon is None:
        if objective.fine_tuned:
            raise UnsupportedError(
                "epsilon='auto' is measured by wrong predictions, which takes trained scores; pass epsilon=, "
                "a number such as trellis.neural.EpsilonSchedule(typical_gap(...), steps)(step)"
            )
        if isinstance(objective.epsilon, str):
            raise UnsupportedError(
                f"epsilon={objective.epsilon!r} is a schedule of a solver; give a positive number here"
            )
        epsilon = objective.epsilon
    if not (isfinite(epsilon) and epsilon > 0):
        raise DataError(f"epsilon={epsilon} must be positive and finite; choose the direction with sign=")
    return float(epsilon)

"""One formula per objective on tensors, for any structure whose maxima and sums PyTorch can differentiate.

The values are those of ``objective_kernels``. An oracle is a batch of examples at given
scores s, with their gold outputs and their loss L; it answers with one number per example, and automatic
differentiation of a maximum gives the indicators of the maximiser, of a log-sum the marginals. The 0-1 loss
needs the best output that contradicts the gold one, and

    max_y (s + c L) = max(max_gold s, c + max_outside s)
    log sum exp(s + L) = log Z + log(e - (e - 1) p),     E L = 1 - p,     p = exp(log sum_gold - log Z)
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.objectives.records import (
    Direct,
    Log,
    Margin,
    Objective,
    Perceptron,
    Ramp,
    Risk,
    Slack,
    SoftmaxMargin,
)


class TensorOracle(Protocol):
    """``zero_one``: whether L is the 0-1 loss; otherwise it is a sum of costs that scores can take up."""

    @property
    def zero_one(self) -> bool: ...

    def best(self, scale: float) -> Tensor:
        """(S,) max_y s(y) + scale L(y), for a loss that is a sum of costs."""

    def sum(self, scale: float | Tensor) -> Tensor:
        """(S,) log sum_y exp(s(y) + scale L(y)); ``scale`` may be a tensor (S,)."""

    def outside(self) -> Tensor:
        """(S,) the best score of an output that contradicts the gold one; -inf where there is none."""

    def gold_best(self) -> Tensor:
        """(S,) max of s over the gold outputs."""

    def gold_sum(self) -> Tensor:
        """(S,) log sum exp s over the gold outputs."""

    def loss_of_best(self) -> Tensor:
        """(S,) L of the maximiser of s."""


def objective_values(objective: Objective, oracle: TensorOracle, epsilon: float) -> Tensor:
    """(S,) values that differentiate to the (sub)gradient of the objective."""
    if isinstance(objective, Slack) and not oracle.zero_one:
        raise UnsupportedError(
            "slack rescaling with a loss that is a sum of costs runs on chains on the CPU only "
            "(backend='kernels'); use loss='zero_one', or the objective 'margin'"
        )
    if isinstance(objective, Direct):
        values = _direct(objective, oracle, epsilon)
    elif isinstance(objective, Risk):
        values = _risk(oracle)
    elif isinstance(objective, Log | SoftmaxMargin):
        above = oracle.sum(0.0) if isinstance(objective, Log) else _augmented_sum(oracle)
        values = above - oracle.gold_sum()
    elif isinstance(objective, Perceptron):
        values = oracle.best(0.0) - oracle.gold_best()
    elif isinstance(objective, Margin | Slack):
        values = _augmented_best(oracle, 1.0) - oracle.gold_best()
    elif isinstance(objective, Ramp):
        values = _augmented_best(oracle, 1.0) - oracle.best(0.0)
    else:
        raise UnsupportedError(f"objective {objective.name!r} has no formula on tensors")
    check_finite(values)
    return values


def check_finite(values: Tensor) -> None:
    bad = torch.nonzero(~torch.isfinite(values.detach()))
    if len(bad):
        raise InfeasibleError(
            f"example {int(bad[0])} has no allowed output, or its gold output is not allowed, under the "
            "constraints; allow it, or drop the example"
        )


def _augmented_best(oracle: TensorOracle, scale: float) -> Tensor:
    if not oracle.zero_one:
        return oracle.best(scale)
    gold, other = oracle.gold_best(), oracle.outside() + scale
    return torch.where(other > gold, other, gold)  # ties go to the gold output


def _augmented_sum(oracle: TensorOracle) -> Tensor:
    total = oracle.sum(0.0 if oracle.zero_one else 1.0)
    if not oracle.zero_one:
        return total
    p = torch.exp(oracle.gold_sum() - total)
    return total + torch.log(math.e - (math.e - 1.0) * p)


def _risk(oracle: TensorOracle) -> Tensor:
    if oracle.zero_one:
        return -torch.expm1(oracle.gold_sum() - oracle.sum(0.0))
    # E L = d log Z(s + c L) / dc at c = 0
    with torch.enable_grad():
        scale = torch.zeros_like(oracle.gold_sum().detach()).requires_grad_()
        total = oracle.sum(scale)
        check_finite(total)
        (expected,) = torch.autograd.grad(total.sum(), scale, create_graph=True)
    return expected


def _direct(objective: Direct, oracle: TensorOracle, epsilon: float) -> Tensor:
    sign = -1.0 if objective.sign == "better" else 1.0
    slope = (_augmented_best(oracle, sign * epsilon) - oracle.best(0.0)) * (sign / epsilon)
    check_finite(slope)
    return oracle.loss_of_best() + (slope - slope.detach())

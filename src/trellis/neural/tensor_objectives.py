"""The record of an objective read with tensors, for structures whose maxima and sums PyTorch differentiates.

An oracle is a batch of examples at given scores s, with their gold outputs and their loss L; it answers with
one number per example, and automatic differentiation of a maximum gives the indicators of the maximiser, of a
log-sum the marginals. The 0-1 loss needs the best output that contradicts the gold one, and

    max_y (s + c L) = max(max_gold s, c + max_outside s)
    log sum exp(s + c L) = log Z + log(1 + (e^c - 1) (1 - p)),   E L = 1 - p,   p = exp(log sum_gold - log Z)
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.objectives.records import Objective


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
    if objective.special == "own":
        raise UnsupportedError(
            f"the objective {objective.name!r} has its own formula, which tensors do not know; express it by "
            "the fields of the record"
        )
    if objective.special == "direct":
        values = _direct(objective.formula.direction, oracle, epsilon)
    elif objective.special == "risk":
        values = _risk(oracle)
    elif objective.special == "slack" and not oracle.zero_one:  # with L in {0, 1} it is margin
        raise UnsupportedError(
            "slack rescaling with a loss that is a sum of costs runs on chains on the CPU only "
            "(backend='kernels'); use loss='zero_one', or the objective 'margin'"
        )
    else:
        values, _ = objective.apply_link(_total(objective, oracle) - _baseline(objective, oracle))
    check_finite(values)
    return values


def _total(objective: Objective, oracle: TensorOracle) -> Tensor:
    sums = objective.total == "sum"
    return (_augmented_sum if sums else _augmented_best)(oracle, objective.loss_scale)


def _baseline(objective: Objective, oracle: TensorOracle) -> Tensor:
    if objective.baseline == "best":
        return oracle.best(0.0)
    return oracle.gold_sum() if objective.total == "sum" else oracle.gold_best()


def check_finite(values: Tensor) -> None:
    bad = torch.nonzero(~torch.isfinite(values.detach()))
    if len(bad):
        raise InfeasibleError(
            f"example {int(bad[0])} has no allowed output, or its gold output is not allowed, under the "
            "constraints; allow it, or drop the example"
        )


def _augmented_best(oracle: TensorOracle, scale: float) -> Tensor:
    if scale == 0.0 or not oracle.zero_one:
        return oracle.best(scale)
    gold, other = oracle.gold_best(), oracle.outside() + scale
    return torch.where(other > gold, other, gold)  # ties go to the gold output


def _augmented_sum(oracle: TensorOracle, scale: float) -> Tensor:
    if scale == 0.0 or not oracle.zero_one:
        return oracle.sum(scale)
    total = oracle.sum(0.0)
    return total + torch.log1p(-math.expm1(scale) * torch.expm1(oracle.gold_sum() - total))


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


def _direct(direction: float, oracle: TensorOracle, epsilon: float) -> Tensor:
    slope = (_augmented_best(oracle, direction * epsilon) - oracle.best(0.0)) * (direction / epsilon)
    check_finite(slope)
    return oracle.loss_of_best() + (slope - slope.detach())

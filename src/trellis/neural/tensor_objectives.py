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
from trellis.neural.tensors import Reduce, log_sum_exp, maximum
from trellis.objectives.records import Objective


class TensorOracle(Protocol):
    """``zero_one``: whether L is the 0-1 loss; otherwise it is a sum of costs that scores can take up."""

    @property
    def zero_one(self) -> bool: ...

    def total(self, reduce: Reduce, scale: float | Tensor) -> Tensor:
        """(S,) the maximum or log-sum-exp over y of s(y) + scale L(y), for a loss that is a sum of costs;
        ``scale`` may be a tensor (S,)."""

    def gold_total(self, reduce: Reduce) -> Tensor:
        """(S,) the maximum or log-sum-exp of s over the gold outputs."""

    def outside(self) -> Tensor:
        """(S,) the best score of an output that contradicts the gold one; -inf where there is none."""

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
        reduce = log_sum_exp if objective.total == "sum" else maximum
        total = _augmented(oracle, reduce, objective.loss_scale)
        best = objective.baseline == "best"
        baseline = oracle.total(maximum, 0.0) if best else oracle.gold_total(reduce)
        values, _ = objective.apply_link(total - baseline)
    check_finite(values)
    return values


def check_finite(values: Tensor) -> None:
    bad = torch.nonzero(~torch.isfinite(values.detach()))
    if len(bad):
        raise InfeasibleError(
            f"example {int(bad[0])} has no allowed output, or its gold output is not allowed, under the "
            "constraints; allow it, or drop the example"
        )


def _augmented(oracle: TensorOracle, reduce: Reduce, scale: float) -> Tensor:
    """(S,) the maximum or log-sum-exp of s + scale L."""
    if scale == 0.0 or not oracle.zero_one:
        return oracle.total(reduce, scale)
    gold = oracle.gold_total(reduce)
    if reduce is maximum:
        other = oracle.outside() + scale
        return torch.where(other > gold, other, gold)  # ties go to the gold output
    total = oracle.total(reduce, 0.0)
    return total + torch.log1p(-math.expm1(scale) * torch.expm1(gold - total))


def _risk(oracle: TensorOracle) -> Tensor:
    gold = oracle.gold_total(log_sum_exp)
    if oracle.zero_one:
        return -torch.expm1(gold - oracle.total(log_sum_exp, 0.0))
    # E L = d log Z(s + c L) / dc at c = 0
    with torch.enable_grad():
        scale = torch.zeros_like(gold, requires_grad=True)
        total = oracle.total(log_sum_exp, scale)
        check_finite(total)
        (expected,) = torch.autograd.grad(total.sum(), scale, create_graph=True)
    return expected


def _direct(direction: float, oracle: TensorOracle, epsilon: float) -> Tensor:
    if direction == 0.0:
        high, low = _augmented(oracle, maximum, epsilon), _augmented(oracle, maximum, -epsilon)
        return (high - low) / (2.0 * epsilon)
    slope = _augmented(oracle, maximum, direction * epsilon) - oracle.total(maximum, 0.0)
    slope = slope * (direction / epsilon)
    check_finite(slope)
    return oracle.loss_of_best() + (slope - slope.detach())

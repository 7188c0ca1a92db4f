"""One problem whose examples lie in shards, here or on a cluster: a sum over shards of smaller problems.

    f(w) = sum over shards s of f_s(w),    f_s(w) = sum over examples i of s of c_i f_i(w)

The state of a shard is a :class:`~trellis.objectives.structured_problem.StructuredProblem` over its examples
(or anything with the methods asked for here). Weights go out once per question, one sum comes back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.backends import PlacedShards
from trellis.objectives.records import Objective


@dataclass(frozen=True, eq=False)
class ShardedProblem:
    """``shards``: one problem each, all with the same weights. The other fields are what these agree on."""

    shards: PlacedShards
    objective: Objective
    dimension: int
    n_examples: int
    l2: float
    l1: float = 0.0
    epsilon: float = 1.0
    latent: bool = False

    @property
    def convex(self) -> bool:
        return self.objective.convex and not self.latent

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """sum_i c_i f_i(w), and a (sub)gradient of it."""
        found: tuple[float, FloatArray] = self.shards.total(shard_value_and_gradient, weights)
        return found

    def task_losses(self, weights: FloatArray) -> FloatArray:
        """L of the best output of each example, in the order of the shards."""
        return np.concatenate(self.shards.ask(shard_task_losses, weights))

    def mean_loss(self, weights: FloatArray) -> float:
        return float(self.task_losses(weights).mean())

    def score_gaps(self, weights: FloatArray) -> FloatArray:
        return np.concatenate(self.shards.ask(shard_score_gaps, weights))

    def surrogate(self, objective: Objective, l2: float) -> Self:
        return self.with_(objective=objective, l2=l2)

    def with_(self, **changes: Any) -> Self:
        """The same examples with other options; those of the objective are changed in the shards, too."""
        inner = {name: value for name, value in changes.items() if name in ("objective", "epsilon")}
        shards = self.shards.change(shard_with, inner) if inner else self.shards
        return replace(self, shards=shards, **changes)


def shard_value_and_gradient(problem: Any, weights: FloatArray) -> tuple[float, FloatArray]:
    found: tuple[float, FloatArray] = problem.value_and_gradient(weights)
    return found


def shard_task_losses(problem: Any, weights: FloatArray) -> FloatArray:
    losses: FloatArray = problem.task_losses(weights)
    return losses


def shard_score_gaps(problem: Any, weights: FloatArray) -> FloatArray:
    gaps: FloatArray = problem.score_gaps(weights)
    return gaps


def shard_with(problem: Any, changes: dict[str, Any]) -> Any:
    return problem.with_(**changes)

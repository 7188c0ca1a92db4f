"""A problem around another one: the same weights, examples and regularisers, another value."""

from __future__ import annotations

from typing import Any

from trellis.objectives.records import Objective


class WrappedProblem:
    problem: Any

    @property
    def objective(self) -> Objective:
        objective: Objective = self.problem.objective
        return objective

    @property
    def l1(self) -> float:
        return float(self.problem.l1)

    @property
    def l2(self) -> float:
        return float(self.problem.l2)

    @property
    def dimension(self) -> int:
        return int(self.problem.dimension)

    @property
    def n_examples(self) -> int:
        return int(self.problem.n_examples)

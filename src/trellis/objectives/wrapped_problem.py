"""A problem around another one: the same weights, examples and regularisers, another value."""

from __future__ import annotations

from typing import Any

from trellis.core.arrays import FloatArray
from trellis.objectives.records import Objective
from trellis.objectives.structured_problem import StructuredProblem


class WrappedProblem(StructuredProblem):
    problem: Any

    @property
    def noun(self) -> str:  # type: ignore[override]
        return str(self.problem.noun)

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
    def epsilon(self) -> float:
        return float(self.problem.epsilon)

    @property
    def n_jobs(self) -> int:
        return int(self.problem.n_jobs)

    @property
    def dimension(self) -> int:
        return int(self.problem.dimension)

    @property
    def n_examples(self) -> int:
        return int(self.problem.n_examples)

    @property
    def sample_weight(self) -> FloatArray:
        weight: FloatArray = self.problem.sample_weight
        return weight

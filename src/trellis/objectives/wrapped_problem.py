"""A problem that wraps another: the same weights, examples and regularisers, a different value."""

from __future__ import annotations

from trellis.core.arrays import FloatArray
from trellis.objectives.records import Objective
from trellis.objectives.structured_problem import StructuredProblem


class WrappedProblem(StructuredProblem):
    problem: StructuredProblem

    @property
    def noun(self) -> str:  # type: ignore[override]
        return self.problem.noun

    @property
    def objective(self) -> Objective:
        return self.problem.objective

    @property
    def l1(self) -> float:
        return self.problem.l1

    @property
    def l2(self) -> float:
        return self.problem.l2

    @property
    def epsilon(self) -> float:
        return self.problem.epsilon

    @property
    def n_jobs(self) -> int:
        return self.problem.n_jobs

    @property
    def dimension(self) -> int:
        return self.problem.dimension

    @property
    def n_examples(self) -> int:
        return self.problem.n_examples

    @property
    def sample_weight(self) -> FloatArray:
        return self.problem.sample_weight

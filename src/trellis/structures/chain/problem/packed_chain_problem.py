"""What problems of chains with features have in common, whatever their transitions are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trellis.core.arrays import FloatArray
from trellis.objectives.records import Objective
from trellis.objectives.structured_problem import StructuredProblem
from trellis.structures.chain.problem.chain_problem_kernels import Task
from trellis.structures.chain.scores.linear_chain_kernels import Design, Penalties


@dataclass(frozen=True, eq=False)
class PackedChainProblem(StructuredProblem):
    """A layout of weights, the features and gold labels of a batch of sequences, and an objective.
    ``epsilon`` concerns the direct objectives. ``keep_scratch``: whether memory of the size of the weights
    lives from call to call; one of many shards does without."""

    layout: Any
    design: Design
    penalties: Penalties
    task: Task
    objective: Objective
    loss_kind: int
    l2: float = 0.0
    l1: float = 0.0
    epsilon: float = 1.0
    n_jobs: int = 1
    keep_scratch: bool = True

    noun = "sequence"

    @property
    def dimension(self) -> int:
        return int(self.layout.dimension)

    @property
    def n_examples(self) -> int:
        return len(self.design.offsets) - 1

    @property
    def sample_weight(self) -> FloatArray:
        return self.task.weight

    @property
    def latent(self) -> bool:
        """Whether some label is not known."""
        return bool(self.task.ambiguous.any())

    @property
    def squared_features(self) -> tuple[float, int]:
        """The squared length of the features of all steps together, and the number of steps: solvers take
        their rates from it."""
        values, size = self.design.values, len(self.design.indices)
        squares = float(size) if len(values) == 1 else float(values[:size] @ values[:size])
        return squares, len(self.task.gold)

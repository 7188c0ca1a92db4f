"""The problem of a structure whose examples are separate objects, each asked through its own oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Generic, TypeVar

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.objectives.records import Objective, names
from trellis.objectives.structured_problem import StructuredProblem

Example = TypeVar("Example")
LossType = TypeVar("LossType")


@dataclass(frozen=True, eq=False)
class ExampleProblem(StructuredProblem, Generic[Example, LossType]):
    """``weight``: c_i (n,), default 1."""

    examples: Sequence[Example]
    objective: Objective
    loss: LossType
    l2: float = 0.0
    l1: float = 0.0
    epsilon: float = 1.0
    weight: FloatArray | None = None
    n_jobs: int = 1

    structure: ClassVar[str]  # what the examples are, for messages

    def __post_init__(self) -> None:
        self._check_objective()
        if len(self.examples) == 0:
            raise DataError(f"there is no {self.noun} to learn from")
        if self.weight is not None and self.weight.shape != (len(self.examples),):
            raise DataError(f"{len(self.examples)} {self.noun}s, but weights of shape {self.weight.shape}")

    def _check_objective(self) -> None:
        if not self.objective.for_oracles:
            raise UnsupportedError(
                f"objective {self.objective.name!r} is not exact for {self.structure}; choose one of "
                f"{names('for_oracles')}"
            )

    @property
    def n_examples(self) -> int:
        return len(self.examples)

    @cached_property
    def sample_weight(self) -> FloatArray:
        return np.ones(self.n_examples) if self.weight is None else self.weight

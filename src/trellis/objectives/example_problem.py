"""Learning the weights of a linear model over any structure, one oracle call per example.

    min_w  sum_i c_i f_i(w) + (l2 / 2) ||w||^2 + l1 ||w||_1        sums over examples, not means

with f_i from :mod:`trellis.objectives.formulas`, at s(y) = w . Phi(x, y). A structure says only what an
example's oracle is (:meth:`ExampleProblem.oracle`); batches, mini-batches and planes follow.

The update w <- w + eta (Phi(y_direct) - Phi(y_hat)) of one example at a time is the solver
``MiniBatch(learning_rate=eta * eps, batch_size=1, schedule="constant", average=False)``; under
``Direct(epsilon="decay")`` it is ``MiniBatch(learning_rate=1.0, batch_size=1, average=False)`` with eps_t =
1 / sqrt(t), whose rate over eps_t stays 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from scipy.sparse import csr_array

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.shards import over_items
from trellis.objectives.formulas import Oracle, check_objective, value_and_gradient
from trellis.objectives.records import Objective

if TYPE_CHECKING:
    from trellis.objectives.latent import Completion

Example = TypeVar("Example")
LossType = TypeVar("LossType")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class ExampleProblem(ABC, Generic[Example, LossType]):
    """``weight``: c_i (n,), default 1. ``epsilon`` concerns the direct objective. ``n_jobs`` threads share
    out the examples of a batch."""

    examples: Sequence[Example]
    objective: Objective
    loss: LossType
    l2: float = 0.0
    l1: float = 0.0
    epsilon: float = 1.0
    weight: FloatArray | None = None
    n_jobs: int = 1

    structure: ClassVar[str]  # what the examples are, for messages
    noun: ClassVar[str]  # one of them

    def __post_init__(self) -> None:
        check_objective(self.objective, self.structure)
        if len(self.examples) == 0:
            raise DataError(f"there is no {self.noun} to learn from")
        if self.weight is not None and self.weight.shape != (len(self.examples),):
            raise DataError(f"{len(self.examples)} {self.noun}s, but weights of shape {self.weight.shape}")

    @abstractmethod
    def oracle(self, index: int, weights: FloatArray) -> Oracle:
        """Example ``index`` at ``weights``; its parts are sums of features."""

    @property
    @abstractmethod
    def dimension(self) -> int: ...

    @property
    def n_examples(self) -> int:
        return len(self.examples)

    @property
    def latent(self) -> bool:
        """Whether some example has more than one gold output, because parts of it are hidden."""
        return False

    @property
    def convex(self) -> bool:
        return self.objective.convex and not self.latent

    def completed(self, weights: FloatArray) -> Completion:
        """The best gold output of each example, see :mod:`trellis.objectives.latent`."""
        from trellis.objectives.latent import complete_examples

        return complete_examples(self, weights)

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        return self.run_value_and_gradient(weights, 0, self.n_examples)

    def run_value_and_gradient(self, weights: FloatArray, first: int, last: int) -> tuple[float, FloatArray]:
        """sum c_i f_i over the examples first..last-1, and its gradient: a mini-batch.

        Added up in the order of the examples, whatever the number of threads."""
        value, gradient = 0.0, np.zeros(self.dimension)
        for one_value, one_gradient in self.over_examples(
            lambda i: self.example_plane(i, weights), first, last
        ):
            value += one_value
            gradient += one_gradient
        return value, gradient

    def example_plane(self, index: int, weights: FloatArray) -> tuple[float, FloatArray]:
        """c_i f_i(w) and a (sub)gradient of it: for path objectives the highest plane at w."""
        value, gradient = value_and_gradient(self.objective, self.oracle(index, weights), self.epsilon)
        c = 1.0 if self.weight is None else float(self.weight[index])
        return c * value, c * gradient

    def example_planes(self, weights: FloatArray) -> tuple[FloatArray, csr_array]:
        planes = self.over_examples(lambda i: self.example_plane(i, weights))
        return np.array([value for value, _ in planes]), csr_array(np.stack([g for _, g in planes]))

    def task_losses(self, weights: FloatArray) -> FloatArray:
        """L of the best output of each example: its mean is the hold-out loss of early stopping."""
        return np.array(self.over_examples(lambda i: self.oracle(i, weights).best(0.0).loss))

    def with_(self, **changes: Any) -> Self:
        return replace(self, **changes)

    def over_examples(
        self, work: Callable[[int], Result], first: int = 0, last: int | None = None
    ) -> list[Result]:
        """``[work(first), ..., work(last - 1)]`` on threads."""
        last = self.n_examples if last is None else last
        return over_items(lambda i: work(first + i), last - first, self.n_jobs)

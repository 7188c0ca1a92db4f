"""The problem that every structure offers to solvers: a sum of one objective over examples.

    min_w  sum_i c_i f_i(w) + (l2 / 2) ||w||^2 + l1 ||w||_1        sums over examples, not means

A structure says what the oracle of an example is; batches, mini-batches, planes, losses and completions
follow. What it can do faster (compiled, a batch at a time) it overrides.

The update w <- w + eta (Phi(y_direct) - Phi(y_hat)) of one example at a time is the solver
``MiniBatch(learning_rate=eta * eps, batch_size=1, schedule="constant", average=False)``; under
``Direct(epsilon="decay")`` it is ``MiniBatch(learning_rate=1.0, batch_size=1, average=False)`` with eps_t =
1 / sqrt(t), whose rate over eps_t stays 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.oracle import BatchOracle, Oracle
from trellis.core.shards import over_items
from trellis.objectives.records import Objective

if TYPE_CHECKING:
    from trellis.objectives.latent import Completion

Result = TypeVar("Result")
BoolArray = NDArray[np.bool_]


class Batch(Protocol):
    """Examples that are answered together."""

    @property
    def indices(self) -> IntArray:
        """Their numbers."""


class StructuredProblem(ABC):
    """``epsilon`` concerns the direct objective; ``n_jobs`` threads share out the examples of a batch."""

    noun: ClassVar[str]  # what an example is, for messages

    if TYPE_CHECKING:  # fields, or properties, of every problem

        @property
        def objective(self) -> Objective: ...

        @property
        def l2(self) -> float: ...

        @property
        def l1(self) -> float: ...

        @property
        def epsilon(self) -> float: ...

        @property
        def n_jobs(self) -> int: ...

    @abstractmethod
    def oracle(self, index: int, weights: FloatArray) -> Oracle:
        """Example ``index`` at ``weights``; its parts are sums of features."""

    @property
    @abstractmethod
    def dimension(self) -> int: ...

    @property
    @abstractmethod
    def n_examples(self) -> int: ...

    @property
    @abstractmethod
    def sample_weight(self) -> FloatArray:
        """c_i (n,)."""

    @property
    def latent(self) -> bool:
        """Whether some example has more than one gold output, because parts of it are hidden."""
        return False

    @property
    def convex(self) -> bool:
        """In the weights. Hidden parts make any objective a difference of convex functions."""
        return self.objective.convex and not self.latent

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """sum_i c_i f_i(w), and a (sub)gradient of it."""
        return self.run_value_and_gradient(weights, 0, self.n_examples)

    def run_value_and_gradient(self, weights: FloatArray, first: int, last: int) -> tuple[float, FloatArray]:
        """sum c_i f_i over the examples first..last-1, and its gradient: a mini-batch.

        Added up in the order of the examples, whatever the number of threads."""
        value, gradient = 0.0, np.zeros(self.dimension)
        batches, others = self.batches(first, last)

        def plane(j: int) -> tuple[float, FloatArray]:
            if j < len(batches):
                return self._batch_plane(batches[j], weights)
            return self.example_plane(others[j - len(batches)], weights)

        for one_value, one_gradient in over_items(plane, len(batches) + len(others), self.n_jobs):
            value += one_value
            gradient += one_gradient
        return value, gradient

    def batches(self, first: int, last: int) -> tuple[Sequence[Batch], Sequence[int]]:
        """Examples of a run that are answered together, and the numbers of those asked one by one."""
        return (), range(first, last)

    def batch_oracle(self, batch: Any, weights: FloatArray) -> BatchOracle:
        """The examples of one of the batches at ``weights``."""
        raise NotImplementedError

    def _batch_plane(self, batch: Batch, weights: FloatArray) -> tuple[float, FloatArray]:
        """sum c_i f_i over a batch, and its gradient."""
        oracle = self.batch_oracle(batch, weights)
        values, slopes, above, below = self.objective.over_batch(oracle, self.epsilon)
        c = self.sample_weight[batch.indices]
        return float(c @ values), above.combined(c * slopes) - below.combined(c * slopes)

    def example_plane(self, index: int, weights: FloatArray) -> tuple[float, FloatArray]:
        """c_i f_i(w) and a (sub)gradient of it: where f_i is convex, a plane below it that touches it."""
        value, gradient = self.objective.value_and_gradient(self.oracle(index, weights), self.epsilon)
        c = float(self.sample_weight[index])
        return c * value, c * gradient

    def example_planes(self, weights: FloatArray) -> tuple[FloatArray, csr_array]:
        """Those of all examples: values (n,), and one sparse row each."""
        values, gradients = np.empty(self.n_examples), np.empty((self.n_examples, self.dimension))
        batches, others = self.batches(0, self.n_examples)
        for batch in batches:
            oracle = self.batch_oracle(batch, weights)
            f, slopes, above, below = self.objective.over_batch(oracle, self.epsilon)
            c = self.sample_weight[batch.indices]
            values[batch.indices] = c * f
            gradients[batch.indices] = (c * slopes)[:, None] * (above.rows() - below.rows())
        planes = over_items(lambda j: self.example_plane(others[j], weights), len(others), self.n_jobs)
        for i, (value, gradient) in zip(others, planes, strict=True):
            values[i], gradients[i] = value, gradient
        return values, csr_array(gradients)

    def updates(self, weights: FloatArray, first: int, last: int) -> tuple[BoolArray, BoolArray]:
        """Of the examples first..last-1 of a direct objective: whether the gradient is other than 0, and
        whether y- = argmax s - eps L has no loss (:mod:`trellis.objectives.update_shares`)."""
        moved, gold = np.empty(last - first, np.bool_), np.empty(last - first, np.bool_)
        batches, others = self.batches(first, last)
        for batch in batches:
            oracle, own = self.batch_oracle(batch, weights), batch.indices - first
            _, _, above, below = self.objective.over_batch(oracle, self.epsilon)
            moved[own] = (above.rows() != below.rows()).any(axis=1)
            gold[own] = oracle.best(-self.epsilon).losses == 0.0

        def one(j: int) -> tuple[bool, bool]:
            oracle = self.oracle(others[j], weights)
            _, gradient = self.objective.value_and_gradient(oracle, self.epsilon)
            return bool(gradient.any()), oracle.best(-self.epsilon).loss == 0.0

        for i, found in zip(others, over_items(one, len(others), self.n_jobs), strict=True):
            moved[i - first], gold[i - first] = found
        return moved, gold

    def task_losses(self, weights: FloatArray) -> FloatArray:
        """L of the best output of each example: its mean is the hold-out loss of early stopping."""
        losses = np.empty(self.n_examples)
        batches, others = self.batches(0, self.n_examples)
        for batch in batches:
            losses[batch.indices] = self.batch_oracle(batch, weights).best(0.0).losses
        losses[list(others)] = over_items(
            lambda j: self.oracle(others[j], weights).best(0.0).loss, len(others), self.n_jobs
        )
        return losses

    def mean_loss(self, weights: FloatArray) -> float:
        """The mean of the losses."""
        return float(self.task_losses(weights).mean())

    def score_gaps(self, weights: FloatArray) -> FloatArray:
        """s(y_hat) - s(y*) of each example, at least 0: how far the gold output is from being predicted."""

        def gap(i: int) -> float:
            oracle = self.oracle(i, weights)
            return oracle.best(0.0).value - oracle.gold_best().value

        return np.array(self.over_examples(gap))

    def completed(self, weights: FloatArray) -> Completion:
        """The best gold output of each example, see :mod:`trellis.objectives.latent`."""
        from trellis.objectives.latent import complete_examples

        return complete_examples(self, weights)

    def surrogate(self, objective: Objective, l2: float) -> StructuredProblem:
        """The same examples under a convex objective, from whose minimum this one starts."""
        return self.with_(objective=objective, l2=l2)

    def with_(self, **changes: Any) -> Self:
        """The same problem with other options."""
        return replace(self, **changes)  # type: ignore[type-var]

    def over_examples(
        self, work: Callable[[int], Result], first: int = 0, last: int | None = None
    ) -> list[Result]:
        """``[work(first), ..., work(last - 1)]`` on threads."""
        last = self.n_examples if last is None else last
        return over_items(lambda i: work(first + i), last - first, self.n_jobs)

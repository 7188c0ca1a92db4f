"""What a structure over tensors offers: with scores it becomes a batch, and a batch answers questions.

:mod:`trellis.neural.tensor_questions` has the functions that users call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

import torch
from torch import Tensor

from trellis.core.errors import DataError, UnsupportedError
from trellis.neural.tensor_objectives import TensorOracle, check_finite, objective_values
from trellis.neural.tensors import Reduce, log_sum_exp, maximum
from trellis.objectives.records import Objective

Backend = Literal["kernels", "torch"] | None


class BatchOptions(TypedDict, total=False):
    """The keyword arguments that every question takes.

    lengths : (B,) the number of steps of each row of padded scores, or of each sequence of packed ones.
    mask : [B, T] booleans in place of lengths, true on the steps of each sequence. Padding may stand anywhere
        in a row: the steps on both sides of it are neighbours.
    offsets : (S + 1,) where the sequences of a packed batch begin and end.
    backend : "kernels" (compiled, CPU only), "torch" (plain PyTorch, any device), or None, which takes the
        kernels for CPU tensors where there are some.
    batch_first : False for scores, labels and masks that begin with (time, batch); answers do, too.

    All but ``backend`` are for chains; give at most one of the first three.
    """

    lengths: Any
    mask: Any
    offsets: Any
    backend: Backend
    batch_first: bool


@dataclass(frozen=True)
class Goal:
    """An objective with its loss (a name, a loss object, or costs), and the epsilon of the direct one."""

    objective: Objective
    loss: Any
    epsilon: float


class TensorStructure(ABC):
    """Chains, segmentations and factor graphs whose part scores are tensors."""

    @abstractmethod
    def bind(self, scores: Any, **batch: Unpack[BatchOptions]) -> ScoredBatch:
        """The structure with scores for every part, checked."""

    def bind_to_gold(self, scores: Any, gold: Any, **batch: Unpack[BatchOptions]) -> ScoredBatch:
        """As :meth:`bind`; a structure whose gold outputs may leave out parts binds those that are left."""
        return self.bind(scores, **batch)


class ScoredBatch(ABC):
    """S examples with all their part scores."""

    @abstractmethod
    def objective_values(self, gold: Any, goal: Goal) -> Tensor:
        """(S,) the objective of each example."""

    @abstractmethod
    def gaps_and_losses(self, gold: Any, goal: Goal) -> tuple[Tensor, Tensor]:
        """(S,) max s - max over the gold outputs of s, inf where none of them is allowed; and (S,) the loss
        of the best output. Not differentiable."""

    @abstractmethod
    def decode(self) -> Any:
        """The best output of each example."""

    @abstractmethod
    def log_partition(self) -> Tensor:
        """(S,) log sum_y exp s(y), differentiable twice."""

    @abstractmethod
    def marginals(self) -> Any:
        """The probability of each part, differentiable."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """(S,) -sum_y p(y) log p(y) in nats, differentiable."""

    @abstractmethod
    def sample(self, n_samples: int, seed: int) -> Any:
        """Exact, independent samples."""

    @abstractmethod
    def k_best(self, k: int) -> Any:
        """The k best outputs and their scores."""


class DifferentiableBatch(ScoredBatch):
    """A batch whose maxima and log-sums PyTorch differentiates: objectives follow from these."""

    @abstractmethod
    def total(self, reduce: Reduce) -> Tensor:
        """(S,) the maximum or log-sum-exp of s over all outputs."""

    @abstractmethod
    def oracle(self, gold: Any, goal: Goal) -> TensorOracle:
        """The examples with their gold outputs and their loss."""

    def objective_values(self, gold: Any, goal: Goal) -> Tensor:
        return objective_values(goal.objective, self.oracle(gold, goal), goal.epsilon)

    @torch.no_grad()
    def gaps_and_losses(self, gold: Any, goal: Goal) -> tuple[Tensor, Tensor]:
        oracle = self.oracle(gold, goal)
        return oracle.total(maximum, 0.0) - oracle.gold_total(maximum), oracle.loss_of_best()

    def log_partition(self) -> Tensor:
        return self.finite_total(log_sum_exp)

    def finite_total(self, reduce: Reduce) -> Tensor:
        values = self.total(reduce)
        check_finite(values)
        return values


def check_once(objective: Objective) -> None:
    """For the backward pass of kernels, whose result is right only if it is not differentiated again, or
    is constant."""
    constant = objective.two_labelings and objective.link == "identity"
    if torch.is_grad_enabled() and not constant:
        raise UnsupportedError(
            f"the kernels differentiate the objective {objective.name!r} once, and create_graph=True (or "
            "torch.func) asks for more; use backend='torch', or log_partition for second derivatives"
        )


def uses_kernels(tensor: Tensor, backend: Backend) -> bool:
    """Which code answers for scores like this tensor."""
    if backend not in (None, "kernels", "torch"):
        raise DataError(f"backend={backend!r}: give 'kernels' (CPU), 'torch' (any device) or None")
    if tensor.device.type == "meta":
        raise UnsupportedError(
            "the scores are on the meta device, which holds no numbers; move them to another"
        )
    on_cpu = tensor.device.type == "cpu"
    if backend == "kernels" and not on_cpu:
        raise UnsupportedError(
            f"the compiled kernels read CPU tensors, these are on {tensor.device}; use backend='torch', or "
            "move the tensors"
        )
    return on_cpu and backend != "torch"


def only_backend(
    what: str,
    lengths: Any = None,
    mask: Any = None,
    offsets: Any = None,
    backend: Backend = None,
    batch_first: bool = True,
) -> Backend:
    """The backend; the options of batches of sequences are refused."""
    if any(given is not None for given in (lengths, mask, offsets)) or not batch_first:
        raise DataError(f"a {what} has no lengths, mask, offsets or batch_first: leave them out")
    return backend

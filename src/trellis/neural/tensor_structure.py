"""What a structure over tensors answers; :mod:`trellis.neural.tensor_questions` is the face of it.

``where`` says how a batch lies in memory (``lengths``, ``mask``, ``offsets``), ``backend`` which code runs:
``"kernels"`` (compiled, CPU), ``"torch"`` (plain PyTorch, any device), or ``None``: kernels for CPU tensors
where there are some.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from trellis.core.errors import UnsupportedError
from trellis.objectives.records import Objective

Backend = Literal["kernels", "torch"] | None


class Where(NamedTuple):
    """How a batch lies in memory."""

    lengths: Any = None
    mask: Any = None
    offsets: Any = None


@dataclass(frozen=True)
class Goal:
    """An objective with its loss (a name, a loss, or a tensor of costs), and the epsilon of the direct
    one."""

    objective: Objective
    loss: Any
    epsilon: float


class TensorStructure(ABC):
    """Chains, segmentations and factor graphs whose part scores are tensors."""

    @abstractmethod
    def objective_values(self, scores: Any, gold: Any, goal: Goal, where: Where, backend: Backend) -> Tensor:
        """(S,) the objective of each example, differentiable once."""

    @abstractmethod
    def decode(self, scores: Any, where: Where, backend: Backend) -> Any:
        """The best output of each example."""

    @abstractmethod
    def log_partition(self, scores: Any, where: Where, backend: Backend) -> Tensor:
        """(S,) log sum_y exp s(y), differentiable twice."""

    @abstractmethod
    def marginals(self, scores: Any, where: Where, backend: Backend) -> Any:
        """The probability of each part, differentiable."""

    @abstractmethod
    def entropy(self, scores: Any, where: Where, backend: Backend) -> Tensor:
        """(S,) -sum_y p(y) log p(y) in nats, differentiable."""

    @abstractmethod
    def sample(self, scores: Any, n_samples: int, seed: int, where: Where, backend: Backend) -> Any:
        """Exact, independent samples."""

    @abstractmethod
    def k_best(self, scores: Any, k: int, where: Where, backend: Backend) -> Any:
        """The k best outputs and their scores."""


def check_once(objective: Objective) -> None:
    """In a backward pass of kernels: that nobody will differentiate its result, or that it is constant."""
    constant = objective.two_labelings and objective.link == "identity"
    if torch.is_grad_enabled() and not constant:
        raise UnsupportedError(
            f"the kernels differentiate the objective {objective.name!r} once, and create_graph=True asks "
            "for more; use backend='torch', or log_partition for second derivatives"
        )


def uses_kernels(tensor: Tensor, backend: Backend) -> bool:
    """Which code answers for scores like this tensor."""
    if backend not in (None, "kernels", "torch"):
        raise UnsupportedError(f"backend={backend!r}: give 'kernels' (CPU), 'torch' (any device) or None")
    on_cpu = tensor.device.type == "cpu"
    if backend == "kernels" and not on_cpu:
        raise UnsupportedError(
            f"the compiled kernels read CPU tensors, these are on {tensor.device}; use backend='torch', or "
            "move the tensors"
        )
    return on_cpu and backend != "torch"

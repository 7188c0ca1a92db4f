"""The functions that users call: a structure, its scores as tensors, and a question.

All of them take the keyword arguments of :class:`~trellis.neural.tensor_structure.BatchOptions`: ``lengths``,
``mask`` or ``offsets`` and ``batch_first`` of a batch of chains, and ``backend``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Unpack

import numpy as np
import torch
from torch import Tensor

from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, InfeasibleError
from trellis.neural.tensor_structure import BatchOptions, Goal, ScoredBatch, TensorStructure
from trellis.neural.tensors import never_compiled
from trellis.objectives import score_gaps
from trellis.objectives.records import Objective, get_objective
from trellis.objectives.special_cases import Direct, fixed_epsilon
from trellis.solvers.online.epsilon_schedule import EpsilonSchedule as EpsilonSchedule


@never_compiled
def structured_loss(
    structure: TensorStructure | Sequence[TensorStructure],
    scores: Any,
    gold: Any,
    *,
    objective: str | Objective = "log",
    loss: Any = "hamming",
    epsilon: float | None = None,
    reduction: Literal["mean", "sum", "none"] = "mean",
    **batch: Unpack[BatchOptions],
) -> Tensor:
    """A training objective of the scores, differentiable once (with ``backend="torch"``, twice).

    For each example it is the value that the objective's docstring in :mod:`trellis.objectives` states; then
    their mean or sum over the examples, not over the steps.

    Parameters
    ----------
    structure, scores, gold : one structure, or lists with one of each per example. ``gold`` is described
        with the structure; sets of allowed outputs give the latent form.
    objective : a name of :data:`trellis.objectives.OBJECTIVES`, or such an object.
    loss : "hamming", "zero_one", a loss object, or a tensor of costs (segmentations: an alignment loss).
    epsilon : that of the direct objective, in place of its own: a number, such as the value that a
        :class:`~trellis.neural.EpsilonSchedule` has now. ``Direct(epsilon="auto")`` needs it.
    reduction : "mean", "sum", or "none" for one value per example.
    lengths, mask, offsets, batch_first, backend : see :class:`~trellis.neural.tensor_structure.BatchOptions`.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import Chain, structured_loss
    >>> scores = torch.zeros(1, 2, 2, requires_grad=True)
    >>> loss = structured_loss(Chain(torch.zeros(2, 2)), scores, torch.tensor([[0, 1]]), objective="log")
    >>> round(loss.item(), 4)  # 2 log 2
    1.3863
    """
    if reduction not in ("mean", "sum", "none"):
        raise DataError(f"reduction={reduction!r}: give 'mean', 'sum' or 'none'")
    chosen = get_objective(objective)
    costs = torch.from_numpy(loss) if isinstance(loss, np.ndarray) else loss
    goal = Goal(chosen, costs, fixed_epsilon(chosen, epsilon))
    batches = bound_batches(structure, scores, gold, batch)
    values = torch.cat([one.objective_values(y, goal) for one, y in batches])
    if reduction == "mean" and not len(values):
        raise DataError("the batch has no examples, so it has no mean; use reduction='sum'")
    if reduction == "none":
        return values
    return values.mean() if reduction == "mean" else values.sum()


@never_compiled
@torch.no_grad()
def relative_gaps(
    structure: TensorStructure | Sequence[TensorStructure],
    scores: Any,
    gold: Any,
    *,
    loss: Any = "hamming",
    **batch: Unpack[BatchOptions],
) -> FloatArray:
    """(s(y_hat) - s(y*)) / L(y_hat) of the examples that are predicted wrongly, in their order: the epsilon
    at which y* overtakes y_hat in s - eps L. Ties, and gold outputs that are forbidden, are left out.

    Arguments as for :func:`structured_loss`.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import Chain, relative_gaps
    >>> scores, gold = torch.tensor([[[0.0, 1.0], [0.5, 0.0]]]), torch.tensor([[0, 0]])
    >>> relative_gaps(Chain(torch.zeros(2, 2)), scores, gold).tolist()
    [1.0]
    """
    goal = Goal(Direct(epsilon=1.0), torch.from_numpy(loss) if isinstance(loss, np.ndarray) else loss, 1.0)
    found = [one.gaps_and_losses(y, goal) for one, y in bound_batches(structure, scores, gold, batch)]
    gaps, losses = (torch.cat(parts).double().cpu().numpy() for parts in zip(*found, strict=True))
    if np.isnan(gaps).any():
        raise InfeasibleError(
            f"example {int(np.isnan(gaps).argmax())} has no allowed output; allow one, or drop the example"
        )
    return score_gaps.relative_gaps(gaps, losses)


def typical_gap(
    structure: TensorStructure | Sequence[TensorStructure],
    scores: Any,
    gold: Any,
    *,
    loss: Any = "hamming",
    **batch: Unpack[BatchOptions],
) -> float | None:
    """eps_0, the median of :func:`relative_gaps`: what epsilon of the direct objective is measured by. None
    where no prediction is wrong. For examples in several batches, take the median of all their gaps.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import Chain, typical_gap
    >>> scores, gold = torch.tensor([[[0.0, 1.0], [0.5, 0.0]]]), torch.tensor([[0, 0]])
    >>> typical_gap(Chain(torch.zeros(2, 2)), scores, gold)
    1.0
    """
    return score_gaps.median_gap(relative_gaps(structure, scores, gold, loss=loss, **batch))


@never_compiled
@torch.no_grad()
def decode(structure: TensorStructure, scores: Any, **batch: Unpack[BatchOptions]) -> Any:
    """argmax_y s(y): labels of the shape of the batch for chains, -1 in the padding.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import Chain, decode
    >>> chain = Chain(torch.zeros(2, 2))
    >>> decode(chain, torch.tensor([[[0.0, 1.0], [0.5, 0.0]]])).tolist()
    [[1, 0]]
    """
    return _bind(structure, scores, batch).decode()


@never_compiled
def log_partition(structure: TensorStructure, scores: Any, **batch: Unpack[BatchOptions]) -> Tensor:
    """log sum_y exp s(y) of each example, differentiable twice.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import Chain, log_partition
    >>> [round(float(z), 4) for z in log_partition(Chain(torch.zeros(2, 2)), torch.zeros(1, 3, 2))]  # log 8
    [2.0794]
    """
    return _bind(structure, scores, batch).log_partition()


@never_compiled
def marginals(structure: TensorStructure, scores: Any, **batch: Unpack[BatchOptions]) -> Any:
    """The probability of each label (chains: of the shape of the scores), differentiable.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import Chain, marginals
    >>> marginals(Chain(torch.zeros(2, 2)), torch.zeros(1, 2, 2)).tolist()
    [[[0.5, 0.5], [0.5, 0.5]]]
    """
    return _bind(structure, scores, batch).marginals()


@never_compiled
def entropy(structure: TensorStructure, scores: Any, **batch: Unpack[BatchOptions]) -> Tensor:
    """-sum_y p(y) log p(y) of each example in nats, differentiable.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import Chain, entropy
    >>> [round(float(h), 4) for h in entropy(Chain(torch.zeros(2, 2)), torch.zeros(1, 3, 2))]  # 3 log 2
    [2.0794]
    """
    return _bind(structure, scores, batch).entropy()


@never_compiled
@torch.no_grad()
def sample(
    structure: TensorStructure,
    scores: Any,
    n_samples: int = 1,
    *,
    seed: int = 0,
    **batch: Unpack[BatchOptions],
) -> Any:
    """Exact, independent samples of p(y), the same for the same seed.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import Chain, sample
    >>> sample(Chain(torch.zeros(2, 2)), torch.zeros(1, 3, 2), 4, seed=0).shape
    torch.Size([4, 1, 3])
    """
    n_samples, seed = check_int("n_samples", n_samples, 0), check_int("seed", seed, 0)
    return _bind(structure, scores, batch).sample(n_samples, seed)


@never_compiled
@torch.no_grad()
def k_best(structure: TensorStructure, scores: Any, k: int, **batch: Unpack[BatchOptions]) -> Any:
    """The k outputs of each example with the largest scores, and these scores.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import Chain, k_best
    >>> labels, values = k_best(Chain(torch.zeros(2, 2)), torch.tensor([[[0.0, 1.0], [0.5, 0.0]]]), 2)
    >>> labels.tolist(), values.tolist()
    ([[[1, 0]], [[1, 1]]], [[1.5, 1.0]])
    """
    return _bind(structure, scores, batch).k_best(check_int("k", k, 1))


def bound_batches(
    structure: Any, scores: Any, gold: Any, batch: BatchOptions
) -> Iterator[tuple[ScoredBatch, Any]]:
    """A structure with its scores and gold outputs, or each of a list of them."""
    if isinstance(structure, TensorStructure):
        yield structure.bind_to_gold(scores, gold, **batch), gold
        return
    _check_lists(structure, scores, gold)
    for one, x, y in zip(structure, scores, gold, strict=True):
        yield one.bind_to_gold(x, y, **batch), y


def _bind(structure: Any, scores: Any, batch: BatchOptions) -> ScoredBatch:
    if not isinstance(structure, TensorStructure):
        raise DataError(
            f"the structure is of type {type(structure).__name__}; give a Chain, a Segmentation or Factors "
            "(lists of them are for structured_loss; ask about one after another here)"
        )
    return structure.bind(scores, **batch)


def _check_lists(structures: Any, scores: Any, gold: Any) -> None:
    if not isinstance(structures, list | tuple) or not all(
        isinstance(one, TensorStructure) for one in structures
    ):
        raise DataError(
            f"the structure is of type {type(structures).__name__}; give a Chain, a Segmentation, Factors, "
            "or a list of them"
        )
    if not len(structures) == len(scores) == len(gold) or not len(structures):
        raise DataError(
            f"there are {len(structures)} structures, {len(scores)} scores and {len(gold)} gold outputs; "
            "give one of each per example"
        )

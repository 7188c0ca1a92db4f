"""The functions that users call: a structure, its scores as tensors, and a question.

``structured_loss`` gives, for each example, the value that the objective's docstring in
``records`` states, then their mean or sum over the examples (not over the steps). Where a
structure is a list (one alignment per utterance), so are scores and gold outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from trellis.core.errors import DataError, UnsupportedError
from trellis.neural.tensor_structure import Backend, Goal, TensorStructure, Where
from trellis.objectives.records import Objective, get_objective
from trellis.structures.chain.problem.score_objectives import fixed_epsilon
from trellis.structures.graph.scores.graph_scores import is_count

Reduction = Literal["mean", "sum", "none"]


def structured_loss(
    structure: TensorStructure | Sequence[TensorStructure],
    scores: Any,
    gold: Any,
    *,
    lengths: Any = None,
    mask: Any = None,
    offsets: Any = None,
    objective: str | Objective = "log",
    loss: Any = "hamming",
    epsilon: float | None = None,
    reduction: Reduction = "mean",
    backend: Backend = None,
) -> Tensor:
    """A training objective of the scores, differentiable once (with ``backend="torch"``, twice).

    ``objective``: a name of :data:`trellis.objectives.OBJECTIVES` or such an object. ``loss``: "hamming",
    "zero_one", a loss object, or a tensor of costs. ``epsilon``: that of the direct objective. ``gold``: see
    the structure; sets of allowed outputs give the latent form.
    """
    if reduction not in ("mean", "sum", "none"):
        raise UnsupportedError(f"reduction={reduction!r}: give 'mean', 'sum' or 'none'")
    chosen = get_objective(objective)
    where = Where(lengths, mask, offsets)
    if isinstance(loss, np.ndarray):
        loss = torch.from_numpy(loss)
    goal = Goal(chosen, loss, fixed_epsilon(chosen, epsilon))
    if isinstance(structure, TensorStructure):
        values = structure.objective_values(scores, gold, goal, where, backend)
    else:
        _check_lists(structure, scores, gold)
        found = [
            one.objective_values(x, y, goal, where, backend)
            for one, x, y in zip(structure, scores, gold, strict=True)
        ]
        values = torch.cat(found)
    if reduction == "none":
        return values
    return values.mean() if reduction == "mean" else values.sum()


def decode(
    structure: TensorStructure,
    scores: Any,
    *,
    lengths: Any = None,
    mask: Any = None,
    offsets: Any = None,
    backend: Backend = None,
) -> Any:
    """argmax_y s(y): labels of the shape of the batch for chains, -1 in the padding."""
    with torch.no_grad():
        return _one(structure).decode(scores, Where(lengths, mask, offsets), backend)


def log_partition(
    structure: TensorStructure,
    scores: Any,
    *,
    lengths: Any = None,
    mask: Any = None,
    offsets: Any = None,
    backend: Backend = None,
) -> Tensor:
    """log sum_y exp s(y) of each example, differentiable twice."""
    return _one(structure).log_partition(scores, Where(lengths, mask, offsets), backend)


def marginals(
    structure: TensorStructure,
    scores: Any,
    *,
    lengths: Any = None,
    mask: Any = None,
    offsets: Any = None,
    backend: Backend = None,
) -> Any:
    """The probability of each label (chains: of the shape of the scores), differentiable."""
    return _one(structure).marginals(scores, Where(lengths, mask, offsets), backend)


def entropy(
    structure: TensorStructure,
    scores: Any,
    *,
    lengths: Any = None,
    mask: Any = None,
    offsets: Any = None,
    backend: Backend = None,
) -> Tensor:
    """-sum_y p(y) log p(y) of each example in nats, differentiable."""
    return _one(structure).entropy(scores, Where(lengths, mask, offsets), backend)


def sample(
    structure: TensorStructure,
    scores: Any,
    n_samples: int = 1,
    *,
    seed: int = 0,
    lengths: Any = None,
    mask: Any = None,
    offsets: Any = None,
    backend: Backend = None,
) -> Any:
    """Exact, independent samples of p(y), the same for the same seed."""
    for name, value in (("n_samples", n_samples), ("seed", seed)):
        if not is_count(value, 0):
            raise DataError(f"{name} is {value!r}; give a whole number that is not negative")
    with torch.no_grad():
        return _one(structure).sample(scores, n_samples, seed, Where(lengths, mask, offsets), backend)


def k_best(
    structure: TensorStructure,
    scores: Any,
    k: int,
    *,
    lengths: Any = None,
    mask: Any = None,
    offsets: Any = None,
    backend: Backend = None,
) -> Any:
    """The k outputs of each example with the largest scores, and these scores."""
    with torch.no_grad():
        return _one(structure).k_best(scores, k, Where(lengths, mask, offsets), backend)


def _one(structure: Any) -> TensorStructure:
    if not isinstance(structure, TensorStructure):
        raise DataError(
            f"the structure is of type {type(structure).__name__}; give a Chain, a Segmentation or Factors "
            "(lists of them are for structured_loss; ask about one after another here)"
        )
    return structure


def _check_lists(structures: Any, scores: Any, gold: Any) -> None:
    sized = isinstance(structures, list | tuple) and all(
        isinstance(one, TensorStructure) for one in structures
    )
    if not sized:
        raise DataError(
            f"the structure is of type {type(structures).__name__}; give a Chain, a Segmentation, Factors, "
            "or a list of them"
        )
    if not len(structures) == len(scores) == len(gold) or not len(structures):
        raise DataError(
            f"there are {len(structures)} structures, {len(scores)} scores and {len(gold)} gold outputs; "
            "give one of each per example"
        )

"""Gold labels as tensors: codes, with -1 where a label is unknown, or sets of allowed labels.

Steps with the code -100 have been left out before (:mod:`trellis.neural.chain.rearranged_batch`).

A tensor of whole numbers of the batch's shape gives one label per step; a boolean tensor with a last axis of
K gives the set of labels that each step may have (the latent form of every objective). The contents of the
padding do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.core.arrays import BoolArray, FloatArray
from trellis.core.errors import DataError
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.sequences import step_name
from trellis.losses.labelings import Hamming, get_loss
from trellis.neural.chain.batch_layout import Layout
from trellis.neural.tensor_structure import Goal
from trellis.objectives.records import Objective
from trellis.structures.chain.problem.chain_task import loss_table
from trellis.structures.chain.problem.objective_kernels import COSTS, NO_LOSS


@dataclass(frozen=True, eq=False)
class ChainTask:
    """What an objective needs besides scores. The kernels take the loss by its kind and its costs by step
    (N, K), ``cost``, or by gold label (K, K), ``matrix``; what is not used has no rows."""

    objective: Objective
    epsilon: float
    gold: EncodedLabels
    loss_kind: int
    cost: FloatArray
    matrix: FloatArray

    @classmethod
    def of(cls, gold: Any, goal: Goal, layout: Layout, n_labels: int) -> ChainTask:
        labels = encode_gold(gold, layout, n_labels)
        return cls(goal.objective, goal.epsilon, labels, *_costs(goal, labels, layout, n_labels))

    @property
    def allowed(self) -> BoolArray:
        """(N, K) the gold labels as sets."""
        if self.gold.allowed is not None:
            return self.gold.allowed
        return np.equal.outer(self.gold.codes, np.arange(self.cost.shape[1]))

    @property
    def cost_by_step(self) -> FloatArray:
        """(N, K); zeros for a loss that is not a sum of costs."""
        if len(self.matrix):
            by_gold: FloatArray = self.matrix[self.gold.codes]
            return by_gold
        return self.cost if len(self.cost) else np.zeros((len(self.gold.codes), self.cost.shape[1]))


def encode_gold(gold: Any, layout: Layout, n_labels: int) -> EncodedLabels:
    """Gold labels of any of the forms above, packed and checked."""
    tensor = torch.as_tensor(gold)
    if tensor.dtype == torch.bool and tensor.ndim == len(layout.shape) + 1:
        return _encode_sets(layout.pack(tensor, (n_labels,)), layout)
    if tensor.is_floating_point() or tensor.dtype == torch.bool:
        raise DataError(
            f"gold labels are {tensor.dtype}; give whole numbers, or booleans [..., {n_labels}] for sets"
        )
    codes = layout.pack(tensor).astype(np.int32)
    outside = (codes < -1) | (codes >= n_labels)
    if outside.any():
        t = int(outside.argmax())
        raise DataError(
            f"the gold label of {step_name(layout.offsets, t)} is {codes[t]}; labels run from 0 to "
            f"{n_labels - 1}, -1 is an unknown label, and -100 leaves the step out"
        )
    if codes.min(initial=0) < 0:
        allowed = (codes[:, None] == np.arange(n_labels)) | (codes[:, None] < 0)
        return EncodedLabels(codes, allowed, layout.offsets)
    return EncodedLabels(codes, None, layout.offsets)


def _encode_sets(allowed: BoolArray, layout: Layout) -> EncodedLabels:
    count = allowed.sum(axis=1)
    if (count == 0).any():
        where = step_name(layout.offsets, int((count == 0).argmax()))
        raise DataError(f"{where} allows no label at all; allow at least one")
    codes = np.where(count == 1, allowed.argmax(axis=1), -1).astype(np.int32)
    return EncodedLabels(codes, np.ascontiguousarray(allowed) if (count > 1).any() else None, layout.offsets)


def _costs(
    goal: Goal, gold: EncodedLabels, layout: Layout, n_labels: int
) -> tuple[int, FloatArray, FloatArray]:
    """The kind of the loss, its costs by step and by gold label; a tensor of costs is like the scores."""
    nothing = np.zeros((0, n_labels))
    loss = goal.loss if isinstance(goal.loss, Tensor) else get_loss(goal.loss)
    if not goal.objective.uses_loss:
        return NO_LOSS, nothing, nothing
    if isinstance(loss, Tensor):
        costs = np.ascontiguousarray(layout.pack(loss.double(), (n_labels,)))
        if not np.isfinite(costs).all():
            raise DataError("the costs contain NaN or an infinity; they must be finite")
        return COSTS, costs, nothing
    if isinstance(loss, Hamming) and gold.allowed is None:
        return COSTS, nothing, 1.0 - np.eye(n_labels)
    return *loss_table(goal.objective, loss, gold, LabelSet(range(n_labels))), nothing

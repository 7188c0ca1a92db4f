"""Gold labels as tensors: codes, with -1 where a label is unknown, or sets of allowed labels.

A tensor of whole numbers of the batch's shape gives one label per step; a boolean tensor with a last axis of
K gives the set of labels that each step may have (the latent form of every objective). What stands in the
padding does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.sequences import step_name
from trellis.losses.labelings import Hamming, Loss
from trellis.neural.chain.batch_layout import Layout
from trellis.objectives.records import Objective
from trellis.structures.chain.problem.objective_kernels import COSTS, NO_LOSS
from trellis.structures.chain.problem.score_objectives import loss_table


def encoded_gold(gold: Any, layout: Layout, n_labels: int) -> EncodedLabels:
    """Gold labels of any of the forms above, packed and checked."""
    tensor = torch.as_tensor(gold)
    if tensor.dtype == torch.bool and tensor.ndim == len(layout.shape) + 1:
        return _sets(layout.packed(tensor, (n_labels,)), layout)
    if tensor.is_floating_point() or tensor.dtype == torch.bool:
        raise DataError(
            f"gold labels are {tensor.dtype}; give whole numbers, or booleans [..., {n_labels}] for sets"
        )
    codes = layout.packed(tensor).astype(np.int32)
    if codes.size and (codes.min() < -1 or codes.max() >= n_labels):
        t = int(np.flatnonzero((codes < -1) | (codes >= n_labels))[0])
        raise DataError(
            f"the gold label of {step_name(layout.offsets, t)} is {codes[t]}; labels run from 0 to "
            f"{n_labels - 1}, and -1 says that it is unknown"
        )
    if codes.size and codes.min() < 0:
        allowed = (codes[:, None] == np.arange(n_labels)) | (codes[:, None] < 0)
        return EncodedLabels(codes, allowed, layout.offsets)
    return EncodedLabels(codes, None, layout.offsets)


def _sets(allowed: Any, layout: Layout) -> EncodedLabels:
    count = allowed.sum(axis=1)
    if (count == 0).any():
        t = int(np.flatnonzero(count == 0)[0])
        raise DataError(f"{step_name(layout.offsets, t)} allows no label at all; allow at least one")
    codes = np.where(count == 1, allowed.argmax(axis=1), -1).astype(np.int32)
    return EncodedLabels(codes, np.ascontiguousarray(allowed) if (count > 1).any() else None, layout.offsets)


@dataclass(frozen=True, eq=False)
class Costs:
    """How the kernels take the loss: its kind, and its costs by step (N, K), or by gold label (K, K)."""

    kind: int
    table: FloatArray
    matrix: FloatArray

    def by_step(self, gold: EncodedLabels) -> FloatArray:
        """(N, K); zeros for a loss that is not a sum of costs."""
        if len(self.table):
            return self.table
        if len(self.matrix):
            by_gold: FloatArray = self.matrix[gold.codes]
            return by_gold
        return np.zeros((len(gold.codes), self.table.shape[1]))


def costs_of(
    objective: Objective, loss: Loss | Tensor, gold: EncodedLabels, layout: Layout, n_labels: int
) -> Costs:
    """The costs of a loss, or of a tensor of the shape of the scores: what label k at step t costs."""
    nothing = np.zeros((0, n_labels))
    if not objective.uses_loss:
        return Costs(NO_LOSS, nothing, nothing)
    if isinstance(loss, Tensor):
        costs = np.ascontiguousarray(layout.packed(loss.double(), (n_labels,)))
        if not np.isfinite(costs).all():
            raise DataError("the costs contain NaN or an infinity; they must be finite")
        return Costs(COSTS, costs, nothing)
    if isinstance(loss, Hamming) and gold.allowed is None:
        return Costs(COSTS, nothing, 1.0 - np.eye(n_labels))
    kind, table = loss_table(objective, loss, gold, LabelSet(range(n_labels)))
    return Costs(kind, table, nothing)

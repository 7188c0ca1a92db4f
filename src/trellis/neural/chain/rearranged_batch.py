"""Batches whose steps do not lie as the chains read them: rows with gaps, or time before batch.

A :class:`Rearrangement` takes every tensor of the batch into the order that the chains read, and puts their
answers back where the steps were. Gradients follow, because both ways are operations of PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from trellis.core.arrays import BoolArray, IntArray
from trellis.core.errors import DataError
from trellis.neural.chain.batch_layout import Layout, has_gaps, mask_array
from trellis.neural.tensor_structure import Goal, ScoredBatch
from trellis.neural.tensors import constant_array

IGNORED = -100  # a gold label that says: there is no step here


class Rearrangement(Protocol):
    def take(self, values: Tensor) -> Tensor:
        """A tensor whose first axes are those of the given batch, as the chains read it."""

    def put(self, answers: Tensor, before: int, fill: float) -> Tensor:
        """Answers with ``before`` axes in front, as the batch was given; ``fill`` where there is no step."""


@dataclass(frozen=True, eq=False)
class TimeFirst:
    """[time, batch, ...] is read as [batch, time, ...]."""

    def take(self, values: Tensor) -> Tensor:
        if values.ndim < 2:
            raise DataError(
                f"a tensor has shape {tuple(values.shape)}; with batch_first=False it must begin with "
                "(time, batch)"
            )
        return values.transpose(0, 1)

    def put(self, answers: Tensor, before: int, fill: float) -> Tensor:
        return answers.transpose(before, before + 1)


@dataclass(frozen=True, eq=False)
class KeptSteps:
    """The rows of a batch that are steps, packed: step t of a sequence follows the one kept before it.

    ``shape``: that of the given batch. ``offsets`` (S + 1,): where the sequences begin among the ``rows``.
    """

    shape: tuple[int, ...]
    rows: IntArray
    offsets: IntArray

    @classmethod
    def of(cls, marks: BoolArray, bounds: IntArray) -> KeptSteps:
        """``marks``: true where a row is kept. ``bounds`` (S + 1,): the rows at which sequences begin."""
        rows = np.flatnonzero(marks)
        return cls(marks.shape, rows, np.searchsorted(rows, bounds).astype(np.int64))

    def take(self, values: Tensor) -> Tensor:
        axes = len(self.shape)
        if tuple(values.shape[:axes]) != self.shape:
            raise DataError(
                f"a tensor has shape {tuple(values.shape)}; to match the scores it must begin with "
                f"{self.shape}"
            )
        return values.flatten(0, axes - 1)[self._index(values)]

    def put(self, answers: Tensor, before: int, fill: float) -> Tensor:
        shape = list(answers.shape)
        shape[before] = int(np.prod(self.shape))
        rows = answers.new_full(shape, fill).index_copy(before, self._index(answers), answers)
        return rows.reshape(*shape[:before], *self.shape, *shape[before + 1 :])

    def _index(self, like: Tensor) -> Tensor:
        return torch.from_numpy(self.rows).to(like.device)


@dataclass(frozen=True, eq=False)
class RearrangedBatch(ScoredBatch):
    """What ``inner`` answers, where the steps were."""

    inner: ScoredBatch
    order: Rearrangement

    def objective_values(self, gold: Any, goal: Goal) -> Tensor:
        return self.inner.objective_values(*self._arranged(gold, goal))

    def gaps_and_losses(self, gold: Any, goal: Goal) -> tuple[Tensor, Tensor]:
        return self.inner.gaps_and_losses(*self._arranged(gold, goal))

    def decode(self) -> Tensor:
        return self.order.put(self.inner.decode(), 0, -1)

    def log_partition(self) -> Tensor:
        return self.inner.log_partition()

    def marginals(self) -> Tensor:
        return self.order.put(self.inner.marginals(), 0, 0.0)

    def entropy(self) -> Tensor:
        return self.inner.entropy()

    def sample(self, n_samples: int, seed: int) -> Tensor:
        return self.order.put(self.inner.sample(n_samples, seed), 1, -1)

    def k_best(self, k: int) -> tuple[Tensor, Tensor]:
        labels, scores = self.inner.k_best(k)
        return self.order.put(labels, 1, -1), scores

    def _arranged(self, gold: Any, goal: Goal) -> tuple[Tensor, Goal]:
        costs = self.order.take(goal.loss) if isinstance(goal.loss, Tensor) else goal.loss
        return self.order.take(torch.as_tensor(gold)), replace(goal, loss=costs)


def kept_steps(scores: Tensor, gold: Any, lengths: Any, mask: Any, offsets: Any) -> KeptSteps | None:
    """The steps that a mask with gaps, or gold labels of -100, leave; None where the batch needs no packing.

    Raises what :meth:`Layout.of` raises about lengths, mask and offsets that do not fit the scores.
    """
    shape = tuple(scores.shape[:-1])
    ignored = _ignored(gold, shape)
    by_mask = mask is not None and scores.ndim == 3 and lengths is None and offsets is None
    if ignored is None and not by_mask:
        return None
    if by_mask:
        marks = mask_array(mask, shape)
        if ignored is None and not has_gaps(marks):
            return None
    else:
        layout = Layout.of(scores, lengths, mask, offsets)
        marks = np.zeros(layout.n_rows, np.bool_)
        marks[layout.steps] = True
        marks = marks.reshape(shape)
        offsets = layout.offsets
    if ignored is not None:
        if not by_mask and not (marks & ignored).any():
            return None
        marks = marks & ~ignored
    bounds = np.arange(shape[0] + 1) * shape[1] if scores.ndim == 3 else offsets
    return KeptSteps.of(marks, bounds)


def _ignored(gold: Any, shape: tuple[int, ...]) -> BoolArray | None:
    """Where gold labels are -100; None where none is."""
    if gold is None:
        return None
    codes = torch.as_tensor(gold)
    if codes.is_floating_point() or codes.dtype == torch.bool or tuple(codes.shape) != shape:
        return None  # sets of labels; whatever else is wrong is said where gold labels are read
    found: BoolArray = constant_array(codes) == IGNORED
    return found if found.any() else None

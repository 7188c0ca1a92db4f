"""Mini-batches of sentences of similar length, padded; the same for the same seed.

An epoch shuffles the sentences, sorts each pool of ``POOL`` batches by length, cuts it into batches and
shuffles these: little padding, and batches that differ from epoch to epoch. Sentences without steps are left
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trellis.core.arrays import IntArray
from trellis.data.labels import EncodedLabels
from trellis.data.sequences import take_runs
from trellis.neural.labeler.network_inputs import Inputs

POOL = 16  # batches that are sorted together


@dataclass(frozen=True, eq=False)
class Batch:
    """``inputs`` [batch, time, columns], ``lengths`` (batch,), ``gold`` [batch, time] or, where labels are
    not all known, booleans [batch, time, labels]; ``costs`` [batch, time, labels] of a loss that has some."""

    inputs: Tensor
    lengths: Tensor
    gold: Tensor | None = None
    costs: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Corpus:
    """Sentences with their labels (``None`` for prediction) and costs (N, K)."""

    inputs: Inputs
    gold: EncodedLabels | None = None
    costs: NDArray[np.float64] | None = None

    def take(self, sentences: IntArray) -> Corpus:
        """Some of the sentences, in the order asked for, without costs."""
        steps, offsets = take_runs(self.inputs.offsets, sentences)
        gold = None if self.gold is None else self.gold.take(sentences)
        return Corpus(Inputs(self.inputs.rows[steps], offsets), gold)

    @cached_property
    def lengths(self) -> IntArray:
        return np.diff(self.inputs.offsets)

    @cached_property
    def nonempty(self) -> IntArray:
        """The numbers of the sentences that have steps."""
        return np.flatnonzero(self.lengths)

    def batch(self, sentences: IntArray) -> Batch:
        """Some sentences, padded: inputs with zeros, labels and costs with anything, which is not read."""
        lengths = self.lengths[sentences]
        positions = np.arange(lengths.max())
        mask = positions < lengths[:, None]
        steps = np.where(mask, self.inputs.offsets[sentences][:, None] + positions, 0)
        rows = self.inputs.rows[steps] * mask[:, :, None]
        inputs = torch.from_numpy(rows if rows.dtype == np.float32 else rows.astype(np.int64))
        gold = costs = None
        if self.gold is not None:
            known: Any = self.gold.codes if self.gold.allowed is None else self.gold.allowed
            gold = torch.from_numpy(known[steps].astype(np.bool_ if known.ndim == 2 else np.int64))
        if self.costs is not None:
            costs = torch.from_numpy(self.costs[steps])
        return Batch(inputs, torch.from_numpy(lengths), gold, costs)

    def n_batches(self, size: int) -> int:
        return -(-len(self.nonempty) // size)

    def shuffled(self, size: int, seed: list[int]) -> Iterator[Batch]:
        """The batches of an epoch."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(self.nonempty)
        pools = [order[a : a + size * POOL] for a in range(0, len(order), size * POOL)]
        sorted_ = np.concatenate([pool[np.argsort(self.lengths[pool], kind="stable")] for pool in pools])
        cuts = np.arange(0, len(sorted_), size)
        for first in rng.permutation(cuts):
            yield self.batch(sorted_[first : first + size])

    def by_length(self, size: int) -> Iterator[tuple[IntArray, Batch]]:
        """All sentences in batches of little padding, each with their numbers: for prediction."""
        order = self.nonempty[np.argsort(self.lengths[self.nonempty], kind="stable")]
        for first in range(0, len(order), size):
            chosen = order[first : first + size]
            yield chosen, self.batch(chosen)

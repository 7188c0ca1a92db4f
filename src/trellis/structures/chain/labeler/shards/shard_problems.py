"""Shards of encoded sequences, and the problem of a sum over them.

A shard of data in memory is a run of sequences; where it is cut depends on the data alone. The problem of a
shard keeps its features arranged, and no scratch of the size of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.core.arrays import IntArray
from trellis.core.backends import Backend, PlacedShards
from trellis.core.errors import UnsupportedError
from trellis.core.shards import shard_bounds
from trellis.data.latent_labels import LatentLabels
from trellis.losses.labelings import Loss
from trellis.objectives.records import Objective
from trellis.objectives.sharded_problem import ProblemShard, ShardedProblem, as_it_is
from trellis.structures.chain.labeler.chain_training import WeightedExamples, linear_problem
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties

SHARDS, STEPS = 16, 100_000  # of data in memory: so many shards, or more where they would be larger


@dataclass(frozen=True, eq=False)
class DataShard:
    """Encoded sequences. ``number``: of the shard. ``where``: what messages call it."""

    data: WeightedExamples
    number: int
    where: str


@dataclass(frozen=True, eq=False)
class ProblemParts:
    """What the problems of all shards have in common."""

    layout: LinearLayout
    penalties: Penalties
    latent: LatentLabels
    objective: Objective
    loss: Loss
    new_problem: Callable[..., Any] = linear_problem


def cuts(offsets: IntArray) -> list[tuple[int, int]]:
    """The first and the last sequence (exclusive) of each shard of data in memory."""
    return shard_bounds(offsets, max(SHARDS, -(-int(offsets[-1]) // STEPS)))


def data_shards(data: WeightedExamples) -> list[DataShard]:
    return [
        DataShard(data.take(np.arange(first, last)), i, f"counted from sequence {first}")
        for i, (first, last) in enumerate(cuts(data.examples.labels.offsets))
    ]


def placed(backend: Backend, shards: Sequence[DataShard]) -> PlacedShards:
    return backend.place(as_it_is, shards)


def sharded_problem(shards: PlacedShards, parts: ProblemParts, l2: float, l1: float) -> ShardedProblem:
    """The problem over shards of :class:`DataShard`."""
    return ShardedProblem.of(shards.change(problem_of_shard, parts), l2, l1)


def problem_of_shard(shard: DataShard, parts: ProblemParts) -> ProblemShard:
    if not len(shard.data.examples):
        return ProblemShard(None, shard.number, shard.where)
    names, latent = parts.latent.labels, parts.latent
    data = shard.data.with_costs(parts.loss, names) if parts.objective.uses_loss else shard.data
    data = data.over_states(latent)
    try:
        problem = parts.new_problem(
            data.examples,
            parts.layout,
            parts.penalties,
            latent.states,
            parts.objective,
            parts.loss,
            data.weight,
            data.cost,
            keep_scratch=False,
        )
    except UnsupportedError as error:
        raise UnsupportedError(f"{shard.where}: {error}") from error
    if hasattr(problem, "arrange"):
        problem.arrange()
    return ProblemShard(problem, shard.number, shard.where)


def taken(shard: DataShard, sequences: IntArray) -> DataShard:
    """Some of the sequences of a shard, whose numbers rise."""
    if len(sequences) == len(shard.data.examples):
        return shard
    return replace(shard, data=shard.data.take(sequences))

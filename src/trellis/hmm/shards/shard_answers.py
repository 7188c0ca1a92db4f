"""Questions about sequences in shards: each shard asks a copy of the model about its own sequences."""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.backends import config_context
from trellis.data.answers import Answers
from trellis.data.sequence_shards.sequence_shard import SequenceShard, located
from trellis.hmm.shards.sharded_observations import ShardedObservations


def answers_per_step(data: ShardedObservations, model: Any, method: str, options: dict[str, Any]) -> Any:
    """``model.method(X, **options)``: an array for each sequence; a pair where there is more of each."""
    found = [one for one in data.shards.ask(shard_answers, _alone(model), method, options) if one is not None]
    if any(isinstance(one, tuple) for one in found):
        return (
            Answers(chain.from_iterable(own for own, _ in found)),
            np.concatenate([others for _, others in found]),
        )
    return Answers(chain.from_iterable(found))


def log_likelihoods(data: ShardedObservations, model: Any) -> FloatArray:
    """log p(x) of each sequence."""
    found = data.shards.ask(shard_answers, _alone(model), "log_likelihood", {})
    return np.concatenate([np.zeros(0), *(one for one in found if one is not None)])


def shard_answers(shard: SequenceShard, model: Any, method: str, options: dict[str, Any]) -> Any:
    """None where the shard has no sequences."""
    if not shard.n_sequences:
        return None
    X = np.split(shard.row("values"), shard.offsets[1:-1])
    with located(shard.source or f"counted from sequence {shard.first} on"), config_context(backend=None):
        return getattr(model, method)(X, **options)


def _alone(model: Any) -> Any:
    """The model for one shard: without threads and a backend of its own."""
    return copy.copy(model).set_params(backend=None, n_jobs=None, checkpoint=None)

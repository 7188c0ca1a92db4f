"""Observations in shards: the E-step, or the counts of known states, as sums over shards.

    h(u) = sum over shards of log p(x),    v = sum over shards of expected statistics

Parameters go out once per iteration, one sum of statistics comes back, in an order that depends on the number
of shards alone. So EM on threads, on disk and on a cluster takes the same steps to the last bit, and those of
EM in memory to rounding. A sequence lies in one shard as a whole.

Starting points are chosen from a sample of the shards, which is all of the data where these are small
(:mod:`trellis.data.sequence_shards.sharded_sequences`). A row that every state of such a start would call
impossible (a symbol that is too rare for the sample) joins it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.backends import Backend, PlacedShards
from trellis.data.row_checks import check_observed
from trellis.data.sequence_shards.sequence_shard import SequenceShard, cut_sequences, located, narrowed
from trellis.data.sequence_shards.sharded_sequences import ShardedSequences
from trellis.data.sequences import offsets_from_lengths
from trellis.data.shard_files import FileShard, ShardFiles
from trellis.hmm.e_step import ExpectedSums, block_bounds, count_known_states, expected_sums, finished
from trellis.hmm.emissions import Emission, Statistics
from trellis.hmm.hmm_parameters import Expectations, HMMParameters
from trellis.hmm.observations import UNKNOWN, Observations
from trellis.hmm.transition_constraints import TransitionConstraints

ROUNDS, RARE = 20, 1000  # searches for impossible rows, and such rows that a shard gives in one


class ShardedObservations(ShardedSequences):
    """What :class:`Observations` are to learning, in shards."""

    def __init__(self, shards: PlacedShards, whole: Mapping[str, Any] | None = None) -> None:
        super().__init__(shards, whole)
        self.n_known: int = shards.total(shard_known)

    @classmethod
    def of(cls, observations: Observations, backend: Backend) -> ShardedObservations:
        """Observations in memory, cut by themselves alone."""
        width = max(int(np.prod(observations.values.shape[1:])), 1)
        rows = {"values": observations.values, "known": observations.known}
        shards = cut_sequences(rows, observations.offsets, width)
        return cls(backend.place(narrowed, shards), observations.identity())

    @classmethod
    def read(
        cls, files: ShardFiles, backend: Backend, emission: Emission, n_states: int
    ) -> ShardedObservations:
        """Observations in files, and their states where the files have labels."""
        make = partial(read_observations, emission=emission, n_states=n_states)
        return cls(backend.place(make, files.shards()))

    @property
    def all_known(self) -> bool:
        return self.n_known == self.n_steps > 0

    def check_observed(self, emission: Emission) -> None:
        """There is something to learn from."""
        missing = self.shards.total(shard_missing, emission)
        check_observed(np.full(min(self.n_steps, 1), missing == self.n_steps))

    def expectations(self, parameters: HMMParameters) -> tuple[float, Expectations]:
        """log p(x) of all sequences, and their statistics."""
        log_p, sums = self.shards.total(shard_expectations, parameters)
        return log_p, finished(ExpectedSums(*sums), parameters)

    def count_known_states(
        self, parameters: HMMParameters, constraints: TransitionConstraints
    ) -> Expectations:
        return Expectations(*self.shards.total(shard_counts, parameters, constraints), parameters)

    def start_sample(self, emission: Emission, n_states: int) -> Observations:
        """What starting points are chosen from."""
        width = n_states + self.width("values")
        sample = _as_observations(self.sample(width, {"known": UNKNOWN}))
        if self.whole_in_sample(width) or emission.n_states is not None:
            return sample
        for _ in range(ROUNDS):
            even = np.full((sample.n_steps, n_states), 1.0 / n_states)
            probe = emission.initialise(sample.values, even, np.random.default_rng(0))
            rare = [rows for rows in self.shards.ask(shard_impossible, probe) if len(rows)]
            if not rare:
                break
            sample = _with_rows(sample, np.unique(np.concatenate(rare), axis=0))
        return sample


def read_observations(file: FileShard, emission: Emission, n_states: int) -> SequenceShard:
    """A shard out of files, whose labels are states."""
    inputs, states = file.read()
    with located(file.name):
        observations = Observations.pack(inputs, check=emission.check).with_states(states, n_states)
    rows = {"values": observations.values, "known": observations.known}
    return narrowed(SequenceShard(rows, observations.offsets, source=file.name))


# -- what shards are asked ------------------------------------------------------------------------------


def shard_known(shard: SequenceShard) -> int:
    known = shard.optional("known")
    return 0 if known is None else int((known >= 0).sum())


def shard_missing(shard: SequenceShard, emission: Emission) -> int:
    return int(emission.missing(shard.row("values")).sum()) if shard.n_steps else 0


def shard_expectations(
    shard: SequenceShard, parameters: HMMParameters
) -> tuple[float, tuple[NDArray[Any], NDArray[Any], Statistics]]:
    if not shard.n_steps:
        return 0.0, _nothing(parameters)
    log_p, sums = expected_sums(parameters, _as_observations(shard), 1)
    return float(log_p.sum()), (sums.start, sums.pairs, sums.emission)


def shard_counts(
    shard: SequenceShard, parameters: HMMParameters, constraints: TransitionConstraints
) -> tuple[NDArray[Any], NDArray[Any], Statistics]:
    if not shard.n_steps:
        return _nothing(parameters)
    observations = _as_observations(shard)
    found = count_known_states(parameters, observations, np.asarray(observations.known), constraints)
    return found.start, found.pairs, found.emission


def shard_impossible(shard: SequenceShard, emission: Emission) -> NDArray[Any]:
    """Different rows that no state of the emission can emit, the first few of them."""
    values = shard.row("values")
    if not shard.n_steps:
        return values
    found, every = [values[:0]], np.arange(len(values) + 1)
    for _, _, lo, hi in block_bounds(every, 0, len(values), emission.n_states or 1):
        impossible = (emission.log_likelihood(values[lo:hi]) == -np.inf).all(axis=1)
        if impossible.any():
            found.append(np.unique(values[lo:hi][impossible], axis=0))
    return np.unique(np.concatenate(found), axis=0)[:RARE]


def _nothing(parameters: HMMParameters) -> tuple[NDArray[Any], NDArray[Any], Statistics]:
    return np.zeros(parameters.n_states), np.zeros_like(parameters.transitions), Statistics()


def _as_observations(shard: SequenceShard) -> Observations:
    known = shard.optional("known")
    return Observations(shard.row("values"), shard.offsets, known, first=shard.first, source=shard.source)


def _with_rows(sample: Observations, rows: NDArray[Any]) -> Observations:
    """The sample and rows, each as a sequence of its own."""
    lengths = np.concatenate([sample.lengths, np.ones(len(rows), np.int64)])
    known = sample.known
    if known is not None:
        known = np.concatenate([known, np.full(len(rows), UNKNOWN)])
    return Observations(np.concatenate([sample.values, rows]), offsets_from_lengths(lengths), known)

"""What an input-output HMM learns from: observations and inputs, in memory or in shards.

Inputs are centred: with them the intercepts, which have no prior, change, and no probability does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import FloatArray
from trellis.core.backends import Backend
from trellis.core.errors import DataError
from trellis.data.row_checks import check_observed, check_rows
from trellis.data.sequence_shards.sequence_shard import SequenceShard, cut_sequences, located, narrowed
from trellis.data.sequence_shards.sharded_sequences import ShardedSequences
from trellis.data.sequences import Sequences, check_same_lengths
from trellis.data.shard_files import FileShard, ShardFiles
from trellis.hmm.input_output.conditional_emission import ConditionalEmission
from trellis.hmm.input_output.io_em import EMProblem
from trellis.hmm.input_output.io_em_on_shards import ShardedEMProblem
from trellis.hmm.input_output.io_parameters import with_intercept


@dataclass(frozen=True, eq=False)
class InputsAndObservations:
    """Packed: ``values`` as the emission takes them, and the inputs of the same sequences."""

    values: NDArray[Any]
    inputs: Sequences

    @classmethod
    def pack(
        cls,
        X: Any,
        inputs: Any,
        lengths: ArrayLike | None,
        emission: ConditionalEmission,
        n_inputs: int | None,
        *,
        observed: bool = True,
    ) -> InputsAndObservations:
        """Check what the user gave. ``observed``: there must be something to learn from."""
        given = pack_inputs(inputs, lengths, n_inputs)
        packed = Sequences.pack(X, lengths, check=emission.check)
        check_same_lengths(packed.offsets, given.offsets, "inputs")
        if observed:
            check_observed(emission.unobserved(packed.values))
        return cls(packed.values, given)

    @property
    def n_steps(self) -> int:
        return len(self.values)

    @cached_property
    def centre(self) -> FloatArray:
        mean: FloatArray = self.inputs.values.mean(axis=0)
        return mean

    @cached_property
    def features(self) -> FloatArray:
        return with_intercept(self.inputs.values - self.centre)

    def identity(self) -> dict[str, Any]:
        """What a checkpoint knows these data by."""
        return {"X": (self.values, self.inputs.offsets), "inputs": self.inputs.values}

    def start_sample(self, n_states: int) -> tuple[NDArray[Any], FloatArray]:
        """Observations and features that starting points are chosen from: all of them."""
        return self.values, self.features

    def problem(self, l2: float, n_jobs: int) -> Any:
        return EMProblem(self.values, self.features, self.inputs.offsets, l2, n_jobs)

    def rows(self) -> dict[str, Any]:
        return {"values": self.values, "inputs": self.inputs.values}


class ShardedInputs:
    """The same in shards, whose rows are ``values`` and ``features``."""

    def __init__(self, data: ShardedSequences, emission: ConditionalEmission | None = None) -> None:
        if emission is not None:
            missing = data.shards.total(shard_unobserved, emission)
            check_observed(np.full(min(data.n_steps, 1), missing == data.n_steps))
        self.n_steps, self.identity = data.n_steps, data.identity
        total: Any = data.shards.total(shard_inputs)
        self.centre: FloatArray = total / data.n_steps
        self._data = ShardedSequences(data.shards.change(with_features, self.centre))

    @classmethod
    def of(cls, data: InputsAndObservations, backend: Backend, n_states: int) -> ShardedInputs:
        """Data in memory, cut by themselves alone."""
        width = n_states * (n_states + 1) + data.features.shape[1] + 1
        shards = cut_sequences(data.rows(), data.inputs.offsets, width)
        return cls(ShardedSequences(backend.place(narrowed, shards), data.identity()))

    @classmethod
    def read(
        cls,
        files: ShardFiles,
        backend: Backend,
        n_states: int,
        emission: ConditionalEmission,
        n_inputs: int | None,
    ) -> ShardedInputs:
        """Files whose labels are inputs."""
        make = partial(read_inputs, emission=emission, n_inputs=n_inputs)
        return cls(ShardedSequences(backend.place(make, files.shards())), emission)

    def start_sample(self, n_states: int) -> tuple[NDArray[Any], FloatArray]:
        width = sum(self._data.width(name) for name in ("values", "features"))
        sample = self._data.sample(width)
        return sample.row("values"), sample.row("features")

    def problem(self, l2: float, n_jobs: int) -> Any:
        return ShardedEMProblem(self._data.shards, l2)


def pack_inputs(inputs: Any, lengths: ArrayLike | None, n_inputs: int | None) -> Sequences:
    if inputs is None:
        raise DataError("inputs are missing; give a row of them for each step of X")
    check = partial(check_rows, n_columns=n_inputs, name="inputs", missing=False)
    return Sequences.pack(inputs, lengths, name="inputs", check=check)


def read_inputs(file: FileShard, emission: ConditionalEmission, n_inputs: int | None) -> SequenceShard:
    X, inputs = file.read()
    with located(file.name):
        data = InputsAndObservations.pack(X, inputs, None, emission, n_inputs, observed=False)
    return narrowed(SequenceShard(data.rows(), data.inputs.offsets, source=file.name))


def shard_unobserved(shard: SequenceShard, emission: ConditionalEmission) -> int:
    return int(emission.unobserved(shard.row("values")).sum()) if shard.n_steps else 0


def shard_inputs(shard: SequenceShard) -> FloatArray | None:
    """The sum of the inputs."""
    return shard.row("inputs").sum(axis=0) if shard.n_steps else None


def with_features(shard: SequenceShard, centre: FloatArray) -> SequenceShard:
    values, inputs = shard.row("values"), shard.row("inputs")
    features = with_intercept(inputs - centre) if shard.n_steps else np.zeros((0, len(centre) + 1))
    rows = {"values": values, "features": features}
    return SequenceShard(rows, shard.offsets, shard.each, shard.first, shard.source)

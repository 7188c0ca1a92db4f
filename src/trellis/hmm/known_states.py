"""Known states: learning is counting, in closed form."""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.hmm.chain_constraints import Structure
from trellis.hmm.emissions import Statistics
from trellis.hmm.hmm_expectation import Expectations, Parameters, add, block_bounds
from trellis.hmm.observations import Observations


def counted(
    parameters: Parameters, observations: Observations, states: IntArray, structure: Structure
) -> Expectations:
    """The statistics of observations whose states are all known; what the structure forbids is an error."""
    k, offsets = parameters.n_states, observations.offsets
    begins = offsets[:-1][np.diff(offsets) > 0]
    inside = np.ones(len(states), bool)
    inside[begins] = False
    into = np.flatnonzero(inside)
    refused = ~structure.allowed[states[into - 1], states[into]]
    if refused.any():
        sequence, step = observations.locate(int(into[np.argmax(refused)]))
        row = offsets[sequence] + step
        raise DataError(
            f"sequence {sequence} goes from state {states[row - 1]} to {states[row]} at step {step}, which "
            "the zeros in transitions forbid; allow it, or correct the states"
        )
    refused = ~structure.allowed_initial[states[begins]]
    if refused.any():
        row = int(begins[np.argmax(refused)])
        raise DataError(
            f"sequence {observations.locate(row)[0]} begins in state {states[row]}, which the zeros in "
            "initial forbid; allow it, or correct the states"
        )
    pairs = np.bincount(states[into - 1] * k + states[into], minlength=k * k).reshape(k, k)
    start = np.bincount(states[begins], minlength=k)
    statistics, one = Statistics(), np.eye(k)
    for _, _, lo, hi in block_bounds(offsets, 0, observations.n_sequences, k):
        add(statistics, parameters.emission.statistics(observations.values[lo:hi], one[states[lo:hi]]))
    return Expectations(start.astype(np.float64), pairs.astype(np.float64), statistics, parameters)

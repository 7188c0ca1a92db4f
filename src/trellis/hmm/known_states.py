"""Known states: learning is counting, in closed form."""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.hmm.e_step import add_statistics, block_bounds
from trellis.hmm.emissions import Statistics
from trellis.hmm.hmm_parameters import Expectations, HMMParameters
from trellis.hmm.observations import Observations
from trellis.hmm.transition_constraints import TransitionConstraints


def count_known_states(
    parameters: HMMParameters,
    observations: Observations,
    states: IntArray,
    constraints: TransitionConstraints,
) -> Expectations:
    """The statistics of observations whose states are all known; what is forbidden is an error."""
    k, offsets = parameters.n_states, observations.offsets
    begins = offsets[:-1][observations.lengths > 0]
    inside = np.ones(len(states), bool)
    inside[begins] = False
    into = np.flatnonzero(inside)
    refused = ~constraints.allowed[states[into - 1], states[into]]
    if refused.any():
        row = int(into[np.argmax(refused)])
        sequence, step = observations.locate(row)
        raise DataError(
            f"sequence {sequence} goes from state {states[row - 1]} to {states[row]} at step {step}, which "
            "the zeros in transitions forbid; allow it, or correct the states"
        )
    refused = ~constraints.allowed_initial[states[begins]]
    if refused.any():
        row = int(begins[np.argmax(refused)])
        raise DataError(
            f"sequence {observations.locate(row)[0]} begins in state {states[row]}, which the zeros in "
            "initial forbid; allow it, or correct the states"
        )
    pairs = np.bincount(states[into - 1] * k + states[into], minlength=k * k).reshape(k, k)
    start = np.bincount(states[begins], minlength=k)
    statistics, one = Statistics(), np.eye(k)
    for _, _, lo, hi in block_bounds(offsets, 0, len(observations), k):
        own = parameters.emission.statistics(observations.values[lo:hi], one[states[lo:hi]])
        add_statistics(statistics, own)
    return Expectations(start.astype(np.float64), pairs.astype(np.float64), statistics, parameters)

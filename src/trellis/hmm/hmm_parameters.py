"""The parameters of a hidden Markov model, and their expected statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.registration import register
from trellis.core.weighted_counts import weighted_sum
from trellis.hmm.emissions import Emission, Statistics
from trellis.hmm.hmm_chain import HMMChain
from trellis.hmm.many_states.sparse_hmm_chain import hmm_chain


@register
@dataclass(frozen=True, eq=False)
class HMMParameters:
    """p(y_1), p(y_t | y_{t-1}) and p(x_t | y_t)."""

    initial: FloatArray
    transitions: FloatArray
    emission: Emission

    @property
    def n_states(self) -> int:
        return len(self.initial)

    @cached_property
    def chain(self) -> HMMChain:
        return hmm_chain(self.initial, self.transitions)

    def permute(self, order: IntArray) -> HMMParameters:
        """State k of the result is state ``order[k]``."""
        return HMMParameters(
            self.initial[order], self.transitions[np.ix_(order, order)], self.emission.permute(order)
        )


@dataclass(frozen=True, eq=False)
class Expectations:
    """Expected counts of first states (K,) and transitions (K, K), the statistics of the emission, and the
    parameters under which they were taken."""

    start: FloatArray
    pairs: FloatArray
    emission: Statistics
    parameters: HMMParameters

    def expected_log_likelihood(self, parameters: HMMParameters) -> float:
        """E[log p(x, y)] at other parameters, under the posterior that these statistics are of."""
        chain = parameters.chain
        counted = weighted_sum(self.start, chain.log_initial) + weighted_sum(
            self.pairs, chain.log_transitions
        )
        return counted + parameters.emission.expected_log_likelihood(self.emission)

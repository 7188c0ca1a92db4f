"""Online EM: learn from batches of sequences as they come, each looked at once (stepwise EM).

Batch i = 1, 2, ... of n_i steps gives expected statistics s_i under the parameters so far. A running mean per
step,

    S_i = (1 - rho_i) S_{i-1} + rho_i s_i / n_i,          rho_i = i ** -power,     0.5 < power <= 1,

is kept, and the M-step is made from N_i S_i with N_i = n_1 + ... + n_i, so that priors weigh as they would in
a batch of all the data. ``power`` = 1 is the plain mean, which never forgets what the first poor parameters
made of the first batches; towards 0.5 it forgets faster and is noisier. Batches should be large enough that
every state occurs in them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.registration import register
from trellis.hmm.e_step import expectations
from trellis.hmm.emissions import Emission, Statistics
from trellis.hmm.hmm_parameters import Expectations, HMMParameters
from trellis.hmm.learning.baum_welch import m_step
from trellis.hmm.observations import Observations
from trellis.hmm.transition_constraints import TransitionConstraints


@register
@dataclass(frozen=True, eq=False)
class OnlineState:
    """The running means S of first states (K,), transitions (K, K) and the statistics of the emission, and
    how many batches and steps are in them."""

    start: FloatArray
    pairs: FloatArray
    emission: Statistics
    n_batches: int
    n_steps: int

    def __post_init__(self) -> None:
        # files hold an array without axes as a number
        emission = {name: np.asarray(value) for name, value in self.emission.items()}
        object.__setattr__(self, "emission", emission)

    def permute(self, order: IntArray, emission: Emission) -> OnlineState:
        """State k of the result is state ``order[k]``; ``emission`` is the one of the model so far."""
        return replace(
            self,
            start=self.start[order],
            pairs=self.pairs[np.ix_(order, order)],
            emission=emission.permute_statistics(self.emission, order),
        )


def online_step(
    parameters: HMMParameters,
    observations: Observations,
    constraints: TransitionConstraints,
    state: OnlineState | None,
    power: float,
    n_jobs: int,
) -> tuple[HMMParameters, OnlineState, float]:
    """New parameters, the new state, and the log-likelihood of the batch under the parameters before."""
    log_p, batch = expectations(parameters, observations, n_jobs)
    n_batches, n_steps = 1, observations.n_steps
    weight = 1.0 / n_steps
    start, pairs = weight * batch.start, weight * batch.pairs
    emission = {key: weight * value for key, value in batch.emission.items()}
    if state is not None:
        n_batches, n_steps = state.n_batches + 1, state.n_steps + n_steps
        rho = float(n_batches) ** -power
        before = parameters.emission.recentre(state.emission)
        start, pairs = (
            rho * new + (1.0 - rho) * old for new, old in ((start, state.start), (pairs, state.pairs))
        )
        emission = {key: rho * value + (1.0 - rho) * before[key] for key, value in emission.items()}
    total = Expectations(
        n_steps * start, n_steps * pairs, {k: n_steps * v for k, v in emission.items()}, parameters
    )
    online = OnlineState(start, pairs, emission, n_batches, n_steps)
    return m_step(total, constraints), online, float(log_p.sum())

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

from dataclasses import dataclass

from trellis.hmm.baum_welch import m_step
from trellis.hmm.e_step import expectations
from trellis.hmm.hmm_parameters import Expectations, HMMParameters
from trellis.hmm.observations import Observations
from trellis.hmm.transition_constraints import TransitionConstraints


@dataclass(frozen=True, eq=False)
class OnlineState:
    """The running mean S, and how many batches and steps are in it."""

    mean: Expectations
    n_batches: int
    n_steps: int


def online_step(
    parameters: HMMParameters,
    observations: Observations,
    constraints: TransitionConstraints,
    state: OnlineState | None,
    power: float,
    n_jobs: int,
) -> tuple[HMMParameters, OnlineState, float]:
    """New parameters, the new state, and the log-likelihood of the batch under the parameters before."""
    log_p, now = expectations(parameters, observations, n_jobs)
    n = observations.n_steps
    if state is None:
        state = OnlineState(_combined(now, 1.0 / n, None, 0.0), 1, n)
    else:
        rho = (state.n_batches + 1.0) ** -power
        mean = _combined(now, rho / n, state.mean, 1.0 - rho)
        state = OnlineState(mean, state.n_batches + 1, state.n_steps + n)
    return (
        m_step(_combined(state.mean, float(state.n_steps), None, 0.0), constraints),
        state,
        float(log_p.sum()),
    )


def _combined(a: Expectations, weight: float, b: Expectations | None, other: float) -> Expectations:
    """weight * a + other * b, as under the parameters of a."""
    emission = {key: weight * value for key, value in a.emission.items()}
    start, pairs = weight * a.start, weight * a.pairs
    if b is not None:
        before = a.parameters.emission.recentre(b.emission)
        emission = {key: value + other * before[key] for key, value in emission.items()}
        start, pairs = start + other * b.start, pairs + other * b.pairs
    return Expectations(start, pairs, emission, a.parameters)

"""EM for a hidden Markov model (Baum-Welch) as an instance of the DC algorithm.

    g(u) = - log prior(u)                     (the log-partition function is 0: the parameters are normalised)
    h(u) = sum over sequences of log sum_y p_u(x, y)

v = the expected statistics under the posterior is a subgradient of h (the E-step, by forward-backward), <u,
v> is the expected log-likelihood of observations and states together, and the maximiser of <u, v> - g(u) is
the M-step. So

    primal_t = -(log-likelihood + log prior) at u_t
    dual_t   = -(entropy of the posterior at u_t + expected log-likelihood at u_{t+1} + log prior at u_{t+1})

and the second is minus the evidence lower bound, for the entropy is h(u_t) - <u_t, v_t>. Sums, not means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.errors import DataError
from trellis.hmm.e_step import expectations
from trellis.hmm.hmm_parameters import Expectations, HMMParameters
from trellis.hmm.observations import Observations
from trellis.hmm.shards.sharded_observations import ShardedObservations
from trellis.hmm.transition_constraints import TransitionConstraints


@dataclass(frozen=True, eq=False)
class BaumWelch:
    """The pair (g, h) for given observations: a :class:`~trellis.solvers.dc.algorithm.DCProblem`."""

    observations: Observations | ShardedObservations
    constraints: TransitionConstraints
    n_jobs: int = 1

    def g(self, u: HMMParameters) -> float:
        value = -self.constraints.log_prior(u.initial, u.transitions)
        if "emission" in self.constraints.learn:
            value -= u.emission.log_prior()
        if value == np.inf:  # only at a start: no M-step gives such a probability
            raise DataError(
                "the start has a probability of 0 where the prior has a pseudo-count, which no estimate can "
                "have; raise that probability a little, or drop the pseudo-count (or unseen='smooth')"
            )
        return value

    def h(self, u: HMMParameters) -> tuple[float, Expectations]:
        if isinstance(self.observations, ShardedObservations):
            return self.observations.expectations(u)
        log_p, v = expectations(u, self.observations, self.n_jobs)
        return float(log_p.sum()), v

    def inner(self, u: HMMParameters, v: Expectations) -> float:
        return v.expected_log_likelihood(u)

    def magnitude(self, u: HMMParameters, v: Expectations) -> float:
        """The sizes of the terms of :meth:`inner` that may cancel."""
        return u.emission.magnitude(v.emission)

    def measure(self, h: float) -> dict[str, float]:
        return {"log_likelihood": h}

    def g_conjugate(self, v: Expectations) -> tuple[float, HMMParameters]:
        u = m_step(v, self.constraints)
        return self.inner(u, v) - self.g(u), u


def m_step(v: Expectations, constraints: TransitionConstraints) -> HMMParameters:
    """Maximum likelihood, or the mode of the posterior, from expected statistics."""
    before = v.parameters
    initial, transitions = constraints.maximise(v.start, v.pairs, before.initial, before.transitions)
    emission = before.emission.maximise(v.emission) if "emission" in constraints.learn else before.emission
    return HMMParameters(initial, transitions, emission)

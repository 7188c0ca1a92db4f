"""EM for an input-output HMM, as a DC algorithm.

With the parameters A, B of :mod:`trellis.hmm.input_output.io_parameters`, the objective is the log-posterior

    sum_i log p(x_i | u_i)  -  (l2 / 2) (||slopes of A||^2 + ||slopes of B||^2)  +  log prior of the emission

In terms of the DC programme min g - h: a point is the table of all log-probabilities of the steps, on which
g is finite only if the table comes from parameters, and is minus their log-prior; h is the log-likelihood,
convex in the table, and its gradient v is the table of posterior marginals (E-step). <point, v> is the
expected complete log-likelihood, and its maximum less g is the M-step. The
table is never built: points are parameters here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.shards import over_items
from trellis.hmm.input_output.conditional_emission import WeightedData
from trellis.hmm.input_output.io_parameters import IOParameters, first_steps
from trellis.hmm.input_output.softmax_regression import fit_softmax
from trellis.structures.chain.oracle.chain_oracle import Chain


@dataclass(frozen=True, eq=False)
class Posterior:
    """Marginals of the states ``unary`` (N, K) and of ``pairs`` (K, K, N), and the parameters behind them."""

    unary: FloatArray
    pairs: FloatArray
    at: IOParameters

    def expectation(
        self, u: IOParameters, values: NDArray[Any], features: FloatArray, offsets: IntArray
    ) -> float:
        """The expected complete log-likelihood of ``u`` for the data that this is the posterior of."""
        first = first_steps(offsets)
        return (
            float(np.vdot(self.unary[first], u.log_initial(features[first])))
            + float(np.vdot(self.pairs, u.log_transitions(features)))
            + u.emission.expected_log_likelihood(WeightedData(values, features, self.unary, self.at.emission))
        )


def posterior_of(
    u: IOParameters, values: NDArray[Any], features: FloatArray, offsets: IntArray, n_jobs: int
) -> tuple[float, Posterior]:
    """The log-likelihood, and the posterior: the E-step."""
    marginals = Chain(n_jobs).marginals(u.scores(values, features, offsets), per_step=True)
    pairs = np.ascontiguousarray(marginals.transitions.transpose(1, 2, 0))
    return float(marginals.log_partition.sum()), Posterior(marginals.unary, pairs, u)


@dataclass(frozen=True, eq=False)
class EMProblem:
    """Data, as a problem for :func:`trellis.training.driver.minimise_dc`."""

    values: NDArray[Any]
    features: FloatArray
    offsets: IntArray
    l2: float
    n_jobs: int = 1

    def g(self, u: IOParameters) -> float:
        return -u.log_prior(self.l2)

    def h(self, u: IOParameters) -> tuple[float, Posterior]:
        return posterior_of(u, self.values, self.features, self.offsets, self.n_jobs)

    def inner(self, u: IOParameters, v: Posterior) -> float:
        """The expected complete log-likelihood of ``u`` under the posterior ``v``."""
        return v.expectation(u, self.values, self.features, self.offsets)

    def magnitude(self, u: IOParameters, v: Posterior) -> float:
        """The sizes of the terms of :meth:`inner` that may cancel."""
        return u.emission.magnitude(v.unary.sum(axis=0))

    def g_conjugate(self, v: Posterior) -> tuple[float, IOParameters]:
        """The M-step, started from the parameters of the E-step: it never ends below its start."""
        u = self._maximise(v)
        return self.inner(u, v) - self.g(u), u

    def _maximise(self, v: Posterior) -> IOParameters:
        first, old = first_steps(self.offsets), v.at
        features = np.ascontiguousarray(self.features.T)
        begin = v.unary[first].T
        initial = fit_softmax(features[:, first], lambda a, b: begin[:, a:b], old.initial, self.l2)
        # the pairs of a first step are 0: it counts for nothing
        transitions = over_items(
            lambda j: fit_softmax(features, lambda a, b: v.pairs[j, :, a:b], old.transitions[j], self.l2),
            old.n_states,
            self.n_jobs,
        )
        emission = old.emission.maximise(self._weighted(v), self.n_jobs)
        return IOParameters(initial, np.stack(transitions), emission)

    def _weighted(self, v: Posterior) -> WeightedData:
        return WeightedData(self.values, self.features, v.unary, v.at.emission)

"""EM for an input-output HMM whose sequences lie in shards.

The E-step leaves the posteriors of the steps (K + K^2 numbers each) where the data are. The regressions of
the M-step ask for sums over all steps (:mod:`.regression_searches`), all of them together: a step of Newton's
method is one question to the shards, whatever the number of states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.backends import PlacedShards
from trellis.core.shards import over_items
from trellis.data.sequence_shards.sequence_shard import SequenceShard
from trellis.hmm.input_output.conditional_emission import WeightedData
from trellis.hmm.input_output.io_em import Posterior, posterior_of
from trellis.hmm.input_output.io_parameters import IOParameters, first_steps
from trellis.hmm.input_output.regression_searches import solve_together
from trellis.hmm.input_output.softmax_regression import regression_sums, softmax_search


@dataclass(frozen=True, eq=False)
class PosteriorShard:
    """The state of a shard after the E-step."""

    values: NDArray[Any]
    features: FloatArray
    offsets: IntArray
    log_likelihood: float
    posterior: Posterior


@dataclass(frozen=True, eq=False)
class PlacedPosterior:
    """Posteriors in shards, the expected steps in each state (K,), and the parameters behind them."""

    shards: PlacedShards
    weight: FloatArray
    at: IOParameters


@dataclass(frozen=True, eq=False)
class ShardedEMProblem:
    """The problem of :mod:`.io_em`. ``shards``: rows ``values`` and ``features``."""

    shards: PlacedShards
    l2: float

    def g(self, u: IOParameters) -> float:
        return -u.log_prior(self.l2)

    def h(self, u: IOParameters) -> tuple[float, PlacedPosterior]:
        after = self.shards.change(with_posterior, u)
        value, weight = after.total(shard_likelihood)
        return value, PlacedPosterior(after, weight, u)

    def inner(self, u: IOParameters, v: PlacedPosterior) -> float:
        return v.shards.total(shard_expectation, u)

    def magnitude(self, u: IOParameters, v: PlacedPosterior) -> float:
        return u.emission.magnitude(v.weight)

    def g_conjugate(self, v: PlacedPosterior) -> tuple[float, IOParameters]:
        old = v.at
        k = old.n_states
        searches = [
            softmax_search(old.initial, self.l2),
            *(softmax_search(start, self.l2) for start in old.transitions),
            *(old.emission.search(i) for i in range(k)),
        ]
        found = solve_together(searches, partial(v.shards.total, shard_sums))
        u = IOParameters(found[0], np.stack(found[1 : k + 1]), old.emission.assembled(found[k + 1 :]))
        return self.inner(u, v) - self.g(u), u


# -- what shards are asked ------------------------------------------------------------------------------


def with_posterior(shard: SequenceShard, u: IOParameters) -> PosteriorShard:
    """The E-step of one shard."""
    values, features, k = shard.row("values"), shard.row("features"), u.n_states
    value, posterior = 0.0, Posterior(np.zeros((0, k)), np.zeros((k, k, 0)), u)
    if shard.n_steps:
        value, posterior = posterior_of(u, values, features, shard.offsets, 1)
    return PosteriorShard(values, features, shard.offsets, value, posterior)


def shard_likelihood(shard: PosteriorShard) -> tuple[float, FloatArray]:
    return shard.log_likelihood, shard.posterior.unary.sum(axis=0)


def shard_expectation(shard: PosteriorShard, u: IOParameters) -> float:
    if not len(shard.values):
        return 0.0
    return shard.posterior.expectation(u, shard.values, shard.features, shard.offsets)


def shard_sums(shard: PosteriorShard, requests: list[Any]) -> Any:
    """Answers to the requests of the regressions: initial, transitions from each state, emission of each;
    None where there are no steps."""
    if not len(shard.values):
        return None
    v, at = shard.posterior, shard.posterior.at
    k, first = at.n_states, first_steps(shard.offsets)
    features = np.ascontiguousarray(shard.features.T)
    begin, given = v.unary[first].T, WeightedData(shard.values, shard.features, v.unary, at.emission)

    def answer(i: int) -> Any:
        request = requests[i]
        if request is None:
            return None
        if i == 0:
            return regression_sums(features[:, first], lambda a, b: begin[:, a:b], at.initial.shape, request)
        if i <= k:  # the pairs of a first step are 0: it counts for nothing
            shape = at.transitions[i - 1].shape
            return regression_sums(features, lambda a, b: v.pairs[i - 1, :, a:b], shape, request)
        return at.emission.sums(given, i - k - 1, request)

    return tuple(over_items(answer, len(requests)))

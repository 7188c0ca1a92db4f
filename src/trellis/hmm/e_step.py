"""The E-step: expected statistics of a hidden Markov model as a sum over shards of sequences.

A shard (one thread) processes its sequences block by block: likelihoods, posteriors in their place,
statistics. Only one block's posteriors exist at a time, so memory does not grow with the data, and a block
stays in the cache. Observations that take few values need no likelihoods of their own: their shard is one
call of one kernel (:func:`_expect_values`), so that threads do not wait for one another in between. Where a
state is known, the likelihoods of all others are 0; where all are known, the statistics are counts
(:func:`count_known_states`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, InfeasibleError
from trellis.core.shards import over_shards
from trellis.hmm.emissions import Statistics
from trellis.hmm.hmm_chain import Block, Counts
from trellis.hmm.hmm_kernels import DENSE, LOG
from trellis.hmm.hmm_parameters import Expectations, HMMParameters
from trellis.hmm.observations import Observations
from trellis.hmm.transition_constraints import NEGLIGIBLE, TransitionConstraints

# Likelihoods in a block, half a megabyte: of larger ones, allocators give the pages back each time.
BLOCK = 2**16


def expectations(
    parameters: HMMParameters, observations: Observations, n_jobs: int
) -> tuple[FloatArray, Expectations]:
    """log p(x) of each sequence, and the statistics of all. An impossible sequence is an error."""
    log_p, sums = expected_sums(parameters, observations, n_jobs)
    return log_p, finished(sums, parameters)


class ExpectedSums(NamedTuple):
    """Expected counts of first states (K,) and transitions (K, K), and the statistics of the emission."""

    start: FloatArray
    pairs: FloatArray
    emission: Statistics


def expected_sums(
    parameters: HMMParameters, observations: Observations, n_jobs: int
) -> tuple[FloatArray, ExpectedSums]:
    """log p(x) of each sequence, and sums that may be added to those of other sequences."""
    log_p = np.empty(observations.n_sequences)
    alphabet = parameters.emission.alphabet
    if parameters.chain.kind == LOG or observations.known is not None:
        alphabet = None
    book = None if alphabet is None else _scaled(parameters, alphabet)

    def work(first: int, last: int) -> tuple[Counts, Statistics]:
        counts, statistics = Counts(parameters.n_states), Statistics()
        if alphabet is not None and book is not None:
            statistics = _expect_values(
                parameters, observations, (alphabet, *book), first, last, log_p[first:last], counts
            )
            return counts, statistics
        for a, b, block, values in likelihood_blocks(parameters, observations, first, last):
            posterior, log_p[a:b] = parameters.chain.posterior(block, counts)
            add_statistics(statistics, parameters.emission.statistics(values, posterior))
        return counts, statistics

    shards = over_shards(work, observations.offsets, n_jobs)
    check_possible(log_p, parameters, observations)
    start, pairs = np.zeros(parameters.n_states), np.zeros_like(parameters.transitions)
    statistics = Statistics()
    for counts, own in shards:
        start += counts.start
        pairs += parameters.chain.transition_counts(counts)
        add_statistics(statistics, own)
    return log_p, ExpectedSums(start, pairs, statistics)


def finished(sums: ExpectedSums, parameters: HMMParameters) -> Expectations:
    """The statistics of all sequences, without counts that are negligible."""
    for counts_of in (sums.start[None], sums.pairs):
        counts_of[counts_of < NEGLIGIBLE * counts_of.sum(axis=1, keepdims=True)] = 0.0
    return Expectations(sums.start, sums.pairs, sums.emission, parameters)


def add_statistics(total: Statistics, more: Statistics) -> None:
    """total += more, key by key."""
    for key, value in more.items():
        total[key] = total[key] + value if key in total else value


def _expect_values(
    parameters: HMMParameters,
    observations: Observations,
    book: tuple[NDArray[Any], FloatArray, FloatArray],
    first: int,
    last: int,
    log_p: FloatArray,
    counts: Counts,
) -> Statistics:
    """The statistics of the sequences first..last-1, whose observations are all in an alphabet: ``book`` is
    that alphabet with its scaled likelihoods and shifts. Adds to ``counts`` and fills ``log_p``.

    The statistics of rows are sums, so those of the alphabet weighted by the posteriors of its values are the
    same. What scaled messages do not answer is answered in log space, block by block.
    """
    alphabet, *scaled = book
    emission, chain, offsets = parameters.emission, parameters.chain, observations.offsets
    lo, hi = offsets[first], offsets[last]
    codes = emission.alphabet_codes(observations.values[lo:hi])
    weights, log_p[:] = chain.posterior_of_values(
        codes, offsets[first : last + 1] - lo, (scaled[0], scaled[1]), counts
    )
    statistics = emission.statistics(alphabet, weights)
    if np.isnan(log_p).any():
        for a, b, lo, hi in block_bounds(offsets, first, last, parameters.n_states):
            own = log_p[a - first : b - first]
            if np.isnan(own).any():
                logs = _lazy_log_likelihood(parameters, observations, lo, hi)
                posterior = np.zeros((hi - lo, parameters.n_states))  # and it stays 0 where all is done
                chain.posterior_in_logs(logs, offsets[a : b + 1] - lo, own, posterior, counts)
                add_statistics(statistics, emission.statistics(observations.values[lo:hi], posterior))
    return statistics


def _scaled(parameters: HMMParameters, values: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Scaled likelihoods of rows, and their shifts, as the messages of the chain need them."""
    if parameters.chain.kind == DENSE:
        return parameters.emission.scaled_likelihood(values)
    return parameters.chain.scale(parameters.emission.log_likelihood(values))


def likelihood_blocks(
    parameters: HMMParameters, observations: Observations, first: int, last: int
) -> Iterator[tuple[int, int, Block, NDArray[Any]]]:
    """The sequences first..last-1 in blocks ``(a, b, likelihoods, values)``."""
    for a, b, lo, hi in block_bounds(observations.offsets, first, last, parameters.n_states):
        values = observations.values[lo:hi]
        logs = _lazy_log_likelihood(parameters, observations, lo, hi)
        scaled, shift = (
            _scaled(parameters, values) if observations.known is None else parameters.chain.scale(logs())
        )
        yield a, b, Block(scaled, shift, observations.offsets[a : b + 1] - lo, logs), values


def block_bounds(
    offsets: IntArray, first: int, last: int, n_states: int
) -> Iterator[tuple[int, int, int, int]]:
    """Runs of sequences a..b-1, rows lo..hi-1, of about BLOCK likelihoods; at least one sequence each."""
    rows = max(1, BLOCK // n_states)
    a = first
    while a < last:
        fits = int(np.searchsorted(offsets, offsets[a] + rows, side="right")) - 1
        b = min(max(fits, a + 1), last)
        yield a, b, int(offsets[a]), int(offsets[b])
        a = b


def _lazy_log_likelihood(
    parameters: HMMParameters, observations: Observations, lo: int, hi: int
) -> Callable[[], FloatArray]:
    """log p(x_t | k) of rows lo..hi-1, with -inf for states that are known to be others."""

    def logs() -> FloatArray:
        u = parameters.emission.log_likelihood(observations.values[lo:hi])
        if observations.known is None:
            return u
        codes = observations.known[lo:hi]
        rows = np.flatnonzero(codes >= 0)
        kept = u[rows, codes[rows]]
        u = u.copy()
        u[rows] = -np.inf
        u[rows, codes[rows]] = kept
        return u

    return logs


def check_possible(log_p: FloatArray, parameters: HMMParameters, observations: Observations) -> None:
    """Raise an error that names the first impossible sequence, and the first impossible step in it."""
    dead = np.flatnonzero(log_p == -np.inf)
    if not dead.size:
        return
    i = int(dead[0])
    one = observations.sequence(i)
    _, _, block, _ = next(likelihood_blocks(parameters, one, 0, 1))
    filtered, _ = parameters.chain.filter(block)
    step = int(np.argmax(filtered.sum(axis=1) == 0.0))
    given = "is the given one and " if one.known is not None and one.known[step] >= 0 else ""
    raise InfeasibleError(
        f"{observations.sequence_name(i)} has probability zero under the model, from step {step} on: no "
        f"state that can be reached {given}emits what is observed there; allow it (pseudo-counts, "
        "smoothing, fewer fixed zeros), or drop the sequence"
    )


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
            f"{observations.sequence_name(sequence)} goes from state {states[row - 1]} to {states[row]} "
            f"at step {step}, which the zeros in transitions forbid; allow it, or correct the states"
        )
    refused = ~constraints.allowed_initial[states[begins]]
    if refused.any():
        row = int(begins[np.argmax(refused)])
        raise DataError(
            f"{observations.sequence_name(observations.locate(row)[0])} begins in state {states[row]}, "
            "which the zeros in initial forbid; allow it, or correct the states"
        )
    pairs = np.bincount(states[into - 1] * k + states[into], minlength=k * k).reshape(k, k)
    start = np.bincount(states[begins], minlength=k)
    statistics, one = Statistics(), np.eye(k)
    for _, _, lo, hi in block_bounds(offsets, 0, len(observations), k):
        own = parameters.emission.statistics(observations.values[lo:hi], one[states[lo:hi]])
        add_statistics(statistics, own)
    return Expectations(start.astype(np.float64), pairs.astype(np.float64), statistics, parameters)

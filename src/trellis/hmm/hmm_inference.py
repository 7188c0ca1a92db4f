"""Questions to a hidden Markov model with known parameters, answered over shards and blocks.

filter      p(y_t | x_1..x_t)                smooth    p(y_t | x_1..x_T)
forecast    p(y_{T+h} | x_1..x_T)            decode    argmax_y p(y | x)
log_likelihood  log sum_y p(x, y)            log_joint log p(x, y)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.shards import over_shards
from trellis.hmm.e_step import block_bounds, blocks, check_possible
from trellis.hmm.hmm_chain import Counts
from trellis.hmm.hmm_kernels import walk_batch
from trellis.hmm.hmm_parameters import HMMParameters
from trellis.hmm.observations import Observations
from trellis.structures.chain.oracle.chain_batch_kernels import best_batch, k_best_batch, score_batch

States = NDArray[np.int32]


def posteriors(
    parameters: HMMParameters, observations: Observations, n_jobs: int, *, smooth: bool
) -> tuple[FloatArray, FloatArray]:
    """Smoothed or filtered probabilities (N, K) and log p(x) of each sequence."""
    log_p = np.empty(observations.n_sequences)
    out = np.empty((observations.n_steps, parameters.n_states))

    def work(first: int, last: int) -> None:
        counts = Counts(parameters.n_states)
        for a, b, block, _ in blocks(parameters, observations, first, last):
            rows = slice(observations.offsets[a], observations.offsets[b])
            if smooth:
                out[rows], log_p[a:b] = parameters.chain.posterior(block, counts)
            else:
                out[rows], log_p[a:b] = parameters.chain.filter(block)

    over_shards(work, observations.offsets, n_jobs)
    check_possible(log_p, parameters, observations)
    return out, log_p


def log_likelihood(parameters: HMMParameters, observations: Observations, n_jobs: int) -> FloatArray:
    """log p(x) of each sequence, -inf where it is impossible."""
    log_p = np.empty(observations.n_sequences)

    def work(first: int, last: int) -> None:
        for a, b, block, _ in blocks(parameters, observations, first, last):
            _, log_p[a:b] = parameters.chain.filter(block)

    over_shards(work, observations.offsets, n_jobs)
    return log_p


def forecast(parameters: HMMParameters, observations: Observations, steps: int, n_jobs: int) -> FloatArray:
    """p(y_{T+h} | x) for h = 1..steps, (S, steps, K). After a sequence of no steps: p(y_1), p(y_2), ..."""
    filtered, _ = posteriors(parameters, observations, n_jobs, smooth=False)
    lengths = np.diff(observations.offsets)
    now = np.empty((len(lengths), parameters.n_states))
    some = lengths > 0
    now[some] = filtered[observations.offsets[1:][some] - 1] @ parameters.transitions
    now[~some] = parameters.initial
    out = np.empty((len(lengths), steps, parameters.n_states))
    for h in range(steps):
        out[:, h] = now
        now = now @ parameters.transitions
    return out


def decode(parameters: HMMParameters, observations: Observations, n_jobs: int) -> tuple[States, FloatArray]:
    """The most probable states (N,), and log p(x, y) of each sequence with them (Viterbi)."""
    states = np.empty(observations.n_steps, dtype=np.int32)
    scores = np.empty(observations.n_sequences)

    def work(first: int, last: int) -> None:
        for a, b, logs, chain, offsets in _log_blocks(parameters, observations, first, last):
            own = states[observations.offsets[a] : observations.offsets[b]]
            best_batch(logs, *chain, offsets, 0, b - a, own, scores[a:b])

    over_shards(work, observations.offsets, n_jobs)
    check_possible(scores, parameters, observations)
    return states, scores


def decode_k_best(
    parameters: HMMParameters, observations: Observations, k: int, n_jobs: int
) -> tuple[States, FloatArray]:
    """The k most probable state sequences (k, N), -1 where there are fewer, and log p(x, y), (S, k)."""
    states = np.empty((k, observations.n_steps), dtype=np.int32)
    scores = np.empty((observations.n_sequences, k))

    def work(first: int, last: int) -> None:
        for a, b, logs, chain, offsets in _log_blocks(parameters, observations, first, last):
            own = np.empty((k, len(logs)), dtype=np.int32)
            k_best_batch(logs, *chain, offsets, 0, b - a, k, own, scores[a:b])
            states[:, observations.offsets[a] : observations.offsets[b]] = own

    over_shards(work, observations.offsets, n_jobs)
    check_possible(scores[:, 0], parameters, observations)
    return states, scores


def log_joint(parameters: HMMParameters, observations: Observations, states: IntArray) -> FloatArray:
    """log p(x, y) of given states, (S,); -inf where they are impossible."""
    unknown = np.flatnonzero(states < 0)
    if unknown.size:
        sequence, step = observations.locate(int(unknown[0]))
        raise DataError(
            f"the state at step {step} of sequence {sequence} is not known; log_joint is about known states, "
            "log_likelihood sums over them"
        )
    scores = np.empty(observations.n_sequences)
    for a, b, logs, chain, offsets in _log_blocks(parameters, observations, 0, observations.n_sequences):
        own = states[observations.offsets[a] : observations.offsets[b]].astype(np.int32)
        score_batch(logs, *chain, offsets, 0, b - a, own, scores[a:b])
    return scores


def _log_blocks(parameters: HMMParameters, observations: Observations, first: int, last: int) -> Any:
    """Blocks (a, b, log p(x_t | k), (transitions, start, end), offsets) for the max-plus kernels."""
    chain = parameters.chain
    part = chain.log_transitions[None], chain.log_initial, np.zeros(parameters.n_states)
    for a, b, lo, hi in block_bounds(observations.offsets, first, last, parameters.n_states):
        logs = parameters.emission.log_likelihood(observations.values[lo:hi])
        yield a, b, logs, part, observations.offsets[a : b + 1] - lo


def sample(
    parameters: HMMParameters, offsets: IntArray, rng: np.random.Generator
) -> tuple[NDArray[Any], States]:
    """Observations and states of sequences with these offsets."""
    states = np.empty(offsets[-1], dtype=np.int32)
    uniforms = rng.random(int(offsets[-1]))
    walk_batch(uniforms, offsets, parameters.initial, parameters.transitions, states)
    return parameters.emission.sample(states, rng), states


def stationary(transitions: FloatArray) -> FloatArray:
    """The distribution p = p A, where there is only one."""
    n, component = connected_components(transitions > 0, directed=True, connection="strong")
    leaves = np.zeros(n, bool)
    for j, k in np.argwhere(transitions > 0):
        leaves[component[j]] |= component[j] != component[k]
    if (~leaves).sum() > 1:
        closed = [np.flatnonzero(component == c).tolist() for c in np.flatnonzero(~leaves)]
        raise UnsupportedError(
            f"the chain has {len(closed)} sets of states that it never leaves, {closed}, and with them more "
            "than one stationary distribution; ask predict_next for the future of a sequence"
        )
    k = len(transitions)
    equations = np.vstack([transitions.T - np.eye(k), np.ones(k)])
    solution: FloatArray = np.linalg.lstsq(equations, np.eye(k + 1)[k], rcond=None)[0]
    solution = solution.clip(0.0)
    solution /= solution.sum()
    return solution

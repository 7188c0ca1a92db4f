"""Inference in a hidden Markov model with known parameters, over shards and blocks of sequences.

filter      p(y_t | x_1..x_t)                smooth        p(y_t | x_1..x_T)
decode      argmax_y p(y | x)                predict_next  p(y_{T+h} | x_1..x_T)
log_likelihood  log sum_y p(x, y)            log_joint     log p(x, y)
sample      x, y ~ p(x, y)                   sample_paths  y ~ p(y | x)
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from trellis.core.arguments import check_choice, check_int
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.estimator import Model
from trellis.core.parameters import integer, parameter
from trellis.core.shards import over_shards
from trellis.data.sequence_shards.sharded_sequences import files_and_backend
from trellis.data.sequences import mean_per_step, offsets_from_lengths, step_name
from trellis.features.step_transformer import StepTransformer
from trellis.hmm.e_step import block_bounds, check_possible, likelihood_blocks
from trellis.hmm.hmm_chain import Counts
from trellis.hmm.hmm_kernels import walk_batch
from trellis.hmm.hmm_parameters import HMMParameters
from trellis.hmm.observations import Observations
from trellis.hmm.shards.shard_answers import answers_per_step, log_likelihoods
from trellis.hmm.shards.sharded_observations import ShardedObservations
from trellis.hmm.streaming_filter import StreamingFilter
from trellis.structures.chain.oracle.chain_batch_kernels import (
    k_best_batch,
    sample_batch,
    score_batch,
)
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.training import declarations as declared
from trellis.training.options import draw_seed

DECODING_METHODS = ("viterbi", "max_marginal", "minimum_risk")


class HMMInference(StepTransformer, Model):
    """The methods of :class:`~trellis.HMM` that need only its ``parameters()``."""

    n_states: int = parameter(doc="The number K of hidden states.", constraint=integer(1), kw_only=False)
    n_jobs: int | None = parameter(default=declared.N_JOBS)
    random_state: Any = parameter(default=declared.RANDOM_STATE)
    backend: Any = parameter(default=declared.BACKEND)
    max_memory: int | str | None = parameter(default=declared.MAX_MEMORY)

    def parameters(self) -> HMMParameters:
        """The fitted model, or the given one, as one record."""
        raise NotImplementedError

    def _read(self, X: Any, lengths: ArrayLike | None) -> tuple[HMMParameters, Observations]:
        parameters = self.parameters()
        return parameters, Observations.pack(X, lengths, check=parameters.emission.check)

    def _in_shards(self, X: Any, lengths: ArrayLike | None) -> ShardedObservations | None:
        """Files, or sequences where a backend is named; None for what is answered here."""
        files, backend = files_and_backend(X, self.backend, self.n_jobs, self.max_memory, lengths=lengths)
        if backend is None or (files is None and (lengths is not None or isinstance(X, np.ndarray))):
            return None  # one array is one sequence, or many short ones: nothing to share out
        if files is not None:
            return ShardedObservations.read(files, backend, self.parameters().emission, None)
        return ShardedObservations.of(self._read(X, lengths)[1], backend)

    def filter(self, X: Any, *, lengths: ArrayLike | None = None) -> Any:
        """p(y_t | x_1..x_t): (length, K) for each sequence. ``X`` may be files, as in ``fit``; so it may for
        ``smooth``, ``decode``, ``log_likelihood`` and ``score``, and a ``backend`` shares out a list."""
        shards = self._in_shards(X, lengths)
        if shards is not None:
            return answers_per_step(shards, self, "filter", {})
        parameters, observations = self._read(X, lengths)
        return observations.unpack(self._posteriors(parameters, observations, smooth=False))

    def smooth(self, X: Any, *, lengths: ArrayLike | None = None) -> Any:
        """p(y_t | x_1..x_T): (length, K) for each sequence."""
        shards = self._in_shards(X, lengths)
        if shards is not None:
            return answers_per_step(shards, self, "smooth", {})
        parameters, observations = self._read(X, lengths)
        return observations.unpack(self._posteriors(parameters, observations, smooth=True))

    def _step_probabilities(self, X: Any, lengths: ArrayLike | None) -> Any:
        return self.smooth(X, lengths=lengths)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns of ``transform``: ``hmm0``, ``hmm1``, ..., one for each state."""
        return np.array([f"hmm{state}" for state in range(self.n_states)], dtype=object)

    def _posteriors(
        self, parameters: HMMParameters, observations: Observations, *, smooth: bool
    ) -> FloatArray:
        """Smoothed or filtered probabilities (N, K)."""
        log_p = np.empty(len(observations))
        out = np.empty((observations.n_steps, parameters.n_states))

        def work(first: int, last: int) -> None:
            counts = Counts(parameters.n_states)
            for a, b, block, _ in likelihood_blocks(parameters, observations, first, last):
                rows = slice(observations.offsets[a], observations.offsets[b])
                if smooth:
                    out[rows], log_p[a:b] = parameters.chain.posterior(block, counts)
                else:
                    out[rows], log_p[a:b] = parameters.chain.filter(block)

        over_shards(work, observations.offsets, self._threads())
        check_possible(log_p, parameters, observations)
        return out

    def predict_next(self, X: Any, steps: int = 1, *, lengths: ArrayLike | None = None) -> Any:
        """p(y_{T+h} | x_1..x_T) for h = 1..steps: (steps, K) for each sequence. After a sequence of no steps
        they are p(y_1), p(y_2), ...
        """
        parameters, observations = self._read(X, lengths)
        steps = check_int("steps", steps, 1)
        filtered = self._posteriors(parameters, observations, smooth=False)
        now = np.tile(parameters.initial, (len(observations), 1))
        some = observations.lengths > 0
        now[some] = filtered[observations.offsets[1:][some] - 1] @ parameters.transitions
        ahead = np.empty((len(observations), steps, parameters.n_states))
        for h in range(steps):
            ahead[:, h] = now
            now = now @ parameters.transitions
        return observations.unpack_each(ahead)

    def decode(
        self,
        X: Any,
        method: str = "viterbi",
        *,
        lengths: ArrayLike | None = None,
        return_log_joint: bool = False,
    ) -> Any:
        """States of each sequence: the most probable sequence ("viterbi"); the most probable state of each
        step ("max_marginal"), which has the fewest expected errors and may be impossible as a whole; or, of
        the possible sequences, the one with the fewest expected errors ("minimum_risk").

        With ``return_log_joint`` a pair: the states, and log p(x, y) of each sequence with them,
        (n_sequences,); -inf where they are impossible as a whole.
        """
        check_choice("method", method, DECODING_METHODS)
        shards = self._in_shards(X, lengths)
        if shards is not None:
            options = {"method": method, "return_log_joint": return_log_joint}
            return answers_per_step(shards, self, "decode", options)
        parameters, observations = self._read(X, lengths)
        if method != "viterbi":
            smoothed = self._posteriors(parameters, observations, smooth=True)
            states = smoothed.argmax(axis=1).astype(np.int32)
            if method == "minimum_risk":
                states = self._least_risk(parameters, observations, -smoothed)
            scores = self._log_joint(parameters, observations, states) if return_log_joint else None
        else:
            states, scores = self._viterbi(parameters, observations)
        found = observations.unpack(states)
        return (found, scores) if return_log_joint else found

    def _least_risk(
        self, parameters: HMMParameters, observations: Observations, risk: FloatArray
    ) -> NDArray[np.int32]:
        """The possible states (N,) with the smallest sum of ``risk`` (N, K)."""
        states = np.empty(observations.n_steps, dtype=np.int32)

        def work(first: int, last: int) -> None:
            for a, b, logs, (arcs, start, end), offsets in _log_blocks(parameters, observations, first, last):
                own = slice(observations.offsets[a], observations.offsets[b])
                states[own] = Chain().minimum_risk(ChainScores(logs, arcs, start, end, offsets), risk[own])

        over_shards(work, observations.offsets, self._threads())
        return states

    def _viterbi(
        self, parameters: HMMParameters, observations: Observations
    ) -> tuple[NDArray[np.int32], FloatArray]:
        """The best states (N,), and log p(x, y) of each sequence."""
        states = np.empty(observations.n_steps, dtype=np.int32)
        scores = np.empty(len(observations))

        def work(first: int, last: int) -> None:
            for a, b, lo, hi in block_bounds(observations.offsets, first, last, parameters.n_states):
                logs = parameters.emission.log_likelihood(observations.values[lo:hi])
                own = observations.offsets[a : b + 1] - lo
                parameters.chain.best(logs, own, states[lo:hi], scores[a:b])

        over_shards(work, observations.offsets, self._threads())
        check_possible(scores, parameters, observations)
        return states, scores

    def predict(self, X: Any, *, lengths: ArrayLike | None = None) -> Any:
        """The same as :meth:`decode`."""
        return self.decode(X, lengths=lengths)

    def decode_k_best(self, X: Any, k: int, *, lengths: ArrayLike | None = None) -> Any:
        """For each sequence its k most probable state sequences with log p(x, y), best first (fewer where
        fewer are possible); for one array without ``lengths`` that list alone.
        """
        parameters, observations = self._read(X, lengths)
        k = check_int("k", k, 1)
        states = np.empty((k, observations.n_steps), dtype=np.int32)
        scores = np.empty((len(observations), k))

        def work(first: int, last: int) -> None:
            for a, b, logs, chain, offsets in _log_blocks(parameters, observations, first, last):
                own = np.empty((k, len(logs)), dtype=np.int32)
                k_best_batch(logs, *chain, offsets, 0, b - a, k, own, scores[a:b])
                states[:, observations.offsets[a] : observations.offsets[b]] = own

        over_shards(work, observations.offsets, self._threads())
        check_possible(scores[:, 0], parameters, observations)
        ranked = np.split(states, observations.offsets[1:-1], axis=1)
        return observations.unpack_each(
            [
                [(own[r], float(score[r])) for r in range(k) if score[r] > -np.inf]
                for own, score in zip(ranked, scores, strict=True)
            ]
        )

    def log_likelihood(self, X: Any, *, lengths: ArrayLike | None = None) -> FloatArray:
        """log p(x) of each sequence, (n_sequences,); -inf where it is impossible under the model."""
        shards = self._in_shards(X, lengths)
        if shards is not None:
            return log_likelihoods(shards, self)
        return self._log_likelihood(*self._read(X, lengths))

    def _log_likelihood(self, parameters: HMMParameters, observations: Observations) -> FloatArray:
        log_p = np.empty(len(observations))

        def work(first: int, last: int) -> None:
            for a, b, block, _ in likelihood_blocks(parameters, observations, first, last):
                _, log_p[a:b] = parameters.chain.filter(block)

        over_shards(work, observations.offsets, self._threads())
        return log_p

    def score(self, X: Any, y: Any = None, *, lengths: ArrayLike | None = None) -> float:
        """The mean log-likelihood of a step, log p(X) / number of steps: a mean can be compared between data
        sets (training, test, folds). The total is ``log_likelihood(X).sum()``. ``y`` is not used."""
        shards = self._in_shards(X, lengths)
        if shards is not None:
            return mean_per_step(log_likelihoods(shards, self), shards.n_steps)
        parameters, observations = self._read(X, lengths)
        return observations.mean_per_step(self._log_likelihood(parameters, observations))

    def log_joint(self, X: Any, states: Any, *, lengths: ArrayLike | None = None) -> FloatArray:
        """log p(x, y) of each sequence with the given states, (n_sequences,); -inf where it is impossible."""
        parameters, observations = self._read(X, lengths)
        known = observations.with_states(states, self.n_states).known
        unknown = np.flatnonzero(known < 0) if known is not None else np.arange(observations.n_steps)
        if unknown.size:
            raise DataError(
                f"the state of {step_name(observations.offsets, int(unknown[0]))} is not known; log_joint "
                "needs all states, log_likelihood sums over them"
            )
        return self._log_joint(parameters, observations, np.asarray(known, dtype=np.int32))

    def _log_joint(
        self, parameters: HMMParameters, observations: Observations, codes: NDArray[np.int32]
    ) -> FloatArray:
        scores = np.empty(len(observations))
        for a, b, logs, chain, offsets in _log_blocks(parameters, observations, 0, len(observations)):
            own = codes[observations.offsets[a] : observations.offsets[b]]
            score_batch(logs, *chain, offsets, 0, b - a, own, scores[a:b])
        return scores

    def sample_paths(
        self, X: Any, n_samples: int = 1, *, lengths: ArrayLike | None = None, random_state: Any = None
    ) -> Any:
        """Independent draws of the states from p(y_1..y_T | x_1..x_T): (n_samples, length) for each sequence.

        The seed is ``random_state``, or that of the model; the number of threads does not change the draws.
        """
        parameters, observations = self._read(X, lengths)
        n_samples, rng = check_int("n_samples", n_samples, 1), self._generator(random_state)
        uniforms = rng.random((n_samples, observations.n_steps))
        states = np.empty(uniforms.shape, dtype=np.int32)

        def work(first: int, last: int) -> int:
            for a, b, logs, chain, offsets in _log_blocks(parameters, observations, first, last):
                rows = slice(observations.offsets[a], observations.offsets[b])
                own = np.empty((n_samples, len(logs)), dtype=np.int32)
                draws = np.ascontiguousarray(uniforms[:, rows])
                dead = sample_batch(logs, *chain, offsets, 0, b - a, draws, own)
                if dead >= 0:
                    return a + int(dead)
                states[:, rows] = own
            return -1

        dead = [i for i in over_shards(work, observations.offsets, self._threads()) if i >= 0]
        if dead:
            log_p = np.zeros(len(observations))
            log_p[dead] = -np.inf
            check_possible(log_p, parameters, observations)
        return observations.unpack_each(np.split(states, observations.offsets[1:-1], axis=1))

    def sample(
        self, lengths: Any, *, first_state: Any = None, after: Any = None, random_state: Any = None
    ) -> tuple[Any, Any]:
        """Observations and states: of one sequence for a number, of several for a list of lengths.

        ``first_state`` is the state of the first step (hmmlearn's ``currstate``). ``after`` is the state of
        the step before the first, so that the sequence goes on from there. Either is one state for all
        sequences, or one for each.
        """
        parameters = self.parameters()
        single = isinstance(lengths, Integral) and not isinstance(lengths, bool)
        offsets = offsets_from_lengths([lengths] if single else lengths)
        rng = self._generator(random_state)
        states = np.empty(offsets[-1], dtype=np.int32)
        uniforms = rng.random(int(offsets[-1]))
        begin = _first_rows(parameters, len(offsets) - 1, first_state, after)
        walk_batch(uniforms, offsets, begin, parameters.transitions, states)
        values = parameters.emission.sample(states, rng)
        if single:
            return values, states
        if len(offsets) == 1:  # np.split would make one piece of nothing
            return [], []
        return np.split(values, offsets[1:-1]), np.split(states, offsets[1:-1])

    def _generator(self, random_state: Any) -> np.random.Generator:
        """That of the call, or else that of the model."""
        seed = self.random_state if random_state is None else random_state
        return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(draw_seed(seed))

    def stationary(self) -> FloatArray:
        """The distribution p = p A over states; an error where there is more than one."""
        return stationary_distribution(self.parameters().transitions)

    def streaming_filter(self) -> StreamingFilter:
        """A filter that takes one observation at a time."""
        return StreamingFilter(self.parameters())


def _first_rows(parameters: HMMParameters, n: int, first_state: Any, after: Any) -> FloatArray:
    """The distribution of the first state: (1, K), or (n, K) with one for each sequence."""
    if first_state is not None and after is not None:
        raise DataError("first_state and after both say how a sequence begins; give one of them")
    if first_state is None and after is None:
        return parameters.initial[None]
    name, given = ("after", after) if first_state is None else ("first_state", first_state)
    states = np.atleast_1d(np.asarray(given))
    k = parameters.n_states
    whole = np.issubdtype(states.dtype, np.integer) and ((states >= 0) & (states < k)).all()
    if not whole or states.ndim != 1 or (np.ndim(given) and len(states) != n):
        raise DataError(
            f"{name} is {given!r}; give a state from 0 to {k - 1}, or one for each of {n} sequences"
        )
    rows = parameters.transitions if first_state is None else np.eye(k)
    return np.ascontiguousarray(rows[states])


def _log_blocks(
    parameters: HMMParameters, observations: Observations, first: int, last: int
) -> Iterator[tuple[int, int, FloatArray, tuple[FloatArray, ...], IntArray]]:
    """Blocks (a, b, log p(x_t | k), (transitions, start, end), offsets) for the max-plus kernels."""
    chain = parameters.chain
    part = chain.log_transitions[None], chain.log_initial, np.zeros(parameters.n_states)
    for a, b, lo, hi in block_bounds(observations.offsets, first, last, parameters.n_states):
        logs = parameters.emission.log_likelihood(observations.values[lo:hi])
        yield a, b, logs, part, observations.offsets[a : b + 1] - lo


def stationary_distribution(transitions: NDArray[np.float64]) -> FloatArray:
    """The distribution p = p A, where there is only one."""
    n, component = connected_components(transitions > 0, directed=True, connection="strong")
    leaves = np.zeros(n, bool)
    for j, k in np.argwhere(transitions > 0):
        leaves[component[j]] |= component[j] != component[k]
    if (~leaves).sum() > 1:
        closed = [np.flatnonzero(component == c).tolist() for c in np.flatnonzero(~leaves)]
        raise UnsupportedError(
            f"the chain has {len(closed)} sets of states that it never leaves, {closed}, and so more than "
            "one stationary distribution; ask predict_next for the future of a sequence"
        )
    k = len(transitions)
    equations = np.vstack([transitions.T - np.eye(k), np.ones(k)])
    solution: FloatArray = np.linalg.lstsq(equations, np.eye(k + 1)[k], rcond=None)[0]
    solution = solution.clip(0.0)
    solution /= solution.sum()
    return solution

"""Exact inference in chains in O(n K^2) time, for packed batches, on threads.

    s(y) = start[y_1] + sum_t unary[t, y_t] + sum_{t>1} transitions[t, y_{t-1}, y_t] + end[y_n]
    p(y) = exp(s(y)) / Z

Hard constraints are scores of ``-inf``; partial labels (sets of allowed labels) are
``scores.restricted(allowed)``. A sequence with no allowed labelling raises :class:`InfeasibleError`. A
sequence of no steps has one labelling, the empty one, with score 0.

Ties: of labellings with equal scores, the one with the smaller label at the last step where they differ comes
first. Results do not depend on ``n_jobs``, except for the order of summation over the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, InfeasibleError
from trellis.core.oracle import Labellings, Labels, RankedLabellings
from trellis.core.shards import over_shards
from trellis.structures.chain.oracle import chain_batch_kernels as kernels
from trellis.structures.chain.scores.chain_scores import ChainParts, ChainScores


@dataclass(frozen=True, eq=False)
class ChainMarginals(ChainParts):
    """The probability of each part, and ``log_partition`` (S,), whose gradient in the scores they are."""

    log_partition: FloatArray


@dataclass(frozen=True, eq=False)
class ExpectedLoss:
    """E[L] of each sequence, ``values`` (S,), and the ``gradient`` of their sum in the part scores."""

    values: FloatArray
    gradient: ChainParts


@dataclass(frozen=True)
class Chain:
    """Exact inference; ``n_jobs`` threads (-1: all cores).

    Examples
    --------
    >>> from trellis.structures.chain import Chain, ChainScores
    >>> scores = ChainScores.of([[0.0, 1.0], [0.5, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    >>> Chain().best(scores).labels.tolist()
    [1, 1]
    """

    n_jobs: int = 1

    def score(self, scores: ChainScores, labels: ArrayLike) -> FloatArray:
        """s(y) of the given labels (N,) for each sequence, (S,); ``-inf`` where they are forbidden."""
        given = check_labels(len(scores.unary), scores.n_labels, scores.offsets, labels)
        values = np.empty(scores.n_sequences)
        self._run(kernels.score_batch, scores, given, values)
        return values

    def best(self, scores: ChainScores) -> Labellings:
        """argmax_y s(y) and its score (Viterbi)."""
        labels, values = np.empty(len(scores.unary), dtype=np.int32), np.empty(scores.n_sequences)
        self._run(kernels.viterbi_batch(scores.transitions), scores, labels, values)
        return Labellings(labels, feasible(values))

    def k_best(self, scores: ChainScores, k: int) -> RankedLabellings:
        """The k labellings with the largest scores, all different, best first (list Viterbi, O(n K^2 k))."""
        k = check_int("k", k, 1)
        labels = np.empty((k, len(scores.unary)), dtype=np.int32)
        values = np.empty((scores.n_sequences, k))
        self._run(kernels.k_best_batch, scores, k, labels, values)
        feasible(values[:, 0])
        return RankedLabellings(labels, values)

    def best_different(self, scores: ChainScores, labels: ArrayLike) -> Labellings:
        """The best labelling other than the given one, for each sequence.

        If there is none (a single label, no steps, or all others forbidden) the score is ``-inf`` and the
        labels are -1; this is not an error, because the 0-1 loss needs it.
        """
        given = check_labels(len(scores.unary), scores.n_labels, scores.offsets, labels)
        found, values = np.empty(len(scores.unary), dtype=np.int32), np.empty(scores.n_sequences)
        self._run(kernels.best_different_batch, scores, given, found, values)
        return Labellings(found, values)

    def log_partition(self, scores: ChainScores) -> FloatArray:
        """log Z = log sum_y exp s(y) of each sequence, (S,)."""
        values = np.empty(scores.n_sequences)
        self._run(kernels.log_partition_batch, scores, values)
        return feasible(values)

    def marginals(self, scores: ChainScores, per_step: bool = False) -> ChainMarginals:
        """The probability of every label and transition at every step.

        Transitions have the shape of their scores, so shared ones are summed over the steps (expected
        counts); with ``per_step`` they are always (N, K, K), zero in the first step of each sequence.
        """
        n, k = scores.unary.shape
        log_z, unary = np.empty(scores.n_sequences), np.zeros((n, k))
        summed = scores.transitions.shape[0] == 1 and not per_step
        pairs = np.zeros((0 if summed else n, k, k))

        def work(first: int, last: int) -> FloatArray:
            own = np.zeros((1, k, k)) if summed else pairs
            kernels.marginals_batch(*_arrays(scores), first, last, log_z, unary, own)
            return own

        shards = over_shards(work, scores.offsets, self.n_jobs)
        feasible(log_z)
        transitions = np.add.reduce([np.zeros((1, k, k)), *shards]) if summed else pairs
        lengths = np.diff(scores.offsets)
        begins, ends = scores.offsets[:-1][lengths > 0], scores.offsets[1:][lengths > 0] - 1
        return ChainMarginals(unary, transitions, unary[begins].sum(axis=0), unary[ends].sum(axis=0), log_z)

    def entropy(self, scores: ChainScores) -> FloatArray:
        """-sum_y p(y) log p(y) of each sequence, in nats, (S,)."""
        values = np.empty(scores.n_sequences)
        self._run(kernels.entropy_batch, scores, values)
        return feasible(values)

    def sample(self, scores: ChainScores, n_samples: int, rng: np.random.Generator) -> Labels:
        """Exact, independent samples from p, (n_samples, N); the same for any number of threads."""
        n_samples = check_int("n_samples", n_samples, 0)
        uniforms = rng.random((n_samples, len(scores.unary)))
        labels = np.empty(uniforms.shape, dtype=np.int32)
        for dead in self._run(kernels.sample_batch, scores, uniforms, labels):
            if dead >= 0:
                raise _infeasible(dead)
        return labels

    def minimum_risk(self, scores: ChainScores, risk: ArrayLike | None = None) -> Labels:
        """argmin of sum_t risk[t, y_t] over the allowed labellings, (N,); ties as everywhere.

        ``risk`` (N, K): the expected cost of each label at each step. By default it is 1 - P(y_t = k), so
        that the answer has the smallest expected Hamming loss of all allowed labellings. Where the cheapest
        labels of the steps are allowed together, they are the answer; elsewhere Viterbi finds the best ones
        that are.
        """
        risks = -self.marginals(scores).unary if risk is None else check_cost(scores.unary.shape, risk)
        cheapest = np.asarray(risks.argmin(axis=1), dtype=np.int32)
        if (self.score(scores, cheapest) > -np.inf).all():
            return cheapest
        # Regrets rather than risks: sums of them are small where the answer is good, so nothing is rounded.
        regret = risks.min(axis=1, keepdims=True) - risks
        allowed = ChainScores(
            _where_allowed(scores.unary, regret),
            _where_allowed(scores.transitions),
            _where_allowed(scores.start),
            _where_allowed(scores.end),
            scores.offsets,
        )
        return self.best(allowed).labels

    def expected_loss(self, scores: ChainScores, cost: ArrayLike) -> ExpectedLoss:
        """E_p[sum_t cost[t, y_t]] and its gradient, the covariance of the loss with the part indicators."""
        costs = check_cost(scores.unary.shape, cost)
        values, unary = np.empty(scores.n_sequences), np.zeros_like(scores.unary)
        k = scores.n_labels
        shared = scores.transitions.shape[0] == 1
        pairs = np.zeros_like(scores.transitions)

        def work(first: int, last: int) -> tuple[FloatArray, FloatArray, FloatArray]:
            own = np.zeros((1, k, k)) if shared else pairs
            start, end = np.zeros(k), np.zeros(k)
            kernels.expected_loss_batch(*_arrays(scores), first, last, costs, values, unary, own, start, end)
            return own, start, end

        shards = over_shards(work, scores.offsets, self.n_jobs)
        feasible(values)
        start, end = np.zeros(k), np.zeros(k)
        for own, own_start, own_end in shards:
            pairs = pairs + own if shared else pairs
            start += own_start
            end += own_end
        return ExpectedLoss(values, ChainParts(unary, pairs, start, end))

    def _run(self, kernel: Any, scores: ChainScores, *arguments: Any) -> list[Any]:
        """Call a batch kernel on every shard; outputs are arguments, which it fills in place."""
        arrays = _arrays(scores)
        return over_shards(
            lambda first, last: kernel(*arrays, first, last, *arguments), scores.offsets, self.n_jobs
        )


def _arrays(scores: ChainScores) -> tuple[Any, ...]:
    return scores.unary, scores.transitions, scores.start, scores.end, scores.offsets


def _where_allowed(scores: FloatArray, values: FloatArray | float = 0.0) -> FloatArray:
    """``values`` (zeros) in place of finite scores; what is forbidden stays so."""
    return np.where(scores > -np.inf, values, -np.inf)


def _infeasible(sequence: int) -> InfeasibleError:
    return InfeasibleError(
        f"sequence {sequence} has no allowed labelling: all have forbidden labels or transitions (-inf); "
        "allow more labels there, or drop the sequence"
    )


def feasible(values: FloatArray) -> FloatArray:
    """The values; raises if one of them is ``-inf``."""
    dead = np.flatnonzero(values == -np.inf)
    if dead.size:
        raise _infeasible(int(dead[0]))
    return values


def check_labels(n_steps: int, n_labels: int, offsets: IntArray, labels: ArrayLike) -> Labels:
    """Codes of labels, one for each step."""
    given = np.asarray(labels)
    if given.shape != (n_steps,):
        raise DataError(f"labels have shape {given.shape}; they must have shape ({n_steps},), one per step")
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise DataError(f"labels must be whole numbers from 0 to {n_labels - 1}, got {given.dtype}")
    outside = np.flatnonzero((given < 0) | (given >= n_labels))
    if outside.size:
        step = int(outside[0])
        sequence = int(np.searchsorted(offsets, step, side="right")) - 1
        raise DataError(
            f"label {given[step]} at step {step - offsets[sequence]} of sequence {sequence}; "
            f"labels run from 0 to {n_labels - 1}"
        )
    return np.ascontiguousarray(given, dtype=np.int32)


def check_cost(shape: tuple[int, ...], cost: ArrayLike) -> FloatArray:
    """Finite costs, as many as unary scores."""
    costs = np.ascontiguousarray(cost, dtype=np.float64)
    if costs.shape != shape:
        raise DataError(f"costs have shape {costs.shape}; they must have shape {shape}, as the unary scores")
    bad = np.argwhere(~np.isfinite(costs))
    if bad.size:
        where = tuple(int(i) for i in bad[0])
        raise DataError(f"costs contain {costs[where]} at {where}; costs must be finite")
    return costs

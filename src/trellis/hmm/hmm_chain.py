"""Filter and posterior of the chain of a hidden Markov model, for one block of sequences.

A block is a run of sequences whose likelihoods fit the cache. Scaled messages are used where they are exact
(:mod:`trellis.hmm.hmm_kernels` says when); sequences for which they are not are done in log space.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.hmm.emissions.row_kernels import scale_rows
from trellis.hmm.hmm_kernels import (
    DENSE,
    FLOOR,
    LOG,
    SPARSE,
    filter_batch,
    log_space_batch,
    posterior_batch,
    value_posterior_batch,
)
from trellis.structures.chain.oracle.chain_batch_kernels import viterbi_batch

DENSE_FROM, SPARSE_FROM = 1e-50, 1e-100
SMALL = 12  # up to this size the kernels want a matrix in blocks of four columns


@dataclass(frozen=True, eq=False)
class Block:
    """The likelihoods of a run of sequences: scaled, with the logs of the scales, and on request in logs."""

    scaled: FloatArray
    shift: FloatArray
    offsets: IntArray
    logs: Callable[[], FloatArray]


@dataclass(frozen=True, eq=False)
class HMMChain:
    """``initial`` (K,) and ``transitions`` (K, K), row j being p(y_t = . | y_{t-1} = j)."""

    initial: FloatArray
    transitions: FloatArray

    @cached_property
    def kind(self) -> int:
        """DENSE, SPARSE or LOG: which messages are safe."""
        if self.transitions.min() >= DENSE_FROM:
            return DENSE
        both = np.concatenate([self.initial, self.transitions.ravel()])
        return SPARSE if both[both > 0].min() >= SPARSE_FROM else LOG

    @cached_property
    def log_initial(self) -> FloatArray:
        return _log(self.initial)

    @cached_property
    def log_transitions(self) -> FloatArray:
        return _log(self.transitions)

    @cached_property
    def _padded(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The initial probabilities, the matrix and its transpose as the kernels take them."""
        k = len(self.initial)
        size = (k + 3) // 4 * 4
        initial, matrix = np.zeros(size), np.zeros((size, size))
        initial[:k], matrix[:k, :k] = self.initial, self.transitions
        return initial, kernel_layout(matrix), kernel_layout(matrix.T)

    def scale(self, logs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scaled likelihoods from logs, with what is positive kept positive."""
        scaled, shift = np.empty_like(logs), np.empty(len(logs))
        scale_rows(logs, FLOOR, scaled, shift)
        return scaled, shift

    def posterior(self, block: Block, counts: Counts) -> tuple[FloatArray, FloatArray]:
        """P(y_t = . | x) and log p(x) of each sequence (-inf where it is impossible); adds to ``counts``."""
        log_p = np.full(len(block.offsets) - 1, np.nan)
        out = block.scaled
        if self.kind != LOG:
            initial, forward, backward = self._padded
            posterior_batch(
                out, block.shift, block.offsets, initial, forward, backward, self.kind == SPARSE, log_p,
                counts.start, counts.outer,
            )  # fmt: skip
        self.posterior_in_logs(block.logs, block.offsets, log_p, out, counts)
        return out, log_p

    def posterior_of_values(
        self, codes: IntArray, offsets: IntArray, book: tuple[FloatArray, FloatArray], counts: Counts
    ) -> tuple[FloatArray, FloatArray]:
        """The sums of P(y_t = . | x) over the steps with each value, (values, K), and log p(x) of each
        sequence, NaN where scaled messages do not answer it; adds to ``counts``.

        ``book``: the scaled likelihoods (values, K) and shifts (values,) that ``codes`` (N,) point into. Not
        for LOG.
        """
        log_p, weights = np.empty(len(offsets) - 1), np.zeros(book[0].shape)
        initial, forward, backward = self._padded
        value_posterior_batch(
            codes, offsets, *book, initial, forward, backward, self.kind == SPARSE, log_p, counts.start,
            counts.outer, weights,
        )  # fmt: skip
        return weights, log_p

    def posterior_in_logs(
        self,
        logs: Callable[[], FloatArray],
        offsets: IntArray,
        log_p: FloatArray,
        out: FloatArray,
        counts: Counts,
    ) -> None:
        """Answer in log space what scaled messages left open: the sequences whose ``log_p`` is NaN, with
        their rows of ``out``; adds to ``counts``."""
        self._finish(logs, offsets, True, log_p, out, counts.start, counts.pairs)

    def filter(self, block: Block) -> tuple[FloatArray, FloatArray]:
        """P(y_t = . | x_1..t) and log p(x) of each sequence."""
        log_p = np.full(len(block.offsets) - 1, np.nan)
        out = block.scaled
        if self.kind != LOG:
            initial, forward, _ = self._padded
            filter_batch(out, block.shift, block.offsets, initial, forward, self.kind == SPARSE, log_p)
        nowhere = np.empty(0), np.empty((1, 0, 0))
        self._finish(block.logs, block.offsets, False, log_p, out, *nowhere)
        return out, log_p

    def _finish(
        self,
        logs: Callable[[], FloatArray],
        offsets: IntArray,
        smooth: bool,
        log_p: FloatArray,
        out: FloatArray,
        start: FloatArray,
        pairs: FloatArray,
    ) -> None:
        if np.isnan(log_p).any():
            log_space_batch(
                logs(),
                offsets,
                self.log_initial,
                self.log_transitions[None],
                smooth,
                log_p,
                out,
                start,
                pairs,
            )

    def best(
        self, logs: FloatArray, offsets: IntArray, states: NDArray[np.int32], scores: FloatArray
    ) -> None:
        """The most probable states of sequences with the log-likelihoods ``logs``, and log p(x, y) of
        each."""
        end = np.zeros(len(self.initial))
        shared = self.log_transitions[None]
        arrays = logs, shared, self.log_initial, end, offsets
        viterbi_batch(shared)(*arrays, 0, len(offsets) - 1, states, scores)

    def transition_counts(self, counts: Counts) -> FloatArray:
        """Expected number of each transition, (K, K)."""
        k = len(self.initial)
        pairs: FloatArray = counts.outer[:k, :k] * self.transitions + counts.pairs[0]
        return pairs


class Counts:
    """Sums over sequences that :meth:`HMMChain.posterior` adds to."""

    def __init__(self, n_states: int) -> None:
        self.start = np.zeros(n_states)
        self.by_pair: FloatArray | None = None  # in place of the tables, where few transitions are possible

    @cached_property
    def outer(self) -> FloatArray:
        """Times the transitions: expected numbers of transitions."""
        size = (len(self.start) + 3) // 4 * 4
        return np.zeros((size, size))

    @cached_property
    def pairs(self) -> FloatArray:
        """Expected numbers of transitions, finished: of what was done in log space."""
        return np.zeros((1, len(self.start), len(self.start)))


def kernel_layout(matrix: FloatArray) -> FloatArray:
    """The layout in which the kernels compute x M fastest: blocks of four columns, or the transpose."""
    size = len(matrix)
    if size > SMALL:
        return np.ascontiguousarray(matrix.T)[None]
    return np.ascontiguousarray(matrix.reshape(size, size // 4, 4).transpose(1, 0, 2))


def _log(probabilities: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(probabilities)
    return logs

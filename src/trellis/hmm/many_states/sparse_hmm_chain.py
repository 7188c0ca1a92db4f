"""The chain of a hidden Markov model whose transitions are mostly zeros: work by the pairs that are possible.

Left-right and banded topologies, gene models, map matching: with E possible transitions a step costs O(K +
E) in place of O(K^2). The answers are those of :class:`HMMChain`, in logs and safe for any
zeros. The table of transitions itself stays (K, K)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.hmm.hmm_chain import Block, Counts, HMMChain
from trellis.hmm.hmm_kernels import LOG
from trellis.structures.chain.oracle.many_labels.best_path_kernels import best_batch
from trellis.structures.chain.oracle.many_labels.pair_kernels import PairScores
from trellis.structures.chain.oracle.many_labels.sparse_chain import new_blocks, new_gradient, pair_scores
from trellis.structures.chain.oracle.many_labels.sum_path_kernels import filter_batch, sum_batch
from trellis.structures.chain.scores.sparse_chain_scores import SparseChainScores, nothing_known
from trellis.structures.chain.scores.step_score_kernels import ALL, table_scores
from trellis.structures.chain.scores.transition_pairs import TransitionPairs

FROM_STATES = 128  # fewer states, or more possible transitions than this share of all: tables are faster
SHARE = 1 / 16


def hmm_chain(initial: FloatArray, transitions: FloatArray) -> HMMChain:
    """The chain in the form that suits its zeros."""
    k = len(initial)
    if k >= FROM_STATES and np.count_nonzero(transitions) <= SHARE * k * k:
        return SparseHMMChain(initial, transitions)
    return HMMChain(initial, transitions)


class SparseHMMChain(HMMChain):
    """``initial`` (K,) and ``transitions`` (K, K), few of them positive."""

    @cached_property
    def kind(self) -> int:
        return LOG

    @cached_property
    def possible(self) -> TransitionPairs:
        before, after = np.nonzero(self.transitions)
        return TransitionPairs.of(before, after, len(self.initial))

    @cached_property
    def _pairs(self) -> PairScores:
        logs = np.log(self.transitions[self.possible.source, self.possible.target])
        return pair_scores(self._scores(np.zeros((0, len(self.initial))), logs, np.zeros(1, np.int64)))

    def _scores(self, unary: FloatArray, logs: FloatArray, offsets: IntArray) -> SparseChainScores:
        end = np.zeros(len(self.initial))
        return SparseChainScores(table_scores(unary), self.possible, logs, self.log_initial, end, offsets)

    def scale(self, logs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Nothing is scaled: blocks hold logs."""
        return logs, np.zeros(len(logs))

    def posterior(self, block: Block, counts: Counts) -> tuple[FloatArray, FloatArray]:
        k, n, offsets = len(self.initial), len(block.offsets) - 1, block.offsets
        log_p, out = np.empty(n), np.zeros(block.scaled.shape)
        total = new_gradient(self._scores(block.scaled, self._pairs.a, offsets))
        sum_batch(
            table_scores(block.scaled), nothing_known(k), ALL, 0.0, self._pairs, offsets, 0, n,
            new_blocks(offsets, 0, n, k), 0.0, np.ones(n), log_p, out, total,
        )  # fmt: skip
        counts.start += total.start
        counts.by_pair = total.pairs if counts.by_pair is None else counts.by_pair + total.pairs
        return out, log_p

    def filter(self, block: Block) -> tuple[FloatArray, FloatArray]:
        k, n, offsets = len(self.initial), len(block.offsets) - 1, block.offsets
        log_p, out = np.empty(n), np.zeros(block.scaled.shape)
        filter_batch(
            table_scores(block.scaled), nothing_known(k), self._pairs, offsets, 0, n,
            new_blocks(offsets, 0, n, k), out, log_p,
        )  # fmt: skip
        return out, log_p

    def best(
        self, logs: FloatArray, offsets: IntArray, states: NDArray[np.int32], scores: FloatArray
    ) -> None:
        k, n = len(self.initial), len(offsets) - 1
        best_batch(
            table_scores(logs), nothing_known(k), ALL, 0.0, self._pairs, offsets, 0, n,
            new_blocks(offsets, 0, n, k), states, scores, np.empty(n),
        )  # fmt: skip

    def transition_counts(self, counts: Counts) -> FloatArray:
        pairs = np.zeros_like(self.transitions)
        if counts.by_pair is not None:
            pairs[self.possible.source, self.possible.target] = counts.by_pair
        return pairs

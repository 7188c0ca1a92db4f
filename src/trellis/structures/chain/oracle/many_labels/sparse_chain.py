"""Exact inference in chains over allowed pairs of labels: O(n (K + E)) time for n steps and E pairs.

The questions and answers are those of :class:`~trellis.structures.chain.Chain`, the same numbers as for a
table of transitions with -inf where a pair is not allowed. Scratch is O((B + n / B) K) for a sequence of n
steps, with blocks of B steps (:mod:`.pair_kernels`), whatever the length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.core.oracle import Labellings, Labels
from trellis.core.shards import over_shards
from trellis.structures.chain.oracle.chain_oracle import ChainMarginals, check_cost, check_labels
from trellis.structures.chain.oracle.many_labels.best_path_kernels import best_batch
from trellis.structures.chain.oracle.many_labels.given_path_kernels import score_batch
from trellis.structures.chain.oracle.many_labels.pair_kernels import Blocks, Gradient, PairScores, exp_pairs
from trellis.structures.chain.oracle.many_labels.sum_path_kernels import sample_batch, sum_batch
from trellis.structures.chain.scores.sparse_chain_scores import SparseChainScores, nothing_known
from trellis.structures.chain.scores.step_score_kernels import ALL

BLOCK = 2**20  # numbers in each of a block's tables: 8 MB


@dataclass(frozen=True)
class SparseChain:
    """Exact inference over allowed pairs; ``n_jobs`` threads (-1: all cores).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from trellis.structures.chain import SparseChain, SparseChainScores
    >>> follow = csr_array(([0.5, 0.0, 1.0, 0.0], ([0, 0, 1, 2], [1, 2, 2, 0])), shape=(3, 3))
    >>> SparseChain().best(SparseChainScores.of(np.zeros((3, 3)), follow)).labels.tolist()
    [0, 1, 2]
    """

    n_jobs: int = 1

    def score(self, scores: SparseChainScores, labels: ArrayLike) -> FloatArray:
        """s(y) of the given labels (N,) for each sequence, (S,); ``-inf`` where they are forbidden."""
        given = check_labels(scores.n_steps, scores.n_labels, scores.offsets, labels)
        values, known, pairs = (
            np.empty(scores.n_sequences),
            nothing_known(scores.n_labels),
            pair_scores(scores, exp=False),
        )

        def work(first: int, last: int) -> None:
            scratch = new_blocks(scores.offsets, first, last, scores.n_labels)
            score_batch(scores.steps, known, pairs, scores.offsets, first, last, scratch, given, values)

        over_shards(work, scores.offsets, self.n_jobs)
        return values

    def best(self, scores: SparseChainScores) -> Labellings:
        """argmax_y s(y) and its score (Viterbi)."""
        labels, values = np.empty(scores.n_steps, np.int32), np.empty(scores.n_sequences)
        losses, known, pairs = (
            np.empty(scores.n_sequences),
            nothing_known(scores.n_labels),
            pair_scores(scores, exp=False),
        )

        def work(first: int, last: int) -> None:
            scratch = new_blocks(scores.offsets, first, last, scores.n_labels)
            best_batch(
                scores.steps, known, ALL, 0.0, pairs, scores.offsets, first, last, scratch, labels, values,
                losses,
            )  # fmt: skip

        over_shards(work, scores.offsets, self.n_jobs)
        return Labellings(labels, feasible_pairs(values))

    def log_partition(self, scores: SparseChainScores) -> FloatArray:
        """log Z = log sum_y exp s(y) of each sequence, (S,)."""
        return self._sum(scores, 0.0)[0]

    def marginals(self, scores: SparseChainScores) -> ChainMarginals:
        """The probability of every label at every step (N, K), and the expected number of each transition,
        ``transitions`` (E,) in the order of ``scores.pairs``."""
        values, unary, parts = self._sum(scores, 1.0)
        return ChainMarginals(unary, parts.pairs, parts.start, parts.end, values)

    def _sum(self, scores: SparseChainScores, c: float) -> tuple[FloatArray, FloatArray, Gradient]:
        """log Z (S,) and, where c is 1, the marginals and expected numbers of transitions and ends."""
        k, values = scores.n_labels, np.empty(scores.n_sequences)
        known, pairs, weight = nothing_known(k), pair_scores(scores), np.full(scores.n_sequences, c)
        unary = np.zeros((scores.n_steps if c else 0, k))

        def work(first: int, last: int) -> Gradient:
            scratch, own = new_blocks(scores.offsets, first, last, k), new_gradient(scores)
            sum_batch(
                scores.steps, known, ALL, 0.0, pairs, scores.offsets, first, last, scratch, 0.0, weight,
                values, unary, own,
            )  # fmt: skip
            return own

        shards = over_shards(work, scores.offsets, self.n_jobs)
        total = new_gradient(scores)
        for own in shards:
            for mine, more in zip(total[2:5], own[2:5], strict=True):
                mine += more
        return feasible_pairs(values), unary, total

    def sample(self, scores: SparseChainScores, n_samples: int, rng: np.random.Generator) -> Labels:
        """Exact, independent samples from p, (n_samples, N); the same for any number of threads."""
        n_samples = check_int("n_samples", n_samples, 0)
        uniforms = rng.random((n_samples, scores.n_steps))
        labels, known = np.empty(uniforms.shape, np.int32), nothing_known(scores.n_labels)
        pairs = pair_scores(scores)

        def work(first: int, last: int) -> int:
            scratch = new_blocks(scores.offsets, first, last, scores.n_labels)
            dead = sample_batch(
                scores.steps, known, pairs, scores.offsets, first, last, scratch, uniforms, labels
            )
            return int(dead)

        for dead in over_shards(work, scores.offsets, self.n_jobs):
            if dead >= 0:
                raise _infeasible(dead)
        return labels

    def minimum_risk(self, scores: SparseChainScores, risk: ArrayLike | None = None) -> Labels:
        """argmin of sum_t risk[t, y_t] over the allowed labellings, (N,); see ``Chain.minimum_risk``."""
        unary = scores.unary
        risks = -self.marginals(scores).unary if risk is None else check_cost(unary.shape, risk)
        cheapest = np.asarray(risks.argmin(axis=1), dtype=np.int32)
        if (self.score(scores, cheapest) > -np.inf).all():
            return cheapest
        regret = np.where(unary > -np.inf, risks.min(axis=1, keepdims=True) - risks, -np.inf)
        start, end = (np.where(one > -np.inf, 0.0, -np.inf) for one in (scores.start, scores.end))
        allowed = SparseChainScores(
            scores.with_unary(regret).steps,
            scores.pairs,
            np.zeros(len(scores.pairs)),
            start,
            end,
            scores.offsets,
        )
        return self.best(allowed).labels

    def k_best(self, scores: SparseChainScores, k: int) -> NoReturn:
        raise _refusal("the k best labellings")

    def best_different(self, scores: SparseChainScores, labels: ArrayLike) -> NoReturn:
        raise _refusal("the best labelling other than a given one")

    def entropy(self, scores: SparseChainScores) -> NoReturn:
        raise _refusal("the entropy")

    def expected_loss(self, scores: SparseChainScores, cost: ArrayLike) -> NoReturn:
        raise _refusal("the gradient of an expected loss")


def pair_scores(scores: SparseChainScores, exp: bool = True) -> PairScores:
    """Transitions and boundaries as kernels take them; sums need their exponentials, paths do not."""
    bounds, a = scores.pairs.bounds, scores.transitions
    shift, e = np.empty(scores.n_labels * exp), np.empty(len(a) * exp)
    if exp:
        exp_pairs(bounds, a, shift, e)
    return PairScores(bounds, scores.pairs.source, a, e, shift, scores.start, scores.end)


def new_gradient(scores: SparseChainScores) -> Gradient:
    """Room for expected numbers of pairs and ends, and none for weights."""
    k = scores.n_labels
    nothing = np.zeros(0), np.zeros((0, k))
    return Gradient(*nothing, np.zeros(len(scores.pairs)), np.zeros(k), np.zeros(k), np.zeros(0, np.uint8))


def new_blocks(offsets: IntArray, first: int, last: int, n_labels: int) -> Blocks:
    """Scratch for the sequences first..last-1. Blocks are as long as the budget allows, or as is needed for
    the rows kept between them to be as few as those of a block."""
    longest = max(int(np.diff(offsets[first : last + 1]).max(initial=0)), 1)
    rows = min(longest, max(BLOCK // n_labels, math.isqrt(longest - 1) + 1, 1))
    kept = -(-longest // rows)
    u, messages = np.empty((rows, n_labels)), (rows + 1, n_labels)
    f, weight, arrive = np.zeros(messages), np.zeros(messages), np.zeros(messages)
    return Blocks(u, f, weight, arrive, np.empty((kept, n_labels)), np.empty((2, n_labels)))


def feasible_pairs(values: FloatArray) -> FloatArray:
    """The values; raises if one of them is ``-inf``."""
    dead = np.flatnonzero(values == -np.inf)
    if dead.size:
        raise _infeasible(int(dead[0]))
    return values


def _infeasible(sequence: int) -> InfeasibleError:
    return InfeasibleError(
        f"sequence {sequence} has no allowed labelling: no chain of allowed pairs of labels is as long as it "
        "and has allowed labels at every step; allow more transitions or labels, or drop the sequence"
    )


def _refusal(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} is not available for sparse transitions; use scores.to_dense() with "
        "trellis.structures.chain.Chain where the labels are few enough for a table, or transitions='all'"
    )

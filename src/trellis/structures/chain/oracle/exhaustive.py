"""Brute force: every labelling of one short chain, written out; the reference for all other oracles.

With ``K`` labels and ``n`` steps there are ``K ** n`` labellings, so this is for tests, for teaching and for
objectives that no dynamic programme serves. The labellings come in the order of Trellis's tie rule: read
from the last step back to the first, smaller labels come first. So the first maximiser here is the one that
Viterbi's backtracking finds.

    p(y) = exp(score(y)) / sum_y' exp(score(y'))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.core.logspace import log_sum_exp, softmax
from trellis.structures.chain.scores.chain_scores import ChainParts, ChainScores

MOST_LABELLINGS = 200_000

Labels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Enumeration:
    """All labellings of one sequence (M, n) and their scores (M,), ``-inf`` where forbidden.

    Examples
    --------
    >>> from trellis.structures.chain import ChainScores, Enumeration
    >>> scores = ChainScores.of([[0.0, 1.0], [0.5, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    >>> labels, score = Enumeration.of(scores).best()
    >>> labels.tolist(), float(score)
    ([1, 1], 2.0)
    """

    chain: ChainScores
    labellings: Labels
    scores: FloatArray

    @classmethod
    def of(cls, scores: ChainScores, sequence: int = 0) -> Enumeration:
        """Enumerate one sequence of a batch; refuses more than 200,000 labellings."""
        chain = _one_sequence(scores, sequence)
        n, k = chain.unary.shape
        if k**n > MOST_LABELLINGS:
            raise UnsupportedError(
                f"sequence {sequence} has {k} ** {n} labellings, more than {MOST_LABELLINGS}; for long ones "
                "use trellis.structures.chain.Chain, whose time is linear in the length"
            )
        place = k ** np.arange(n, dtype=np.int64)  # the last step is the most significant digit: the tie rule
        labellings = (np.arange(k**n, dtype=np.int64)[:, None] // place % k).astype(np.int32)
        return cls(chain, labellings, _score(chain, labellings))

    def maximum(self, objective: Callable[[Labels, float], float]) -> tuple[Labels, float]:
        """The allowed labelling that maximises ``objective(labels, score)``, any Python function."""
        self._check_feasible()
        allowed = np.flatnonzero(self.scores > -np.inf)
        values = [objective(self.labellings[i], float(self.scores[i])) for i in allowed]
        first = int(np.argmax(values))
        return self.labellings[allowed[first]], float(values[first])

    def best(self) -> tuple[Labels, float]:
        self._check_feasible()
        first = int(np.argmax(self.scores))
        return self.labellings[first], float(self.scores[first])

    def k_best(self, k: int) -> tuple[Labels, FloatArray]:
        """The ``k`` best allowed labellings (fewer if there are fewer), best first, ties by the tie rule."""
        order = np.argsort(-self.scores, kind="stable")[:k]
        order = order[self.scores[order] > -np.inf]
        return self.labellings[order], self.scores[order]

    def best_different(self, given: ArrayLike) -> tuple[Labels, float]:
        """The best labelling that is not ``given``; its score is ``-inf`` when there is none."""
        differs = np.any(self.labellings != np.asarray(given), axis=1)
        scores = np.where(differs, self.scores, -np.inf)
        first = int(np.argmax(scores))
        return self.labellings[first], float(scores[first])

    def log_partition(self) -> float:
        """log sum_y exp(score(y))."""
        self._check_feasible()
        return float(log_sum_exp(self.scores))

    def probabilities(self) -> FloatArray:
        """p(y), (M,)."""
        self._check_feasible()
        return softmax(self.scores)

    def marginals(self, per_step: bool = False) -> ChainParts:
        """The probability of each part; ``per_step``: transitions (n, K, K) even where they are shared."""
        return self.parts(self.probabilities(), per_step)

    def entropy(self) -> float:
        """-sum_y p(y) log p(y)."""
        p = self.probabilities()
        p = p[p > 0]
        return float(-np.sum(p * np.log(p)))

    def expected_loss(self, loss: ArrayLike) -> tuple[float, ChainParts]:
        """E[L] and its gradient in the part scores, the covariance of L with the part indicators.

        ``loss`` is (M,), one number per labelling, or (n, K), costs that add up over the steps.
        """
        values = np.asarray(loss, dtype=np.float64)
        n, k = self.chain.unary.shape
        if values.ndim == 2 and values.shape == (n, k):
            values = values[np.arange(n), self.labellings].sum(axis=1)
        if values.shape != self.scores.shape:
            raise DataError(
                f"the loss has shape {np.shape(loss)}; it must have shape ({len(self.scores)},), one number "
                f"per labelling, or ({n}, {k}), one cost per step and label"
            )
        p = self.probabilities()
        mean = float(p @ values)
        return mean, self.parts(p * (values - mean))

    def parts(self, weights: FloatArray, per_step: bool = False) -> ChainParts:
        """sum_y weights(y) times the part indicators of y."""
        n, k = self.chain.unary.shape
        unary = np.zeros((n, k))
        pairs = np.zeros((n, k, k))
        start, end = np.zeros(k), np.zeros(k)
        for t in range(n):
            np.add.at(unary[t], self.labellings[:, t], weights)
        for t in range(1, n):
            np.add.at(pairs[t], (self.labellings[:, t - 1], self.labellings[:, t]), weights)
        if n:
            start, end = unary[0].copy(), unary[-1].copy()
        shared = self.chain.transitions.shape[0] == 1 and not per_step
        return ChainParts(unary, pairs.sum(axis=0, keepdims=True) if shared else pairs, start, end)

    def _check_feasible(self) -> None:
        if not np.any(self.scores > -np.inf):
            raise InfeasibleError(
                "the sequence has no allowed labelling; every one of them is forbidden (-inf)"
            )


def _one_sequence(scores: ChainScores, sequence: int) -> ChainScores:
    if not 0 <= sequence < scores.n_sequences:
        raise DataError(f"there is no sequence {sequence}; the batch has {scores.n_sequences}")
    first, last = scores.offsets[sequence : sequence + 2]
    shared = scores.transitions.shape[0] == 1
    return ChainScores(
        scores.unary[first:last],
        scores.transitions if shared else scores.transitions[first:last],
        scores.start,
        scores.end,
        np.array([0, last - first]),
    )


def _score(chain: ChainScores, labellings: Labels) -> FloatArray:
    total = np.zeros(len(labellings))
    n = labellings.shape[1]
    if n == 0:
        return total
    transitions = np.broadcast_to(chain.transitions, (n, *chain.transitions.shape[1:]))
    total += chain.start[labellings[:, 0]]
    for t in range(n):
        if t:
            total += transitions[t, labellings[:, t - 1], labellings[:, t]]
        total += chain.unary[t, labellings[:, t]]
    total += chain.end[labellings[:, -1]]
    return total

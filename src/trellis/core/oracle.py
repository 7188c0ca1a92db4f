"""What a structure answers, and the records it answers with.

A structure (a chain, an alignment, a graph, ...) knows all its outputs at once and answers the same
questions about them, given their part scores: the best output, the k best, the best after adding a loss,
log-partition and marginals, samples. Learning needs nothing else. A question that a structure cannot answer
exactly raises ``UnsupportedError`` naming the approximate alternative; nothing falls back silently.

An output with no allowed alternative (every one scores ``-inf``) raises ``InfeasibleError`` naming the
sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import FloatArray

Labels = NDArray[np.int32]
Scores = TypeVar("Scores", contravariant=True)
Marginals = TypeVar("Marginals", covariant=True)


@dataclass(frozen=True, eq=False)
class Labellings:
    """One labelling per sequence: ``labels`` (N,) packed as the scores were, and their ``scores`` (S,)."""

    labels: Labels
    scores: FloatArray


@dataclass(frozen=True, eq=False)
class RankedLabellings:
    """The k best of each sequence: ``labels`` (k, N), best first, and ``scores`` (S, k).

    A sequence with fewer than k allowed labellings has label -1 and score ``-inf`` in the rows past them.
    """

    labels: Labels
    scores: FloatArray

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many of the k labellings each sequence has, (S,)."""
        return np.asarray(np.sum(self.scores > -np.inf, axis=1))


class Structure(Protocol[Scores, Marginals]):
    """The oracle of a structure."""

    def score(self, scores: Scores, labels: ArrayLike) -> FloatArray:
        """Score of the given output of each sequence, (S,); ``-inf`` where it is forbidden."""

    def best(self, scores: Scores) -> Labellings:
        """argmax_y s(y)."""

    def k_best(self, scores: Scores, k: int) -> RankedLabellings:
        """The k outputs with the largest scores."""

    def best_with_loss(self, scores: Scores, cost: FloatArray, scale: float = 1.0) -> Labellings:
        """argmax_y s(y) + scale L(y), for a loss that adds up over parts; the scores include the loss."""

    def log_partition(self, scores: Scores) -> FloatArray:
        """log sum_y exp s(y), (S,)."""

    def marginals(self, scores: Scores) -> Marginals:
        """The probability of each part under p(y) proportional to exp s(y)."""

    def sample(self, scores: Scores, n_samples: int, rng: np.random.Generator) -> Labels:
        """Exact samples from p, (n_samples, N)."""

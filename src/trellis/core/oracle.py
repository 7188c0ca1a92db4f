"""The protocol of oracles: what a structure computes about all outputs of one example.

A structure is a chain, a segmentation, a graph, ... Learning needs the four methods of :class:`Oracle`. What
a structure cannot compute exactly raises ``UnsupportedError``, naming the approximate alternative; nothing
falls back silently. An example with no allowed output (all scores are ``-inf``) raises ``InfeasibleError``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray

Labels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Answer:
    """``value``: a maximum or log-sum. ``parts``: of the maximiser, or expected. ``loss``: of a maximiser."""

    value: float
    parts: FloatArray
    loss: float = 0.0


class Oracle(Protocol):
    """One example at given part scores s, with its gold outputs and its loss L >= 0.

    ``parts`` are whatever vector the caller differentiates by: part indicators or marginals for scores that
    come from elsewhere, sums of features Phi(x, y) for linear ones. With hidden parts the gold output is a
    set of outputs.
    """

    def best(self, scale: float) -> Answer:
        """max_y s(y) + scale L(y); the value includes the loss."""

    def sum(self, scale: float) -> Answer:
        """log sum_y exp(s(y) + scale L(y)), and the expected parts."""

    def gold_best(self) -> Answer:
        """max over the gold outputs of s."""

    def gold_sum(self) -> Answer:
        """log sum over the gold outputs of exp s, and their expected parts."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Those of n examples: ``values`` (n,), ``losses`` (n,), and their parts in two forms: ``combined(c)`` is
    sum_i c_i parts_i, and ``rows()`` all of them (n, dimension)."""

    values: FloatArray
    losses: FloatArray
    combined: Callable[[FloatArray], FloatArray]
    rows: Callable[[], FloatArray]


class BatchOracle(Protocol):
    """Many examples that are answered together; the questions are those of :class:`Oracle`."""

    def best(self, scale: float) -> Answers: ...

    def sum(self, scale: float) -> Answers: ...

    def gold_best(self) -> Answers: ...

    def gold_sum(self) -> Answers: ...


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

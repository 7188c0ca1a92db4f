"""Beam search in chains of many labels, with an upper bound on the optimum: "exact" is said only where it
is proved.

    score of what was found  <=  optimum  <=  bound

O(n M K) time for a width of M, against O(n K^2) for the exact search; :mod:`.beam_kernels` has the
formulas. With a width of K the search is exact. Where the labels that may follow each other are few, exact
search over the allowed pairs (:class:`.sparse_chain.SparseChain`) is faster still."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import UnsupportedError
from trellis.core.oracle import Labellings
from trellis.core.shards import over_shards
from trellis.structures.chain.oracle.chain_oracle import feasible
from trellis.structures.chain.oracle.many_labels.beam_kernels import beam_batch, transition_bounds
from trellis.structures.chain.scores.chain_scores import ChainScores


@dataclass(frozen=True, eq=False)
class BeamLabellings(Labellings):
    """The best labelling found for each sequence, with ``scores`` (S,); ``bounds`` (S,), which no labelling
    exceeds; ``widths`` (S,): labels kept at each step; ``rounding`` (S,): how far apart score and bound of
    one labelling may be by the rounding of sums."""

    bounds: FloatArray
    widths: IntArray
    rounding: FloatArray

    @property
    def exact(self) -> NDArray[np.bool_]:
        """(S,) where the labelling found is proved to be the best one, or to tie with it."""
        return np.asarray(self.bounds - self.scores <= self.rounding)

    @property
    def gaps(self) -> FloatArray:
        """(S,) how much better another labelling can be at most; 0 where this one is proved to be the
        best."""
        return np.where(self.exact, 0.0, self.bounds - self.scores)

    def __str__(self) -> str:
        n, proved = len(self.scores), int(self.exact.sum())
        rest = "" if proved == n else f"; the others are at most {self.gaps.max():.3g} below it"
        return f"{proved} of {n} labellings are proved to be the best{rest}"


def beam_search(
    scores: ChainScores, width: int = 64, max_width: int | None = None, n_jobs: int = 1
) -> BeamLabellings:
    """Keep the ``width`` most promising labels at each step. Where that does not prove its answer to be the
    best, double the width, up to ``max_width`` (by default ``width`` itself, so once).

    Examples
    --------
    >>> from trellis.structures.chain import ChainScores, beam_search
    >>> scores = ChainScores.of([[0.0, 1.0], [0.5, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    >>> beam_search(scores, width=2).labels.tolist()
    [1, 1]
    """
    width = check_int("width", width, 1)
    most = width if max_width is None else check_int("max_width", max_width, width)
    if scores.transitions.shape[0] != 1 and len(scores.unary) != 1:
        raise UnsupportedError(
            "beam search needs transitions that all steps share; use Chain().best for others"
        )
    k, n = scores.n_labels, scores.n_sequences
    a = scores.transitions[0]
    a_t, into, out, rest = np.ascontiguousarray(a.T), np.empty(k), np.empty(k), np.empty(k)
    transition_bounds(a, into, out, rest)
    labels, widths = np.zeros(len(scores.unary), np.int32), np.empty(n, np.int64)
    values, bounds, rounding = np.empty(n), np.empty(n), np.empty(n)

    def work(first: int, last: int) -> None:
        beam_batch(
            scores.unary, a, a_t, scores.start, scores.end, scores.offsets, first, last, width, most, into,
            out, rest, labels, values, bounds, widths, rounding,
        )  # fmt: skip

    over_shards(work, scores.offsets, n_jobs)
    dead = bounds == -np.inf
    feasible(np.where(dead, -np.inf, 0.0))
    lost = np.flatnonzero(values == -np.inf)
    if lost.size:
        raise UnsupportedError(
            f"the beam lost every allowed labelling of sequence {lost[0]}; raise width or max_width"
        )
    return BeamLabellings(labels, values, bounds, widths, rounding)

"""Candidate outputs of examples, for losses that do not decompose: objectives over them are approximate.

With a list C of different outputs in place of all of them, among them the gold one, an objective has one
coefficient per candidate, and its gradient is sum_C coefficient(y) parts(y), the candidates held fixed. A
maximum or a sum over C never exceeds the one over all outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.logspace import softmax_and_log_sum
from trellis.core.oracle import Labels

if TYPE_CHECKING:
    from trellis.objectives.records import Objective


@dataclass(frozen=True, eq=False)
class CandidateList:
    """Labellings (R, N) of a run of examples, their scores and losses (R, S); the last row is the gold one.

    A score of ``-inf`` marks a place that is empty or repeats another row. ``gold_scores`` (S,) are those of
    the last row, even where it repeats another.
    """

    labellings: Labels
    scores: FloatArray
    losses: FloatArray
    gold_scores: FloatArray

    def best(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The largest score of each example (S,), and the indicators of the candidate that has it (R, S)."""
        rows, every = scores.argmax(axis=0), np.arange(scores.shape[1])
        chosen = np.zeros_like(scores)
        chosen[rows, every] = 1.0
        return scores[rows, every], chosen

    def rescaled_margins(self) -> FloatArray:
        """L (1 + s - s(y*)) (R, S): -inf in places that are empty, inf where y* is forbidden."""
        s, gold = self.scores, self.gold_scores
        margins = np.where(s > -np.inf, s, 0.0) - np.where(gold > -np.inf, gold, 0.0)
        products = np.where(s > -np.inf, self.losses * (1.0 + margins), -np.inf)
        return np.where(gold > -np.inf, products, np.inf)

    def log_sum(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log sum exp of the scores of each example (S,), and the probabilities of the candidates (R, S);
        there is always a finite score."""
        probabilities, log_sums = softmax_and_log_sum(scores, axis=0)
        return log_sums[0], probabilities


def updates_of_candidates(
    objective: Objective, candidates: CandidateList, epsilon: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """What ``StructuredProblem.updates`` says, among candidates."""
    _, coefficients = objective.over_candidates(candidates, epsilon)
    _, better = candidates.best(candidates.scores - epsilon * candidates.losses)
    moved, lost = coefficients != 0.0, (better * candidates.losses).sum(axis=0)
    return np.asarray(moved.any(axis=0)), np.asarray(lost == 0.0)

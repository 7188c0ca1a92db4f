"""Margin objectives with hidden parts h as differences of convex functions: the latent structural SVM.

    f_i(w) = max_{y, h} (s(y, h) + L(y)) - max_h s(y*, h)
    F(w)   = g(w) - h(w)
    g(w)   = sum_i c_i max_{y, h} (s(y, h) + L(y)) + (l2 / 2) ||w||^2          h(w) = sum_i c_i max_h s(y*, h)

Both are convex in w (maxima of linear functions). A subgradient of h is v = sum_i c_i Phi(x_i, y*_i, h_i) at
the best *completions* h_i of the gold outputs, and g(w) - <w, v> is the objective of a plain structural SVM
whose gold outputs are the completed ones. So all that a structure adds is ``completed``, and
:mod:`trellis.solvers.dc.cccp` does the rest, for chains, segmentations and graphs alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import InfeasibleError
from trellis.core.oracle import Answer, Answers, BatchOracle, Oracle
from trellis.core.shards import over_items
from trellis.objectives.structured_problem import Batch, StructuredProblem
from trellis.objectives.wrapped_problem import WrappedProblem


@dataclass(frozen=True, eq=False)
class Completion:
    """``value``: h(w). ``gradient``: v. ``convex``: g(w) - <w, v>, the problem with these completions held
    fixed; its data term is not negative."""

    value: float
    gradient: FloatArray
    convex: StructuredProblem


def complete_examples(problem: StructuredProblem, weights: FloatArray) -> Completion:
    """By one question for the best gold output to each example's oracle."""
    values, parts = np.empty(problem.n_examples), np.empty((problem.n_examples, problem.dimension))
    batches, others = problem.batches(0, problem.n_examples)
    for batch in batches:
        found = problem.batch_oracle(batch, weights).gold_best()
        values[batch.indices], parts[batch.indices] = found.values, found.rows()
    answers = over_items(
        lambda j: problem.oracle(others[j], weights).gold_best(), len(others), problem.n_jobs
    )
    for i, answer in zip(others, answers, strict=True):
        values[i], parts[i] = answer.value, answer.parts
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InfeasibleError(
            f"{problem.noun} {bad[0]} has no gold output that its scores allow; allow its parts, or drop it"
        )
    c = problem.sample_weight
    return Completion(float(c @ values), c @ parts, CompletedExamples(problem, parts))


@dataclass(frozen=True, eq=False)
class CompletedExamples(WrappedProblem):
    """The examples of ``problem`` with one gold output each, Phi(x_i, y*_i, h_i) in the rows of ``gold``: the
    problem of a plain structural SVM."""

    problem: StructuredProblem
    gold: FloatArray

    def oracle(self, index: int, weights: FloatArray) -> Oracle:
        return _Completed(self.problem.oracle(index, weights), self.gold[index], weights)

    def batches(self, first: int, last: int) -> tuple[Sequence[Batch], Sequence[int]]:
        return self.problem.batches(first, last)

    def batch_oracle(self, batch: Any, weights: FloatArray) -> BatchOracle:
        return _CompletedBatch(self.problem.batch_oracle(batch, weights), self.gold[batch.indices], weights)


class _Completed:
    """An oracle whose gold output is one, given by its features."""

    def __init__(self, oracle: Oracle, gold: FloatArray, weights: FloatArray) -> None:
        self.best, self.sum = oracle.best, oracle.sum
        self._gold = Answer(float(gold @ weights), gold)

    def gold_best(self) -> Answer:
        return self._gold

    def gold_sum(self) -> Answer:
        return self._gold


class _CompletedBatch:
    """An oracle of many examples whose gold outputs are given by their features, one row each."""

    def __init__(self, oracle: BatchOracle, gold: FloatArray, weights: FloatArray) -> None:
        self.best, self.sum = oracle.best, oracle.sum
        self._gold = Answers(gold @ weights, np.zeros(len(gold)), lambda c: c @ gold, lambda: gold)

    def gold_best(self) -> Answers:
        return self._gold

    def gold_sum(self) -> Answers:
        return self._gold

"""Margin objectives with hidden parts h as differences of convex functions: the latent structural SVM.

    f_i(w) = max_{y, h} (s(y, h) + L(y)) - max_h s(y*, h)
    F(w)   = g(w) - h(w)
    g(w)   = sum_i c_i max_{y, h} (s(y, h) + L(y)) + (l2 / 2) ||w||^2          h(w) = sum_i c_i max_h s(y*, h)

Both are convex in w (maxima of linear functions). A subgradient of h is v = sum_i c_i Phi(x_i, y*_i, h_i) at
the best *completions* h_i of the gold outputs, and g(w) - <w, v> is the objective of a plain structural SVM
whose gold outputs are the completed ones. So all that a structure adds is :meth:`LatentProblem.completed`;
:mod:`trellis.solvers.dc.cccp` does the rest, for chains, segmentations and graphs alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from trellis.core.arrays import FloatArray
from trellis.core.errors import InfeasibleError
from trellis.objectives.example_problem import ExampleProblem
from trellis.objectives.formulas import Answer, Oracle, value_and_gradient
from trellis.objectives.records import Objective
from trellis.objectives.wrapped_problem import WrappedProblem


class ConvexPart(Protocol):
    """g(w) - <w, v>: the problem of a plain structural SVM, whose data term is not negative."""

    @property
    def l1(self) -> float: ...

    @property
    def l2(self) -> float: ...

    @property
    def convex(self) -> bool: ...

    @property
    def dimension(self) -> int: ...

    @property
    def n_examples(self) -> int: ...

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]: ...


@dataclass(frozen=True, eq=False)
class Completion:
    """``value``: h(w). ``gradient``: v. ``convex``: the problem with these completions held fixed."""

    value: float
    gradient: FloatArray
    convex: ConvexPart


class LatentProblem(Protocol):
    """What the DC algorithm asks of a problem whose gold outputs are sets."""

    @property
    def objective(self) -> Objective: ...

    @property
    def l2(self) -> float: ...

    @property
    def l1(self) -> float: ...

    @property
    def dimension(self) -> int: ...

    @property
    def n_examples(self) -> int: ...

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]: ...

    def completed(self, weights: FloatArray) -> Completion:
        """The best completion of every gold output at these weights."""


def complete_examples(problem: ExampleProblem[Any, Any], weights: FloatArray) -> Completion:
    """By one question for the best gold output to each example's oracle."""
    answers = problem.over_examples(lambda i: problem.oracle(i, weights).gold_best())
    values = np.array([answer.value for answer in answers])
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InfeasibleError(
            f"{problem.noun} {bad[0]} has no gold output that its scores allow; allow its parts, or drop it"
        )
    parts = np.stack([answer.parts for answer in answers])
    c = np.ones(len(values)) if problem.weight is None else problem.weight
    return Completion(float(c @ values), c @ parts, CompletedExamples(problem, parts))


@dataclass(frozen=True, eq=False)
class CompletedExamples(WrappedProblem):
    """The examples of ``problem`` with one gold output each, Phi(x_i, y*_i, h_i) in the rows of ``gold``: the
    problem of a plain structural SVM."""

    problem: ExampleProblem[Any, Any]
    gold: FloatArray

    convex = True

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = 0.0, np.zeros(self.dimension)
        for one_value, one_gradient in self.problem.over_examples(lambda i: self.example_plane(i, weights)):
            value += one_value
            gradient += one_gradient
        return value, gradient

    def example_plane(self, index: int, weights: FloatArray) -> tuple[float, FloatArray]:
        oracle = _Completed(self.problem.oracle(index, weights), self.gold[index], weights)
        value, gradient = value_and_gradient(self.objective, oracle)
        c = 1.0 if self.problem.weight is None else float(self.problem.weight[index])
        return c * value, c * gradient

    def example_planes(self, weights: FloatArray) -> tuple[FloatArray, csr_array]:
        planes = self.problem.over_examples(lambda i: self.example_plane(i, weights))
        return np.array([value for value, _ in planes]), csr_array(np.stack([g for _, g in planes]))


class _Completed:
    """An oracle whose gold output is one, given by its features."""

    def __init__(self, oracle: Oracle, gold: FloatArray, weights: FloatArray) -> None:
        self.best, self.sum = oracle.best, oracle.sum
        self._gold = Answer(float(gold @ weights), gold)

    def gold_best(self) -> Answer:
        return self._gold

    def gold_sum(self) -> Answer:
        return self._gold

"""One sequence of a linear chain problem at given weights: its oracle, whose parts are sums of features."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.oracle import Answer, Labels
from trellis.structures.chain.oracle.chain_batch_kernels import marginals_batch
from trellis.structures.chain.problem.chain_task import check_feasible
from trellis.structures.chain.problem.objective_kernels import (
    COSTS,
    NO_LOSS,
    augmented_path,
    gold_path,
    labelling_loss,
    restrict,
)
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.structures.chain.scores.linear_chain_kernels import add_path, pull_back

if TYPE_CHECKING:
    from trellis.structures.chain.problem.chain_problem import LinearChainProblem


class ChainOracle:
    """``problem`` has one sequence, the ``index``-th of the data."""

    def __init__(self, problem: LinearChainProblem, index: int, weights: FloatArray) -> None:
        self._problem, self._index = problem, index
        self.scores = problem.scores(weights)
        self._work = problem.new_work(0, 1)
        self._steps = len(self.scores.unary)

    def best(self, scale: float) -> Answer:
        if self._steps == 0:
            return self._nothing()
        kind, task, path = self._problem.loss_kind, self._problem.task, np.zeros(self._steps, np.int32)
        value = augmented_path(*self._parts, kind, scale, *self._gold, task.cost, self._work, path)
        self._check(value)
        loss = labelling_loss(kind, task.cost, *self._gold, path, self._steps)
        return Answer(float(value), self._features(path), float(loss))

    def gold_best(self) -> Answer:
        if self._steps == 0:
            return self._nothing()
        path = np.zeros(self._steps, np.int32)
        value = gold_path(*self._parts, *self._gold, self._work, path)
        self._check(value)
        return Answer(float(value), self._features(path))

    def sum(self, scale: float) -> Answer:
        problem, scores = self._problem, self.scores
        if scale == 0.0 or problem.loss_kind == NO_LOSS:
            return self._sum(scores)
        if problem.loss_kind == COSTS:
            return self._sum(scores.with_unary(scores.unary + scale * problem.task.cost))
        # sum_y exp(s + scale L) = e^scale Z - (e^scale - 1) Z*, with Z* the sum over the gold labellings
        every, gold, more = self._sum(scores), self.gold_sum(), math.expm1(scale)
        p = math.exp(gold.value - every.value)
        z = 1.0 + more * (1.0 - p)
        parts = ((1.0 + more) * every.parts - more * p * gold.parts) / z
        return Answer(every.value + math.log(z), parts)

    def gold_sum(self) -> Answer:
        gold, ambiguous, allowed = self._gold
        if not ambiguous:
            return self.gold_best()
        unary = np.empty_like(self.scores.unary)
        restrict(self.scores.unary, gold, allowed, unary)
        return self._sum(self.scores.with_unary(unary))

    @property
    def _parts(self) -> tuple[FloatArray, ...]:
        scores = self.scores
        return scores.unary, scores.transitions, scores.start, scores.end

    @property
    def _gold(self) -> tuple[Any, ...]:
        task = self._problem.task
        return task.gold, bool(task.ambiguous[0]), task.allowed

    def _check(self, value: float) -> None:
        check_feasible(np.array([value]), self._index)

    def _nothing(self) -> Answer:
        return Answer(0.0, np.zeros(self._problem.dimension))

    def _sum(self, scores: ChainScores) -> Answer:
        if self._steps == 0:
            return self._nothing()
        log_z, unary, pairs = np.zeros(1), np.zeros_like(scores.unary), np.zeros_like(scores.transitions)
        arrays = scores.unary, scores.transitions, scores.start, scores.end, scores.offsets
        marginals_batch(*arrays, 0, 1, log_z, unary, pairs)
        self._check(log_z[0])
        layout, gradient = self._problem.layout, np.zeros(self._problem.dimension)
        pull_back(self._problem.design, layout.rows, layout.views(gradient), 0, unary, pairs, 1.0)
        return Answer(float(log_z[0]), layout.masked(gradient))

    def _features(self, path: Labels) -> FloatArray:
        layout, gradient = self._problem.layout, np.zeros(self._problem.dimension)
        nowhere = np.full(self._steps, -1, dtype=np.int32)  # differs from every label
        add_path(
            self._problem.design, layout.rows, layout.views(gradient), layout.mask, 0, path, nowhere, 1.0
        )
        return layout.masked(gradient)

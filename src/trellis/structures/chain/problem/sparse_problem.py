"""A linear chain model over allowed pairs of labels, its data and an objective, as the problem that solvers
minimise.

    min_w  sum_i c_i f_i(w) + (l2 / 2) ||w||^2 + l1 ||w||_1

Time and memory grow with the allowed pairs, never with K x K. Runs of sequences are answered together
(:class:`SparseBatchOracle`), so that every objective that reads oracles works, in compiled code; the log
objective takes its sum and its gradient in one pass. A loss that is the number of wrong steps needs no
table of costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import UnsupportedError
from trellis.core.oracle import Answer, Answers, Labels
from trellis.core.shards import n_threads, over_shards, shard_bounds
from trellis.data.sequences import sum_by_sequence
from trellis.objectives.latent import Completion
from trellis.objectives.records import names
from trellis.objectives.structured_problem import BoolArray
from trellis.structures.chain.oracle.many_labels.best_path_kernels import best_batch
from trellis.structures.chain.oracle.many_labels.given_path_kernels import add_paths, score_batch
from trellis.structures.chain.oracle.many_labels.pair_kernels import Gradient, PairScores
from trellis.structures.chain.oracle.many_labels.sparse_chain import new_blocks, pair_scores
from trellis.structures.chain.oracle.many_labels.sum_path_kernels import sum_batch
from trellis.structures.chain.problem.chain_problem_kernels import Task
from trellis.structures.chain.problem.chain_task import check_feasible
from trellis.structures.chain.problem.objective_kernels import NO_LOSS, ZERO_ONE
from trellis.structures.chain.problem.packed_chain_problem import PackedChainProblem
from trellis.structures.chain.scores.linear_chain_scores import take_run
from trellis.structures.chain.scores.sparse_chain_scores import SparseChainScores
from trellis.structures.chain.scores.sparse_layout import SparseLayout
from trellis.structures.chain.scores.step_score_kernels import ALL, GOLD, LOSS, Known

# A label less probable than this passes nothing back in a gradient: of n steps and K labels, at most n K
# LEAST of a sum of n is lost, far below rounding.
LEAST = 1e-30


class SequenceRun(NamedTuple):
    """Sequences that are answered together, by their numbers."""

    indices: IntArray


@dataclass(frozen=True, eq=False)
class PathAnswers(Answers):
    """Answers whose parts are those of one labelling of each sequence, ``labels`` (N,)."""

    labels: Labels


@dataclass(frozen=True, eq=False)
class SparseChainProblem(PackedChainProblem):
    """``task.cost`` has no rows where the loss is the Hamming loss, or none."""

    layout: SparseLayout

    def __post_init__(self) -> None:
        if not self.objective.for_oracles:
            raise UnsupportedError(
                f"objective {self.objective.name!r} is not available for sparse transitions; choose one of "
                f"{names('for_oracles')}, or use transitions='all'"
            )
        if self.loss_kind == ZERO_ONE:
            raise UnsupportedError(
                "loss 'zero_one' is not available for sparse transitions; use loss='hamming', or "
                "transitions='all'"
            )

    def scores(self, weights: FloatArray) -> SparseChainScores:
        return self.layout.scores(self.design, self.penalties, weights)

    def oracle(self, index: int, weights: FloatArray) -> SparseExampleOracle:
        return SparseExampleOracle(SparseBatchOracle(self, index, index + 1, weights))

    def batches(self, first: int, last: int) -> tuple[Sequence[SequenceRun], Sequence[int]]:
        """One run for each thread."""
        offsets = self.design.offsets[first : last + 1]
        bounds = shard_bounds(offsets - offsets[0], n_threads(self.n_jobs))
        return [SequenceRun(np.arange(first + a, first + b)) for a, b in bounds if b > a], ()

    def batch_oracle(self, batch: Any, weights: FloatArray) -> SparseBatchOracle:
        return SparseBatchOracle(self, int(batch.indices[0]), int(batch.indices[-1]) + 1, weights)

    def run_value_and_gradient(self, weights: FloatArray, first: int, last: int) -> tuple[float, FloatArray]:
        if not self.objective.log_likelihood:
            return super().run_value_and_gradient(weights, first, last)
        offsets = self.design.offsets[first : last + 1]
        value, gradient = 0.0, np.zeros(self.dimension)
        for more, own in over_shards(
            lambda a, b: self._log_gradient(weights, first + a, first + b), offsets - offsets[0], self.n_jobs
        ):
            value += more
            gradient += own
        return value, gradient

    def _log_gradient(self, weights: FloatArray, first: int, last: int) -> tuple[float, FloatArray]:
        """sum c_i (log Z_i - log-sum of the gold labellings) over a run, and its gradient."""
        oracle, c = SparseBatchOracle(self, first, last, weights), self.task.weight[first:last]
        gradient = np.zeros(self.dimension)
        above = oracle.add_sum(ALL, 0.0, c, gradient)
        if self.task.ambiguous[first:last].any():
            below = oracle.add_sum(GOLD, 0.0, -c, gradient)
        else:
            below = oracle.gold_scores()
            oracle.add_paths(oracle.known.gold, -c, gradient)
        check_feasible(above - below, first)
        return float(c @ (above - below)), self.layout.masked(gradient)

    def example_plane(self, index: int, weights: FloatArray) -> tuple[float, FloatArray]:
        return self.run_value_and_gradient(weights, index, index + 1)

    def example_planes(self, weights: FloatArray) -> tuple[FloatArray, csr_array]:
        planes = [self.example_plane(i, weights) for i in range(self.n_examples)]
        return np.array([value for value, _ in planes]), vstack(
            [csr_array(g[None]) for _, g in planes]
        ).tocsr()

    def score_gaps(self, weights: FloatArray) -> FloatArray:
        oracle = SparseBatchOracle(self, 0, self.n_examples, weights)
        return oracle.best(0.0).values - oracle.gold_best().values

    def updates(self, weights: FloatArray, first: int, last: int) -> tuple[BoolArray, BoolArray]:
        oracle = SparseBatchOracle(self, first, last, weights)
        _, slopes, above, below = self.objective.over_batch(oracle, self.epsilon)
        differ = sum_by_sequence(above.labels != below.labels, oracle.offsets) > 0  # type: ignore[attr-defined]
        return differ & (np.asarray(slopes) != 0.0), oracle.best(-self.epsilon).losses == 0.0

    def completed(self, weights: FloatArray) -> Completion:
        """The best allowed labelling of each sequence, see :mod:`trellis.objectives.latent`."""
        gold = SparseBatchOracle(self, 0, self.n_examples, weights).gold_best()
        nothing = np.zeros((0, self.layout.n_labels), dtype=np.bool_)
        cost = self.task.cost
        if not len(cost) and self.loss_kind != NO_LOSS:
            # the loss stays that of the labels that are known: labels inside the set cost nothing
            cost = _hamming_table(self.task)
        known = np.zeros_like(self.task.ambiguous)
        task = self.task._replace(gold=gold.labels, ambiguous=known, allowed=nothing, cost=cost)
        return Completion(
            float(gold.values @ self.task.weight),
            gold.combined(self.task.weight),
            replace(self, task=task),
        )


def _hamming_table(task: Task) -> FloatArray:
    if len(task.allowed):
        return (~task.allowed).astype(np.float64)
    return 1.0 - np.eye(task.cost.shape[1])[task.gold]


class SparseBatchOracle:
    """The sequences first..last-1 of a problem at given weights; the parts are sums of features."""

    def __init__(self, problem: SparseChainProblem, first: int, last: int, weights: FloatArray) -> None:
        self._problem, self._first, self._n = problem, first, last - first
        layout, design = problem.layout, take_run(problem.design, first, last)
        scores = layout.scores(design, problem.penalties, weights)
        task = problem.task.run(problem.design.offsets, first, last)
        self.known = Known(task.gold, task.allowed, task.cost)
        self.offsets = design.offsets
        self._ambiguous = bool(task.ambiguous.any())
        self._scores, self._steps = scores, scores.steps
        self._pairs = pair_scores(scores, exp=False)
        self._work = new_blocks(self.offsets, 0, self._n, layout.n_labels)

    @cached_property
    def _exp_pairs(self) -> PairScores:
        return pair_scores(self._scores)

    def best(self, scale: float) -> PathAnswers:
        plain = scale == 0.0 or self._problem.loss_kind == NO_LOSS
        return self._best(ALL if plain else LOSS, scale)

    def gold_best(self) -> PathAnswers:
        if self._ambiguous:
            return self._best(GOLD, 0.0)
        values, losses = self.gold_scores(), np.zeros(self._n)
        check_feasible(values, self._first)
        return self._path_answers(values, losses, self.known.gold)

    def sum(self, scale: float) -> Answers:
        plain = scale == 0.0 or self._problem.loss_kind == NO_LOSS
        return self._sum(ALL if plain else LOSS, scale)

    def gold_sum(self) -> Answers:
        return self._sum(GOLD, 0.0) if self._ambiguous else self.gold_best()

    def gold_scores(self) -> FloatArray:
        """Of labels that are all known."""
        values = np.empty(self._n)
        score_batch(
            self._steps,
            self.known,
            self._pairs,
            self.offsets,
            0,
            self._n,
            self._work,
            self.known.gold,
            values,
        )
        return values

    def add_sum(self, question: int, scale: float, c: FloatArray, gradient: FloatArray) -> FloatArray:
        """log-sums (n,); ``gradient`` += sum_i c_i times the expected parts, not masked."""
        values, k = np.empty(self._n), self._problem.layout.n_labels
        sum_batch(
            self._steps, self.known, question, scale, self._exp_pairs, self.offsets, 0, self._n, self._work,
            LEAST, np.ascontiguousarray(c), values, np.zeros((0, k)), self._parts(gradient),
        )  # fmt: skip
        return values

    def add_paths(self, labels: Labels, c: FloatArray, gradient: FloatArray) -> None:
        """``gradient`` += sum_i c_i Phi(labels of i)."""
        add_paths(
            self._steps, self._pairs, self.offsets, 0, self._n, np.ascontiguousarray(c), labels,
            self._parts(gradient),
        )  # fmt: skip

    def _parts(self, gradient: FloatArray) -> Gradient:
        layout = self._problem.layout
        g = layout.views(gradient)
        return Gradient(g.flat, g.hot, g.transitions, g.start, g.end, layout.mask)

    def _best(self, question: int, scale: float) -> PathAnswers:
        labels, values = np.empty(int(self.offsets[-1]), np.int32), np.empty(self._n)
        losses = np.empty(self._n)
        best_batch(
            self._steps, self.known, question, scale, self._pairs, self.offsets, 0, self._n, self._work,
            labels, values, losses,
        )  # fmt: skip
        check_feasible(values, self._first)
        return self._path_answers(values, losses, labels)

    def _path_answers(self, values: FloatArray, losses: FloatArray, labels: Labels) -> PathAnswers:
        def combined(c: FloatArray) -> FloatArray:
            gradient = np.zeros(self._problem.dimension)
            self.add_paths(labels, np.broadcast_to(c, self._n).astype(np.float64), gradient)
            return self._problem.layout.masked(gradient)

        return PathAnswers(values, losses, combined, lambda: self._rows(combined), labels)

    def _sum(self, question: int, scale: float) -> Answers:
        nothing = np.zeros(self._problem.dimension)
        values = self.add_sum(question, scale, np.zeros(self._n), nothing)
        check_feasible(values, self._first)

        def combined(c: FloatArray) -> FloatArray:
            gradient = np.zeros(self._problem.dimension)
            self.add_sum(question, scale, np.broadcast_to(c, self._n).astype(np.float64), gradient)
            return self._problem.layout.masked(gradient)

        return Answers(values, np.zeros(self._n), combined, lambda: self._rows(combined))

    def _rows(self, combined: Any) -> FloatArray:
        return np.array([combined(one) for one in np.eye(self._n)])


class SparseExampleOracle:
    """One sequence: the batch's answers, as numbers."""

    def __init__(self, batch: SparseBatchOracle) -> None:
        self._batch = batch

    def best(self, scale: float) -> Answer:
        return _only(self._batch.best(scale))

    def sum(self, scale: float) -> Answer:
        return _only(self._batch.sum(scale))

    def gold_best(self) -> Answer:
        return _only(self._batch.gold_best())

    def gold_sum(self) -> Answer:
        return _only(self._batch.gold_sum())


def _only(answers: Answers) -> Answer:
    return Answer(float(answers.values[0]), answers.combined(np.ones(1)), float(answers.losses[0]))

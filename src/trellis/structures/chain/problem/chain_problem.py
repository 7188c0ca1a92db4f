"""A linear chain model, its data and an objective, as the problem that solvers minimise.

    min_w  sum_i c_i f_i(w) + (l2 / 2) ||w||^2 + l1 ||w||_1

``value_and_gradient`` gives the data term: a sum over shards of sequences, one thread each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np
from scipy.sparse import csr_array

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.heap import release_freed_memory
from trellis.core.shards import over_shards
from trellis.core.simd_kernels import aligned_zeros, padded
from trellis.data.sequences import sum_by_sequence
from trellis.objectives.latent import Completion
from trellis.objectives.records import Perceptron
from trellis.objectives.structured_problem import BoolArray
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.oracle.stream_kernels import Block
from trellis.structures.chain.problem import objective_kernels as kernels
from trellis.structures.chain.problem.chain_example import ChainOracle
from trellis.structures.chain.problem.chain_problem_kernels import (
    dense_gradient,
    linear_planes,
    path_gradient,
)
from trellis.structures.chain.problem.chain_task import check_feasible
from trellis.structures.chain.problem.latent_kernels import gold_completions
from trellis.structures.chain.problem.log_objective_kernels import log_gradient, log_work
from trellis.structures.chain.problem.log_space_kernels import log_space_gradient
from trellis.structures.chain.problem.objective_kernels import NO_LOSS, ZERO_ONE, Work, labelling_loss
from trellis.structures.chain.problem.packed_chain_problem import PackedChainProblem
from trellis.structures.chain.problem.plane_kernels import planes_to_rows
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.structures.chain.scores.compact import compact
from trellis.structures.chain.scores.compact_kernels import Compact, empty_table, fill_table
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_scores import linear_chain_scores, take_run

PIECE = 32768  # numbers that it does not pay to share out among threads


@dataclass(frozen=True, eq=False)
class LinearChainProblem(PackedChainProblem):
    """``task.cost`` must be there if ``loss_kind`` is COSTS.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.data import LabelSet
    >>> from trellis.features import FeatureIndexer
    >>> from trellis.losses import Hamming
    >>> from trellis.objectives import Log
    >>> from trellis.structures.chain import LinearChainProblem, LinearLayout
    >>> from trellis.structures.chain.problem.chain_task import loss_table, new_task
    >>> from trellis.structures.chain.scores.linear_chain_kernels import Penalties
    >>> labels = LabelSet(["D", "N"])
    >>> gold, encoded = labels.encode([["D", "N"]]), FeatureIndexer().fit([["the", "cat"]])
    >>> layout = LinearLayout.observed(encoded, gold.codes, gold.allowed, 2, boundaries=True)
    >>> kind, cost = loss_table(Log(), Hamming(), gold, labels)
    >>> task, design = new_task(gold, 2, np.ones(1), cost), layout.design(encoded, sort=True)
    >>> problem = LinearChainProblem(layout, design, Penalties.none(2), task, Log(), kind, l2=1.0)
    >>> round(problem.value_and_gradient(np.zeros(layout.dimension))[0], 4)  # 2 log 2
    1.3863
    """

    layout: LinearLayout

    def with_(self, **changes: Any) -> Self:
        """The same problem with other options; features stay arranged as they are."""
        other = super().with_(**changes)
        if "_compact" in self.__dict__ and not changes.keys() & {"design", "layout"}:
            other.__dict__["_compact"] = self._compact
        return other

    def oracle(self, index: int, weights: FloatArray) -> ChainOracle:
        return ChainOracle(self.run(index, index + 1), index, weights)

    def run(self, first: int, last: int) -> LinearChainProblem:
        """The sequences first..last-1 as a problem of their own; nothing is copied."""
        task = self.task.run(self.design.offsets, first, last)
        return self.with_(design=take_run(self.design, first, last), task=task)

    @property
    def compiled(self) -> bool:
        """Whether the kernels know the objective; otherwise each sequence is asked through its oracle."""
        return self.objective.special != "own"

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        if not self.compiled:
            return super().value_and_gradient(weights)
        values, gradient = self.values_and_gradient(weights)
        return float(values @ self.task.weight), gradient

    def values_and_gradient(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """f_i for each sequence (not weighted by c_i), and the gradient of the weighted sum."""
        values = np.empty(self.n_examples)
        if self.objective.log_likelihood and not self.layout.n_edge:
            gradient = self._log_gradient(weights, values)
        else:
            gradient, *others = over_shards(
                lambda first, last: self._shard_gradient(
                    weights, first, last, values, self._kept_work(first, last)
                ),
                self.design.offsets,
                self.n_jobs,
            )
            for other in others:
                gradient += other
        check_feasible(values)
        return values, self.layout.masked(gradient)

    def run_value_and_gradient(self, weights: FloatArray, first: int, last: int) -> tuple[float, FloatArray]:
        """sum c_i f_i over the sequences first..last-1, and its gradient: a mini-batch."""
        if not self.compiled:
            return super().run_value_and_gradient(weights, first, last)
        values = np.empty(self.n_examples)
        gradient = self._shard_gradient(weights, first, last, values, self.new_work(first, last))
        check_feasible(values[first:last], first)
        return float(values[first:last] @ self.task.weight[first:last]), self.layout.masked(gradient)

    def example_plane(self, index: int, weights: FloatArray) -> tuple[float, FloatArray]:
        if not self.compiled:
            return super().example_plane(index, weights)
        return self.run_value_and_gradient(weights, index, index + 1)

    def _shard_gradient(
        self, weights: FloatArray, first: int, last: int, values: FloatArray, work: Work
    ) -> FloatArray:
        """The gradient of a run of sequences, not yet masked; f_i go into ``values`` (S,)."""
        gradient = np.zeros(self.dimension)
        w, g = self.layout.views(weights), self.layout.views(gradient)
        rows, formula = self.layout.rows, self.objective.formula
        run = (self.design, rows, w, self.penalties)
        if self.objective.two_labelings:
            path_gradient(
                formula, self.loss_kind, self.epsilon, *run, self.layout.mask, self.task, first, last, work,
                g, values,
            )  # fmt: skip
        else:
            dense_gradient(formula, self.loss_kind, *run, self.task, first, last, work, g, values)
        return gradient

    def _log_gradient(self, weights: FloatArray, values: FloatArray) -> FloatArray:
        """The log objective on compact features; the rows of their table are filled and emptied once."""
        data, rows, w = self._compact, self.layout.rows, self.layout.views(weights)
        shape = (len(data.bounds) - 1, padded(self.layout.n_labels))
        table = self._kept("table", lambda: aligned_zeros(*shape))
        fill_table(data.bounds, data.members, rows, w, table)

        def shard(first: int, last: int) -> tuple[FloatArray, FloatArray]:
            gradient, table_g = self._kept(
                ("sums", first, last), lambda: (np.empty(self.dimension), aligned_zeros(*shape))
            )
            gradient.fill(0.0)
            table_g.fill(0.0)
            g, work = self.layout.views(gradient), self._kept_log_work(first, last)
            run = (data, table, w, self.penalties, self.task, first, last, work, table_g, g, values)
            log_gradient(*run)
            if np.isnan(values[data.blocks[first] : data.blocks[last]]).any():
                log_space_gradient(*run)
            return gradient, table_g

        sums = over_shards(shard, data.offsets[data.blocks], self.n_jobs)
        gradient, table_g = (self._sum_shards(list(parts)) for parts in zip(*sums, strict=True))
        empty_table(data.bounds, data.members, rows, table_g, self.layout.views(gradient))
        return gradient.copy() if self.keep_scratch else gradient  # the sums are scratch

    def _sum_shards(self, parts: list[FloatArray]) -> FloatArray:
        """The sum of what the shards have added up, in the first of them; threads share out its pieces."""
        total, *others = (part.reshape(-1) for part in parts)
        pieces = np.append(np.arange(0, len(total), PIECE), len(total))

        def add(i: int, j: int) -> None:
            for other in others:
                total[pieces[i] : pieces[j]] += other[pieces[i] : pieces[j]]

        over_shards(add, pieces, self.n_jobs if others else 1)
        return parts[0]

    def arrange(self) -> None:
        """Do now what the first evaluation would do once, for all that follow."""
        if self.objective.log_likelihood and not self.layout.n_edge:
            self._compact  # noqa: B018

    @cached_property
    def _compact(self) -> Compact:
        arranged = compact(self.layout, self.design)
        release_freed_memory()  # its scratch
        return arranged

    def new_work(self, first: int, last: int) -> Work:
        """Scratch for the sequences first..last-1."""
        longest = int(np.diff(self.design.offsets[first : last + 1]).max(initial=0))
        return cast(Work, kernels.new_work(longest, self.layout.n_labels, self.layout.n_edge > 0))

    @cached_property
    def _scratch(self) -> dict[Any, Any]:
        return {}

    def _kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """Scratch that lives from call to call: fresh memory costs page faults, as much time as the work on
        it.
        """
        if not self.keep_scratch:
            return make()
        if key not in self._scratch:
            self._scratch[key] = make()
        return self._scratch[key]

    def _kept_work(self, first: int, last: int) -> Work:
        return cast(Work, self._kept((first, last), lambda: self.new_work(first, last)))

    def _kept_log_work(self, first: int, last: int) -> Block:
        make = partial(log_work, self._compact, self.layout.n_labels, self.latent)
        return cast(Block, self._kept(("block", first, last), make))

    def example_planes(self, weights: FloatArray) -> tuple[FloatArray, csr_array]:
        if not self.objective.two_labelings:
            return super().example_planes(weights)
        n, steps = self.n_examples, int(self.design.offsets[-1])
        ups, downs = np.zeros(steps, np.int32), np.zeros(steps, np.int32)
        coefficients, values = np.zeros(n), np.zeros(n)
        w = self.layout.views(weights)

        def shard(first: int, last: int) -> None:
            linear_planes(
                self.objective.formula, self.loss_kind, self.design, self.layout.rows, w, self.penalties,
                self.task, first, last, self.epsilon, ups, downs, coefficients, values,
            )  # fmt: skip

        over_shards(shard, self.design.offsets, self.n_jobs)
        check_feasible(values)
        c = coefficients * self.task.weight
        indptr, indices, data = planes_to_rows(
            self.design, self.layout.rows, w, self.layout.mask, ups, downs, c
        )
        rows = csr_array((data, indices, indptr), shape=(n, self.dimension))
        rows.sum_duplicates()
        return values * self.task.weight, rows

    def updates(self, weights: FloatArray, first: int, last: int) -> tuple[BoolArray, BoolArray]:
        run = self.run(first, last)
        steps, offsets, task = len(run.task.gold), run.design.offsets, run.task
        ups, downs, c, values = (
            np.empty(steps, np.int32),
            np.empty(steps, np.int32),
            *np.empty((2, last - first)),
        )
        linear_planes(
            self.objective.formula, self.loss_kind, run.design, self.layout.rows, self.layout.views(weights),
            self.penalties, task, 0, last - first, self.epsilon, ups, downs, c, values,
        )  # fmt: skip
        check_feasible(values, first)
        wrong = downs != task.gold
        if len(task.allowed):
            wrong &= ~task.allowed[np.arange(steps), downs]
        moved = (c != 0.0) & (sum_by_sequence(ups != downs, offsets) > 0)
        return moved, np.asarray(sum_by_sequence(wrong, offsets) == 0)

    def completed(self, weights: FloatArray) -> Completion:
        """The best allowed labelling of each sequence, see :mod:`trellis.objectives.latent`."""
        if self.loss_kind == ZERO_ONE:
            raise UnsupportedError(
                "the 0-1 loss of a completed labelling is not that of the partly known one; use a sum over "
                "steps such as loss='hamming', or solver='subgradient'"
            )
        values, labels = np.empty(self.n_examples), np.empty_like(self.task.gold)
        w = self.layout.views(weights)

        def shard(first: int, last: int) -> FloatArray:
            gradient = np.zeros(self.dimension)
            gold_completions(
                self.design, self.layout.rows, w, self.penalties, self.layout.mask, self.task, first, last,
                self._kept_work(first, last), self.layout.views(gradient), values, labels,
            )  # fmt: skip
            return gradient

        gradient, *others = over_shards(shard, self.design.offsets, self.n_jobs)
        for other in others:
            gradient += other
        check_feasible(values)
        nothing = np.zeros((0, self.layout.n_labels), dtype=np.bool_)
        known = np.zeros_like(self.task.ambiguous)
        task = self.task._replace(gold=labels, ambiguous=known, allowed=nothing)
        return Completion(
            float(values @ self.task.weight), self.layout.masked(gradient), self.with_(task=task)
        )

    def scores(self, weights: FloatArray) -> ChainScores:
        return linear_chain_scores(self.layout, self.design, self.penalties, weights, self.n_jobs)

    def score_gaps(self, weights: FloatArray) -> FloatArray:
        return self.with_(objective=Perceptron()).values_and_gradient(weights)[0]

    def task_losses(self, weights: FloatArray) -> FloatArray:
        if self.loss_kind == NO_LOSS:
            raise UnsupportedError(
                f"the objective {self.objective.name!r} does not look at the loss, and the problem has none"
            )
        found, task = Chain(self.n_jobs).best(self.scores(weights)).labels, self.task
        losses = np.empty(self.n_examples)
        for i, (lo, hi) in enumerate(pairwise(self.design.offsets.tolist())):
            losses[i] = labelling_loss(
                self.loss_kind, task.cost[lo:hi], task.gold[lo:hi], bool(task.ambiguous[i]),
                task.allowed[lo:hi], found[lo:hi], hi - lo,
            )  # fmt: skip
        return losses

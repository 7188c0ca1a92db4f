"""Block-coordinate Frank-Wolfe on chains, a pass per call of a kernel.

A plane is a labelling, so the cache keeps labels (``plane_cache_kernels``): 8 cache^2 bytes a sequence and 4
cache bytes a step. Where the loss is a sum over steps, parts of a sequence that do not touch have simplices
of their own (``plane_parts_kernels``). Passes without the oracle score only the steps of these parts, and
leave out sequences that had next to no gap when last visited.

Where slack rescaling's oracle is not exact, its upper bound takes the place of f_i, so the gap stays a
certificate; the history's ``oracle_excess`` is the part of the primal due to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.shards import over_shards
from trellis.solvers.planes.frank_wolfe import INNER_STEPS, FrankWolfeRun
from trellis.structures.chain.passes.frank_wolfe_kernels import block_pass, upper_values
from trellis.structures.chain.passes.plane_cache_kernels import PlaneCache, copy_cache
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.problem.chain_task import check_feasible
from trellis.structures.chain.problem.objective_kernels import NO_LOSS, ZERO_ONE

SMALL_GAP = 0.25  # of the mean: a cached pass leaves out sequences whose own gap is smaller


class CompiledFrankWolfeRun(FrankWolfeRun):
    _problem: LinearChainProblem

    def start_dual_point(self) -> None:
        problem, options = self._problem, self._options
        self._cache = _new_cache(problem, options.cache)
        self._gaps = np.zeros(problem.n_examples)
        self._separable = _separable(problem)
        self._sum = np.zeros(problem.dimension if options.average else 0)
        self._time = np.zeros(2)
        self._scratch = np.zeros(problem.dimension)
        self._excess = self._latest_excess = 0.0

    def dual_point(self) -> dict[str, Any]:
        own = {"gaps": self._gaps, "sum": self._sum, "time": self._time}
        return {**own, "excess": self._excess, "cache": self._cache._asdict()}

    def take_dual_point(self, stored: Mapping[str, Any]) -> None:
        self._gaps, self._sum, self._time = stored["gaps"], stored["sum"], stored["time"]
        self._excess, self._cache = float(stored["excess"]), PlaneCache(**stored["cache"])

    def run_pass(self, *, exact: bool) -> float:
        problem, views = self._problem, self._problem.layout.views
        average = views(self._sum) if len(self._sum) else views(self._w)._replace(flat=self._sum)
        order = self._rng.permutation(problem.n_examples)
        least = SMALL_GAP * float(self._gaps.mean())
        gap, bad, crowded = block_pass(
            exact, problem.objective.formula, problem.loss_kind, problem.design, problem.layout.rows,
            views(self._w), average, self._time, problem.penalties, problem.layout.mask, problem.task, order,
            self._cache, self._gaps, least, self._separable, problem.l2, INNER_STEPS, views(self._scratch),
        )  # fmt: skip
        if bad >= 0:
            check_feasible(np.where(np.arange(problem.n_examples) == bad, np.inf, 0.0))
        if crowded:
            self._grow()
        return float(gap)

    def dual_value(self) -> float:
        cache = self._cache
        offsets = np.einsum("s,sc,sc->", self._problem.task.weight, cache.alpha, cache.offset)
        return float(offsets) - 0.5 * self._problem.l2 * float(self._w @ self._w)

    def averaged(self) -> FloatArray:
        average: FloatArray = self._sum / self._time[1] + self._w
        return average

    def evaluate(self, weights: FloatArray) -> None:
        before = self._certificate.primal
        super().evaluate(weights)
        if self._certificate.primal < before:
            self._excess = self._latest_excess

    def data_term(self, weights: FloatArray) -> float:
        """On threads."""
        problem = self._problem
        values, excess = np.zeros(problem.n_examples), np.zeros(problem.n_examples)
        w = problem.layout.views(weights)

        def shard(first: int, last: int) -> None:
            upper_values(
                problem.objective.formula, problem.loss_kind, problem.design, problem.layout.rows, w,
                problem.penalties, problem.task, first, last, values, excess,
            )  # fmt: skip

        over_shards(shard, problem.design.offsets, problem.n_jobs)
        check_feasible(values)
        self._latest_excess = float(excess @ problem.task.weight)
        return float((values + excess) @ problem.task.weight)

    def measure(self) -> dict[str, float]:
        measured = {"planes": float(self._cache.used.mean())}
        if self._problem.objective.name == "slack":
            measured["oracle_excess"] = self._excess
        return measured

    def _grow(self) -> None:
        """Half as many slots again: some sequence has mass on every plane of its cache."""
        old = self._cache
        slots = old.alpha.shape[1]
        self._cache = _new_cache(self._problem, slots + (slots + 1) // 2)
        copy_cache(self._problem.design, old, self._cache)


def _new_cache(problem: LinearChainProblem, slots: int) -> PlaneCache:
    """No planes: all mass on the gold labellings."""
    n, steps = problem.n_examples, len(problem.task.gold)
    return PlaneCache(
        np.zeros(steps * slots, np.int32),
        np.zeros((n, slots)),
        np.zeros((n, slots)),
        np.zeros((n, slots)),
        np.zeros((n, slots, slots)),
        np.zeros((n, slots), np.int32),
        np.zeros((n, slots), np.int32),
        np.zeros(n, np.int64),
    )


def _separable(problem: LinearChainProblem) -> bool:
    """Whether f is a maximum of sums over steps and transitions, which are 0 for the gold labels."""
    if problem.objective.special or problem.loss_kind == ZERO_ONE:
        return False
    task = problem.task
    if problem.loss_kind == NO_LOSS:
        return True
    return not task.cost[np.arange(len(task.gold)), task.gold].any()

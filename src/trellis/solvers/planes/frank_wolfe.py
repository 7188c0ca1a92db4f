"""Block-coordinate Frank-Wolfe with pairwise steps and a cache of planes, with a duality gap to stop on.

    min_w  F(w) = sum_i c_i f_i(w) + (l2 / 2) ||w||^2,      f_i = max_c m_c,  one plane per labelling

The dual has one simplex per sequence (``plane_cache_kernels``). A visit of a sequence
scores it, asks the oracle for its highest plane (Lacoste-Julien et al. 2013), and then moves mass between
the planes that it has met before, from the lowest to the highest by exact line search, ten times: with the
planes' inner products at hand this costs next to nothing, and it nearly solves the block. One step is an
*exact* pass of such visits in random order, followed by ``cached_passes`` passes without the oracle. Each
is one call of a kernel.

Measured on OCR letters (704 words, 26 labels) to a relative gap of 1e-3: without cached passes more than
200 steps with one inner step, 113 with ten. With one cached pass 64 steps, with two 44, at about the same
CPU time (1.5, 1.3 and 1.3 s on a shared machine; a cached pass spares the oracle's K^2). The
average of the iterates (``average``: sum_t t w_t / sum_t t over visits) has the smaller primal for about
the first twenty steps only, so it is off by default.

Bounds: the dual is known after every pass. The primal F(w) takes a sweep of the oracle at fixed weights; it
is computed in every fifth pass, and when the sum of block gaps seen during the pass says that ``tol`` may
have been reached. In the history, ``objective`` is the smallest primal so far (that of the returned
weights), ``dual`` the largest dual value, ``gap`` their difference, and ``estimated_gap`` the sum over the
pass. Where slack rescaling's oracle is not exact, its upper bound takes the place of f_i, so the gap stays
a certificate; ``oracle_excess`` is the part of the primal due to that.

Problems other than chains that give the plane of one example run in
:mod:`trellis.solvers.planes.plane_frank_wolfe`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.registration import register
from trellis.core.shards import over_shards
from trellis.core.status import Status
from trellis.solvers.online.linear_problem import linear_chain_problem
from trellis.solvers.planes.duality_gap import Certificate
from trellis.solvers.planes.plane_frank_wolfe import PlaneFrankWolfeRun
from trellis.solvers.problem import example_plane_problem
from trellis.solvers.run import Run
from trellis.structures.chain.passes.frank_wolfe_kernels import block_pass, upper_values
from trellis.structures.chain.passes.plane_cache_kernels import PlaneCache, copy_cache, gold_planes
from trellis.structures.chain.problem.chain_loss import check_feasible
from trellis.structures.chain.problem.chain_problem import LinearChainProblem

INNER_STEPS = 10
EVALUATE_EVERY = 5


@register
@dataclass(frozen=True)
class FrankWolfe:
    """Stops at a relative duality gap of ``tol``. Needs l2 > 0 and a convex objective made of planes: margin,
    slack or perceptron.

    ``cache``: planes kept per sequence, at 8 cache^2 bytes a sequence and 4 cache bytes a step; those without
    mass make room for new ones, and the cache grows when a sequence needs all of its planes. The dual starts
    at zero; given weights only serve as a first upper bound.
    """

    tol: float = 1e-3
    cache: int = 12
    cached_passes: int = 1
    average: bool = False

    name = "frank_wolfe"

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise DataError(f"tol must not be negative, got {self.tol}")
        if self.cache < 2:
            raise DataError(f"cache is {self.cache}; give it room for at least 2 planes")
        if self.cached_passes < 0:
            raise DataError(f"cached_passes must not be negative, got {self.cached_passes}")

    def start(self, problem: Any, weights: FloatArray, rng: np.random.Generator) -> Run:
        if not isinstance(problem, LinearChainProblem):
            planes = example_plane_problem(problem, self.name)
            _check_l2(planes.l2, "minibatch")
            return PlaneFrankWolfeRun(planes, weights, rng, self)
        problem = linear_chain_problem(problem, self.name)
        _check_l2(problem.l2, "sgd")
        if problem.task.ambiguous.any():
            raise UnsupportedError(
                "Frank-Wolfe needs fully known labels (partly known ones are not convex); "
                "use solver='subgradient'"
            )
        if not problem.objective.piecewise_linear:
            remedy = "lbfgs" if problem.objective.convex else "sgd"
            raise UnsupportedError(
                f"Frank-Wolfe needs a convex objective made of planes such as 'margin', not "
                f"{problem.objective.name!r}; use solver={remedy!r}"
            )
        return FrankWolfeRun(problem, weights, rng, self)


def _check_l2(l2: float, remedy: str) -> None:
    if not l2 > 0:
        raise UnsupportedError(
            f"Frank-Wolfe needs l2 > 0, by which its dual divides; set l2 or use solver={remedy!r}"
        )


class FrankWolfeRun:
    """The dual point (the cache), the weights that belong to it, and the certificate."""

    def __init__(
        self, problem: LinearChainProblem, weights: FloatArray, rng: np.random.Generator, options: FrankWolfe
    ) -> None:
        self._problem, self._rng, self._options = problem, rng, options
        self._cache = _new_cache(problem, options.cache)
        self._w = np.zeros(problem.dimension)
        self._sum = np.zeros(problem.dimension if options.average else 0)
        self._time = np.zeros(2)
        self._scratch = np.zeros(problem.dimension)
        self._certificate = Certificate(self._w)
        self._certificate.raise_dual(0.0)  # all mass on the gold planes
        self._excess = 0.0
        self._passes = 0
        self._evaluate(weights)

    @property
    def weights(self) -> FloatArray:
        return self._certificate.weights

    def step(self) -> Mapping[str, float]:
        gap = self._pass(exact=True)
        for _ in range(self._options.cached_passes):
            self._pass(exact=False)
        self._passes += 1
        certificate = self._certificate
        dual = self._dual()
        certificate.raise_dual(dual)
        if self._passes % EVALUATE_EVERY == 1 or gap <= 1.5 * self._options.tol * abs(dual + gap):
            self._evaluate(self._w)
            if self._options.average:
                self._evaluate(self._averaged())
        measured = {**certificate.measure(), "estimated_gap": gap, "planes": float(self._cache.used.mean())}
        if self._problem.objective.name == "slack":
            measured["oracle_excess"] = self._excess
        return measured

    def status(self) -> Status | None:
        return self._certificate.status(self._options.tol)

    def _pass(self, *, exact: bool) -> float:
        problem, views = self._problem, self._problem.layout.views
        average = views(self._sum) if len(self._sum) else views(self._w)._replace(flat=self._sum)
        order = self._rng.permutation(problem.n_examples)
        gap, bad, crowded = block_pass(
            exact, problem.objective.formula, problem.loss_kind, problem.design, problem.layout.rows,
            views(self._w), average, self._time, problem.penalties, problem.layout.mask, problem.task, order,
            self._cache, problem.l2, INNER_STEPS, views(self._scratch),
        )  # fmt: skip
        if bad >= 0:
            problem.check(np.where(np.arange(problem.n_examples) == bad, np.inf, 0.0))
        if crowded:
            self._grow()
        return float(gap)

    def _grow(self) -> None:
        """Half as many slots again: some sequence has mass on every plane of its cache."""
        old = self._cache
        slots = old.alpha.shape[1]
        self._cache = _new_cache(self._problem, slots + (slots + 1) // 2)
        copy_cache(self._problem.design, old, self._cache)

    def _averaged(self) -> FloatArray:
        average: FloatArray = self._sum / self._time[1] + self._w
        return average

    def _dual(self) -> float:
        cache = self._cache
        offsets = np.einsum("s,sc,sc->", self._problem.task.weight, cache.alpha, cache.offset)
        return float(offsets) - 0.5 * self._problem.l2 * float(self._w @ self._w)

    def _evaluate(self, weights: FloatArray) -> None:
        """The primal at ``weights``, on threads."""
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
        norm = 0.5 * problem.l2 * float(weights @ weights)
        primal = float((values + excess) @ problem.task.weight) + norm
        if primal < self._certificate.primal:
            self._excess = float(excess @ problem.task.weight)
        self._certificate.lower_primal(primal, weights)


def _new_cache(problem: LinearChainProblem, slots: int) -> PlaneCache:
    """All mass on the gold labellings."""
    n, steps = problem.n_examples, len(problem.task.gold)
    cache = PlaneCache(
        np.zeros(steps * slots, np.int32),
        np.zeros((n, slots)),
        np.zeros((n, slots)),
        np.zeros((n, slots)),
        np.zeros((n, slots, slots)),
        np.ones(n, np.int64),
    )
    gold_planes(problem.design, problem.task.gold, cache)
    return cache

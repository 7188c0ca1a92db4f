"""Block-coordinate Frank-Wolfe with pairwise steps and a cache of planes, with a duality gap to stop on.

    min_w  F(w) = sum_i c_i f_i(w) + (l2 / 2) ||w||^2,      c_i f_i = max over planes of b + g.w

    dual   max  sum_i b_i . alpha_i - (l2 / 2) ||w||^2,   w = -(1 / l2) sum_i g_i . alpha_i,   one simplex
    per i

A visit asks the oracle for example i's highest plane (Lacoste-Julien et al. 2013), adds it to the example's
cache, and moves mass from its lowest plane with mass to its highest, by exact line search, ten times:

    step = min(alpha_low, l2 (m_high - m_low) / ||g_high - g_low||^2),      m = b + g.w

With the planes' inner products at hand this costs next to nothing, and it nearly solves the block. One step
is an *exact* pass of such visits in random order, followed by passes without the oracle: up to
``cached_passes``, as long as each still closes a gap of 0.3 times the exact pass's. Soon nearly all of the
gap is among planes that are known already, so most passes can do without the oracle. An example starts with
the plane 0, which is that of its gold output.

The average of the iterates (``average``: sum_t t w_t / sum_t t over visits) has the smaller primal for the
first few steps only, so it is off by default.

Bounds: the dual is known after every pass. The primal F(w) takes a sweep of the oracle at fixed weights; it
is computed in every third step, and when the sum of block gaps seen during the exact pass says that ``tol``
may have been reached. In the history, ``objective`` is the smallest primal so far (that of the returned
weights), ``dual`` the largest dual value, ``gap`` their difference, ``estimated_gap`` the sum over the exact
pass, and ``planes`` the mean number of planes that an example keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arguments import check_int, check_nonnegative
from trellis.core.arrays import FloatArray
from trellis.core.registration import register
from trellis.core.status import Status
from trellis.solvers.planes.duality_gap import Certificate
from trellis.solvers.problem import check_problem, compiled_run
from trellis.solvers.resumable import Resumable

INNER_STEPS = 10
EVALUATE_EVERY = 3
WORTHWHILE = 0.3  # of the oracle's gap: a cached pass that closes less was the step's last


@register
@dataclass(frozen=True)
class FrankWolfe:
    """Stops at a relative duality gap of ``tol``. Needs l2 > 0 and a convex objective made of planes: margin,
    slack or perceptron.

    ``cache``: planes kept per example; those without mass make room for new ones, and the cache grows when an
    example needs all of its planes. ``cached_passes``: how many passes over known planes may follow one of
    the oracle. The dual starts at zero; given weights only serve as a first upper bound.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import FrankWolfe
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("margin", solver=FrankWolfe(tol=0.01), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    tol: float = 1e-3
    cache: int = 12
    cached_passes: int = 10
    average: bool = False

    name = "frank_wolfe"

    def __post_init__(self) -> None:
        check_nonnegative("tol", self.tol)
        check_int("cache", self.cache, 2)
        check_int("cached_passes", self.cached_passes, 0)

    def start(self, problem: Any, weights: FloatArray, rng: np.random.Generator) -> FrankWolfeRun:
        check_problem(problem, self.name, "example_plane", l2=True, piecewise_linear=True)
        compiled: FrankWolfeRun | None = compiled_run(problem, self, weights, rng)
        return compiled or FrankWolfeRun(problem, weights, rng, self)


class FrankWolfeRun(Resumable):
    """The dual point (blocks of planes), the weights that belong to it, and the certificate.

    The oracle is taken to cost far more than vectors of the weights' size, so everything else is plain
    NumPy. A problem's compiled run keeps its own dual point and overrides what works on it.
    """

    kept = ("_w", "_passes", "_certificate", "_rng")

    def __init__(
        self, problem: Any, weights: FloatArray, rng: np.random.Generator, options: FrankWolfe
    ) -> None:
        self._problem, self._rng, self._options = problem, rng, options
        self._w = np.zeros(problem.dimension)
        self._passes = 0
        self._certificate = Certificate(self._w)
        self._certificate.raise_dual(0.0)  # all mass on the gold planes
        self.start_dual_point()
        self.evaluate(weights)

    @property
    def weights(self) -> FloatArray:
        return self._certificate.weights

    def step(self) -> Mapping[str, float]:
        gap = self.run_pass(exact=True)
        for _ in range(self._options.cached_passes):
            if self.run_pass(exact=False) < WORTHWHILE * gap:
                break
        self._passes += 1
        certificate, dual = self._certificate, self.dual_value()
        certificate.raise_dual(dual)
        if self._passes % EVALUATE_EVERY == 1 or gap <= 3.0 * self._options.tol * abs(dual + gap):
            self.evaluate(self._w)
            if self._options.average:
                self.evaluate(self.averaged())
        return {**certificate.measure(), "estimated_gap": gap, **self.measure()}

    def status(self) -> Status | None:
        return self._certificate.status(self._options.tol)

    def evaluate(self, weights: FloatArray) -> None:
        """The primal at ``weights``."""
        self._certificate.lower_primal(
            self.data_term(weights) + 0.5 * self._problem.l2 * float(weights @ weights), weights
        )

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "dual_point": self.dual_point()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        super().restore(snapshot)
        self.take_dual_point(snapshot["dual_point"])

    # -- the dual point ---------------------------------------------------------------------------------

    def start_dual_point(self) -> None:
        self._blocks = [_Block(self._problem.dimension) for _ in range(self._problem.n_examples)]
        self._average = np.zeros(self._problem.dimension)
        self._visits = 0

    def dual_point(self) -> dict[str, Any]:
        """What a checkpoint keeps of it: the planes of all blocks end to end."""
        return {
            "planes": np.array([len(block.mass) for block in self._blocks], dtype=np.int64),
            "gradients": np.concatenate([block.gradients for block in self._blocks]),
            "offsets": np.concatenate([block.offsets for block in self._blocks]),
            "mass": np.concatenate([block.mass for block in self._blocks]),
            "average": self._average,
            "visits": self._visits,
        }

    def take_dual_point(self, stored: Mapping[str, Any]) -> None:
        bounds = np.concatenate([[0], np.cumsum(stored["planes"])])
        for i, block in enumerate(self._blocks):
            own = slice(bounds[i], bounds[i + 1])
            block.gradients, block.offsets = stored["gradients"][own].copy(), stored["offsets"][own].copy()
            block.mass = stored["mass"][own].copy()
        self._average, self._visits = stored["average"], int(stored["visits"])

    def run_pass(self, *, exact: bool) -> float:
        """Visit every example; returns the sum of the blocks' gaps, each at the weights of its visit, and as
        far as cached planes show it if not ``exact``."""
        problem, weights, total = self._problem, self._w, 0.0
        for index in self._rng.permutation(problem.n_examples):
            block = self._blocks[index]
            if exact:
                value, gradient = problem.example_plane(int(index), weights)
                total += value - float(block.mass @ (block.offsets + block.gradients @ weights))
                block.add(gradient, value - float(gradient @ weights), self._options.cache)
                block.ascend(weights, problem.l2)
            else:
                total += block.ascend(weights, problem.l2)
            self._visits += 1
            self._average += (2.0 / (self._visits + 1.0)) * (weights - self._average)
        return total

    def dual_value(self) -> float:
        """After the weights are computed afresh from the masses, against the drift of many small steps."""
        l2 = self._problem.l2
        self._w[:] = -sum(block.mass @ block.gradients for block in self._blocks) / l2
        offsets = sum(float(block.mass @ block.offsets) for block in self._blocks)
        return float(offsets - 0.5 * l2 * float(self._w @ self._w))

    def averaged(self) -> FloatArray:
        return self._average

    def data_term(self, weights: FloatArray) -> float:
        """sum_i c_i f_i(w), or an upper bound where the oracle is not exact."""
        value: float = self._problem.value_and_gradient(weights)[0]
        return value

    def measure(self) -> dict[str, float]:
        return {"planes": sum(len(block.mass) for block in self._blocks) / len(self._blocks)}


class _Block:
    """The planes of one example, and their mass."""

    def __init__(self, dimension: int) -> None:
        self.gradients = np.zeros((1, dimension))
        self.offsets = np.zeros(1)
        self.mass = np.ones(1)

    def add(self, gradient: FloatArray, offset: float, room: int) -> None:
        """A full cache gives the place of a plane without mass to the new one, and grows if there is none."""
        idle = np.flatnonzero(self.mass == 0.0)
        if len(self.mass) >= room and idle.size:
            at = int(idle[0])
            self.gradients[at], self.offsets[at] = gradient, offset
            return
        self.gradients = np.vstack([self.gradients, gradient])
        self.offsets = np.append(self.offsets, offset)
        self.mass = np.append(self.mass, 0.0)

    def ascend(self, weights: FloatArray, l2: float) -> float:
        """Ten pairwise steps; keeps ``weights`` in step with the masses. Returns the gap before them, as far
        as the cached planes show it."""
        heights = self.offsets + self.gradients @ weights
        gap = float(heights.max() - self.mass @ heights)
        for _ in range(INNER_STEPS):
            high = int(np.argmax(heights))
            low = int(np.argmin(np.where(self.mass > 0.0, heights, np.inf)))
            direction = self.gradients[high] - self.gradients[low]
            square = float(direction @ direction)
            if not heights[high] > heights[low] or square == 0.0:
                break
            step = min(float(self.mass[low]), l2 * float(heights[high] - heights[low]) / square)
            self.mass[high] += step
            self.mass[low] = 0.0 if step == self.mass[low] else self.mass[low] - step
            weights -= (step / l2) * direction
            heights -= (step / l2) * (self.gradients @ direction)
        return gap

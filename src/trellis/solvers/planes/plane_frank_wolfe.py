"""Block-coordinate Frank-Wolfe for any problem that gives one plane per example, with few weights.

    min_w  sum_i c_i f_i(w) + (l2 / 2) ||w||^2,      c_i f_i = max over planes of b + g.w

    dual   max  sum_i b_i . alpha_i - (l2 / 2) ||w||^2,   w = -(1 / l2) sum_i g_i . alpha_i,   one simplex
    per i

The oracle is taken to cost far more than vectors of the weights' size, so everything else is plain NumPy. A
visit asks the oracle for example i's highest plane, adds it to the example's cache, and moves mass from its
lowest plane with mass to its highest, by exact line search, ten times:

    step = min(alpha_low, l2 (m_high - m_low) / ||g_high - g_low||^2),      m = b + g.w

One step of the loop is such a pass in random order, then ``cached_passes`` without the oracle. Dual values
are known after each pass, primal values by the schedule of ``frank_wolfe``, whose history
and stopping rule these are. An example starts with the plane 0, which is that of its gold output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.status import Status
from trellis.solvers.planes.duality_gap import Certificate
from trellis.solvers.problem import ExamplePlaneProblem

if TYPE_CHECKING:
    from trellis.solvers.planes.frank_wolfe import FrankWolfe

INNER_STEPS = 10
EVALUATE_EVERY = 5


class _Block:
    """The planes of one example, their mass, and what they add up to."""

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

    def ascend(self, weights: FloatArray, l2: float) -> None:
        """Ten pairwise steps; keeps ``weights`` in step with the masses."""
        heights = self.offsets + self.gradients @ weights
        for _ in range(INNER_STEPS):
            high = int(np.argmax(heights))
            low = int(np.argmin(np.where(self.mass > 0.0, heights, np.inf)))
            direction = self.gradients[high] - self.gradients[low]
            square = float(direction @ direction)
            if not heights[high] > heights[low] or square == 0.0:
                return
            step = min(float(self.mass[low]), l2 * float(heights[high] - heights[low]) / square)
            self.mass[high] += step
            self.mass[low] = 0.0 if step == self.mass[low] else self.mass[low] - step
            weights -= (step / l2) * direction
            heights -= (step / l2) * (self.gradients @ direction)


class PlaneFrankWolfeRun:
    """The dual point (the blocks), the weights that belong to it, and the certificate."""

    def __init__(
        self,
        problem: ExamplePlaneProblem,
        weights: FloatArray,
        rng: np.random.Generator,
        options: FrankWolfe,
    ) -> None:
        self._problem, self._rng, self._options = problem, rng, options
        self._blocks = [_Block(problem.dimension) for _ in range(problem.n_examples)]
        self._w = np.zeros(problem.dimension)
        self._average = np.zeros(problem.dimension)
        self._visits = 0
        self._passes = 0
        self._certificate = Certificate(self._w)
        self._certificate.raise_dual(0.0)
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
        dual = self._refresh()
        certificate.raise_dual(dual)
        if self._passes % EVALUATE_EVERY == 1 or gap <= 1.5 * self._options.tol * abs(dual + gap):
            self._evaluate(self._w)
            if self._options.average:
                self._evaluate(self._average)
        planes = sum(len(block.mass) for block in self._blocks) / len(self._blocks)
        return {**certificate.measure(), "estimated_gap": gap, "planes": planes}

    def status(self) -> Status | None:
        return self._certificate.status(self._options.tol)

    def _pass(self, *, exact: bool) -> float:
        """Returns the sum of the blocks' gaps, each at the weights of its visit."""
        problem, weights, total = self._problem, self._w, 0.0
        for index in self._rng.permutation(problem.n_examples):
            block = self._blocks[index]
            if exact:
                value, gradient = problem.example_plane(int(index), weights)
                total += value - float(block.mass @ (block.offsets + block.gradients @ weights))
                block.add(gradient, value - float(gradient @ weights), self._options.cache)
            block.ascend(weights, problem.l2)
            self._visits += 1
            self._average += (2.0 / (self._visits + 1.0)) * (weights - self._average)
        return total

    def _refresh(self) -> float:
        """The weights afresh from the masses, against the drift of many small steps; and the dual value."""
        l2 = self._problem.l2
        self._w[:] = -sum(block.mass @ block.gradients for block in self._blocks) / l2
        offsets = sum(float(block.mass @ block.offsets) for block in self._blocks)
        return offsets - 0.5 * l2 * float(self._w @ self._w)

    def _evaluate(self, weights: FloatArray) -> None:
        value, _ = self._problem.value_and_gradient(weights)
        self._certificate.lower_primal(value + 0.5 * self._problem.l2 * float(weights @ weights), weights)

"""The stochastic average gradient method with non-uniform sampling, for the log and softmax-margin
objectives.

    min_w  F(w) = sum_i c_i f_i(w) + (l2 / 2) ||w||^2,      f_i smooth and convex,  l2 > 0

A visit replaces one sequence's gradient in the sum of remembered gradients and steps along the whole sum
(Schmidt, Le Roux and Bach 2017; for CRFs Schmidt et al. 2015): each step costs one sequence, and the error
falls geometrically. See ``sag_kernels`` for the iteration. As in the second paper, every
sequence has its own curvature estimate L_i from a doubling search, the step size is the mean of 1 / (max L
+ lambda) and 1 / (mean L + lambda), lambda = l2 / n, and half of the visits go to sequences drawn in
proportion to L_i. The first pass visits each sequence once, in random order.

After every pass F and its gradient are evaluated at the weights reached, so that ``objective``,
``gradient_norm`` and ``gap`` = ||gradient||^2 / (2 l2) >= F - min F are true values; the solver stops at
||gradient|| <= tol max(1, ||w||). Memory beyond the weights: one score gradient per sequence, 8 (N K + S
K^2) bytes for N steps, S sequences, K labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.registration import register
from trellis.core.status import Status
from trellis.solvers.online.linear_problem import linear_chain_problem
from trellis.structures.chain.passes.sag_kernels import Memory, sag_pass
from trellis.structures.chain.problem.chain_problem import LinearChainProblem


@register
@dataclass(frozen=True)
class SAG:
    """Needs l2 > 0, no L1 norm, known labels, and no features on transitions."""

    tol: float = 1e-5

    name = "sag"

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise DataError(f"tol must not be negative, got {self.tol}")

    def start(self, problem: Any, weights: FloatArray, rng: np.random.Generator) -> SAGRun:
        problem = linear_chain_problem(problem, self.name)
        if not problem.l2 > 0:
            raise UnsupportedError("solver 'sag' needs l2 > 0; set l2, or use solver='adagrad'")
        if not (problem.objective.smooth and problem.convex):
            remedy = "adagrad" if not problem.convex else "frank_wolfe"
            raise UnsupportedError(
                "solver 'sag' needs a smooth convex objective ('log' or 'softmax_margin' with known labels); "
                f"use solver={remedy!r} for this one"
            )
        if problem.layout.n_edge:
            raise UnsupportedError(
                "solver 'sag' would have to remember a matrix per step with features on transitions; use "
                "solver='lbfgs' or 'adagrad'"
            )
        return SAGRun(problem, weights, rng, self.tol)


class SAGRun:
    """The memory of gradients, and what was last measured."""

    def __init__(
        self, problem: LinearChainProblem, weights: FloatArray, rng: np.random.Generator, tol: float
    ) -> None:
        self._problem, self._rng, self._tol = problem, rng, tol
        self._w = weights
        n, k, views = problem.n_examples, problem.layout.n_labels, problem.layout.views
        self._scratch = np.zeros(problem.dimension)
        self._memory = Memory(
            views(weights),
            views(np.zeros(problem.dimension)),
            np.zeros((len(problem.task.gold), k)),
            np.zeros((n, k, k)),
            np.zeros(len(problem.layout.rows.pointer)),
            np.array([1.0, 0.0, 0.0]),
            np.zeros(n),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
        )
        # Empty sequences and those of weight 0 are never visited, so they do not count in lambda.
        visited = (np.diff(problem.design.offsets) > 0) & (problem.task.weight > 0)
        self._decay = problem.l2 / max(int(visited.sum()), 1)
        self._norms = (np.inf, 1.0)
        self._diverged = False

    @property
    def weights(self) -> FloatArray:
        return self._w

    def step(self) -> Mapping[str, float]:
        problem = self._problem
        bad = sag_pass(
            problem.objective.formula, problem.loss_kind, problem.design, problem.layout.rows,
            problem.penalties, problem.layout.mask, problem.task, self._order(),
            self._decay, self._memory, problem.layout.views(self._scratch),
        )  # fmt: skip
        if bad >= 0:
            # Not finite already at zero weights: no allowed labelling. Otherwise the run has diverged.
            problem.values_and_gradient(np.zeros(problem.dimension))
            self._diverged = True
            return {"objective": np.inf}
        return self._measure()

    def status(self) -> Status | None:
        if self._diverged:
            return Status(
                False, "the weights are no longer finite; scale the features, or use solver='lbfgs'"
            )
        norm, size = self._norms
        if norm <= self._tol * max(1.0, size):
            return Status(True, f"gradient norm {norm:.2g} (tolerance {self._tol:.2g} times max(1, ||w||))")
        return None

    def _order(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Once each, then half of the visits uniformly and half in proportion to the curvature."""
        n, curvature = self._problem.n_examples, self._memory.curvature
        total = curvature.sum()
        if total == 0.0:
            return self._rng.permutation(n)
        return self._rng.choice(n, size=n, p=0.5 / n + 0.5 * curvature / total)

    def _measure(self) -> Mapping[str, float]:
        problem, w = self._problem, self._w
        value, gradient = problem.value_and_gradient(w)
        gradient = gradient + problem.l2 * w
        square, size = float(gradient @ gradient), float(w @ w)
        self._norms = (square**0.5, size**0.5)
        return {
            "objective": value + 0.5 * problem.l2 * size,
            "gradient_norm": square**0.5,
            "gap": square / (2.0 * problem.l2),
        }

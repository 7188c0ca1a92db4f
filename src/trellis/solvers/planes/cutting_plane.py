"""Cutting planes for convex risks, with a duality gap to stop on.

    min_w  F(w) = R(w) + (l2 / 2) ||w||^2,        R = sum_i c_i f_i >= 0

R lies above each of its planes  b_j + g_j.w  (and above 0, the plane of the gold labellings). The model that
keeps the planes found so far is minimised through its dual,

    max_{alpha >= 0, sum alpha <= 1}  b.alpha - 1/(2 l2) ||sum_j alpha_j g_j||^2,      w = -(1/l2) sum_j
    alpha_j g_j,

whose value bounds min F from below. ``one_slack`` cuts the whole sum with one plane per iteration (Joachims,
Finley and Yu 2009); ``n_slack`` keeps planes per example (see :mod:`trellis.solvers.planes.n_slack`).

The next plane is not taken at the model's minimiser m but at  q = best + 0.3 (m - best):  planes near the
best point matter, and m jumps about as long as the model is poor. On the digit images this halves the
iterations; proximal and level bundle steps did not do better. It cannot cycle: if the plane at q does not
raise the model at m, convexity along the segment gives

    F(q) <= 0.7 F(best) + 0.3 dual,

i.e. the gap shrinks by almost a third. A plane that has been inactive (alpha = 0) for 20 iterations gives
its place to the next new one; active planes stay, so dropping never lowers the dual bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trellis.core.arguments import check_choice, check_nonnegative
from trellis.core.arrays import FloatArray
from trellis.core.registration import register
from trellis.core.status import Status
from trellis.solvers.planes.duality_gap import Certificate
from trellis.solvers.planes.n_slack import NSlackRun
from trellis.solvers.planes.quadratic import solve_simplex_qp
from trellis.solvers.problem import PlaneProblem, Problem, check_problem
from trellis.solvers.resumable import Resumable
from trellis.solvers.run import Run

TOWARDS_MODEL = 0.3
PATIENCE = 20  # iterations that a plane may be inactive before its place is free
ACTIVE = 1e-9
ROUNDING = 1e-14  # of the largest objective met: an offset below it is what rounding left of nothing


@register
@dataclass(frozen=True)
class CuttingPlane:
    """Stops at a relative duality gap of ``tol``. Needs l2 > 0, no L1 norm and a convex objective.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import CuttingPlane
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("margin", solver=CuttingPlane(tol=0.01), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    variant: Literal["one_slack", "n_slack"] = "one_slack"
    tol: float = 1e-3

    name = "cutting_plane"

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, ("one_slack", "n_slack"))
        check_nonnegative("tol", self.tol)

    def start(self, problem: PlaneProblem, weights: FloatArray, rng: np.random.Generator) -> Run:
        needed = () if self.variant == "one_slack" else ("example_planes",)
        check_problem(problem, self.name, *needed, l2=True, convex=True)
        if self.variant == "one_slack":
            return OneSlackRun(problem, weights, self.tol)
        return NSlackRun(problem, weights, self.tol)


class Bundle(Resumable):
    """Planes in the rows of one array, with their Gram matrix; slots of idle planes are used again."""

    def __init__(self, dimension: int) -> None:
        self._gradients = np.empty((8, dimension))
        self._gram = np.empty((8, 8))
        self._offsets = np.empty(8)
        self._idle = np.zeros(8, dtype=np.int64)
        self._size, self._largest = 0, 0.0

    def __len__(self) -> int:
        return self._size

    def snapshot(self) -> dict[str, Any]:
        """The slots in use, and how many there are."""
        n = self._size
        return {
            "slots": len(self._offsets),
            "gradients": self._gradients[:n],
            "gram": np.ascontiguousarray(self._gram[:n, :n]),
            "offsets": self._offsets[:n],
            "idle": self._idle[:n],
            "largest": self._largest,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        n, slots = len(snapshot["offsets"]), int(snapshot["slots"])
        self._size, self._largest = n, snapshot["largest"]
        self._gradients = np.empty((slots, self._gradients.shape[1]))
        self._gram, self._offsets = np.empty((slots, slots)), np.empty(slots)
        self._idle = np.zeros(slots, dtype=np.int64)
        self._gradients[:n], self._gram[:n, :n] = snapshot["gradients"], snapshot["gram"]
        self._offsets[:n], self._idle[:n] = snapshot["offsets"], snapshot["idle"]

    def add(self, gradient: FloatArray, offset: float, objective: float) -> None:
        """``objective``: its value where the plane was found."""
        self._largest = max(self._largest, objective)
        offset = offset if abs(offset) > ROUNDING * self._largest else 0.0
        slot = self._free_slot()
        self._gradients[slot] = gradient
        products = self._gradients[: self._size] @ gradient
        self._gram[slot, : self._size] = products
        self._gram[: self._size, slot] = products
        self._offsets[slot] = offset
        self._idle[slot] = 0

    def tilt(self, direction: FloatArray) -> None:
        """Add a linear function to what the planes bound from below, its old bound by 0 included."""
        self.add(np.zeros_like(direction), 0.0, 0.0)
        gradients = self._gradients[: self._size]
        gradients += direction
        self._gram[: self._size, : self._size] = gradients @ gradients.T

    def minimise(self, l2: float) -> tuple[FloatArray, float]:
        """The minimiser of the model, and the dual value there."""
        n = self._size
        offsets = self._offsets[:n]
        alpha = solve_simplex_qp(self._gram[:n, :n] / l2, offsets)
        self._idle[:n] = np.where(alpha > ACTIVE, 0, self._idle[:n] + 1)
        weights = alpha @ self._gradients[:n]
        weights *= -1.0 / l2
        return weights, float(alpha @ offsets) - 0.5 * l2 * float(weights @ weights)

    def _free_slot(self) -> int:
        longest = int(np.argmax(self._idle[: self._size])) if self._size else 0
        if self._size and self._idle[longest] >= PATIENCE:
            return longest
        if self._size == len(self._offsets):
            self._gradients = np.concatenate([self._gradients, np.empty_like(self._gradients)])
            self._gram = np.pad(self._gram, (0, self._size))
            self._offsets = np.pad(self._offsets, (0, self._size))
            self._idle = np.pad(self._idle, (0, self._size))
        self._size += 1
        return self._size - 1


class OneSlackRun(Resumable):
    """``bundle``: planes that are known already."""

    kept = ("_query", "_bundle", "_certificate", "_evaluations")

    def __init__(
        self, problem: Problem, weights: FloatArray, tol: float, bundle: Bundle | None = None
    ) -> None:
        self._problem = problem
        self._tol = tol
        self._query = weights
        self._bundle = Bundle(len(weights)) if bundle is None else bundle
        self._certificate = Certificate(weights)
        self._evaluations = 0

    @property
    def weights(self) -> FloatArray:
        return self._certificate.weights

    def step(self) -> Mapping[str, float]:
        l2, query, certificate = self._problem.l2, self._query, self._certificate
        value, gradient = self._problem.value_and_gradient(query)
        self._evaluations += 1
        objective = value + 0.5 * l2 * float(query @ query)
        certificate.lower_primal(objective, query)
        self._bundle.add(gradient, value - float(gradient @ query), objective)
        minimiser, dual = self._bundle.minimise(l2)
        certificate.raise_dual(dual)
        minimiser -= certificate.weights
        minimiser *= TOWARDS_MODEL
        minimiser += certificate.weights
        self._query = minimiser
        return {
            **certificate.measure(),
            "evaluations": float(self._evaluations),
            "planes": float(len(self._bundle)),
        }

    def status(self) -> Status | None:
        return self._certificate.status(self._tol)

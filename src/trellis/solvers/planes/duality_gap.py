"""The duality gap of a run: best primal value so far minus best dual bound so far.

Any dual feasible point bounds the optimum from below and any weights bound it from above, so the gap is a
certificate however roughly the subproblems in between were solved:

    dual <= optimum <= primal,      relative gap = (primal - dual) / |primal|
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.status import Status
from trellis.solvers.resumable import Resumable

STALL = 30  # steps that move neither bound: the digits are used up


class Certificate(Resumable):
    """The two bounds, and the weights of the upper one."""

    kept = ("weights", "primal", "dual", "_since_progress", "_progress")

    def __init__(self, weights: FloatArray) -> None:
        self.weights = weights.copy()
        self.primal = np.inf
        self.dual = -np.inf
        self._since_progress = 0
        self._progress = False

    def lower_primal(self, value: float, weights: FloatArray) -> None:
        if value < self.primal:
            self.primal = value
            np.copyto(self.weights, weights)
            self._progress = True

    def raise_dual(self, value: float) -> None:
        if value > self.dual:
            self.dual = value
            self._progress = True

    @property
    def gap(self) -> float:
        return max(0.0, self.primal - self.dual)

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.primal), float(np.finfo(float).tiny))

    def measure(self) -> dict[str, float]:
        """The history's entries for this step; call it once per step."""
        self._since_progress = 0 if self._progress else self._since_progress + 1
        self._progress = False
        return {
            "objective": self.primal,
            "dual": self.dual,
            "gap": self.gap,
            "relative_gap": self.relative_gap,
        }

    def status(self, tol: float) -> Status | None:
        reached = f"relative duality gap {self.relative_gap:.2g}"
        if self.relative_gap <= tol:
            return Status(True, f"{reached} (tolerance {tol:.2g})")
        if self._since_progress >= STALL:
            return Status(
                False,
                f"{STALL} iterations moved neither bound: floating-point precision is exhausted at {reached} "
                f"(tolerance {tol:.2g}); raise tol",
            )
        return None

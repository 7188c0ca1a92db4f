"""The stochastic average gradient method on chains, a pass per call of a kernel (``sag_kernels``).

Gradients are remembered in the scores of their sequences, 8 (N K + S K^2) bytes for N steps, S sequences and
K labels, which is far smaller than their gradients in the weights. Features on transitions would need a
matrix per step, so problems that have some run over their capabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.solvers.online.sag import SAGRun
from trellis.structures.chain.passes.sag_kernels import Memory, sag_pass
from trellis.structures.chain.problem.chain_problem import LinearChainProblem


class CompiledSAGRun(SAGRun):
    _problem: LinearChainProblem

    def start_memory(self) -> None:
        problem, views = self._problem, self._problem.layout.views
        n, k = problem.n_examples, problem.layout.n_labels
        self._visited = self._visited & (np.diff(problem.design.offsets) > 0)  # the kernel skips empty ones
        self._scratch = np.zeros(problem.dimension)
        self._memory = Memory(
            views(self._w),
            views(np.zeros(problem.dimension)),
            np.zeros((len(problem.task.gold), k)),
            np.zeros((n, k, k)),
            np.zeros(len(problem.layout.rows.pointer)),
            np.array([1.0, 0.0, 0.0]),
            self._curvature,
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
        )

    def memory(self) -> dict[str, Any]:
        kept = self._memory
        named = {name: value for name, value in kept._asdict().items() if name not in ("v", "total")}
        return {"w": self._w, "total": kept.total.flat, **named}

    def take_gradients(self, stored: dict[str, Any]) -> None:
        """All of them are in arrays of a fixed size."""

    def run_pass(self, order: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        problem = self._problem
        bad = sag_pass(
            problem.objective.formula, problem.loss_kind, problem.design, problem.layout.rows,
            problem.penalties, problem.layout.mask, problem.task, order,
            self.decay, self._memory, problem.layout.views(self._scratch),
        )  # fmt: skip
        if bad >= 0:
            # Not finite already at zero weights: no allowed labelling. Otherwise the run has diverged.
            problem.values_and_gradient(np.zeros(problem.dimension))
            self._diverged = True

"""Chains that offer solvers their passes in compiled code.

A subclass, because the problem itself may not import the passes, which are built from its kernels: whoever
makes a chain problem for training makes this one, ``with_`` keeps it, and a solver finds the door by
``compiled_run``. Without the subclass the same solver runs over the capabilities of the plain problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.shards import over_shards
from trellis.solvers.online.online_run import OnlineState, Rule
from trellis.solvers.online.perceptron import Perceptron
from trellis.solvers.online.sag import SAG
from trellis.solvers.online.stochastic import StochasticSolver
from trellis.solvers.planes.frank_wolfe import FrankWolfe
from trellis.solvers.quasi_newton.stochastic_start import StochasticStart
from trellis.solvers.run import Run
from trellis.structures.chain.problem.chain_problem import LinearChainProblem

if TYPE_CHECKING:
    from trellis.structures.chain.passes.compiled_start import CompiledStart


class CompiledChainProblem(LinearChainProblem):
    """A linear chain problem with a whole pass of an online solver, of SAG or of Frank-Wolfe per call."""

    def compiled_run(
        self,
        solver: Any,
        weights: FloatArray,
        rng: np.random.Generator,
        rule: Rule | None = None,
        state: OnlineState | None = None,
    ) -> Run | CompiledStart | None:
        """The run of ``solver``, which has checked that it suits the problem, and says by which ``rule`` an
        online one updates."""
        if not self.compiled:
            return None
        # Imported here: the kernels take time to load, and a batch solver needs none of them.
        if isinstance(solver, Perceptron | StochasticSolver) and rule is not None:
            from trellis.structures.chain.passes.compiled_online import (
                CompiledOnlineRun,
                CompiledPerceptronRun,
            )

            kind = CompiledPerceptronRun if isinstance(solver, Perceptron) else CompiledOnlineRun
            return kind(self, weights, rng, rule, state)
        if isinstance(solver, SAG) and not self.layout.n_edge:
            from trellis.structures.chain.passes.compiled_sag import CompiledSAGRun

            return CompiledSAGRun(self, weights, rng, solver.tol)
        if isinstance(solver, FrankWolfe):
            from trellis.structures.chain.passes.compiled_frank_wolfe import CompiledFrankWolfeRun

            return CompiledFrankWolfeRun(self, weights, rng, solver)
        if isinstance(solver, StochasticStart) and self.objective.log_likelihood and not self.layout.n_edge:
            from trellis.structures.chain.passes.compiled_start import CompiledStart

            return CompiledStart(self)
        return None

    def gold_margins(self, weights: FloatArray) -> FloatArray:
        """s(y*) - max over y != y* of s(y) for each sequence: +inf where there is no other labelling."""
        from trellis.structures.chain.passes.online_kernels import gold_margins

        margins, w = np.empty(self.n_examples), self.layout.views(weights)

        def shard(first: int, last: int) -> None:
            gold_margins(self.design, self.layout.rows, w, self.penalties, self.task, first, last, margins)

        over_shards(shard, self.design.offsets, self.n_jobs)
        return margins

"""Online passes over chains, one call of a kernel each.

The updates are those of :mod:`trellis.solvers.online.online_run`, with two differences in how they are
computed. Weights are kept scaled and updated sparsely (``update_kernels``). AdaGrad and Adam are lazy: a
visit updates the weights of the sequence's features alone, and the L2 term is spread over the sequences that
can touch a weight, which keeps it exact over a pass.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.solvers.online.online_run import OnlineRun, OnlineState, Rule
from trellis.solvers.online.perceptron import PerceptronRun
from trellis.solvers.online.step_size_kernels import DESCENT
from trellis.structures.chain.passes.online_kernels import (
    DECAYING_EPSILON,
    FIXED_EPSILON,
    State,
    dense_pass,
    path_pass,
)
from trellis.structures.chain.passes.update_kernels import TIME, TOTAL, count_sequences
from trellis.structures.chain.problem.chain_problem import LinearChainProblem


class CompiledOnlineRun(OnlineRun):
    """A pass counts the ``mistakes`` of every objective of two labellings: predictions that differ from the
    gold labelling, or ``violations`` of the margin where the baseline is gold and a loss is added."""

    problem: LinearChainProblem

    def __init__(
        self,
        problem: LinearChainProblem,
        weights: FloatArray,
        rng: np.random.Generator,
        rule: Rule,
        state: OnlineState | None = None,
    ) -> None:
        super().__init__(problem, weights, rng, rule, state)
        self._gradient = np.zeros(problem.dimension)
        self._counts = self._sequences_per_row()

    def run_pass(self) -> tuple[float, int]:
        problem, state, views = self.problem, self.state, self.problem.layout.views
        clock = np.array([state.visits, 1.0, 0.0, state.total])
        kernel_state = State(
            views(state.weights),
            state.sums,
            state.squares,
            state.moments,
            clock,
            views(self._gradient),
            self._counts,
        )
        order = self.rng.permutation(problem.n_examples)
        shared = (
            problem.design, problem.layout.rows, problem.penalties, problem.layout.mask, problem.task, order,
            self.rule, kernel_state,
        )  # fmt: skip
        objective, formula = problem.objective, problem.objective.formula
        if objective.two_labelings:
            kind = DECAYING_EPSILON if objective.decaying else FIXED_EPSILON
            epsilon = float(problem.epsilon)
            value, mistakes, bad = path_pass(formula, problem.loss_kind, epsilon, kind, *shared)
        else:
            value, mistakes, bad = dense_pass(formula, problem.loss_kind, *shared)
        state.visits, state.total = float(clock[TIME]), float(clock[TOTAL])
        if bad >= 0:
            # Not finite already at zero weights: no allowed labelling. Otherwise the run has diverged.
            problem.values_and_gradient(np.zeros(problem.dimension))
            self.diverged = True
        return float(value), int(mistakes)

    def counted(self) -> str | None:
        objective = self.problem.objective
        if not objective.two_labelings:
            return None
        if objective.special == "direct" and objective.formula.direction == 0.0:
            return "updates"
        return "violations" if objective.uses_loss and objective.baseline == "gold" else "mistakes"

    def _sequences_per_row(self) -> FloatArray:
        layout = self.problem.layout
        counts = np.zeros(len(layout.rows.pointer) - 1 + layout.n_edge)
        if self.rule.kind != DESCENT:
            count_sequences(self.problem.design, layout.rows, layout.views(self._gradient), counts)
        else:
            counts += 1.0  # not used
        return counts


class CompiledPerceptronRun(CompiledOnlineRun, PerceptronRun):
    finds_ties = True

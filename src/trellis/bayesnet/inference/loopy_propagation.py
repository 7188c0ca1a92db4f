"""Loopy belief propagation: the messages of a tree, passed around a graph with cycles until they settle.

Exact on a graph without cycles (of variables and factors, after the evidence is taken out), where two passes
are enough; elsewhere an approximation of unknown error, whose fixed points are the stationary points of the
Bethe free energy. That is also where the estimate of log Z, and so of log P(evidence), comes from:

    log Z ~ sum_f sum_x b_f(x) log(f(x) / b_f(x)) + sum_v (1 - degree of v) H(b_v)

Factors whose variables all stand in another one are multiplied into that first. Messages are logarithms, so
that no number of factors and no size of their values is too large.

One iteration updates the messages of all variables in turn, forwards through the order of a Bayesian network
in odd iterations and backwards in even ones. ``damping`` d moves a message to (1 - d) new + d old. It has
converged when no message changes by more than ``tol``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from trellis.bayesnet.inference.approximate_posterior import (
    Answer,
    ApproximationWarning,
    Evidence,
    Likelihoods,
    Question,
    Targets,
)
from trellis.bayesnet.inference.flat_factors import FlatFactors, Model, flatten, merged, reduced_factors
from trellis.bayesnet.inference.loopy_propagation_kernels import (
    bethe,
    factor_belief,
    sweep,
    variable_beliefs,
)
from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.factors.tables import Table, marginalise, ordered
from trellis.solvers.run import Status


def loopy(
    model: Model,
    targets: Targets,
    evidence: Evidence = None,
    *,
    likelihoods: Likelihoods = None,
    damping: float = 0.0,
    max_iter: int = 1000,
    tol: float = 1e-9,
) -> Answer:
    """P(targets | evidence) by belief propagation, for Bayesian networks and factor graphs.

    ``targets``: a variable, several that share a factor, or None for each unobserved variable by itself (a
    dictionary). Diagnostics: ``status``, ``converged``, ``n_iter``, ``residuals`` (the largest change of a
    message in each iteration), ``log_evidence`` (log Z of a factor graph) by Bethe, ``tree`` (whether the
    answer is exact). If the messages oscillate, try ``damping=0.5``.
    """
    max_iter = check_int("max_iter", max_iter, 1)
    if not 0.0 <= damping < 1.0 or not tol >= 0.0:
        raise DataError(f"damping={damping}, tol={tol}: damping must be in [0, 1), and tol not negative")
    question = Question(model, targets, evidence, likelihoods)
    tables, free = reduced_factors(model, question.targets, question.evidence, question.likelihoods)
    if any(not table.variables and not table.values > 0 for table in tables):
        raise InfeasibleError("the evidence is impossible: it contradicts itself; change it")
    tables, log_scale = merged(tables)
    graph = _Graph.of(model, tables, free)
    status, residuals = _settle(model, graph, damping, max_iter, tol)
    tree = graph.is_forest()
    values = _beliefs(question, tables, graph)
    exact = tree and status.converged
    report = f"belief propagation {status}; " + (
        "exact, for the graph has no cycles" if exact else "its error is not known, for the graph has cycles"
    )
    if not status.converged:
        report = f"belief propagation {status}"
        warnings.warn(report, ApproximationWarning, stacklevel=2)
    diagnostics = {
        "status": status,
        "converged": status.converged,
        "n_iter": status.n_iter,
        "residuals": residuals,
        "tree": tree,
        "log_evidence": graph.log_partition() + log_scale,
    }
    errors = np.full(question.n_cells, 0.0 if exact else np.nan)
    return question.answer(values, errors, "loopy", report, diagnostics)


class _Graph(NamedTuple):
    """Factors, the order of the variables, and the messages: one array of each direction; all logarithms."""

    factors: FlatFactors
    order: IntArray
    start: IntArray
    to_variable: FloatArray
    to_factor: FloatArray
    cell: IntArray  # where the belief of a variable starts

    @classmethod
    def of(cls, model: Model, tables: Sequence[Table], free: Sequence[int]) -> _Graph:
        factors = flatten(model.cardinalities, tables)
        unobserved = set(free)
        order = [v for v in model.order if v in unobserved]
        sizes = factors.cardinalities[factors.scope]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        uniform = np.repeat(-np.log(sizes), sizes)
        cell = np.concatenate([[0], np.cumsum(factors.cardinalities)]).astype(np.int64)
        return cls(factors, np.array(order, dtype=np.int64), start, uniform, np.zeros_like(uniform), cell)

    def is_forest(self) -> bool:
        """Variables and factors, joined where a factor has a variable, make no cycle."""
        n_factors, n_variables = len(self.factors.value_start) - 1, len(self.factors.cardinalities)
        edges = (np.ones(len(self.factors.scope)), (self.factors.factor_of, self.factors.scope + n_factors))
        nodes = n_factors + n_variables
        n_components, _ = connected_components(coo_array(edges, shape=(nodes, nodes)), directed=False)
        return len(self.factors.scope) == nodes - int(n_components)

    def variable_beliefs(self) -> FloatArray:
        beliefs = np.zeros(self.cell[-1])
        variable_beliefs(self.factors, self.order, self.start, self.to_variable, self.cell, beliefs)
        return beliefs

    def log_partition(self) -> float:
        beliefs = self.variable_beliefs()
        return float(bethe(self.factors, self.order, self.start, self.to_factor, self.cell, beliefs))


def _settle(
    model: Model, graph: _Graph, damping: float, max_iter: int, tol: float
) -> tuple[Status, list[float]]:
    """Pass messages until they change by at most ``tol``; the status and the changes."""
    residuals: list[float] = []
    order = graph.order
    digits = np.empty(np.diff(graph.factors.scope_start).max(initial=1), dtype=np.int64)
    fresh, top = np.empty((2, graph.factors.cardinalities.max(initial=1)))
    while len(residuals) < max_iter:
        change = sweep(
            graph.factors, order, graph.start, graph.to_variable, graph.to_factor, damping, digits, fresh, top
        )
        if change < 0:
            raise InfeasibleError(
                f"the evidence is impossible: it leaves {model.names[-int(change) - 1]!r} without a state; "
                "change it"
            )
        residuals.append(float(change))
        if change <= tol:
            reason = f"messages change by at most {change:.2g} (tolerance {tol:.2g})"
            return Status(True, reason, len(residuals)), residuals
        order = order[::-1].copy()
    reason = (
        f"messages still change by {residuals[-1]:.2g} (tolerance {tol:.2g}), so do not trust the answer; "
        f"raise damping (now {damping:g}) or max_iter, or use an exact method"
    )
    return Status(False, reason, len(residuals)), residuals


def _beliefs(question: Question, tables: Sequence[Table], graph: _Graph) -> FloatArray:
    beliefs = graph.variable_beliefs()
    parts = []
    for scope in question.scopes:
        free = tuple(v for v in scope if v not in question.evidence)
        if len(free) <= 1:
            values = beliefs[graph.cell[free[0]] : graph.cell[free[0] + 1]] if free else np.ones(1)
        else:
            values = _joint_belief(question, tables, graph, free)
        # observed targets have all mass on their state
        whole = np.zeros([len(question.variables.states[v]) for v in scope])
        place = tuple(question.evidence.get(v, slice(None)) for v in scope)
        whole[place] = values.reshape(whole[place].shape)
        parts.append(whole.ravel())
    return np.concatenate(parts) if parts else np.zeros(0)


def _joint_belief(
    question: Question, tables: Sequence[Table], graph: _Graph, targets: tuple[int, ...]
) -> FloatArray:
    """The joint belief of variables that stand in one factor."""
    for f, table in enumerate(tables):
        if set(targets) <= set(table.variables):
            belief = np.empty(table.values.size)
            factor_belief(graph.factors, f, graph.start, graph.to_factor, belief)
            joint = Table(table.variables, np.exp(belief).reshape(table.values.shape))
            return ordered(marginalise(joint, set(table.variables) - set(targets)), targets).values
    names = ", ".join(repr(question.variables.names[v]) for v in targets)
    raise UnsupportedError(
        f"no factor holds {names} together, so that belief propagation has no joint belief of them; ask for "
        "them one by one, or use method='likelihood_weighting', 'gibbs' or an exact one"
    )

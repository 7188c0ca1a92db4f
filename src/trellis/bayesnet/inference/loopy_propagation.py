"""Loopy belief propagation in Bayesian networks and factor graphs, by name.

The engine is :mod:`trellis.factors.belief_propagation`: exact where the graph, after the evidence is taken
out, has no cycles; elsewhere an approximation of unknown error, with Bethe's estimate of log P(evidence).
Factors whose variables all stand in another one are multiplied into that first. Sweeps follow the order of a
Bayesian network.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.bayesnet.inference.estimates import Estimate
from trellis.bayesnet.inference.question import Question
from trellis.core.arguments import check_int, check_nonnegative
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.status import Status
from trellis.factors.allowed_assignment import NOT_ESTABLISHED, allowed_assignment
from trellis.factors.belief_propagation import BeliefPropagation
from trellis.factors.flat_factors import flatten, merge_nested
from trellis.factors.possible_states import ContradictionError
from trellis.factors.tables import Table, marginalise, ordered


def loopy(question: Question, *, damping: float = 0.0, max_iter: int = 1000, tol: float = 1e-9) -> Estimate:
    """Belief propagation, for Bayesian networks and factor graphs; joint targets must share a factor.

    Diagnostics: ``status``, ``converged``, ``n_iter``, ``residuals`` (the largest change of a log-message in
    each iteration), ``log_evidence`` (log Z of a factor graph) by Bethe, ``tree`` (whether the answer is
    exact). If the messages oscillate, try ``damping=0.5``.
    """
    max_iter, tol = check_int("max_iter", max_iter, 1), check_nonnegative("tol", tol)
    if not check_nonnegative("damping", damping) < 1.0:
        raise DataError(f"damping is {damping}; give a number of at least 0 and below 1")
    model = question.model
    tables, free = question.reduced_factors()
    unobserved = set(free)
    order = np.array([v for v in model.order if v in unobserved], dtype=np.int64)
    merged, log_scale = merge_nested(tables)
    graph = BeliefPropagation(flatten(model.cardinalities, merged), order)
    try:
        if log_scale == -np.inf:
            raise ContradictionError
        status = graph.run(max_iter, tol, damping)
        of_factors = graph.factor_beliefs()
        if not graph.is_forest and allowed_assignment(graph.factors, graph.most_probable()) is None:
            status = Status(False, f"{status.reason}; {NOT_ESTABLISHED}", status.n_iter)
    except ContradictionError as error:
        raise question.impossible(error) from error
    exact = graph.is_forest
    report = f"belief propagation {status}"
    if status.converged and not exact:
        report += "; its error is not known, because the graph has cycles"
    diagnostics = {
        "status": status,
        "converged": status.converged,
        "n_iter": status.n_iter,
        "residuals": graph.residuals,
        "tree": exact,
        "log_evidence": graph.log_partition(of_factors) + log_scale,
    }
    values = _beliefs(question, merged, graph, of_factors)
    errors = np.full(question.n_cells, 0.0 if exact else np.nan)
    return Estimate(values, errors, report, diagnostics, warning=not status.converged)


def _beliefs(
    question: Question, tables: Sequence[Table], graph: BeliefPropagation, of_factors: FloatArray
) -> FloatArray:
    beliefs = np.exp(graph.variable_beliefs())
    parts = [np.zeros(0)]
    for scope in question.scopes:
        free = tuple(v for v in scope if v not in question.evidence)
        if len(free) <= 1:
            values = beliefs[graph.cells[free[0]] : graph.cells[free[0] + 1]] if free else np.ones(1)
        else:
            values = _joint_belief(question, tables, graph.factors.value_start, of_factors, free)
        parts.append(question.spread(scope, values).ravel())
    return np.concatenate(parts)


def _joint_belief(
    question: Question,
    tables: Sequence[Table],
    starts: IntArray,
    of_factors: FloatArray,
    targets: tuple[int, ...],
) -> FloatArray:
    """The joint belief of variables that stand in one factor."""
    for f, table in enumerate(tables):
        if set(targets) <= set(table.variables):
            belief = np.exp(of_factors[starts[f] : starts[f + 1]]).reshape(table.values.shape)
            joint = Table(table.variables, belief)
            return ordered(marginalise(joint, set(table.variables) - set(targets)), targets).values
    names = ", ".join(repr(question.variables.names[v]) for v in targets)
    raise UnsupportedError(
        f"no factor holds {names} together, so belief propagation has no joint belief of them; ask for "
        "them one by one, or use method='likelihood_weighting', 'gibbs' or an exact one"
    )

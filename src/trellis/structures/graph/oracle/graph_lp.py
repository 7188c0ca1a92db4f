"""The local polytope as a linear program, solved by HiGHS: the reference for small graphs.

    max_mu  sum_i <unary_i, mu_i> + sum_e <pairwise_e, mu_e> + sum_f <table_f, mu_f>
    s.t.    mu >= 0,   sum_x mu_i(x) = 1,
            sum of mu_c over all axes but that of node i = mu_i,   for every edge and factor c and i in c

Forbidden entries are fixed at 0. The dual simplex method returns a vertex of the polytope; a vertex whose
entries are all 0 or 1 is a best labelling. The number of variables is N K + E K^2 + the sizes of the tables.

HiGHS is right to 1e-7, so scores are divided by the largest of them. The bound is not the optimum it reports,
which may be too low by as much, but that of its multipliers m of the last constraints, which always holds:

    sum_i max (unary_i - sum_c m[c, i]) + sum_c max (table_c + sum_i m[c, i])
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import InfeasibleError, NumericalError, UnsupportedError
from trellis.core.status import Status
from trellis.structures.graph.oracle.graph_answers import DIRECT, RelaxedSolution
from trellis.structures.graph.oracle.graph_tables import GraphTables
from trellis.structures.graph.oracle.message_passing import improve_labels, is_closed, settle_labels
from trellis.structures.graph.oracle.rounding import argmax
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores

MOST_VARIABLES = 5_000_000
INTEGRAL = 1e-6
INFEASIBLE = 2  # a status of linprog


def linear_programme(scores: GraphScores, tol: float) -> RelaxedSolution:
    """A vertex of the local polytope with the largest score, rounded to the largest node marginals."""
    size = scores.unary.size + scores.pairwise.size + sum(f.table.size for f in scores.factors)
    if size > MOST_VARIABLES:
        raise UnsupportedError(
            f"the linear program would have {size:,} variables; use method='message_passing'"
        )
    if scores.n_nodes == 0:
        return RelaxedSolution(np.zeros(0, np.int32), 0.0, 0.0, True, True, "lp", DIRECT, scores)
    problem = GraphTables.of(scores)
    cost = problem.flat()
    allowed = cost > -np.inf
    finite = np.where(allowed, cost, 0.0)
    size_of_scores = float(np.abs(finite).max()) or 1.0
    left, right = _constraints(problem)
    found = linprog(
        finite / -size_of_scores,
        A_eq=left,
        b_eq=right,
        bounds=np.stack([np.zeros(len(cost)), np.where(allowed, np.inf, 0.0)], axis=1),
        method="highs-ds",
    )
    if found.status == INFEASIBLE:
        raise InfeasibleError("the graph has no allowed labelling, not even a fractional one")
    if found.status != 0:
        raise NumericalError(f"HiGHS stopped without an answer ({found.message.strip()}); rescale the scores")
    mu = problem.parts(np.clip(np.asarray(found.x), 0.0, 1.0))
    messages = size_of_scores * np.where(right == 0.0, found.eqlin.marginals, 0.0)
    bound = problem.bound(cost + left.T @ messages)
    status = Status(True, "a vertex of the polytope is optimal", int(found.nit))
    return _rounded(scores, mu, bound, tol, status)


def _rounded(
    scores: GraphScores, mu: GraphParts, bound: float, tol: float, status: Status
) -> RelaxedSolution:
    entries = mu.flat()
    integral = bool((np.minimum(np.abs(entries), np.abs(1.0 - entries)) <= INTEGRAL).all())
    labels = argmax(mu)
    if not integral:
        labels = improve_labels(scores, labels)
    labels, value, status = settle_labels(scores, labels, status)
    exact = is_closed(bound, value, tol)
    relaxed = None if integral else mu
    return RelaxedSolution(labels, value, max(bound, value), integral, exact, "lp", status, scores, relaxed)


def _constraints(problem: GraphTables) -> tuple[csr_array, FloatArray]:
    """Each node sums to one; each axis of each edge and factor sums to its node."""
    n, k = problem.unary.shape
    rows, columns, signs = [np.repeat(np.arange(n), k)], [np.arange(n * k)], [np.ones(n * k)]
    row, first = n, n * k
    groups: list[tuple[IntArray, tuple[int, ...]]] = [(problem.edges, (k, k))]
    groups += [(np.array([nodes]), t.shape) for nodes, t in zip(problem.scopes, problem.tables, strict=True)]
    for nodes, shape in groups:
        size = int(np.prod(shape))
        entry = first + np.arange(len(nodes) * size)
        table = np.repeat(np.arange(len(nodes)), size)
        digits = np.unravel_index(np.tile(np.arange(size), len(nodes)), shape)
        for axis, digit in enumerate(digits):
            rows += [row + table * k + digit, row + np.arange(len(nodes) * k)]
            columns += [entry, (nodes[:, axis, None] * k + np.arange(k)).ravel()]
            signs += [np.ones(len(entry)), -np.ones(len(nodes) * k)]
            row += len(nodes) * k
        first += len(entry)
    place = np.concatenate(rows), np.concatenate(columns)
    right = np.zeros(row)
    right[:n] = 1.0
    return csr_array((np.concatenate(signs), place), shape=(row, first)), right

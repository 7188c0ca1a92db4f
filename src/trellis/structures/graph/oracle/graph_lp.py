"""The local polytope as a linear programme, solved by HiGHS: the reference for small graphs.

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

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import InfeasibleError, NumericalError, UnsupportedError
from trellis.structures.graph.oracle.graph_answers import RelaxedSolution
from trellis.structures.graph.oracle.message_passing import improve, is_closed
from trellis.structures.graph.oracle.ordered_graph import OrderedGraph, wide
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
            f"the linear programme would have {size:,} variables; use method='message_passing'"
        )
    if scores.n_nodes == 0:
        return RelaxedSolution(np.zeros(0, np.int32), 0.0, 0.0, True, True, "lp", 0, scores)
    problem = _Programme.of(scores)
    cost = np.concatenate(
        [problem.unary.ravel(), problem.pairwise.ravel(), *(t.ravel() for t in problem.tables)]
    )
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
    return _rounded(scores, mu, bound, int(found.nit), tol)


class _Programme(NamedTuple):
    """The tables of the programme: nodes and simple edges in the order of the passes, and wide factors.

    Edges between the same nodes must be one table: each with marginals of its own would be a looser bound.
    """

    graph: OrderedGraph
    unary: FloatArray
    edges: IntArray
    pairwise: FloatArray
    scopes: list[tuple[int, ...]]
    tables: list[FloatArray]
    scores: GraphScores

    @classmethod
    def of(cls, scores: GraphScores) -> _Programme:
        narrow = tuple(f for f in scores.factors if len(f.nodes) <= 2)
        graph = OrderedGraph.of(replace(scores, factors=narrow))
        edges = np.stack([graph.topology.low, graph.topology.high], axis=1)
        place = np.argsort(graph.topology.order)
        broad = wide(scores)
        scopes = [tuple(place[list(f.nodes)].tolist()) for f in broad]
        return cls(graph, graph.unary, edges, graph.pairwise, scopes, [f.table for f in broad], scores)

    def bound(self, rewritten: FloatArray) -> float:
        """The sum of the maxima of all tables, given in one vector."""
        nodes, pairs, *tables = self._pieces(rewritten)
        maxima = [nodes.reshape(self.unary.shape).max(axis=1).sum()]
        maxima.append(pairs.reshape(self.pairwise.shape).max(axis=(1, 2)).sum())
        return float(sum(maxima) + sum(table.max() for table in tables))

    def _pieces(self, flat: FloatArray) -> list[FloatArray]:
        ends = np.cumsum([self.unary.size, self.pairwise.size, *(t.size for t in self.tables)])
        return np.split(flat, ends[:-1])

    def parts(self, flat: FloatArray) -> GraphParts:
        """The marginals of the given parts from those of all tables in one vector."""
        pieces = self._pieces(flat)
        narrow = self.graph.parts(pieces[0].reshape(self.unary.shape), pieces[1].reshape(self.pairwise.shape))
        few, many = iter(narrow.factors), iter(zip(pieces[2:], self.tables, strict=True))
        tables = []
        for f in self.scores.factors:
            if len(f.nodes) <= 2:
                tables.append(next(few))
            else:
                piece, table = next(many)
                tables.append(piece.reshape(table.shape))
        return GraphParts(narrow.unary, narrow.pairwise, tuple(tables))


def _rounded(scores: GraphScores, mu: GraphParts, bound: float, n_iter: int, tol: float) -> RelaxedSolution:
    entries = mu.flat()
    integral = bool((np.minimum(np.abs(entries), np.abs(1.0 - entries)) <= INTEGRAL).all())
    labels = argmax(mu)
    if not integral:
        graph = OrderedGraph.of(scores)
        places = graph.places(labels)
        improve(graph, places)
        labels = graph.labels(places)
    value = scores.score(labels)
    exact = is_closed(bound, value, tol)
    relaxed = None if integral else mu
    return RelaxedSolution(labels, value, max(bound, value), integral, exact, "lp", n_iter, scores, relaxed)


def _constraints(problem: _Programme) -> tuple[csr_array, FloatArray]:
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

"""A graph as a list of tables: of its nodes, of its simple edges, and of factors over more than two nodes.

Edges between the same nodes are one table: each with marginals of its own would be a looser relaxation, and a
cycle that the graph does not have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.factors.flat_factors import FlatFactors
from trellis.structures.graph.oracle.ordered_graph import OrderedGraph, wide_factors
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores


class GraphTables(NamedTuple):
    """``unary`` (N, K) and ``pairwise`` (E, K, K) in the order of the passes, and the tables of wide factors.

    ``edges`` and ``scopes`` are in places of that order, too.
    """

    graph: OrderedGraph
    unary: FloatArray
    edges: IntArray
    pairwise: FloatArray
    scopes: list[tuple[int, ...]]
    tables: list[FloatArray]
    scores: GraphScores

    @classmethod
    def of(cls, scores: GraphScores) -> GraphTables:
        narrow = tuple(f for f in scores.factors if len(f.nodes) <= 2)
        graph = OrderedGraph.of(replace(scores, factors=narrow))
        edges = np.stack([graph.topology.low, graph.topology.high], axis=1)
        place = np.argsort(graph.topology.order)
        broad = wide_factors(scores)
        scopes = [tuple(place[list(f.nodes)].tolist()) for f in broad]
        return cls(graph, graph.unary, edges, graph.pairwise, scopes, [f.table for f in broad], scores)

    def flat(self) -> FloatArray:
        """All tables in one vector."""
        return np.concatenate([self.unary.ravel(), self.pairwise.ravel(), *(t.ravel() for t in self.tables)])

    def factors(self) -> FlatFactors:
        """The tables as factors over the nodes."""
        n, k = self.unary.shape
        widths = np.repeat([1, 2], [n, len(self.edges)])
        widths = np.concatenate([widths, [len(scope) for scope in self.scopes]]).astype(np.int64)
        scope = np.concatenate([np.arange(n), self.edges.ravel(), *self.scopes]).astype(np.int64)
        return FlatFactors.of(np.full(n, k), widths, scope, self.flat())

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

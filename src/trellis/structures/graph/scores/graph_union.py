"""Many small graphs side by side as one graph: one call in place of a call for each.

A union has no edges between its graphs, so that scores, best labellings, marginals and sums of features of
all of them come from the same arrays. Nodes and edges of a graph lie together, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.structures.graph.scores.graph_features import Graph
from trellis.structures.graph.scores.graph_scores import GraphScores, Labels


@dataclass(frozen=True, eq=False)
class GraphUnion:
    """``graph``: all of them. Graph g has the nodes ``node_start[g]`` to ``node_start[g + 1]``, and its edges
    likewise."""

    graph: Graph
    node_start: IntArray
    edge_start: IntArray

    @classmethod
    def of(cls, graphs: Sequence[Graph]) -> GraphUnion:
        """Of graphs whose features fit together; those of graphs without edges are never looked at."""
        node_start = _starts([graph.n_nodes for graph in graphs])
        edge_start = _starts([len(graph.edges) for graph in graphs])
        joined = [graph for graph in graphs if len(graph.edges)]
        shift = np.repeat(node_start[:-1], np.diff(edge_start))[:, None]
        whole = Graph(
            np.concatenate([graph.nodes for graph in graphs]),
            np.concatenate([graph.edges for graph in joined]) + shift if joined else (),
            np.concatenate([graph.edge_features for graph in joined]) if joined else None,
            np.concatenate([graph.edge_types for graph in joined]) if joined else None,
        )
        return cls(whole, node_start, edge_start)

    def __len__(self) -> int:
        return len(self.node_start) - 1

    @cached_property
    def node_owner(self) -> IntArray:
        """The graph of each node."""
        return np.repeat(np.arange(len(self)), np.diff(self.node_start))

    @cached_property
    def edge_owner(self) -> IntArray:
        """The graph of each edge."""
        return np.repeat(np.arange(len(self)), np.diff(self.edge_start))

    @cached_property
    def are_forests(self) -> BoolArray:
        """Which of the graphs have no cycles; edges between the same nodes count once, loops not at all."""
        n = self.graph.n_nodes
        a, b = self.graph.edges.T
        proper = a != b
        simple = np.unique(np.minimum(a, b)[proper] * n + np.maximum(a, b)[proper])
        low, high = simple // max(n, 1), simple % max(n, 1)
        joined = coo_array((np.ones(len(simple)), (low, high)), shape=(n, n))
        component = connected_components(joined, directed=False)[1] if n else np.zeros(0, np.int64)
        first = np.unique(component, return_index=True)[1]
        components = np.bincount(self.node_owner[first], minlength=len(self))
        edges = np.bincount(self.node_owner[low], minlength=len(self))
        return np.asarray(edges == np.diff(self.node_start) - components)

    def totals(self, of_nodes: FloatArray, of_edges: FloatArray | None = None) -> FloatArray:
        """Sums over the nodes (and edges) of each graph."""
        sums: FloatArray = np.bincount(self.node_owner, of_nodes, len(self)).astype(np.float64)
        return sums if of_edges is None else sums + np.bincount(self.edge_owner, of_edges, len(self))

    def score_each(self, scores: GraphScores, labels: Labels | IntArray) -> FloatArray:
        """The score of the labels of each graph."""
        y = labels.astype(np.int64)
        a, b = scores.edges.T
        return self.totals(scores.unary[np.arange(len(y)), y], scores.pairwise[np.arange(len(a)), y[a], y[b]])


def _starts(counts: Sequence[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)

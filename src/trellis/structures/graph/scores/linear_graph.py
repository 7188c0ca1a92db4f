"""Linear scores of graphs: from weights to part scores, and from parts back to sums of features.

    unary[i, k]       = bias[k] + sum_d X[i, d] W[d, k]
    pairwise[e, j, k] = sum_f Z[e, f] V[t, f, j, k],      t the type of edge e

so score(x, y) = w . Phi(x, y) with Phi linear in the parts: :meth:`GraphLayout.of_parts` is the adjoint of
:meth:`GraphLayout.scores`. One vector holds all weights: bias (K), W (D, K), then V of each type.

A type that is not directed has V[t, f, j, k] = V[t, f, k, j]: one weight for both, so K (K + 1) / 2 of them
for each feature, and the norm counts it once.

Dense features go through matrix products; labellings, whose indicators are sparse, through sparse ones: E F
operations in place of E F K^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.structures.graph.scores.graph_features import Graph
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores, Labels
from trellis.structures.graph.scores.graph_union import GraphUnion

FEW = 4096  # entries of indicators up to which making a sparse array takes longer than a product


@register
@dataclass(frozen=True)
class GraphLayout:
    """``directed``: for each type of edges, whether the order of its ends counts."""

    n_labels: int
    n_features: int
    n_edge_features: int
    directed: tuple[bool, ...] = (False,)
    bias: bool = True

    def __post_init__(self) -> None:
        sizes, flags = (self.n_labels, self.n_features, self.n_edge_features), (*self.directed, self.bias)
        if not (all(type(n) is int and n >= 0 for n in sizes) and all(type(flag) is bool for flag in flags)):
            raise DataError("the shape of the weights is made of whole numbers, True and False")

    @property
    def n_types(self) -> int:
        return len(self.directed)

    @property
    def dimension(self) -> int:
        return self._edges_from + self._n_edge_weights

    def check(self, graph: Graph, name: str) -> None:
        """Whether the features of a graph are those of the weights."""
        for what, has, needs in (
            ("node", graph.nodes.shape[1], self.n_features),
            ("edge", graph.edge_features.shape[1] if len(graph.edges) else None, self.n_edge_features),
        ):
            if has is not None and has != needs:
                raise DataError(f"{name} has {has} {what} features, and the model has {needs}")
        largest = int(graph.edge_types.max(initial=-1))
        if largest >= self.n_types:
            raise DataError(
                f"{name} has edges of type {largest}, and the model has types 0 to {self.n_types - 1}"
            )

    def node_weights(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The bias (K,) and W (D, K)."""
        k = self.n_labels
        bias = weights[:k] if self.bias else np.zeros(k)
        return bias, weights[k * self.bias : self._edges_from].reshape(self.n_features, k)

    def edge_weights(self, weights: FloatArray) -> FloatArray:
        """V (types, F, K, K), with both halves of what is symmetric."""
        k = self.n_labels
        flat = weights[self._edges_from :]
        full = flat if all(self.directed) else flat[self._place_of]
        return full.reshape(self.n_types, self.n_edge_features, k, k)

    def scores(self, graph: Graph, weights: FloatArray) -> GraphScores:
        """The part scores of a graph."""
        k, n_edges = self.n_labels, len(graph.edges)
        bias, w = self.node_weights(weights)
        if n_edges:
            v = self.edge_weights(weights).reshape(-1, k * k)
            pairwise = np.asarray(graph.edge_design(self.n_types) @ v).reshape(n_edges, k, k)
        else:
            pairwise = np.zeros((0, k, k))
        return GraphScores(graph.nodes @ w + bias, graph.edges, pairwise)

    def of_parts(self, graph: Graph, parts: GraphParts) -> FloatArray:
        """Sums of features, weighted by indicators, marginals or a gradient: (dimension,)."""
        pairs = parts.pairwise.reshape(len(graph.edges), self.n_labels**2)
        return self._features(graph, parts.unary.sum(axis=0), graph.nodes.T @ parts.unary, pairs)

    def of_labels(
        self,
        graph: Graph,
        labels: Labels | IntArray,
        node_weight: FloatArray | None = None,
        edge_weight: FloatArray | None = None,
    ) -> FloatArray:
        """Phi(x, y) of a labelling; with weights, each node and edge counts so many times."""
        k = self.n_labels
        y = labels.astype(np.int64)
        a, b = graph.edges.T
        nodes = _indicators(y, k, node_weight)
        pairs = _indicators(k * y[a] + y[b], k * k, edge_weight)
        counts = np.bincount(y, node_weight, k).astype(np.float64)
        return self._features(graph, counts, np.asarray(nodes.T @ graph.nodes).T, pairs)

    def rows_of_labels(self, union: GraphUnion, labels: Labels | IntArray) -> FloatArray:
        """Phi of the labels of each graph of a union, (graphs, dimension)."""
        k, y = self.n_labels, labels.astype(np.int64)
        a, b = union.graph.edges.T
        nodes = _indicators(union.node_owner * k + y, len(union) * k)
        pairs = _indicators(union.edge_owner * k * k + k * y[a] + y[b], len(union) * k * k)
        return self._rows(union, nodes, pairs)

    def rows_of_parts(self, union: GraphUnion, parts: GraphParts) -> FloatArray:
        """Sums of features of the parts of each graph of a union, (graphs, dimension)."""
        k = self.n_labels
        nodes = _blocks(parts.unary, union.node_owner, len(union))
        pairs = _blocks(parts.pairwise.reshape(-1, k * k), union.edge_owner, len(union))
        return self._rows(union, nodes, pairs)

    def _rows(
        self, union: GraphUnion, nodes: csr_array | FloatArray, pairs: csr_array | FloatArray
    ) -> FloatArray:
        n, k = len(union), self.n_labels
        result = np.zeros((n, self.dimension))
        if self.bias:
            result[:, :k] = np.asarray(nodes.sum(axis=0)).reshape(n, k)
        of_nodes = np.asarray(nodes.T @ union.graph.nodes).reshape(n, k, self.n_features)
        result[:, k * self.bias : self._edges_from] = of_nodes.transpose(0, 2, 1).reshape(n, -1)
        if len(union.graph.edges):
            sums: Any = pairs.T @ union.graph.edge_design(self.n_types)
            sums = (sums.toarray() if issparse(sums) else sums).reshape(n, k * k, -1)
            full = sums.transpose(0, 2, 1).reshape(n, -1)
            if not all(self.directed):
                full = np.asarray(full @ _indicators(self._place_of, self._n_edge_weights))
            result[:, self._edges_from :] = full
        return result

    def _features(
        self, graph: Graph, counts: FloatArray, nodes: FloatArray, pairs: FloatArray | csr_array
    ) -> FloatArray:
        result = np.zeros(self.dimension)
        if self.bias:
            result[: self.n_labels] = counts
        result[self.n_labels * self.bias : self._edges_from] = nodes.ravel()
        if len(graph.edges):
            sums: Any = (pairs.T @ graph.edge_design(self.n_types)).T  # sparse pairs stay on the left
            full = (sums.toarray() if issparse(sums) else sums).ravel()
            if all(self.directed):
                result[self._edges_from :] = full
            else:
                result[self._edges_from :] = np.bincount(self._place_of, full, self._n_edge_weights)
        return result

    @property
    def _edges_from(self) -> int:
        return self.n_labels * (self.n_features + self.bias)

    @property
    def _n_edge_weights(self) -> int:
        k = self.n_labels
        return self.n_edge_features * sum(k * k if d else k * (k + 1) // 2 for d in self.directed)

    @cached_property
    def _place_of(self) -> NDArray[np.int64]:
        """Which weight of the edges each entry of V is."""
        k, f = self.n_labels, self.n_edge_features
        low, high = np.minimum.outer(np.arange(k), np.arange(k)), np.maximum.outer(np.arange(k), np.arange(k))
        either = (high * (high + 1) // 2 + low).ravel()
        pieces, start = [], 0
        for directed in self.directed:
            one = np.arange(k * k) if directed else either
            size = k * k if directed else k * (k + 1) // 2
            pieces.append(start + (np.arange(f)[:, None] * size + one).ravel())
            start += f * size
        return np.concatenate(pieces)


def _indicators(codes: IntArray, n_codes: int, weight: FloatArray | None = None) -> csr_array | FloatArray:
    """One row for each code, with a 1 (or its weight) in its column; sparse where that is faster."""
    n = len(codes)
    entries = np.ones(n) if weight is None else weight
    if n * n_codes <= FEW:
        dense = np.zeros((n, n_codes))
        dense[np.arange(n), codes] = entries
        return dense
    return csr_array((entries, codes, np.arange(n + 1)), shape=(n, n_codes))


def _blocks(shares: FloatArray, owner: IntArray, n_groups: int) -> csr_array:
    """Row i has its shares in the block of columns of its group: (rows, groups * columns)."""
    n, k = shares.shape
    columns = owner[:, None] * k + np.arange(k)
    return csr_array((shares.ravel(), columns.ravel(), np.arange(n + 1) * k), shape=(n, n_groups * k))

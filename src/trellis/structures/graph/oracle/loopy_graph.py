"""Loopy belief propagation on graphs, the baseline: no bound, and no promise that it settles.

Messages (:mod:`.loopy_graph_kernels`) go forwards and backwards through the nodes until none changes by more
than ``tol``. Max-product decodes each node by its belief, then improves single nodes. Sum-product estimates
log Z by the Bethe free energy,

    log Z ~ <b, scores> + sum_e H(b_e) + sum_i (1 - degree of i) H(b_i).
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import InfeasibleError
from trellis.structures.graph.oracle.graph_answers import GraphMarginals, RelaxedSolution
from trellis.structures.graph.oracle.loopy_graph_kernels import edge_beliefs, propagate
from trellis.structures.graph.oracle.message_passing import improve
from trellis.structures.graph.oracle.ordered_graph import OrderedGraph
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores

DAMPING = 0.5


class _Messages:
    """Messages that have settled, or were stopped; ``total``: unary scores with all messages."""

    def __init__(self, graph: OrderedGraph, use_sum: bool, max_iter: int, tol: float) -> None:
        t = graph.topology
        shape = len(t.low), graph.unary.shape[1]
        self.to_low, self.to_high = np.zeros(shape), np.zeros(shape)
        self.total = np.empty_like(graph.unary)
        lists = t.below_start, t.below, t.above_start, t.above
        damping = 0.0 if t.is_forest else DAMPING
        self.n_iter = 0
        for self.n_iter in range(1, max_iter + 1):
            change = 0.0
            for forward in (True, False):
                change = propagate(
                    forward, use_sum, damping, graph.unary, graph.pairwise, *lists, self.to_low,
                    self.to_high, self.total,
                )  # fmt: skip
            if change <= tol:
                break
        if len(self.total) and (self.total.max(axis=1) == -np.inf).any():
            raise InfeasibleError(
                "the graph has no allowed labelling: forbidden labels and pairs leave a node without a label"
            )


def loopy_best(scores: GraphScores, max_iter: int, tol: float) -> RelaxedSolution:
    """The labels of the largest beliefs of max-product, improved by single nodes."""
    graph = OrderedGraph.of(scores)
    messages = _Messages(graph, False, max_iter, tol)
    labels = np.argmax(messages.total, axis=1).astype(np.int32)
    improve(graph, labels)
    found = graph.labels(labels)
    value = scores.score(found)
    return RelaxedSolution(found, value, np.inf, False, False, "loopy", messages.n_iter, scores)


def loopy_marginals(scores: GraphScores, max_iter: int, tol: float) -> GraphMarginals:
    """Beliefs of sum-product, and the Bethe estimate of log Z."""
    graph = OrderedGraph.of(scores)
    messages = _Messages(graph, True, max_iter, tol)
    t = graph.topology
    weights = np.exp(messages.total - messages.total.max(axis=1, keepdims=True))
    nodes = weights / weights.sum(axis=1, keepdims=True)
    edges = np.empty_like(graph.pairwise)
    edge_beliefs(graph.pairwise, t.low, t.high, messages.to_low, messages.to_high, messages.total, edges)
    if np.isnan(edges).any():
        raise InfeasibleError("belief propagation found no allowed pair of labels for an edge of the graph")
    beliefs = GraphParts(nodes, edges)
    energy = beliefs.dot(GraphScores(graph.unary, np.stack([t.low, t.high], axis=1), graph.pairwise))
    degree = np.diff(t.below_start) + np.diff(t.above_start)
    bethe = energy + _entropy(edges, (1, 2)).sum() + ((1 - degree) * _entropy(nodes, 1)).sum()
    return GraphMarginals(
        float(bethe), graph.parts(nodes, edges), t.is_forest, t.is_forest, "loopy", messages.n_iter
    )


def _entropy(shares: FloatArray, axis: int | tuple[int, ...]) -> FloatArray:
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return np.asarray(-(shares * logs).sum(axis=axis))

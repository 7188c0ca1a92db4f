"""Log-partition, marginals and samples of forests (exact), and the tree-reweighted bound of other graphs.

The bound (:mod:`.tree_reweighted_kernels`) is minimised over its shifts by L-BFGS: a smooth convex problem
whose value is an upper bound of log Z at every point. It stops when no belief of an edge about its high end
differs from that of the node by more than ``tol``. What is returned is the bound and *its own gradient* in
the scores, so that learning with it descends on a function, however early the minimisation stopped.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import InfeasibleError
from trellis.core.logspace import log_sum_exp
from trellis.core.status import Status
from trellis.structures.graph.oracle.allowed_labelling import allowed_labelling, with_feasibility
from trellis.structures.graph.oracle.graph_answers import DIRECT, NONE_ALLOWED, GraphMarginals
from trellis.structures.graph.oracle.ordered_graph import OrderedGraph
from trellis.structures.graph.oracle.tree_reweighted_kernels import downward, draw, upward
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores, Labels


class TreeBound:
    """F and its beliefs at given shifts (E, K)."""

    def __init__(self, scores: GraphScores) -> None:
        self.graph = OrderedGraph.of(scores)
        self.total = np.empty_like(self.graph.unary)
        self.nodes = np.empty_like(self.graph.unary)
        self.up = np.empty((len(self.graph.pairwise), self.graph.unary.shape[1]))
        self.edges = np.empty_like(self.graph.pairwise)
        degree = np.diff(self.graph.topology.below_start)
        self._share = 1.0 / np.maximum(degree, 1.0)

    def value(self, shift: FloatArray) -> float:
        g, t = self.graph, self.graph.topology
        lists = t.below_start, t.below, t.above_start, t.above
        bound = float(upward(g.unary, g.pairwise, t.low, *lists, shift, self.total, self.up))
        if bound == -np.inf:
            raise InfeasibleError(NONE_ALLOWED)
        return bound

    def beliefs(self, shift: FloatArray) -> None:
        """Fill ``nodes`` and ``edges``, after :meth:`value`."""
        g, t = self.graph, self.graph.topology
        lists = t.below_start, t.below
        downward(g.unary, g.pairwise, t.low, *lists, shift, self.total, self.up, self.nodes, self.edges)

    def centred(self, free: FloatArray) -> FloatArray:
        """The shifts less their mean over the edges below each node: they add up to 0."""
        high = self.graph.topology.high
        mean = np.zeros_like(self.nodes)
        np.add.at(mean, high, free * self._share[high, None])
        return np.ascontiguousarray(free - mean[high])

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """F and its gradient in the free shifts."""
        shift = self.centred(flat.reshape(self.up.shape))
        value = self.value(shift)
        self.beliefs(shift)
        return value, (self.edges.sum(axis=1) - self.nodes[self.graph.topology.high]).ravel()


def tree_marginals(scores: GraphScores) -> GraphMarginals:
    """Exact, for forests."""
    log_partition, parts = forest_marginals(scores)
    return GraphMarginals(float(log_partition[0]), parts, True, True, "tree", DIRECT)


def forest_marginals(
    scores: GraphScores, owner: IntArray | None = None, n_groups: int = 1
) -> tuple[FloatArray, GraphParts]:
    """The log-partition function of each group of trees, by the group of each node (default: one group), and
    all marginals."""
    bound = TreeBound(scores)
    shift = np.zeros_like(bound.up)
    bound.value(shift)
    bound.beliefs(shift)
    topology = bound.graph.topology
    roots = np.flatnonzero(np.diff(topology.below_start) == 0)
    of_roots = log_sum_exp(bound.total[roots], 1)
    group = np.zeros(len(roots), np.int64) if owner is None else owner[topology.order[roots]]
    log_partition: FloatArray = np.bincount(group, of_roots, n_groups).astype(np.float64)
    return log_partition, bound.graph.parts(bound.nodes, bound.edges)


def tree_reweighted(scores: GraphScores, max_iter: int, tol: float) -> GraphMarginals:
    """An upper bound of the log-partition function and its gradient."""
    bound = TreeBound(scores)
    if bound.graph.topology.is_forest:
        return tree_marginals(scores)
    labelling = allowed_labelling(scores)  # without one the bound has no minimum, and may fall for ever
    found = minimize(
        bound,
        np.zeros(bound.up.size),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "gtol": tol, "ftol": 0.0, "maxcor": 10},
    )
    value, gradient = bound(found.x)
    apart = float(np.abs(gradient).max())
    reason = f"beliefs of edges and of nodes differ by {apart:.2g} (tolerance {tol:.2g})"
    status = with_feasibility(labelling, Status(apart <= tol, reason, int(found.nit)))
    parts = bound.graph.parts(bound.nodes, bound.edges)
    return GraphMarginals(value, parts, False, True, "tree_reweighted", status)


def sample_tree(scores: GraphScores, n_samples: int, rng: np.random.Generator) -> Labels:
    """Exact samples of a forest, (n_samples, N)."""
    bound = TreeBound(scores)
    g, t = bound.graph, bound.graph.topology
    bound.value(np.zeros_like(bound.up))
    samples = np.empty((n_samples, len(g.unary)), dtype=np.int32)
    draw(g.pairwise, t.low, t.below_start, t.below, bound.total, rng.random(samples.shape), samples)
    found = np.empty_like(samples)
    found[:, t.order] = samples
    return found[:, : scores.n_nodes]

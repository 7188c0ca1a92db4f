"""The graph as kernels see it: simple, with its nodes in the order of the passes.

Passes of messages go through the nodes forwards and backwards. ``OrderedGraph`` numbers nodes by that order
(their *places*); each edge has a low and a high end, and there is at most one between two nodes: edges that
join the same nodes are added up, and an edge from a node to itself becomes part of its unary scores.

A forest is ordered from its roots outwards (breadth first), so that each node has at most one neighbour below
it: one pass backwards and one forwards are then exact. Other graphs keep the order of their nodes.

A factor over one or two nodes is a unary score or an edge. A factor over m > 2 nodes becomes a node of its
own, whose label is the labels of its nodes written as one number in base K; edges to its nodes forbid what
does not agree. That is the same problem with the same local relaxation, at K ** m labels for all nodes, so
it is meant for small K ** m.

Everything that depends on the edges alone is kept for the next question about the same graph.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import UnsupportedError
from trellis.factors.flat_factors import offsets
from trellis.factors.forest_order import forest_order
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores, HigherOrder, Labels

MOST_JOINT_LABELS = 256
KEPT_TOPOLOGIES = 512


class Topology(NamedTuple):
    """What the edges alone say. Nodes are places; arrays of edges are over simple edges, low < high."""

    order: IntArray  # (N,) the node at each place
    low: IntArray
    high: IntArray
    below_start: IntArray  # (N + 1,) edges to lower neighbours, by their high end
    below: IntArray
    above_start: IntArray  # edges to higher neighbours, by their low end
    above: IntArray
    simple_of: IntArray  # for each given edge its simple edge; -1 for an edge from a node to itself
    flipped: IntArray  # given edges whose first node is the high end
    loops: IntArray  # given edges from a node to itself
    is_forest: bool
    unchanged: bool  # given edges are the simple edges


class OrderedGraph(NamedTuple):
    """Scores of the nodes by place (N, K) and of simple edges (E, K, K) by the labels of low and high end."""

    topology: Topology
    unary: FloatArray
    pairwise: FloatArray
    given: GraphScores

    @classmethod
    def of(cls, scores: GraphScores) -> OrderedGraph:
        scores_ = as_pairwise(scores)
        topology = find_topology(scores_.n_nodes, scores_.edges)
        loops = topology.loops
        unary = scores_.unary[topology.order]
        pairwise = scores_.pairwise
        if loops.size:
            place = np.argsort(topology.order)[scores_.edges[loops, 0]]
            np.add.at(unary, place, np.diagonal(pairwise[loops], axis1=1, axis2=2))
        if not topology.unchanged:
            pairwise = np.zeros((len(topology.low), unary.shape[1], unary.shape[1]))
            straight = np.ones(len(scores_.edges), dtype=np.bool_)
            straight[topology.flipped] = straight[loops] = False
            np.add.at(pairwise, topology.simple_of[straight], scores_.pairwise[straight])
            turned = scores_.pairwise[topology.flipped].transpose(0, 2, 1)
            np.add.at(pairwise, topology.simple_of[topology.flipped], turned)
        return cls(topology, unary, pairwise, scores)

    def labels(self, at_places: Labels) -> Labels:
        """The labels of the given nodes from those of the places."""
        found = np.empty_like(at_places)
        found[self.topology.order] = at_places
        return found[: self.given.n_nodes]

    def places(self, labels: Labels) -> Labels:
        """The labels of the places from those of the nodes; of nodes that stand for factors, too."""
        joint = [
            int(np.ravel_multi_index(labels[list(f.nodes)], f.table.shape)) for f in wide_factors(self.given)
        ]
        return np.concatenate([labels, np.array(joint, dtype=np.int32)])[self.topology.order]

    def parts(self, nodes: FloatArray, edges: FloatArray) -> GraphParts:
        """Marginals of places and simple edges as those of the parts that were given."""
        topology, scores, k = self.topology, self.given, self.given.n_labels
        unary = np.empty_like(nodes)
        unary[topology.order] = nodes
        n_edges = len(scores.edges)
        turned, loops = topology.flipped, topology.loops
        if topology.unchanged:
            pairwise = edges
        else:
            pairwise = np.zeros((len(topology.simple_of), *edges.shape[1:]))
            joined = topology.simple_of >= 0
            pairwise[joined] = edges[topology.simple_of[joined]]
            pairwise[turned] = pairwise[turned].transpose(0, 2, 1)
            diagonal = np.arange(edges.shape[1])
            pairwise[loops[:, None], diagonal, diagonal] = unary[scores.edges[loops, 0]]
        tables, edge, joint = [], n_edges, scores.n_nodes
        for f in scores.factors:
            if len(f.nodes) == 1:
                tables.append(unary[f.nodes[0], :k].copy())
            elif len(f.nodes) == 2:
                tables.append(pairwise[edge, :k, :k].copy())
                edge += 1
            else:
                tables.append(unary[joint, : f.table.size].reshape(f.table.shape))
                joint += 1
        return GraphParts(unary[: scores.n_nodes, :k], pairwise[:n_edges, :k, :k], tuple(tables))


def wide_factors(scores: GraphScores) -> list[HigherOrder]:
    """The factors over more than two nodes."""
    return [f for f in scores.factors if len(f.nodes) > 2]


def as_pairwise(scores: GraphScores) -> GraphScores:
    """The same problem without factors: edges for pairs, then nodes and edges for wide ones, in order."""
    if not scores.factors:
        return scores
    n, k = scores.unary.shape
    broad = wide_factors(scores)
    size = max([k, *(f.table.size for f in broad)])
    if size > max(k, MOST_JOINT_LABELS):
        raise UnsupportedError(
            f"a factor over {max(len(f.nodes) for f in broad)} nodes has {size:,} joint labels, and passing "
            f"messages takes at most {MOST_JOINT_LABELS}; use method='junction_tree' or 'lp'"
        )
    pairs = [f for f in scores.factors if len(f.nodes) == 2]
    unary = np.full((n + len(broad), size), -np.inf)
    unary[:n, :k] = scores.unary
    for f in scores.factors:
        if len(f.nodes) == 1:
            unary[f.nodes[0], :k] += f.table
    edges = [tuple(edge) for edge in scores.edges.tolist()] + [f.nodes for f in pairs]
    n_pairs = len(edges)
    for joint, f in enumerate(broad, start=n):
        unary[joint, : f.table.size] = f.table.ravel()
        edges += [(node, joint) for node in f.nodes]
    pairwise = np.zeros((len(edges), size, size))
    pairwise[: len(scores.edges), :k, :k] = scores.pairwise
    for e, f in enumerate(pairs, start=len(scores.edges)):
        pairwise[e, :k, :k] = f.table
    pairwise[n_pairs:] = -np.inf
    e = n_pairs
    for f in broad:
        digits = np.unravel_index(np.arange(f.table.size), f.table.shape)
        for digit in digits:
            pairwise[e, digit, np.arange(f.table.size)] = 0.0
            e += 1
    return GraphScores(unary, np.array(edges, dtype=np.int64).reshape(-1, 2), pairwise)


def find_topology(n_nodes: int, edges: IntArray) -> Topology:
    """The topology of these edges, from memory if it was asked for before."""
    return _topology(n_nodes, np.ascontiguousarray(edges).tobytes())


@lru_cache(maxsize=KEPT_TOPOLOGIES)
def _topology(n: int, edge_bytes: bytes) -> Topology:
    edges = np.frombuffer(edge_bytes, dtype=np.int64).reshape(-1, 2)
    proper = edges[edges[:, 0] != edges[:, 1]]
    joined = np.unique(proper.min(axis=1) * n + proper.max(axis=1))
    outwards = forest_order(n, joined // max(n, 1), joined % max(n, 1))
    order = np.arange(n) if outwards is None else outwards
    place = np.argsort(order)
    a, b = place[edges[:, 0]], place[edges[:, 1]]
    codes = np.where(a == b, -1, np.minimum(a, b) * n + np.maximum(a, b))
    simple, inverse = np.unique(codes[codes >= 0], return_inverse=True)
    simple_of = np.full(len(edges), -1, dtype=np.int64)
    simple_of[codes >= 0] = inverse
    unchanged = bool((a < b).all()) and len(simple) == len(edges)
    if unchanged:  # keep the given order of edges: their scores need not be copied
        low, high, simple_of = a, b, np.arange(len(edges))
    else:
        low, high = simple // max(n, 1), simple % max(n, 1)
    below_start, below = _lists(high, n)
    above_start, above = _lists(low, n)
    return Topology(
        order, low, high, below_start, below, above_start, above, simple_of,
        np.flatnonzero(a > b), np.flatnonzero(a == b), outwards is not None, unchanged,
    )  # fmt: skip


def _lists(ends: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """The edges of each node by one of their ends: where its list starts, and the lists."""
    return offsets(np.bincount(ends, minlength=n)), np.argsort(ends, kind="stable").astype(np.int64)

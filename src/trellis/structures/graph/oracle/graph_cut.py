"""Binary graphs whose edges prefer equal labels (submodular): the best labelling is a minimum cut.

With two labels a simple edge splits into a constant, two unary parts and one arc,

    pairwise(0,0) + pairwise(1,1) - pairwise(0,1) - pairwise(1,0) = c >= 0       cost c for labels (1, 0),

and what is left of the unary scores are arcs from the source (label 0) and to the sink (label 1). The largest
score is a constant less the capacity of the minimum cut.

**Rounding.** SciPy's maximum flow counts in 32-bit whole numbers. Capacities are scaled so that what can
flow at all fits, and rounded *down*; what is left of them is scaled up and solved again, round after round. A
flow of rounded-down capacities is a flow of the true ones, so that constant - flow is an upper bound at any
time, and the cut found gives a labelling. The gap between the two is what is left of the arcs of the cut: at
most (arcs of the cut) / scale of the last round. Rounds end once it is below 1e-12 of what can flow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.core.status import Status
from trellis.structures.graph.oracle.graph_answers import NONE_ALLOWED, RelaxedSolution
from trellis.structures.graph.oracle.message_passing import is_closed
from trellis.structures.graph.oracle.ordered_graph import OrderedGraph, wide_factors
from trellis.structures.graph.scores.graph_scores import GraphScores

LARGEST = 2**29  # capacity: SciPy wraps around, without a word, above 2 ** 31
ROUNDS = 8
NEGLIGIBLE = 1e-12
ROUNDING = 1e-15  # of the sum of an edge's scores: four roundings


class _Network(NamedTuple):
    """Arcs, then the same arcs turned round with capacity 0; source and sink come after the nodes."""

    tail: IntArray
    head: IntArray
    capacity: FloatArray
    constant: float
    n_nodes: int


def is_binary_submodular(scores: GraphScores) -> bool:
    """Two labels, no factors over more than two nodes, and every edge at least as fond of equal labels."""
    if scores.n_labels != 2 or wide_factors(scores):
        return False
    return bool(_submodular(OrderedGraph.of(scores).pairwise).all())


def _submodular(pairwise: FloatArray) -> NDArray[np.bool_]:
    """Which edges are, to rounding: scores that are a sum over the ends just are. A forbidden pair
    of equal labels is only where a pair of unequal ones is, too."""
    with np.errstate(invalid="ignore"):
        equal = pairwise[:, 0, 0] + pairwise[:, 1, 1]
        unequal = pairwise[:, 0, 1] + pairwise[:, 1, 0]
        size = np.where(np.isfinite(pairwise), np.abs(pairwise), 0.0).sum(axis=(1, 2))
        fits = (equal >= unequal) | (unequal - equal <= ROUNDING * size)
    return np.asarray(fits & (equal > -np.inf))


def max_flow(scores: GraphScores, tol: float) -> RelaxedSolution:
    """A best labelling of a binary submodular graph."""
    if scores.n_labels != 2 or wide_factors(scores):
        raise UnsupportedError(
            f"method='max_flow' needs 2 labels and no factors over more than two nodes (there are "
            f"{scores.n_labels} labels and {len(wide_factors(scores))} such factors); use "
            "method='message_passing'"
        )
    graph = OrderedGraph.of(scores)
    fits = _submodular(graph.pairwise)
    if not fits.all():
        e = int(np.flatnonzero(~fits)[0])
        ends = graph.topology.order[[graph.topology.low[e], graph.topology.high[e]]].tolist()
        raise UnsupportedError(
            f"the edge between nodes {ends[0]} and {ends[1]} prefers unequal labels, so a minimum cut does "
            "not solve it; use method='message_passing', 'lp' or 'junction_tree'"
        )
    network = _network(graph)
    flow, side, n_rounds = _minimum_cut(network)
    labels = graph.labels(np.where(side, 0, 1).astype(np.int32))
    value = scores.score(labels)
    if value == -np.inf:
        raise InfeasibleError(NONE_ALLOWED)
    bound = max(network.constant - flow, value)
    exact = is_closed(bound, value, tol)
    status = Status(exact, f"the gap between cut and flow is {bound - value:.2g}", n_rounds)
    return RelaxedSolution(labels, value, bound, True, exact, "max_flow", status, scores)


def _network(graph: OrderedGraph) -> _Network:
    """cost = constant - score as arcs. Forbidden entries cost more than everything else together."""
    unary, pairwise = graph.unary, graph.pairwise
    finite = [part[part > -np.inf] for part in (unary, pairwise)]
    forbidden = -2.0 * (1.0 + sum(float(np.abs(part).sum()) for part in finite))
    u = np.where(unary > -np.inf, unary, forbidden)
    p = np.where(pairwise > -np.inf, pairwise, forbidden)
    low, high = graph.topology.low, graph.topology.high
    n, n_edges = len(u), len(low)
    # pairwise(z, x) = p(1,1) + (p(0,1) - p(1,1)) [z = 0] + (p(0,0) - p(0,1)) [x = 0] - c [z = 1, x = 0] holds
    # with c = p(0,0) + p(1,1) - p(0,1) - p(1,0)
    c = np.maximum(p[:, 0, 0] + p[:, 1, 1] - p[:, 0, 1] - p[:, 1, 0], 0.0)
    gain = u[:, 0] - u[:, 1]  # of label 0 over label 1
    np.add.at(gain, low, p[:, 0, 1] - p[:, 1, 1])
    np.add.at(gain, high, p[:, 0, 0] - p[:, 0, 1])
    constant = float(u[:, 1].sum() + p[:, 1, 1].sum() + np.maximum(gain, 0.0).sum())
    nodes = np.arange(n)
    tail = np.concatenate([np.full(n, n), nodes, high])  # source to node, node to sink, (x = 0) to (z = 1)
    head = np.concatenate([nodes, np.full(n, n + 1), low])
    capacity = np.concatenate([np.maximum(gain, 0.0), np.maximum(-gain, 0.0), c])
    n_arcs = 2 * n + n_edges
    both = np.concatenate([tail, head]), np.concatenate([head, tail])
    return _Network(*both, np.concatenate([capacity, np.zeros(n_arcs)]), constant, n)


def _minimum_cut(network: _Network) -> tuple[float, NDArray[np.bool_], int]:
    """The flow, the nodes on the side of the source (label 0), and the number of rounds."""
    n = network.n_nodes
    left = network.capacity.copy()
    ends = left[network.tail == n].sum(), left[network.head == n + 1].sum()
    total = remaining = float(min(ends))  # what can still flow, at most
    flow, n_rounds = 0.0, 0
    side = _reached(network, left > 0.0)
    while n_rounds < ROUNDS and remaining > NEGLIGIBLE * total:
        n_rounds += 1
        scale = LARGEST / (2.0 * remaining)
        # an arc that carries twice of what can flow is never full, so more than that need not fit
        whole = np.floor(np.minimum(left, 2.0 * remaining) * scale).astype(np.int32)
        sent = _whole_flow(network, whole)
        flow += float(sent[network.tail == n].sum() / scale)
        left = np.maximum(left - sent / scale, 0.0)
        side = _reached(network, whole > sent)
        remaining = float(left[side[network.tail] & ~side[network.head]].sum())
    return flow, side[:n], n_rounds


def _whole_flow(network: _Network, whole: NDArray[np.int32]) -> IntArray:
    """The maximum flow of each arc; a node before the source bounds the sum of the source's arcs."""
    n = network.n_nodes
    tail, head = np.append(network.tail, n + 2), np.append(network.head, n)
    arcs = tail.astype(np.int32), head.astype(np.int32)  # older versions of SciPy take no others
    graph = csr_array((np.append(whole, LARGEST), arcs), shape=(n + 3, n + 3), dtype=np.int32)
    found = maximum_flow(graph, n + 2, n + 1)
    return np.asarray(found.flow[network.tail, network.head], dtype=np.int64).ravel()


def _reached(network: _Network, is_open: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which nodes the source reaches along open arcs."""
    n = network.n_nodes
    arcs = network.tail[is_open].astype(np.int32), network.head[is_open].astype(np.int32)
    graph = csr_array((np.ones(len(arcs[0])), arcs), shape=(n + 2, n + 2))
    side = np.zeros(n + 2, dtype=np.bool_)
    side[breadth_first_order(graph, n, return_predecessors=False)] = True
    return side

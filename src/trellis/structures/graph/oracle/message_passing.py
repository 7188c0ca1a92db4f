"""Message passing with an upper bound that never rises (TRW-S), exact forests, iterated conditional modes.

``message_passing`` goes forwards and backwards (:mod:`.message_passing_kernels`) until the gap is closed, the
bound stops falling, or ``max_iter`` is reached. The bound converges to a value that no such pass can lower,
which is at least the maximum over the local polytope and often equal to it. Each pass decodes a labelling;
each is improved by single nodes, and the best of them, if the gap is still open, by whole forests
(:mod:`.forest_move_kernels`). Memory: 2 E K numbers beside the scores.

On a forest one pass backwards and one forwards are exact (``tree``): Viterbi's algorithm.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import InfeasibleError
from trellis.core.status import Status
from trellis.structures.graph.oracle.allowed_labelling import NOT_ESTABLISHED, allowed_labelling
from trellis.structures.graph.oracle.forest_move_kernels import forest_move
from trellis.structures.graph.oracle.graph_answers import DIRECT, NONE_ALLOWED, RelaxedSolution
from trellis.structures.graph.oracle.message_passing_kernels import descend, score_labels, sweep
from trellis.structures.graph.oracle.ordered_graph import OrderedGraph
from trellis.structures.graph.scores.graph_scores import GraphScores, Labels

FORESTS = 20
FOREST_PATIENCE = 5  # forests in a row that gain nothing
STANDSTILL = 5  # iterations without progress of the bound
ICM_SWEEPS = 1000


class Passes:
    """The messages of an ordered graph and the bounds after each pass."""

    def __init__(self, graph: OrderedGraph) -> None:
        self.graph = graph
        n_edges, k = len(graph.topology.low), graph.unary.shape[1]
        self.to_low, self.to_high = np.zeros((n_edges, k)), np.zeros((n_edges, k))
        self.labels = np.zeros(len(graph.unary), dtype=np.int32)
        self.total = np.empty_like(graph.unary)

    def forward(self) -> float:
        """A pass through the nodes from the first to the last; the bound."""
        t = self.graph.topology
        edges = t.low, t.below_start, t.below, t.above_start, t.above
        return self._pass(True, edges, self.to_high, self.to_low)

    def backward(self) -> float:
        """A pass from the last node to the first; the bound."""
        t = self.graph.topology
        edges = t.high, t.above_start, t.above, t.below_start, t.below
        return self._pass(False, edges, self.to_low, self.to_high)

    def _pass(
        self, forward: bool, edges: tuple[IntArray, ...], from_in: FloatArray, to_out: FloatArray
    ) -> float:
        g = self.graph
        messages = from_in, to_out, self.labels, self.total
        bound = sweep(forward, g.topology.is_forest, g.unary, g.pairwise, *edges, *messages)
        if bound == -np.inf:
            raise InfeasibleError(NONE_ALLOWED)
        return float(bound)


def message_passing(
    scores: GraphScores, max_iter: int, tol: float, bounds: list[float] | None = None
) -> RelaxedSolution:
    """The best labelling found and an upper bound; ``bounds`` collects the bound after each pass."""
    graph = OrderedGraph.of(scores)
    passes = Passes(graph)
    best, value, bound = passes.labels.copy(), -np.inf, np.inf
    still, n_iter = 0, 0
    while n_iter < max_iter:
        n_iter += 1
        before = bound
        for one_pass in (passes.forward, passes.backward):
            after = one_pass()
            bound = min(bound, after)  # they fall but for rounding
            if bounds is not None:
                bounds.append(after)
            labels = passes.labels.copy()
            improve_places(graph, labels)
            score = score_places(graph, labels)
            if score > value:
                best, value = labels, score
        still = still + 1 if before - bound <= tol * max(1.0, abs(bound)) / 50 else 0
        if is_closed(bound, value, tol) or still >= STANDSTILL:
            break
    if value == -np.inf:
        found = allowed_labelling(scores, graph.labels(best))
        best = best if found is None else graph.places(found)
    if not is_closed(bound, value, tol):
        move_forests(graph, best)
    labels = graph.labels(best)
    value = scores.score(labels)
    closed = is_closed(bound, value, tol)
    reason = "the gap is closed" if closed else "the bound stands still"
    if not closed and still < STANDSTILL:
        reason = f"the gap is {bound - value:.2g}, and the bound still falls; raise max_iter"
    status = Status(closed or still >= STANDSTILL, reason, n_iter)
    if value == -np.inf:
        status = Status(False, NOT_ESTABLISHED, n_iter)
    return RelaxedSolution(
        labels, value, max(bound, value), closed, closed, "message_passing", status, scores
    )


def is_closed(bound: float, value: float, tol: float) -> bool:
    """Whether the gap is closed to a tolerance; never where no allowed labelling is known."""
    return value > -np.inf and bound - value <= tol * max(1.0, abs(value))


def tree(scores: GraphScores) -> RelaxedSolution:
    """A best labelling of a forest; ties go to smaller labels, from the roots outwards."""
    graph = OrderedGraph.of(scores)
    passes = Passes(graph)
    passes.backward()
    passes.forward()
    labels = graph.labels(passes.labels)
    value = scores.score(labels)
    return RelaxedSolution(labels, value, value, True, True, "tree", DIRECT, scores)


def icm(scores: GraphScores, start: Labels | None = None) -> RelaxedSolution:
    """A labelling that no change of a single node improves, from the best label of each node by itself."""
    graph = OrderedGraph.of(scores)
    labels = np.argmax(graph.unary, axis=1).astype(np.int32) if start is None else graph.places(start)
    n_sweeps = improve_places(graph, labels)
    status = Status(n_sweeps < ICM_SWEEPS, f"{n_sweeps} of at most {ICM_SWEEPS} sweeps", n_sweeps)
    found, value, status = settle_labels(scores, graph.labels(labels), status)
    return RelaxedSolution(found, value, np.inf, False, False, "icm", status, scores)


def settle_labels(scores: GraphScores, labels: Labels, status: Status) -> tuple[Labels, float, Status]:
    """The labels, their score and the status; in place of forbidden labels an allowed labelling near them,
    improved by single nodes. If none is found, the status says so; where there is none, this raises."""
    value = scores.score(labels)
    if value > -np.inf:
        return labels, value, status
    found = allowed_labelling(scores, labels)
    if found is None:
        return labels, value, Status(False, f"{status.reason}; {NOT_ESTABLISHED}", status.n_iter)
    found = improve_labels(scores, found)
    return found, scores.score(found), status


def improved(found: RelaxedSolution, tol: float) -> RelaxedSolution:
    """A solution with better labels for whole forests, exact if that closes the gap to its bound."""
    graph = OrderedGraph.of(found.scores)
    places = graph.places(found.labels)
    move_forests(graph, places)
    labels = graph.labels(places)
    value = found.scores.score(labels)
    bound, closed = max(found.bound, value), is_closed(found.bound, value, tol)
    return replace(found, labels=labels, value=value, bound=bound, exact=closed, integral=closed)


def improve_labels(scores: GraphScores, labels: Labels) -> Labels:
    """A labelling with single nodes moved to better labels."""
    graph = OrderedGraph.of(scores)
    places = graph.places(labels)
    improve_places(graph, places)
    return graph.labels(places)


def improve_places(graph: OrderedGraph, labels: Labels) -> int:
    """Single nodes to better labels, in place; the number of passes."""
    t = graph.topology
    lists = t.below_start, t.below, t.above_start, t.above
    return int(descend(graph.unary, graph.pairwise, t.low, t.high, *lists, labels, ICM_SWEEPS))


def move_forests(graph: OrderedGraph, labels: Labels) -> None:
    """Better labels for whole forests (:mod:`.forest_move_kernels`), in place; orders from a fixed seed."""
    t = graph.topology
    rng = np.random.default_rng(0)
    lists = t.below_start, t.below, t.above_start, t.above
    value, still = score_places(graph, labels), 0
    for _ in range(FORESTS):
        order = rng.permutation(len(labels))
        forest_move(graph.unary, graph.pairwise, t.low, t.high, *lists, order, labels)
        before, value = value, score_places(graph, labels)
        still = 0 if value > before else still + 1
        if still == FOREST_PATIENCE:
            break


def score_places(graph: OrderedGraph, labels: Labels) -> float:
    """The score of the labels of the places."""
    t = graph.topology
    return float(score_labels(graph.unary, graph.pairwise, t.low, t.high, labels))

"""Small graphs, many at a time: exact answers about a union of graphs in a few compiled calls.

A union of forests is a forest: one pass backwards and one forwards find the best labellings of all of them,
and their marginals. Small graphs with cycles are enumerated, where they have few labellings. Python then
costs as much for a thousand graphs as for one. The answers are those of the exact methods of
:mod:`trellis.structures.graph.oracle.graph_oracle`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import InfeasibleError
from trellis.structures.graph.oracle.graph_answers import (
    DIRECT,
    NONE_ALLOWED,
    GraphMarginals,
    RelaxedSolution,
)
from trellis.structures.graph.oracle.message_passing import tree
from trellis.structures.graph.oracle.tree_reweighted import forest_marginals
from trellis.structures.graph.oracle.unions.enumeration_kernels import enumerate_best, enumerate_sums
from trellis.structures.graph.scores.graph_features import Graph
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores, Labels
from trellis.structures.graph.scores.graph_union import GraphUnion

METHODS = {"auto": (True, True), "junction_tree": (True, True), "tree": (True, False)}  # forests, cycles
MOST_NODES = 512  # of a graph that still counts as small
MOST_LABELLINGS = 4096  # of a graph that is enumerated: half a millisecond
PACK = 2**14  # nodes of a union: what threads share out, however many of them there are


@dataclass(frozen=True, eq=False)
class SmallGraphs:
    """Graphs that are answered together; ``indices`` are their numbers among all graphs."""

    indices: IntArray
    union: GraphUnion
    forests: bool

    def best_labels(self, scores: GraphScores) -> Labels:
        """The best labelling of each graph, end to end, given the scores of the union."""
        if self.forests:
            return tree(scores).labels
        labels, values = np.zeros(scores.n_nodes, dtype=np.int32), np.empty(len(self.union))
        enumerate_best(*self._arrays(scores), labels, values)
        self._check(values)
        return labels

    def sums(self, scores: GraphScores) -> tuple[FloatArray, GraphParts]:
        """log sum exp of the scores of each graph, and the marginals of all nodes and edges."""
        if self.forests:
            return forest_marginals(scores, self.union.node_owner, len(self.union))
        log_sums, nodes = np.empty(len(self.union)), np.zeros_like(scores.unary)
        pairs, room = np.zeros_like(scores.pairwise), int(np.diff(self.union.node_start).max(initial=0))
        enumerate_sums(*self._arrays(scores), log_sums, nodes, pairs, scores.n_labels**room)
        self._check(log_sums)
        return log_sums, GraphParts(nodes, pairs)

    def solutions(self, scores: GraphScores) -> list[RelaxedSolution]:
        """The best labelling of each graph, as ``GraphInference.best`` gives it."""
        labels = self.best_labels(scores)
        values, method = (
            self.union.score_each(scores, labels).tolist(),
            "tree" if self.forests else "enumeration",
        )
        return [
            RelaxedSolution(y, value, value, True, True, method, DIRECT, one)
            for y, value, one in zip(self.split(labels), values, self._scores_of_each(scores), strict=True)
        ]

    def marginals(self, scores: GraphScores) -> list[GraphMarginals]:
        """The sums of each graph, as ``GraphInference.marginals`` gives them."""
        log_sums, parts = self.sums(scores)
        pairs = np.split(parts.pairwise, self.union.edge_start[1:-1])
        method = "tree" if self.forests else "enumeration"
        return [
            GraphMarginals(log_sum, GraphParts(u, p), True, True, method, DIRECT)
            for log_sum, u, p in zip(log_sums.tolist(), self.split(parts.unary), pairs, strict=True)
        ]

    def split(self, of_nodes: NDArray[Any]) -> list[NDArray[Any]]:
        """What there is for each node, by graph."""
        return np.split(of_nodes, self.union.node_start[1:-1])

    def _scores_of_each(self, scores: GraphScores) -> Iterator[GraphScores]:
        union = self.union
        edges = np.split(scores.edges - union.node_start[union.edge_owner][:, None], union.edge_start[1:-1])
        pairs = np.split(scores.pairwise, union.edge_start[1:-1])
        for u, e, p in zip(self.split(scores.unary), edges, pairs, strict=True):
            yield GraphScores(u, e, p)

    def _arrays(self, scores: GraphScores) -> tuple[IntArray | FloatArray, ...]:
        union = self.union
        return union.node_start, union.edge_start, scores.edges, scores.unary, scores.pairwise

    def _check(self, values: FloatArray) -> None:
        bad = np.flatnonzero(values == -np.inf)
        if bad.size:
            raise InfeasibleError(f"graph {self.indices[bad[0]]}: {NONE_ALLOWED}")


def small_graphs(
    method: str, graphs: Sequence[Graph], n_labels: int, first: int = 0
) -> tuple[list[SmallGraphs], list[int]]:
    """The small ones among graphs in unions, and the numbers of the others, if ``method`` is exact.

    ``first``: the number of the first graph.
    """
    sizes = np.array([graph.n_nodes for graph in graphs], dtype=np.int64)
    trees, cycles = METHODS.get(method, (False, False))
    small = np.flatnonzero((sizes <= MOST_NODES) & trees)
    if len(small) < 2:
        return [], list(range(first, first + len(graphs)))
    forest = np.zeros(len(graphs), dtype=np.bool_)
    forest[small] = GraphUnion.of([graphs[i] for i in small.tolist()]).are_forests
    few = sizes * np.log(max(n_labels, 1)) <= np.log(MOST_LABELLINGS)
    packs: list[SmallGraphs] = []
    together = np.zeros(len(graphs), dtype=np.bool_)
    for kind, chosen in ((True, forest), (False, few & ~forest & cycles)):
        numbers = np.flatnonzero(chosen)
        for part in (numbers[run] for run in split_into_runs(sizes[numbers])):
            if len(part) > 1:
                packs.append(
                    SmallGraphs(first + part, GraphUnion.of([graphs[i] for i in part.tolist()]), kind)
                )
                together[part] = True
    return packs, (first + np.flatnonzero(~together)).tolist()


def split_into_runs(sizes: Sequence[int] | IntArray) -> list[IntArray]:
    """The numbers of graphs of these sizes in runs of about ``PACK`` nodes."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // PACK)) + 1
    return np.split(np.arange(len(sizes)), cuts)

"""Small graphs of a problem, answered together: their unions with gold labels and costs, and their oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.oracle import Answers
from trellis.structures.graph.oracle.unions.small_graphs import SmallGraphs
from trellis.structures.graph.problem.graph_example import GraphExample
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores, Labels
from trellis.structures.graph.scores.graph_union import GraphUnion
from trellis.structures.graph.scores.linear_graph import GraphLayout


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Examples whose graphs are ``graphs``, in their order."""

    graphs: SmallGraphs
    examples: Sequence[GraphExample]

    @property
    def indices(self) -> IntArray:
        return self.graphs.indices

    @cached_property
    def latent(self) -> bool:
        return any(example.latent for example in self.examples)

    @cached_property
    def gold(self) -> Labels:
        """(N,) as those of the examples, end to end."""
        return np.concatenate([example.gold for example in self.examples])

    @cached_property
    def gold_mask(self) -> NDArray[np.bool_]:
        return np.concatenate([example.gold_mask for example in self.examples])

    @cached_property
    def costs(self) -> FloatArray:
        return np.concatenate([example.costs for example in self.examples])


class GraphBatchOracle:
    """The graphs of a batch at given weights."""

    def __init__(self, batch: GraphBatch, layout: GraphLayout, weights: FloatArray) -> None:
        self._batch, self._layout, self._union = batch, layout, batch.graphs.union
        self._scores = layout.scores(self._union.graph, weights)

    def best(self, scale: float) -> Answers:
        scores = self._with_loss(scale)
        return self._of_labels(scores, self._batch.graphs.best_labels(scores))

    def sum(self, scale: float) -> Answers:
        return self._of_sums(self._with_loss(scale))

    def gold_best(self) -> Answers:
        if not self._batch.latent:
            return self._of_labels(self._scores, self._batch.gold)
        scores = self._scores.restricted(self._batch.gold_mask)
        return self._of_labels(scores, self._batch.graphs.best_labels(scores))

    def gold_sum(self) -> Answers:
        if not self._batch.latent:
            return self.gold_best()
        return self._of_sums(self._scores.restricted(self._batch.gold_mask))

    def _with_loss(self, scale: float) -> GraphScores:
        return self._scores if scale == 0.0 else self._scores.plus_cost(self._batch.costs, scale)

    def _of_labels(self, scores: GraphScores, labels: Labels) -> Answers:
        layout, union = self._layout, self._union
        costs = self._batch.costs[np.arange(len(labels)), labels]

        def combined(c: FloatArray) -> FloatArray:
            return layout.of_labels(union.graph, labels, c[union.node_owner], c[union.edge_owner])

        values = union.score_each(scores, labels)
        return Answers(values, union.totals(costs), combined, lambda: layout.rows_of_labels(union, labels))

    def _of_sums(self, scores: GraphScores) -> Answers:
        return answers_of_parts(self._layout, self._union, *self._batch.graphs.sums(scores))


def answers_of_parts(
    layout: GraphLayout, union: GraphUnion, values: FloatArray, parts: GraphParts
) -> Answers:
    """Values of the graphs of a union, with the sums of features of their parts."""

    def combined(c: FloatArray) -> FloatArray:
        nodes, pairs = c[union.node_owner][:, None], c[union.edge_owner][:, None, None]
        return layout.of_parts(union.graph, GraphParts(nodes * parts.unary, pairs * parts.pairwise))

    return Answers(values, np.zeros(len(values)), combined, lambda: layout.rows_of_parts(union, parts))

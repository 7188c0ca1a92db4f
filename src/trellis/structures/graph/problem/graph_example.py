"""``GraphExample``: one graph of a problem, with what is known of its labels and what labels cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.structures.graph.oracle.graph_oracle import GraphInference, Route
from trellis.structures.graph.scores.graph_features import Graph
from trellis.structures.graph.scores.graph_scores import GraphScores, Labels
from trellis.structures.graph.scores.linear_graph import GraphLayout


@dataclass(frozen=True, eq=False)
class GraphExample:
    """``gold``: (N,) labels, -1 where not known. ``allowed``: (N, K) which labels the nodes may have then;
    default: a node that is not known may have any. ``cost``: (N, K) of the loss; default: none is wrong.
    ``name`` is for messages."""

    graph: Graph
    gold: Labels
    n_labels: int
    allowed: NDArray[np.bool_] | None = None
    cost: FloatArray | None = None
    name: str = "a graph"
    _features: dict[GraphLayout, FloatArray] = field(default_factory=dict, repr=False)
    _routes: dict[tuple[GraphInference, bool], Route] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        n = self.graph.n_nodes
        if self.gold.shape != (n,):
            raise DataError(f"{self.name} has {n} nodes, but labels of shape {self.gold.shape}")
        if n and not (self.gold.min() >= -1 and self.gold.max() < self.n_labels):
            raise DataError(f"{self.name} has labels outside 0 to {self.n_labels - 1} (-1: not known)")
        for what, table in (("allowed labels", self.allowed), ("costs", self.cost)):
            if table is not None and table.shape != (n, self.n_labels):
                raise DataError(
                    f"the {what} of {self.name} have shape {table.shape}; they must have {(n, self.n_labels)}"
                )

    @cached_property
    def latent(self) -> bool:
        return bool((self.gold < 0).any())

    @cached_property
    def gold_mask(self) -> NDArray[np.bool_]:
        """(N, K) the labels that agree with what is known."""
        mask: NDArray[np.bool_] = self.gold[:, None] == np.arange(self.n_labels)
        unknown = self.gold < 0
        mask[unknown] = True if self.allowed is None else self.allowed[unknown]
        return mask

    @cached_property
    def costs(self) -> FloatArray:
        return np.zeros((self.graph.n_nodes, self.n_labels)) if self.cost is None else self.cost

    def gold_features(self, layout: GraphLayout) -> FloatArray:
        """Phi(x, y*) of labels that are all known; kept, because every evaluation asks for it."""
        if layout not in self._features:
            self._features[layout] = layout.of_labels(self.graph, self.gold)
        return self._features[layout]

    def route(self, inference: GraphInference, scores: GraphScores, *, gold: bool = False) -> Route | None:
        """How "auto" solves the graph, found once; ``gold``: with labels restricted to what is known."""
        if inference.method != "auto":
            return None
        if (inference, gold) not in self._routes:
            self._routes[inference, gold] = inference.route(scores)
        return self._routes[inference, gold]

    def loss_of(self, labels: Labels) -> float:
        return float(self.costs[np.arange(len(labels)), labels].sum())

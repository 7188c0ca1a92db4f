"""Learning the weights of graphs: labelled graphs, an objective and a loss as a problem.

The sum over graphs, the objectives and their scaling are those of :mod:`trellis.objectives.example_problem`;
here y is a labelling of the nodes and L a loss that adds up over them. Nodes whose label is not known are
hidden: y* is then the set of the labellings that agree with what is known.

What the answers of an inference method mean for learning:

* An exact one ("tree", "junction_tree", "max_flow") makes the objectives what they are for chains.
* "lp" maximises over the local polytope, a set R that contains the labellings. max over R is an upper bound
  and convex in w, so the margin objective

      f(w) = max_{r in R} (s(r) + L(r)) - s(y*)  >=  max_y (s(y) + L(y)) - s(y*)

  keeps its certificate: the duality gap is that of the relaxed objective, whose value bounds the true one
  from above. L(r) is the expected loss of rounding r at random, sum_i <cost_i, r_i>. The direct objective is
  w <- w + eta (Phi(r_direct) - Phi(r_hat)), differences of relaxed parts: it descends on the loss of the
  relaxed answers themselves.
* "message_passing", "icm" and "loopy" answer with a labelling, perhaps not the best one. Its plane lies below
  the true objective all the same, so the dual bound of a solver holds for the *true* objective; what the
  primal may lack is at most sum_i c_i (bound_i - value_i), :meth:`GraphProblem.excess`.
* Sums by "tree_reweighted" are an upper bound of log Z, convex in w, with its own gradient; "loopy" sums are
  neither a bound nor convex.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.oracle import Answer, Oracle
from trellis.losses.labelings import Loss
from trellis.objectives.example_problem import ExampleProblem
from trellis.structures.graph.oracle.graph_answers import RelaxedSolution
from trellis.structures.graph.oracle.graph_oracle import GraphInference, Route
from trellis.structures.graph.oracle.rounding import expected_loss
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


@dataclass(frozen=True, eq=False)
class GraphProblem(ExampleProblem[GraphExample, Loss]):
    layout: GraphLayout = field(kw_only=True)
    inference: GraphInference = field(default_factory=GraphInference, kw_only=True)

    structure = "graphs"
    noun = "graph"

    def __post_init__(self) -> None:
        super().__post_init__()
        for example in self.examples:
            self.layout.check(example.graph, example.name)

    @property
    def dimension(self) -> int:
        return self.layout.dimension

    @property
    def latent(self) -> bool:
        return any(example.latent for example in self.examples)

    @property
    def convex(self) -> bool:
        bethe = not self.objective.two_labelings and self.inference.method == "loopy"
        return super().convex and not bethe

    def oracle(self, index: int, weights: FloatArray) -> Oracle:
        return GraphOracle(self, index, weights)

    def excess(self, weights: FloatArray) -> float:
        """How far the true objective can be from what the answers say: sum_i c_i (bound_i - value_i), through
        the link, of the loss-augmented questions that were not answered exactly, and of those about the best
        gold labelling where labels are hidden.

        With relaxed answers it is at most that much smaller, with labellings at most that much larger, with
        hidden labels either; 0 proves that all answers are exact, to the tolerance of inference."""
        return float(np.dot(self.over_examples(lambda i: self._excess(i, weights)), self.sample_weight))

    def _excess(self, index: int, weights: FloatArray) -> float:
        oracle, scale = GraphOracle(self, index, weights), self.objective.loss_scale
        gap = oracle.unproved(scale)
        if gap == 0.0 or self.objective.link == "identity":
            return gap
        z = oracle.best(scale).value - oracle.gold_best().value
        return float(self.objective.apply_link(z + gap)[0] - self.objective.apply_link(z)[0])


class GraphOracle:
    """One graph at given weights."""

    def __init__(self, problem: GraphProblem, index: int, weights: FloatArray) -> None:
        self._weights = weights
        self._example, self._layout = problem.examples[index], problem.layout
        self._inference = problem.inference
        self.scores = self._layout.scores(self._example.graph, weights)
        self._route = self._example.route(self._inference, self.scores)

    def solve(self, scale: float) -> RelaxedSolution:
        cost = None if scale == 0.0 or self._example.cost is None else self._example.cost
        return self._inference.best(self.scores, cost, scale, route=self._route)

    def best(self, scale: float) -> Answer:
        example, found = self._example, self.solve(scale)
        if found.relaxed is not None:
            parts = self._layout.of_parts(example.graph, found.relaxed)
            loss = expected_loss(found.relaxed, example.costs)
            return Answer(float(parts @ self._weights) + scale * loss, parts, loss)
        if scale > 0.0 and not found.exact and not example.latent:
            gold = self.gold_best()
            if gold.value > found.value:  # a labelling that is known to be better than the one found
                return gold
        parts = self._layout.of_labels(example.graph, found.labels)
        return Answer(found.value, parts, example.loss_of(found.labels))

    def unproved(self, scale: float) -> float:
        """By how much the bound of the answer is above the best labelling that is known."""
        found = self.solve(scale)
        if self._example.latent:
            hidden = self._gold_solution()
            return sum(0.0 if one.exact else one.gap for one in (found, hidden))
        if found.exact:  # up to the tolerance of inference
            return 0.0
        return max(found.bound - max(found.value, self.gold_best().value), 0.0)

    def sum(self, scale: float) -> Answer:
        cost = None if scale == 0.0 else self._example.cost
        marginals = self._inference.marginals(self.scores, cost, scale, route=self._route)
        return Answer(marginals.log_partition, self._layout.of_parts(self._example.graph, marginals.parts))

    def gold_best(self) -> Answer:
        example = self._example
        if example.latent:
            parts = self._layout.of_parts(example.graph, self._gold_solution().mu)
            return Answer(float(parts @ self._weights), parts)
        parts = example.gold_features(self._layout)
        return Answer(float(parts @ self._weights), parts)

    def _gold_solution(self) -> RelaxedSolution:
        scores = self.scores.restricted(self._example.gold_mask)
        return self._inference.best(scores, route=self._example.route(self._inference, scores, gold=True))

    def gold_sum(self) -> Answer:
        if not self._example.latent:
            return self.gold_best()
        scores = self.scores.restricted(self._example.gold_mask)
        route = self._example.route(self._inference, scores, gold=True)
        marginals = self._inference.marginals(scores, route=route)
        return Answer(marginals.log_partition, self._layout.of_parts(self._example.graph, marginals.parts))

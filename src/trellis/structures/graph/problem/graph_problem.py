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

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.oracle import Answer, BatchOracle, Oracle
from trellis.core.shards import over_items
from trellis.losses.labelings import Loss
from trellis.objectives.example_problem import ExampleProblem
from trellis.structures.graph.oracle.graph_answers import RelaxedSolution
from trellis.structures.graph.oracle.graph_oracle import GraphInference
from trellis.structures.graph.oracle.rounding import expected_loss
from trellis.structures.graph.oracle.unions.small_graphs import small_graphs
from trellis.structures.graph.problem.graph_batch import GraphBatch, GraphBatchOracle
from trellis.structures.graph.problem.graph_example import GraphExample
from trellis.structures.graph.scores.linear_graph import GraphLayout

Batches = tuple[Sequence[GraphBatch], Sequence[int]]


@dataclass(frozen=True, eq=False)
class GraphProblem(ExampleProblem[GraphExample, Loss]):
    layout: GraphLayout = field(kw_only=True)
    inference: GraphInference = field(default_factory=GraphInference, kw_only=True)
    kept_batches: dict[tuple[int, int], Batches] = field(default_factory=dict, kw_only=True, repr=False)

    structure = "graphs"
    noun = "graph"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kept_batches:  # otherwise these examples were checked before
            for example in self.examples:
                self.layout.check(example.graph, example.name)

    def with_(self, **changes: Any) -> Self:
        if not changes.keys().isdisjoint({"examples", "layout", "inference"}):
            changes = {"kept_batches": {}, **changes}
        return super().with_(**changes)

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

    def batches(self, first: int, last: int) -> Batches:
        """Small graphs are answered together (:mod:`trellis.structures.graph.oracle.unions.small_graphs`)."""
        if last - first < 2 or self.objective.special == "own":
            return (), range(first, last)
        if (first, last) not in self.kept_batches:
            self.kept_batches[first, last] = self._find_batches(first, last)
        return self.kept_batches[first, last]

    def _find_batches(self, first: int, last: int) -> Batches:
        graphs = [example.graph for example in self.examples[first:last]]
        unions, others = small_graphs(self.inference.method, graphs, self.layout.n_labels, first)
        batches = [GraphBatch(union, [self.examples[i] for i in union.indices.tolist()]) for union in unions]
        return batches, others

    def batch_oracle(self, batch: GraphBatch, weights: FloatArray) -> BatchOracle:
        return GraphBatchOracle(batch, self.layout, weights)

    def excess(self, weights: FloatArray) -> float:
        """How far the true objective can be from what the answers say: sum_i c_i (bound_i - value_i), through
        the link, of the loss-augmented questions that were not answered exactly, and of those about the best
        gold labelling where labels are hidden.

        With relaxed answers it is at most that much smaller, with labellings at most that much larger, with
        hidden labels either; 0 proves that all answers are exact, to the tolerance of inference."""
        _, others = self.batches(0, self.n_examples)  # batches are answered exactly
        excess = over_items(lambda j: self._excess(others[j], weights), len(others), self.n_jobs)
        return float(np.dot(excess, self.sample_weight[list(others)]))

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

"""Pseudo-likelihood: each node given the gold labels of all others, in place of the sum over labellings.

    f(w) = sum_i (log sum_k exp l_i(k) - l_i(y*_i)),      l_i(k) = s(y* with y_i = k)

up to what does not depend on k: unary[i, k] and the rows of the edges at i. It is convex, its gradient exact,
and it costs O(N K + E K), whatever the width of the graph. It is another objective than the log loss: both
have their minimum at the truth where the model is right and data abound, and at different places elsewhere.

As an oracle this is a structure of N independent nodes, whose parts are those of the N labellings: the log
objective is the pseudo-likelihood, softmax-margin its form with a loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.logspace import softmax_and_log_sum
from trellis.core.oracle import Answer, Answers, BatchOracle
from trellis.losses.labelings import Hamming
from trellis.objectives.records import Log
from trellis.structures.graph.oracle.unions.small_graphs import SmallGraphs, split_into_runs
from trellis.structures.graph.problem.graph_batch import GraphBatch, answers_of_parts
from trellis.structures.graph.problem.graph_example import GraphExample
from trellis.structures.graph.problem.graph_problem import Batches, GraphProblem
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores
from trellis.structures.graph.scores.graph_union import GraphUnion
from trellis.structures.graph.scores.linear_graph import GraphLayout

NO_BEST = UnsupportedError("the pseudo-likelihood has no best labelling of its own")


@dataclass(frozen=True, eq=False)
class PseudoLikelihoodProblem(GraphProblem):
    """Labelled graphs under the log or the softmax-margin objective, node by node."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.objective.smooth:
            raise UnsupportedError(
                f"the pseudo-likelihood stands for sums over labellings, and the objective "
                f"{self.objective.name!r} has a maximum; use objective='log' or 'softmax_margin'"
            )
        hidden = next((example.name for example in self.examples if example.latent), None)
        if hidden is not None:
            raise UnsupportedError(
                f"the pseudo-likelihood needs the label of every node, and {hidden} has unknown ones; use "
                "objective='log'"
            )

    @property
    def convex(self) -> bool:
        return self.objective.convex

    def oracle(self, index: int, weights: FloatArray) -> PseudoOracle:
        return PseudoOracle(self.examples[index], self.layout, weights)

    def _find_batches(self, first: int, last: int) -> Batches:
        """Of any graphs: nothing here depends on their cycles."""
        graphs = [example.graph for example in self.examples[first:last]]
        batches = []
        for part in split_into_runs([graph.n_nodes for graph in graphs]):
            union = GraphUnion.of([graphs[i] for i in part.tolist()])
            examples = [self.examples[first + i] for i in part.tolist()]
            batches.append(GraphBatch(SmallGraphs(first + part, union, forests=False), examples))
        return batches, ()

    def batch_oracle(self, batch: GraphBatch, weights: FloatArray) -> BatchOracle:
        return PseudoBatchOracle(batch, self.layout, weights)


class PseudoOracle:
    """The nodes of one graph, each given the gold labels of the others."""

    def __init__(self, example: GraphExample, layout: GraphLayout, weights: FloatArray) -> None:
        self._example, self._layout = example, layout
        self._scores = layout.scores(example.graph, weights)
        self._local = local_scores(self._scores, example.gold)

    def sum(self, scale: float) -> Answer:
        local = self._local + scale * self._example.costs
        shares, log_sums = softmax_and_log_sum(local)
        return Answer(float(log_sums.sum()), self._features(shares))

    def gold_sum(self) -> Answer:
        indicators = (self._example.gold[:, None] == np.arange(self._layout.n_labels)).astype(np.float64)
        return Answer(float((self._local * indicators).sum()), self._features(indicators))

    def best(self, scale: float) -> Answer:
        raise NO_BEST

    def gold_best(self) -> Answer:
        return self.gold_sum()

    def _features(self, shares: FloatArray) -> FloatArray:
        parts = local_parts(self._scores, self._example.gold, shares)
        return self._layout.of_parts(self._example.graph, parts)


class PseudoBatchOracle:
    """The nodes of many graphs, each given the gold labels of the others."""

    def __init__(self, batch: GraphBatch, layout: GraphLayout, weights: FloatArray) -> None:
        self._batch, self._layout, self._union = batch, layout, batch.graphs.union
        self._scores = layout.scores(self._union.graph, weights)
        self._local = local_scores(self._scores, batch.gold)

    def sum(self, scale: float) -> Answers:
        shares, log_sums = softmax_and_log_sum(self._local + scale * self._batch.costs)
        return self._answers(log_sums.ravel(), shares)

    def gold_sum(self) -> Answers:
        indicators = self._batch.gold_mask.astype(np.float64)
        return self._answers((self._local * indicators).sum(axis=1), indicators)

    def best(self, scale: float) -> Answers:
        raise NO_BEST

    def gold_best(self) -> Answers:
        return self.gold_sum()

    def _answers(self, of_nodes: FloatArray, shares: FloatArray) -> Answers:
        parts = local_parts(self._scores, self._batch.gold, shares)
        return answers_of_parts(self._layout, self._union, self._union.totals(of_nodes), parts)


def local_scores(scores: GraphScores, gold: np.ndarray) -> FloatArray:
    """l (N, K); an edge from a node to itself adds its diagonal."""
    local = scores.unary.copy()
    a, b = scores.edges.T
    e, loop = np.arange(len(a)), a == b
    diagonal = np.diagonal(scores.pairwise, axis1=1, axis2=2)
    np.add.at(local, a, np.where(loop[:, None], diagonal, scores.pairwise[e, :, gold[b]]))
    np.add.at(local, b[~loop], scores.pairwise[e, gold[a]][~loop])
    return local


def local_parts(scores: GraphScores, gold: np.ndarray, shares: FloatArray) -> GraphParts:
    """The adjoint: parts from shares (N, K) of the labels of each node given the others."""
    pairwise = np.zeros_like(scores.pairwise)
    a, b = scores.edges.T
    loop = a == b
    e, loops = np.flatnonzero(~loop), np.flatnonzero(loop)
    pairwise[e, :, gold[b[e]]] += shares[a[e]]
    pairwise[e, gold[a[e]]] += shares[b[e]]
    diagonal = np.arange(scores.n_labels)
    pairwise[loops[:, None], diagonal, diagonal] += shares[a[loops]]
    return GraphParts(shares, pairwise)


def pseudo_likelihood(problem: GraphProblem, l2: float) -> PseudoLikelihoodProblem:
    """Of the examples of a problem."""
    return PseudoLikelihoodProblem(
        problem.examples,
        Log(),
        Hamming(),
        l2=l2,
        weight=problem.weight,
        n_jobs=problem.n_jobs,
        layout=problem.layout,
        inference=problem.inference,
    )

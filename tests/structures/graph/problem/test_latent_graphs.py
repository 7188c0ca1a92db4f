"""Graphs with hidden nodes: gold answers by enumeration, and the latent structural SVM on them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from certificates import certified
from trellis.losses.labelings import Hamming
from trellis.objectives import Log, Margin, Objective
from trellis.structures.graph.oracle.graph_oracle import GraphInference
from trellis.structures.graph.problem.graph_example import GraphExample
from trellis.structures.graph.problem.graph_problem import GraphProblem
from trellis.structures.graph.scores.graph_features import Graph
from trellis.structures.graph.scores.linear_graph import GraphLayout

K = 2
LAYOUT = GraphLayout(K, 2, 1)


def hidden_roots(seed: int, n: int) -> list[GraphExample]:
    """Stars: a hidden root, which no annotation names, decides what its three leaves are likely to be."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        nodes = rng.normal(size=(4, 2))
        gold = np.array([-1, *rng.integers(0, K, 3)])
        cost = np.array([[0.0] * K if label < 0 else [float(label != k) for k in range(K)] for label in gold])
        found.append(GraphExample(Graph.tree(np.array([-1, 0, 0, 0]), nodes), gold, K, cost=cost))
    return found


def new_problem(objective: Objective, seed: int = 0, n: int = 5) -> GraphProblem:
    return GraphProblem(hidden_roots(seed, n), objective, Hamming(), l2=0.1, layout=LAYOUT)


@pytest.mark.parametrize("objective", [Margin(), Log()], ids=lambda o: o.name)
def test_hidden_nodes_by_enumeration(objective: Objective) -> None:
    problem = new_problem(objective)
    weights = np.random.default_rng(1).normal(size=problem.dimension)
    expected = 0.0
    for example in problem.examples:
        labellings = np.array(list(product(range(K), repeat=4)))
        s = np.array([LAYOUT.of_labels(example.graph, y) @ weights for y in labellings])
        wrong = (labellings[:, 1:] != example.gold[1:]).sum(axis=1)
        if objective.two_labelings:
            expected += (s + wrong).max() - s[wrong == 0].max()
        else:
            expected += logsumexp(s) - logsumexp(s[wrong == 0])
    value, gradient = problem.value_and_gradient(weights)
    assert value == pytest.approx(expected, abs=1e-8)
    step = 1e-6 * np.random.default_rng(2).normal(size=problem.dimension)
    ends = [problem.value_and_gradient(weights + sign * step)[0] for sign in (1, -1)]
    assert gradient @ step == pytest.approx((ends[0] - ends[1]) / 2, abs=1e-9)


def test_certificates_of_graphs_never_rise() -> None:
    problem = new_problem(Margin(), seed=3, n=8)
    assert problem.latent
    assert not problem.convex
    solution = certified(problem, np.random.default_rng(0).normal(size=problem.dimension), tol=1e-3)
    assert solution.status.converged


@pytest.mark.parametrize("method", ["lp", "icm"])
def test_the_excess_counts_the_hidden_side(method: str) -> None:
    """Where the best completion is not proved, the objective is known to that, too."""
    graph = Graph(np.eye(3)[:, :2], [(0, 1), (1, 2), (0, 2)])
    example = GraphExample(graph, np.array([-1, -1, -1]), K)
    weights = np.zeros(LAYOUT.dimension)
    weights[-2] = 1.0  # of unequal labels: all three nodes want to differ
    assert np.array_equal(LAYOUT.edge_weights(weights)[0, 0], 1.0 - np.eye(2))
    problem = GraphProblem([example], Margin(), Hamming(), layout=LAYOUT, inference=GraphInference(method))
    gap = problem.inference.best(LAYOUT.scores(graph, weights)).gap
    assert problem.excess(weights) == pytest.approx(2.0 * gap)  # no label is known: both questions are equal
    assert gap > 0.9

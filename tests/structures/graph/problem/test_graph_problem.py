"""Learning graphs: values by enumeration, gradients by differences, solvers against one another, and the
loss-gradient theorem with relaxed answers."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from objective_references import EVERY, name_of, reference_value
from trellis import Graph, losses
from trellis.core.errors import DataError, UnsupportedError
from trellis.data.labels import LabelSet
from trellis.losses.labelings import Custom, Hamming
from trellis.objectives import Direct, Objective, get_objective
from trellis.solvers import CuttingPlane, FrankWolfe, MiniBatch, PassiveAggressive
from trellis.solvers.run import Solution
from trellis.structures.graph.oracle.graph_oracle import GraphInference, Route
from trellis.structures.graph.problem.graph_candidates import GraphCandidateProblem
from trellis.structures.graph.problem.graph_example import GraphExample
from trellis.structures.graph.problem.graph_problem import GraphProblem
from trellis.structures.graph.problem.pseudo_likelihood import PseudoLikelihoodProblem
from trellis.structures.graph.scores.graph_scores import GraphScores
from trellis.structures.graph.scores.linear_graph import GraphLayout
from trellis.training.driver import minimise

K = 3
LAYOUT = GraphLayout(K, 2, 1, (True, False))
COSTS = np.array([[0.0, 1.0, 3.0], [0.5, 0.0, 1.0], [2.0, 1.0, 0.0]])
CYCLE = [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2], [1, 1], [0, 1]]  # a chord, a loop, a repeated edge


def small_examples(seed: int, n: int) -> list[GraphExample]:
    rng = np.random.default_rng(seed)
    examples = []
    for i in range(n):
        edges = CYCLE if i % 3 else []  # every third without edges
        types = rng.integers(0, 2, len(edges))
        graph = Graph(rng.normal(size=(4, 2)), edges, rng.normal(size=(len(edges), 1)), types)
        gold = rng.integers(0, K, 4).astype(np.int32)
        examples.append(GraphExample(graph, gold, K, cost=COSTS[gold], name=f"graph {i}"))
    return examples


def small_problem(
    objective: str | Objective = "margin", seed: int = 0, n: int = 6, **options: Any
) -> GraphProblem:
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, n)
    settings = {"l2": 0.3, "weight": weight, "layout": LAYOUT, **options}
    return GraphProblem(small_examples(seed, n), get_objective(objective), Hamming(), **settings)


def enumerated(problem: GraphProblem, example: GraphExample, weights: np.ndarray) -> tuple[np.ndarray, ...]:
    """All labellings, their scores and losses."""
    labellings = np.array(list(product(range(K), repeat=4)))
    scores = np.array([problem.layout.of_labels(example.graph, y) @ weights for y in labellings])
    return labellings, scores, np.array([example.cost[range(4), y].sum() for y in labellings])


def by_enumeration(problem: GraphProblem, weights: np.ndarray) -> np.ndarray:
    values = []
    for example in problem.examples:
        labellings, s, loss = enumerated(problem, example, weights)
        gold = (labellings == example.gold).all(axis=1)
        values.append(reference_value(problem.objective, s, loss, gold, problem.epsilon))
    return np.array(values)


def differences(problem: GraphProblem, weights: np.ndarray, along: np.ndarray, step: float) -> np.ndarray:
    """Central differences along the rows of ``along``."""
    ends = [[problem.value_and_gradient(weights + sign * step * v)[0] for v in along] for sign in (1, -1)]
    return (np.array(ends[0]) - np.array(ends[1])) / (2 * step)


def triangles(seed: int, n: int, each: int, repulsion: float) -> tuple[GraphProblem, np.ndarray]:
    """Graphs of ``each`` triangles whose edges prefer unequal labels: relaxed answers are often fractions."""
    rng = np.random.default_rng(seed)
    edges = (np.array([[0, 1], [1, 2], [0, 2]]) + 3 * np.arange(each)[:, None, None]).reshape(-1, 2)
    examples = []
    for _ in range(n):
        x = rng.normal(size=(3 * each, 1))
        gold = (x[:, 0] + 0.5 * rng.normal(size=3 * each) > 0).astype(np.int32)
        examples.append(GraphExample(Graph(x, edges), gold, 2, cost=1.0 - np.eye(2)[gold]))
    layout = GraphLayout(2, 1, 1, (False,), bias=False)
    problem = GraphProblem(
        examples, get_objective("margin"), Hamming(), layout=layout, inference=GraphInference("lp")
    )
    return problem, np.array([-1.0, 1.0, -repulsion, 0.2, -repulsion])


def run(solver: Any, problem: GraphProblem, max_iter: int) -> Solution:
    rng = np.random.default_rng(0)
    return minimise(solver, problem, np.zeros(problem.dimension), max_iter=max_iter, rng=rng)


@pytest.mark.parametrize("objective", [o for o in EVERY if o.for_oracles], ids=name_of)
def test_values_and_gradients(objective: Objective) -> None:
    problem = small_problem(objective, 1)
    weights = np.random.default_rng(2).normal(size=problem.dimension)
    value, gradient = problem.value_and_gradient(weights)
    assert value == pytest.approx(float(by_enumeration(problem, weights) @ problem.weight), abs=1e-6)
    if objective.name != "direct":
        along = np.eye(problem.dimension)
        np.testing.assert_allclose(gradient, differences(problem, weights, along, 1e-6), rtol=1e-4, atol=1e-5)


def test_the_tree_reweighted_log_loss_is_an_upper_bound_with_its_gradient() -> None:
    exact = small_problem("log", 1, n=3)
    problem = exact.with_(inference=GraphInference("tree_reweighted", tol=1e-9))
    rng = np.random.default_rng(2)
    weights, along = rng.normal(size=problem.dimension), rng.normal(size=(2, problem.dimension))
    value, gradient = problem.value_and_gradient(weights)
    assert value >= exact.value_and_gradient(weights)[0] - 1e-9
    np.testing.assert_allclose(
        along @ gradient, differences(problem, weights, along, 1e-4), rtol=1e-4, atol=1e-4
    )
    assert problem.convex
    assert not problem.with_(inference=GraphInference("loopy")).convex


@pytest.mark.parametrize("name", ["log", "softmax_margin"])
def test_the_pseudo_likelihood_by_enumeration_of_each_node(name: str) -> None:
    base = small_problem(name, 3)
    problem = PseudoLikelihoodProblem(
        base.examples, base.objective, base.loss, weight=base.weight, layout=LAYOUT
    )
    weights = np.random.default_rng(4).normal(size=problem.dimension)
    expected = 0.0
    for c, example in zip(base.weight, base.examples, strict=True):
        scores = LAYOUT.scores(example.graph, weights)
        for i in range(4):
            changed = np.tile(example.gold, (K, 1))
            changed[:, i] = np.arange(K)
            local = np.array([scores.score(y) for y in changed])
            loss = example.cost[i] if name == "softmax_margin" else 0.0
            expected += c * (logsumexp(local + loss) - local[example.gold[i]])
    value, gradient = problem.value_and_gradient(weights)
    assert value == pytest.approx(expected, abs=1e-9)
    along = np.eye(problem.dimension)
    np.testing.assert_allclose(gradient, differences(problem, weights, along, 1e-6), rtol=1e-5, atol=1e-6)


def test_without_edges_the_pseudo_likelihood_is_the_likelihood() -> None:
    base = small_problem("log", 5, n=1)
    problem = PseudoLikelihoodProblem(base.examples, base.objective, base.loss, layout=LAYOUT)
    weights = np.random.default_rng(4).normal(size=problem.dimension)
    one, other = problem.value_and_gradient(weights), base.with_(weight=None).value_and_gradient(weights)
    assert one[0] == pytest.approx(other[0])
    np.testing.assert_allclose(one[1], other[1], atol=1e-9)


@pytest.mark.parametrize("name", ["margin", "squared_margin"])
def test_the_relaxed_margin_is_an_upper_bound_and_convex(name: str) -> None:
    relaxed, start = triangles(7, 4, 1, repulsion=1.5)
    relaxed = relaxed.with_(objective=get_objective(name))
    exact = relaxed.with_(inference=GraphInference("junction_tree"))
    ends = np.stack([start, start + 0.5 * np.random.default_rng(8).normal(size=5)])
    true, bound = (np.array([p.value_and_gradient(w)[0] for w in ends]) for p in (exact, relaxed))
    assert (bound > true + 1e-3).all()
    middle = relaxed.value_and_gradient(ends.mean(axis=0))[0]
    assert middle <= bound.mean() + 1e-9
    value, gradient = relaxed.value_and_gradient(ends[0])
    assert bound[1] >= value + gradient @ (ends[1] - ends[0]) - 1e-7
    for w, t, b in zip(ends, true, bound, strict=True):
        assert b - relaxed.excess(w) <= t + 1e-7


@pytest.mark.parametrize("name", ["margin", "squared_margin"])
def test_labellings_that_are_not_the_best_still_give_planes_below(name: str) -> None:
    exact = small_problem(name, 7)
    rng = np.random.default_rng(9)
    w, other = 3.0 * rng.normal(size=(2, exact.dimension))
    for method in ("icm", "message_passing"):
        problem = exact.with_(inference=GraphInference(method, max_iter=1))
        value, gradient = problem.value_and_gradient(w)
        assert value <= exact.value_and_gradient(w)[0] + 1e-9
        assert exact.value_and_gradient(w)[0] <= value + problem.excess(w) + 1e-9
        assert exact.value_and_gradient(other)[0] >= value + gradient @ (other - w) - 1e-9
    assert exact.excess(w) <= 1e-4


@pytest.mark.parametrize("method", ["auto", "lp"])
def test_solvers_agree_on_the_minimum(method: str) -> None:
    problem = small_problem("margin", 11, l2=1.0, inference=GraphInference(method))
    found = [run(solver, problem, 400) for solver in (CuttingPlane(tol=1e-3), FrankWolfe(tol=1e-3))]
    for solution in found:
        assert solution.status.converged
    one, other = (solution.history["objective"][-1] for solution in found)
    assert one == pytest.approx(other, rel=2e-3)


def test_passive_aggressive_and_the_perceptron_learn() -> None:
    rng = np.random.default_rng(0)
    teacher = rng.normal(size=LAYOUT.dimension)
    examples = []
    for example in small_examples(1, 12):
        gold = GraphInference().best(LAYOUT.scores(example.graph, teacher)).labels
        examples.append(replace(example, gold=gold, cost=COSTS[gold]))
    for objective, solver in (
        ("margin", PassiveAggressive()),
        ("perceptron", MiniBatch(batch_size=1, schedule="constant")),
    ):
        problem = GraphProblem(examples, get_objective(objective), Hamming(), layout=LAYOUT)
        weights = run(solver, problem, 40).weights
        assert problem.task_losses(weights).sum() <= 0.2 * problem.task_losses(-teacher).sum()


def test_threads_change_nothing() -> None:
    problem = small_problem("log", 2, n=7)
    weights = np.random.default_rng(2).normal(size=problem.dimension)
    one, two = problem.value_and_gradient(weights), problem.with_(n_jobs=2).value_and_gradient(weights)
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])


def test_a_loss_over_candidates_is_exact_when_all_labellings_are() -> None:
    """With every labelling a candidate, a Hamming loss written as a function gives the exact objectives."""
    base = small_problem("margin", 3, n=3)
    examples = [replace(e, cost=1.0 - np.eye(K)[e.gold]) for e in base.examples]
    function = Custom(
        function=lambda gold, found: float(sum(a != b for a, b in zip(gold, found, strict=True))),
        n_candidates=K**4,
    )
    weights = np.random.default_rng(2).normal(size=base.dimension)
    exact = GraphProblem(examples, get_objective("margin"), Hamming(), layout=LAYOUT)
    for objective in EVERY:
        problem = GraphCandidateProblem(
            examples, objective, function, layout=LAYOUT, labels=LabelSet(range(K))
        ).checked()
        value, gradient = problem.value_and_gradient(weights)
        if objective.for_oracles:
            other = exact.with_(objective=objective).value_and_gradient(weights)
            np.testing.assert_allclose(gradient, other[1], atol=1e-6)
        else:
            along = np.random.default_rng(3).normal(size=(2, problem.dimension))
            np.testing.assert_allclose(
                along @ gradient, differences(problem, weights, along, 1e-6), atol=1e-5
            )
        expected = by_enumeration(problem, weights).sum()
        assert value == pytest.approx(float(expected), abs=1e-6), objective.name
    samples = problem.with_(
        loss=replace(function, candidates="samples", n_candidates=5), objective=get_objective("margin")
    )
    value = samples.value_and_gradient(weights)[0]
    assert value == samples.value_and_gradient(weights)[0]
    assert value <= exact.value_and_gradient(weights)[0] + 1e-6


@pytest.mark.parametrize("objective", ["margin", "log"])
def test_auto_decides_once_for_each_graph(monkeypatch: pytest.MonkeyPatch, objective: str) -> None:
    """With all labels, and with those that are known; the answers are those of decisions made anew."""
    problem = small_problem(objective, 1)
    for example in problem.examples[::2]:
        example.gold[1] = -1
    asked: list[GraphScores] = []
    decide = GraphInference.route

    def counted(self: GraphInference, scores: GraphScores) -> Route:
        asked.append(scores)
        return decide(self, scores)

    monkeypatch.setattr(GraphInference, "route", counted)
    monkeypatch.setattr(GraphProblem, "batches", lambda self, first, last: ((), range(first, last)))
    points = np.random.default_rng(0).normal(size=(4, problem.dimension))
    kept = [problem.value_and_gradient(weights) for weights in points]
    latent = sum(example.latent for example in problem.examples)
    assert len(asked) == len(problem.examples) + latent
    for weights, (value, gradient) in zip(points, kept, strict=True):
        fresh = problem.with_(examples=[replace(example, _routes={}) for example in problem.examples])
        again, its_gradient = fresh.value_and_gradient(weights)
        assert value == again
        np.testing.assert_array_equal(gradient, its_gradient)


def test_the_direct_update_descends_on_the_loss_of_relaxed_answers() -> None:
    """d/dw E L(y, r_w(x)) = lim (1/eps) E[Phi(x, r_w) - Phi(x, r_direct)] with r in the local polytope.

    Inputs are Gaussian, so the expectation is smooth. The left side is a central difference with common
    random numbers: both sides are means over the same graphs, whose difference must vanish within four of its
    standard errors.
    """
    epsilon, size = 0.15, 100
    problem, weights = triangles(5, size, 60, repulsion=0.7)
    problem = problem.with_(objective=Direct(epsilon=epsilon), epsilon=epsilon)
    along = np.array([0.5, -0.5, 0.6, -0.4, 0.6]) / np.sqrt(1.38)
    ahead, behind = (problem.task_losses(weights + s * epsilon * along) for s in (0.5, -0.5))
    difference = (ahead - behind) / epsilon
    assert not problem.oracle(0, weights).solve(0.0).integral
    direct = np.array([problem.example_plane(i, weights)[1] @ along for i in range(size)])

    def within(error: np.ndarray) -> bool:
        return bool(abs(error.mean()) <= 4.0 * error.std() / np.sqrt(size))

    assert within(difference - direct)
    assert not within(difference + direct), "the sign"
    assert not within(difference - 2.0 * direct), "a factor of two"


def test_errors() -> None:
    with pytest.raises(UnsupportedError, match="not exact for graphs"):
        small_problem("slack")
    with pytest.raises(DataError, match="graph 1 has labels outside 0 to 2"):
        GraphExample(Graph([[0.0]]), np.array([3], np.int32), 3, name="graph 1")
    with pytest.raises(DataError, match="a graph has 1 nodes, but labels of shape"):
        GraphExample(Graph([[0.0]]), np.array([0, 1], np.int32), 3)
    with pytest.raises(DataError, match="the costs of a graph have shape"):
        GraphExample(Graph([[0.0]]), np.array([0], np.int32), 3, cost=np.zeros((1, 2)))
    hidden = [GraphExample(Graph(np.zeros((1, 2))), np.array([-1], np.int32), 3, name="graph 0")]
    with pytest.raises(UnsupportedError, match="graph 0 has unknown ones"):
        PseudoLikelihoodProblem(hidden, get_objective("log"), Hamming(), layout=LAYOUT)
    with pytest.raises(UnsupportedError, match="'margin' has a maximum"):
        PseudoLikelihoodProblem(small_examples(0, 1), get_objective("margin"), Hamming(), layout=LAYOUT)
    for loss, message in (
        (losses.SpanF1(), "'span_f1' is not for graphs"),
        (Custom(function=lambda gold, found: 1.0), "is not 0 for its own gold labels"),
    ):
        problem = GraphCandidateProblem(
            small_examples(0, 1), get_objective("margin"), loss, layout=LAYOUT, labels=LabelSet(range(K))
        )
        with pytest.raises((UnsupportedError, DataError), match=message):
            problem.checked()

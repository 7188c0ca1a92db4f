"""Small graphs answered together, against the same graphs one by one."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from trellis import Graph, GraphLabeler
from trellis.core.errors import ApproximationWarning
from trellis.losses import get_loss
from trellis.objectives import get_objective
from trellis.structures.graph import GraphInference
from trellis.structures.graph.oracle.unions import small_graphs as unions
from trellis.structures.graph.problem.graph_example import GraphExample
from trellis.structures.graph.problem.graph_problem import GraphProblem
from trellis.structures.graph.problem.pseudo_likelihood import PseudoLikelihoodProblem
from trellis.structures.graph.scores.linear_graph import GraphLayout

OBJECTIVES = ("margin", "squared_margin", "perceptron", "log", "softmax_margin", "ramp", "direct")


def random_graph(rng: np.random.Generator) -> Graph:
    """Forests, rings and anything else, of no nodes to six, with loops and edges that come twice."""
    n = int(rng.integers(0, 7))
    nodes = rng.normal(size=(n, 3))
    if n == 0:
        return Graph(nodes)
    edges = [(i, int(rng.integers(i))) for i in range(1, n) if rng.random() < 0.8]
    if rng.random() < 0.5:
        edges += rng.integers(0, n, size=(3, 2)).tolist()
    if edges and rng.random() < 0.3:
        edges.append(edges[0][::-1])
    order = rng.permutation(len(edges))
    edges = [edges[i] for i in order]
    features, types = rng.normal(size=(len(edges), 2)), rng.integers(0, 2, size=len(edges))
    return Graph(nodes, edges, features, types) if edges else Graph(nodes)


def random_problem(rng: np.random.Generator, kind: type[GraphProblem], **options: Any) -> GraphProblem:
    k = int(rng.integers(2, 4))
    latent = options.pop("latent", False)
    examples = []
    for i in range(int(rng.integers(2, 12))):
        graph = random_graph(rng)
        gold = rng.integers(0, k, size=graph.n_nodes).astype(np.int32)
        cost = np.where(np.arange(k) == gold[:, None], 0.0, rng.random((graph.n_nodes, 1)))
        if latent:
            gold[rng.random(len(gold)) < 0.3] = -1
            cost[gold < 0] = 0.0
        examples.append(GraphExample(graph, gold, k, None, cost, f"graph {i}"))
    directed = (bool(rng.integers(2)), bool(rng.integers(2)))
    layout = GraphLayout(k, 3, 2, directed, bool(rng.integers(2)))
    weight = rng.random(len(examples))
    return kind(examples, loss=get_loss("hamming"), layout=layout, weight=weight, epsilon=0.7, **options)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from(OBJECTIVES), st.booleans(), st.sampled_from([1, 2]))
def test_batches_are_the_sum_of_their_examples(seed: int, name: str, latent: bool, n_jobs: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(
        rng, GraphProblem, objective=get_objective(name), latent=latent, n_jobs=n_jobs,
        inference=GraphInference(str(rng.choice(["auto", "junction_tree"]))),
    )  # fmt: skip
    batches, others = problem.batches(0, problem.n_examples)
    together = sorted([*others, *(int(i) for batch in batches for i in batch.indices)])
    assert together == list(range(problem.n_examples))
    assert len(others) <= 1 or not any(problem.examples[i].graph.n_nodes < 2 for i in others)
    w = rng.normal(size=problem.dimension)
    planes = [problem.example_plane(i, w) for i in range(problem.n_examples)]
    value, gradient = problem.value_and_gradient(w)
    assert value == pytest.approx(sum(v for v, _ in planes), abs=1e-9)
    assert_allclose(gradient, np.sum([g for _, g in planes], axis=0), atol=1e-9)
    first = int(rng.integers(problem.n_examples))
    value, gradient = problem.run_value_and_gradient(w, first, problem.n_examples)
    assert value == pytest.approx(sum(v for v, _ in planes[first:]), abs=1e-9)
    assert_allclose(gradient, np.sum([g for _, g in planes[first:]], axis=0), atol=1e-9)
    values, rows = problem.example_planes(w)
    assert_allclose(values, [v for v, _ in planes], atol=1e-9)
    assert_allclose(rows.toarray(), [g for _, g in planes], atol=1e-9)
    losses = [problem.oracle(i, w).best(0.0).loss for i in range(problem.n_examples)]
    assert_allclose(problem.task_losses(w), losses, atol=1e-9)
    completed = problem.completed(w)
    golds = [problem.oracle(i, w).gold_best() for i in range(problem.n_examples)]
    assert completed.value == pytest.approx(float(problem.sample_weight @ [g.value for g in golds]), abs=1e-9)
    one_by_one = [completed.convex.example_plane(i, w) for i in range(problem.n_examples)]
    value, gradient = completed.convex.value_and_gradient(w)
    assert value == pytest.approx(sum(v for v, _ in one_by_one), abs=1e-9)
    assert_allclose(gradient, np.sum([g for _, g in one_by_one], axis=0), atol=1e-9)
    assert problem.excess(w) == 0.0


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.sampled_from(["log", "softmax_margin"]))
def test_batches_of_the_pseudo_likelihood(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, PseudoLikelihoodProblem, objective=get_objective(name))
    w = rng.normal(size=problem.dimension)
    planes = [problem.example_plane(i, w) for i in range(problem.n_examples)]
    value, gradient = problem.value_and_gradient(w)
    assert value == pytest.approx(sum(v for v, _ in planes), abs=1e-9)
    assert_allclose(gradient, np.sum([g for _, g in planes], axis=0), atol=1e-9)


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_predictions_of_many_graphs_are_those_of_each(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keep = [random_graph(rng) for _ in range(12)]
    ring = [(i, (i + 1) % 12) for i in range(12)]  # too many labellings to enumerate
    keep.append(Graph(rng.normal(size=(12, 3)), ring, rng.normal(size=(12, 2))))
    layout = GraphLayout(3, 3, 2, (True, False))
    model = GraphLabeler()
    model.fit([Graph(np.eye(3))], [[0, 1, 2]])
    model._keep(model.labels_, layout, rng.normal(size=layout.dimension))
    exact = GraphInference("junction_tree")
    for graph, found, sums, codes in zip(
        keep, model.predict_relaxed(keep), model.marginals(keep), model.predict(keep), strict=True
    ):
        scores = model.scores(graph)
        wanted, expected = exact.best(scores), exact.marginals(scores)
        assert found.exact
        assert found.value == pytest.approx(wanted.value, abs=1e-9)
        assert found.bound == pytest.approx(wanted.value, abs=1e-5)
        assert scores.score(np.asarray(codes)) == pytest.approx(wanted.value, abs=1e-9)
        assert sums.exact
        assert sums.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
        assert_allclose(sums.parts.unary, expected.parts.unary, atol=1e-9)
        assert_allclose(sums.parts.pairwise, expected.parts.pairwise, atol=1e-9)


def test_unions_are_cut_into_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    graphs = [Graph.tree([-1, 0, 0], rng.normal(size=(3, 1))) for _ in range(50)]
    whole, others = unions.small_graphs("auto", graphs, 2)
    assert [len(union.union) for union in whole] == [50]
    assert not others
    monkeypatch.setattr(unions, "PACK", 20)
    parts, others = unions.small_graphs("auto", graphs, 2)
    assert len(parts) > 5
    assert not others
    assert np.concatenate([part.indices for part in parts]).tolist() == list(range(50))
    assert unions.small_graphs("message_passing", graphs, 2) == ([], list(range(50)))


def test_few_questions_about_many_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A latent structural SVM on graphs of one node: no oracle of a single graph after the warm start."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=40)
    graphs = [Graph(np.eye(3)[[label]] + rng.normal(size=(1, 3))) for label in y]
    labels = [[None if rng.random() < 0.3 else int(label)] for label in y]
    asked = []
    plain = GraphProblem.oracle
    monkeypatch.setattr(
        GraphProblem,
        "oracle",
        lambda self, i, w: asked.append(i) or plain(self, i, w),  # type: ignore[func-returns-value]
    )
    model = GraphLabeler("margin", random_state=0).fit(graphs, labels)
    assert model.solver_ == "cccp"
    assert model.excess_ == 0.0
    warm_start = len(asked)
    model.predict(graphs)
    model.predict_marginals(graphs)
    assert len(asked) == warm_start <= 5 * len(graphs)


def test_marginals_that_have_not_converged_come_with_a_warning() -> None:
    rng = np.random.default_rng(0)
    graphs = [Graph.grid(rng.normal(size=(4, 4))) for _ in range(3)]
    labels = [rng.integers(0, 2, size=(4, 4)) for _ in graphs]
    model = GraphLabeler("pseudo_likelihood", l2=0.1).fit(graphs, labels)
    for method in ("loopy", "tree_reweighted"):
        with pytest.warns(ApproximationWarning, match=rf"3 of 3 graphs.*graph 0: {method} stopped after 1"):
            model.predict_marginals(graphs, GraphInference(method, max_iter=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_marginals(graphs, GraphInference("loopy", max_iter=500))

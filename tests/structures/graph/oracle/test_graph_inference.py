"""Every question about a graph against all its labellings written out."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_graphs import AllLabellings, graphs, grid, grid_edges
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.factors.junction_tree import plan_choice
from trellis.structures.graph.oracle.graph_oracle import GraphInference
from trellis.structures.graph.oracle.message_passing import message_passing
from trellis.structures.graph.oracle.rounding import argmax, expected_loss, random
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores

FRUSTRATED = GraphScores.of(np.zeros((3, 2)), [(0, 1), (1, 2), (0, 2)], [[0.0, 1.0], [1.0, 0.0]])


def assert_best(graph: GraphScores, method: str) -> None:
    every = AllLabellings.of(graph)
    if not every.feasible:
        with pytest.raises(InfeasibleError):
            GraphInference(method).best(graph)
        return
    found = GraphInference(method).best(graph)
    assert found.value == pytest.approx(every.best, abs=1e-9)
    assert graph.score(found.labels) == found.value
    assert found.exact
    assert found.gap <= 1e-9
    assert found.mu.dot(graph) == pytest.approx(every.best, abs=1e-9)


def assert_sums(graph: GraphScores, method: str) -> None:
    every = AllLabellings.of(graph)
    if not every.feasible:
        with pytest.raises(InfeasibleError):
            GraphInference(method).marginals(graph)
        return
    found = GraphInference(method).marginals(graph)
    assert found.exact
    assert found.log_partition == pytest.approx(every.log_partition, abs=1e-9)
    np.testing.assert_allclose(found.parts.flat(), every.marginals(graph).flat(), atol=1e-9)


# -- exact methods ------------------------------------------------------------------------------------------


@given(graphs(), st.none() | st.integers(0, 2**32 - 1))
def test_minimum_risk_is_the_cheapest_of_the_allowed_labellings(graph: GraphScores, seed: int | None) -> None:
    """By the expected number of errors, and by any table of risks (small whole numbers: with ties)."""
    every = AllLabellings.of(graph)
    if not every.feasible:
        with pytest.raises(InfeasibleError):
            GraphInference().minimum_risk(graph)
        return
    risk, allowed = None, every.scores > -np.inf
    if seed is None:
        p = np.exp(every.scores - every.log_partition)
        risks = (every.labels[:, None] != every.labels[None]).sum(axis=2) @ p
    else:
        risk = np.random.default_rng(seed).integers(-2, 3, graph.unary.shape).astype(float)
        risks = risk[np.arange(graph.n_nodes), every.labels].sum(axis=1)
    found = GraphInference().minimum_risk(graph, risk)
    mine = (every.labels == found.labels).all(axis=1)
    assert allowed[mine].all()
    assert found.exact
    np.testing.assert_allclose(risks[mine][0], risks[allowed].min(), atol=1e-9)


def test_risks_that_do_not_fit() -> None:
    graph = GraphScores.of(np.zeros((2, 3)))
    for risk in (np.zeros((2, 2)), np.full((2, 3), np.nan)):
        with pytest.raises(DataError, match="risks must be finite and of shape"):
            GraphInference().minimum_risk(graph, risk)


@given(graphs(forest=True))
def test_a_forest(graph: GraphScores) -> None:
    assert_best(graph, "tree")
    assert_sums(graph, "tree")
    assert_sums(graph, "loopy")


@pytest.mark.parametrize("seed", range(10))
def test_trees_that_branch(seed: int) -> None:
    """Nodes with a parent and several children: messages of all children must reach the parent in full."""
    rng = np.random.default_rng(seed)
    n, k = 40, 3
    edges = [(int(rng.integers(max(0, i - 4), i)), i) for i in range(1, n)]
    graph = GraphScores.of(rng.normal(size=(n, k)), edges, 2.0 * rng.normal(size=(n - 1, k, k)))
    exact = GraphInference("junction_tree").best(graph)
    for method in ("tree", "auto", "message_passing"):
        found = GraphInference(method, max_iter=2).best(graph)
        assert found.value == pytest.approx(exact.value, abs=1e-9)
        assert found.exact


@given(graphs())
def test_a_junction_tree(graph: GraphScores) -> None:
    assert_best(graph, "junction_tree")
    assert_sums(graph, "junction_tree")


@given(graphs())
@settings(max_examples=30)
def test_a_junction_tree_without_forbidden_labels(graph: GraphScores) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_choice, "REPLAN_ABOVE", -1.0)  # small graphs take the way of costly ones
        assert_best(graph, "junction_tree")
        assert_sums(graph, "junction_tree")
        if AllLabellings.of(graph).feasible:
            drawn = GraphInference("junction_tree").sample(graph, 20, np.random.default_rng(0))
            assert all(graph.score(labels) > -np.inf for labels in drawn)


def test_forbidden_labels_make_a_junction_tree_smaller() -> None:
    graph = grid(12, 12, 4, 1.0, seed=0)
    with pytest.raises(UnsupportedError, match="junction tree"):
        GraphInference("junction_tree").best(graph)
    narrow = graph.restricted(np.broadcast_to(np.arange(4) < 2, (144, 4)))
    exact = GraphInference("junction_tree").best(narrow)
    bound = GraphInference("message_passing").best(narrow)
    assert bound.value <= exact.value + 1e-9 <= bound.bound + 2e-9
    assert exact.labels.max() <= 1


@given(graphs(labels=(2, 2), factors=False), st.booleans())
def test_a_minimum_cut(graph: GraphScores, forbid: bool) -> None:
    pairwise = np.where(graph.pairwise > -np.inf, graph.pairwise, -9.0)
    unequal = np.minimum(pairwise[:, 0, 1], pairwise[:, 0, 0] + pairwise[:, 1, 1] - pairwise[:, 1, 0])
    pairwise[:, 0, 1] = -np.inf if forbid else unequal
    # an edge counts by its low end first: turned ones must be submodular too, and are, for c is symmetric
    assert_best(GraphScores.of(graph.unary, graph.edges, pairwise), "max_flow")


@given(graphs(labels=(2, 2), factors=False), st.integers(-8, 1))
def test_scores_that_are_a_sum_over_the_ends_are_submodular_whatever_the_rounding(
    graph: GraphScores, exponent: int
) -> None:
    rng = np.random.default_rng(len(graph.edges))
    left, right = 10.0**exponent * rng.normal(size=(2, len(graph.edges), 2))
    assert_best(GraphScores.of(graph.unary, graph.edges, left[:, :, None] + right[:, None, :]), "max_flow")


@given(graphs())
def test_auto_is_exact_on_small_graphs(graph: GraphScores) -> None:
    assert_best(graph, "auto")
    assert_sums(graph, "auto")


@given(graphs(), st.integers(1, 9))
@settings(max_examples=25)
def test_the_k_best(graph: GraphScores, k: int) -> None:
    every = AllLabellings.of(graph)
    if not every.feasible:
        with pytest.raises(InfeasibleError):
            GraphInference().k_best(graph, k)
        return
    labels, scores = GraphInference().k_best(graph, k)
    wanted = np.sort(every.scores[every.scores > -np.inf])[::-1][:k]
    np.testing.assert_allclose(scores, wanted, atol=1e-9)
    assert len(np.unique(labels, axis=0)) == len(labels)


@pytest.mark.parametrize("forest", [True, False])
def test_samples_have_the_marginals(forest: bool) -> None:
    edges = [(0, 1), (3, 1), (1, 1), (1, 3)] + ([] if forest else [(0, 3), (2, 3)])
    rng = np.random.default_rng(3)
    graph = GraphScores.of(rng.normal(size=(5, 3)), edges, rng.normal(size=(len(edges), 3, 3)))
    graph.unary[2, 0] = -np.inf
    n = 20_000
    drawn = GraphInference().sample(graph, n, rng)
    assert drawn.shape == (n, 5)
    wanted = AllLabellings.of(graph).marginals(graph).flat()
    counts = sum(graph.of_labels(y).flat() for y in drawn) / n
    assert (np.abs(counts - wanted) <= 5.0 * np.sqrt(wanted * (1 - wanted) / n) + 1e-12).all()
    again = GraphInference().sample(graph, 50, np.random.default_rng(1))
    np.testing.assert_array_equal(again, GraphInference().sample(graph, 50, np.random.default_rng(1)))


def test_scores_far_apart_do_not_underflow() -> None:
    graph = GraphScores.of(
        [[0.0, -2000.0], [-3000.0, 0.0], [0.0, 1.0]], [(0, 1), (1, 2), (0, 2)], -900 * np.eye(2)
    )
    assert_best(graph, "junction_tree")
    assert_sums(graph, "junction_tree")


@given(graphs(), st.sampled_from([200.0, 1e4, 1e6]))
def test_a_junction_tree_of_scores_that_underflow_together(graph: GraphScores, scale: float) -> None:
    """Products of many tables underflow where none of them does alone."""
    tables = [(f.nodes, scale * f.table) for f in graph.factors]
    large = GraphScores.of(scale * graph.unary, graph.edges, scale * graph.pairwise, tables)
    every = AllLabellings.of(large)
    inference = GraphInference("junction_tree")
    if not every.feasible:
        for question in (inference.best, inference.marginals):
            with pytest.raises(InfeasibleError):
                question(large)
        return
    assert inference.best(large).value == pytest.approx(every.best, rel=1e-9, abs=1e-9)
    sums = inference.marginals(large)
    assert sums.log_partition == pytest.approx(every.log_partition, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(sums.parts.flat(), every.marginals(large).flat(), atol=1e-6)
    drawn = inference.sample(large, 20, np.random.default_rng(0))
    assert all(large.score(y) >= every.best - 50.0 for y in drawn)  # others have probability exp(-50)


def test_a_best_labelling_that_step_after_step_nearly_underflows() -> None:
    """Label 1 falls out of the product of the first two tables, and is the best of all four."""
    graph = GraphScores.of(
        [[0.0, -400.0]] * 1, [(0, 0)] * 3, [np.diag([0.0, -400.0]), *[np.diag([-410.0, 0.0])] * 2]
    )
    assert_best(graph, "junction_tree")
    assert_sums(graph, "junction_tree")
    forbidden = GraphScores.of(
        [[0.0, -400.0]], [(0, 0)] * 2, [np.diag([0.0, -400.0]), np.diag([-np.inf, 0.0])]
    )
    assert_best(forbidden, "junction_tree")
    assert_sums(forbidden, "junction_tree")


# -- relaxed methods ----------------------------------------------------------------------------------------


@given(graphs())
def test_bounds_and_values_enclose_the_optimum(graph: GraphScores) -> None:
    every = AllLabellings.of(graph)
    found = []
    for method in ("lp", "message_passing"):
        try:
            found.append(GraphInference(method, tol=1e-9, max_iter=500).best(graph))
        except InfeasibleError:  # message passing may find none where there is one, and says so
            assert not every.feasible or method == "message_passing"
            continue
        answer = found[-1]
        assert answer.value <= every.best + 1e-9
        assert answer.bound >= every.best - 1e-7 * max(1.0, abs(every.best))
        if answer.integral and every.feasible:
            assert answer.value == pytest.approx(every.best, abs=1e-6)
    if len(found) == 2:
        assert found[1].bound >= found[0].bound - 1e-6


@given(graphs())
def test_the_bound_never_rises(graph: GraphScores) -> None:
    bounds: list[float] = []
    with suppress(InfeasibleError):
        message_passing(graph, 50, 0.0, bounds)
    assert all(after <= before + 1e-9 for before, after in pairwise(bounds))


@given(graphs(), st.sampled_from(["lp", "message_passing"]))
@settings(max_examples=30)
def test_relaxed_marginals_are_in_the_local_polytope(graph: GraphScores, method: str) -> None:
    try:
        mu = GraphInference(method).best(graph).mu
    except InfeasibleError:
        return
    np.testing.assert_allclose(mu.unary.sum(axis=1), 1.0, atol=1e-7)
    for e, (a, b) in enumerate(graph.edges):
        np.testing.assert_allclose(mu.pairwise[e].sum(axis=1), mu.unary[a], atol=1e-7)
        np.testing.assert_allclose(mu.pairwise[e].sum(axis=0), mu.unary[b], atol=1e-7)
    for f, table in zip(graph.factors, mu.factors, strict=True):
        for axis, node in enumerate(f.nodes):
            others = tuple(x for x in range(table.ndim) if x != axis)
            np.testing.assert_allclose(table.sum(axis=others), mu.unary[node], atol=1e-7)


@given(graphs(), st.sampled_from([1e-8, 1e-6, 1e6]))
def test_the_bound_of_the_program_holds_at_any_scale(graph: GraphScores, scale: float) -> None:
    tables = [(f.nodes, scale * f.table) for f in graph.factors]
    scaled = GraphScores.of(scale * graph.unary, graph.edges, scale * graph.pairwise, tables)
    best = AllLabellings.of(scaled).best
    with suppress(InfeasibleError):
        assert GraphInference("lp").best(scaled).bound >= best - 1e-12 * scale


def test_a_frustrated_triangle_is_fractional() -> None:
    """Three nodes that all want to differ, with two labels: best 2 of 3; the relaxation says 3."""
    found = GraphInference("lp").best(FRUSTRATED)
    assert (found.value, found.bound) == pytest.approx((2.0, 3.0))
    assert not found.integral
    assert not found.exact
    np.testing.assert_allclose(found.mu.unary, 0.5)
    assert found.mu.dot(FRUSTRATED) == pytest.approx(3.0)
    passed = GraphInference("message_passing").best(FRUSTRATED)
    assert (passed.value, passed.bound) == pytest.approx((2.0, 3.0))
    assert not passed.exact


def test_message_passing_reaches_the_relaxation_of_a_grid() -> None:
    graph = grid(6, 6, 3, 1.0, seed=0)
    relaxed = GraphInference("lp").best(graph)
    passed = GraphInference("message_passing", tol=1e-8, max_iter=2000).best(graph)
    exact = GraphInference("junction_tree").best(graph)
    assert relaxed.bound - 1e-6 <= passed.bound <= relaxed.bound + 0.05
    assert passed.value <= exact.value + 1e-9 <= relaxed.bound + 2e-9
    for method in ("icm", "loopy"):
        weak = GraphInference(method).best(graph)
        assert weak.value <= exact.value + 1e-9
        assert weak.bound == np.inf
        assert not weak.exact


def test_a_large_grid_in_bounded_memory() -> None:
    """Beside its scores: two messages for each edge, and a few numbers for each node and edge."""
    graph = grid(256, 256, 8, 0.5, seed=1)
    inference = GraphInference("message_passing", max_iter=2)
    inference.best(grid(3, 3, 8, 0.5, seed=1))  # compiled before memory is watched
    tracemalloc.start()
    found = inference.best(graph)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.value <= found.bound < graph.unary.max(axis=1).sum() + graph.pairwise.max(axis=(1, 2)).sum()
    assert peak < 1.5 * graph.pairwise.nbytes


def test_descent_cannot_be_improved_by_one_node() -> None:
    graph = grid(5, 5, 3, 1.0, seed=4)
    found = GraphInference("icm").best(graph)
    for i in range(25):
        for label in range(3):
            other = found.labels.copy()
            other[i] = label
            assert graph.score(other) <= found.value + 1e-12


# -- sums that are approximate ------------------------------------------------------------------------------


@given(graphs())
def test_the_tree_reweighted_bound(graph: GraphScores) -> None:
    every = AllLabellings.of(graph)
    try:
        found = GraphInference("tree_reweighted", max_iter=500).marginals(graph)
    except InfeasibleError:
        assert not every.feasible
        return
    assert found.bound
    assert found.log_partition >= every.log_partition - 1e-9
    np.testing.assert_allclose(found.parts.unary.sum(axis=1), 1.0, atol=1e-9)


def test_tree_reweighted_marginals_are_the_gradient_of_the_bound() -> None:
    """At the least bound a change of its shifts does not matter, so differences of least bounds show it."""
    graph = grid(3, 3, 3, 1.0, seed=5)
    inference = GraphInference("tree_reweighted", max_iter=2000, tol=1e-9)
    gradient = inference.marginals(graph).parts.flat()
    flat = GraphParts(graph.unary, graph.pairwise).flat()
    for i in range(0, len(flat), 7):
        values = []
        for step in (1e-4, -1e-4):
            moved = flat.copy()
            moved[i] += step
            parts = graph.unflat(moved)
            values.append(inference.log_partition(GraphScores.of(parts.unary, graph.edges, parts.pairwise)))
        assert (values[0] - values[1]) / 2e-4 == pytest.approx(gradient[i], abs=1e-5)


def test_loopy_sums_are_marked_and_near() -> None:
    graph = grid(4, 4, 2, 0.3, seed=6)
    exact, loopy = (GraphInference(method).marginals(graph) for method in ("junction_tree", "loopy"))
    assert not loopy.exact
    assert not loopy.bound
    assert loopy.log_partition == pytest.approx(exact.log_partition, abs=0.05)
    np.testing.assert_allclose(loopy.parts.flat(), exact.parts.flat(), atol=0.02)
    assert loopy.status.converged
    assert exact.status.converged


def test_sums_say_whether_they_have_converged() -> None:
    graph = grid(4, 4, 2, 2.0, seed=6)
    for method, words in (("loopy", "log-messages still change by"), ("tree_reweighted", "beliefs of edges")):
        status = GraphInference(method, max_iter=2).marginals(graph).status
        assert not status.converged
        assert str(status).startswith(f"stopped after 2 iterations: {words}")
    assert not GraphInference("loopy", max_iter=2).best(graph).status.converged
    stopped = GraphInference("message_passing", max_iter=1).best(FRUSTRATED).status
    assert not stopped.converged
    settled = GraphInference("message_passing", max_iter=500).best(FRUSTRATED).status
    assert settled.converged
    assert "the bound stands still" in settled.reason


def test_loopy_sums_of_a_wide_factor_without_cycles_are_exact() -> None:
    """Eight labels for three nodes: their joint labels are more than message passing takes."""
    rng = np.random.default_rng(2)
    factor = (0, 2, 1), rng.normal(size=(8, 8, 8))
    graph = GraphScores.of(rng.normal(size=(5, 8)), [(3, 1), (1, 3)], rng.normal(size=(2, 8, 8)), [factor])
    assert_sums(graph, "loopy")


# -- losses and rounding ------------------------------------------------------------------------------------


@given(graphs(), st.floats(-2.0, 2.0))
@settings(max_examples=30)
def test_costs_are_added_to_the_scores(graph: GraphScores, scale: float) -> None:
    cost = np.random.default_rng(0).random(graph.unary.shape)
    every = AllLabellings.of(graph)
    if not every.feasible:
        return
    losses = cost[np.arange(cost.shape[0]), every.labels].sum(axis=1)
    found = GraphInference().best(graph, cost, scale)
    assert found.value == pytest.approx(float((every.scores + scale * losses).max()), abs=1e-9)
    sums = GraphInference().marginals(graph, cost, scale)
    assert sums.log_partition == pytest.approx(float(np.logaddexp.reduce(every.scores + scale * losses)))


def test_the_expected_loss_is_the_mean_over_roundings() -> None:
    rng = np.random.default_rng(7)
    graph = GraphScores.of(0.1 * rng.random((3, 2)), FRUSTRATED.edges, FRUSTRATED.pairwise)
    mu = GraphInference("lp").best(graph).mu
    assert ((mu.unary > 0.1) & (mu.unary < 0.9)).any()
    cost = rng.random((3, 2))
    n = 40_000
    drawn = random(mu, rng, n)
    losses = cost[np.arange(3), drawn].sum(axis=1)
    assert abs(losses.mean() - expected_loss(mu, cost)) <= 4.0 * losses.std() / np.sqrt(n)
    gold, weight = np.array([0, 1, 1]), np.array([1.0, 2.0, 0.5])
    hamming = weight[:, None] * (1.0 - np.eye(2)[gold])
    by_hand = (weight * (1.0 - mu.unary[np.arange(3), gold])).sum()
    assert expected_loss(mu, hamming) == pytest.approx(float(by_hand))
    np.testing.assert_array_equal(random(mu, np.random.default_rng(2)), random(mu, np.random.default_rng(2)))


def test_rounding_of_a_labelling_gives_it_back() -> None:
    labels = np.array([1, 0, 1], dtype=np.int32)
    mu = FRUSTRATED.of_labels(labels)
    np.testing.assert_array_equal(argmax(mu), labels)
    np.testing.assert_array_equal(random(mu, np.random.default_rng(0), 3), [labels] * 3)


# -- what users get wrong -----------------------------------------------------------------------------------


def test_a_width_that_is_too_large_is_refused_with_a_forecast() -> None:
    graph = grid(30, 30, 4, 1.0, seed=0)
    for question in (GraphInference("junction_tree").best, GraphInference().marginals):
        words = r"iB of memory \(width \d+.*message_passing.*tree_reweighted"
        with pytest.raises(UnsupportedError, match=words):
            question(graph)
    assert GraphInference(max_iter=2).best(graph).method in ("message_passing", "loopy")


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("tree", "has cycles"),
        ("max_flow", "nodes 0 and 1 prefers unequal"),
        ("tree_reweighted", "computes sums"),
    ],
)
def test_methods_that_do_not_apply(method: str, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        GraphInference(method).best(FRUSTRATED)


def test_best_methods_have_no_marginals() -> None:
    with pytest.raises(UnsupportedError, match="has no marginals; use"):
        GraphInference("lp").marginals(FRUSTRATED)
    with pytest.raises(UnsupportedError, match="no exact samples"):
        GraphInference("lp").sample(FRUSTRATED, 1, np.random.default_rng(0))
    with pytest.raises(UnsupportedError, match="need an exact method"):
        GraphInference("lp").k_best(FRUSTRATED, 2)
    with pytest.raises(DataError, match="no inference method 'magic'"):
        GraphInference("magic")


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (lambda: GraphInference().k_best(FRUSTRATED, 0), "k is 0; give a whole number of at least 1"),
        (lambda: GraphInference().k_best(FRUSTRATED, 1.5), "k is 1.5"),  # type: ignore[arg-type]
        (lambda: GraphInference().sample(FRUSTRATED, -1, np.random.default_rng(0)), "n_samples is -1"),
        (
            lambda: GraphInference().best(FRUSTRATED, [[0.0, np.nan]] * 3),
            r"with costs contain nan at \(0, 1\)",
        ),
        (
            lambda: GraphInference().best(FRUSTRATED, [[0.0, np.inf]] * 3),
            r"with costs contain inf at \(0, 1\)",
        ),
        (lambda: GraphInference().best(FRUSTRATED, np.zeros((3, 2)), np.inf), "multiplied by inf"),
        (lambda: GraphInference(max_iter=1.5), "max_iter is 1.5; give a whole number"),  # type: ignore[arg-type]
        (lambda: FRUSTRATED.score([0, 0.5, 1]), "type float64 for 3 nodes"),
    ],
)
def test_malformed_questions(question: Callable[[], object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        question()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0.0, 1.0],), r"shape \(2,\); they must have shape \(nodes, labels\)"),
        (([[np.nan]],), r"contain nan at \(0, 0\)"),
        (([[0.0]], [(0, 1)]), r"edge 0 joins nodes \(0, 1\), and the nodes are 0 to 0"),
        (([[0.0]], [(0.0, 0.0)]), "whole numbers"),
        (([[0.0, 1.0]], [(0, 0)], np.zeros((1, 3, 3))), r"for 1 edges and 2 labels"),
        (([[0.0]] * 3, [], None, [((0, 0, 1), np.zeros((1, 1, 1)))]), "factor 0 is over nodes"),
        (([[0.0]] * 3, [], None, [((0, 1, 2), np.zeros((1, 1)))]), "factor 0 has shape"),
        (([[0.0]] * 3, [], None, [((0.5,), [0.0])]), r"factor 0 is over nodes \(0.5,\)"),
        (([[0.0]] * 3, [], None, [7]), "factor 0 is of type int"),
        (([["a"]],), "unary scores are not an array of numbers"),
        (([[0.0]], [(0, 0), (0,)]), "edges differ in length"),
    ],
)
def test_malformed_scores(arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(DataError, match=words):
        GraphScores.of(*arguments)  # type: ignore[arg-type]


def test_parts_add_up() -> None:
    graph = grid(2, 3, 3, 1.0, seed=8)
    y, z = np.array([0, 1, 2, 0, 1, 2]), np.zeros(6, dtype=int)
    assert graph.of_labels(y).dot(graph) == pytest.approx(graph.score(y))
    difference = graph.of_labels(y) - graph.of_labels(z)
    assert difference.dot(graph) == pytest.approx(graph.score(y) - graph.score(z))
    assert graph.restricted(graph.unary < np.inf).score(y) == graph.score(y)
    with pytest.raises(DataError, match="labels of shape"):
        graph.score([0, 1])


def test_no_nodes() -> None:
    empty = GraphScores.of(np.zeros((0, 2)))
    for method in ("auto", "lp", "message_passing", "max_flow", "icm"):
        assert GraphInference(method).best(empty).value == 0.0
    assert GraphInference().log_partition(empty) == 0.0
    assert len(grid_edges(1, 1)) == 0

"""Belief propagation: exact without cycles, the fixed points of a plain implementation with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_networks import joint, random_graph, random_network, seeds
from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet.inference.query import ApproximationWarning
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.factors.flat_factors import merge_nested


def loopy(
    model: BayesianNetwork | FactorGraph, targets: Any = None, evidence: Any = None, **options: Any
) -> Any:
    return model.query(targets, evidence, method="loopy", **options)


def random_tree(rng: np.random.Generator, n: int, zeros: bool) -> FactorGraph:
    """Factors of up to three variables that share at most one variable with what was there before."""
    sizes = rng.integers(1, 4, size=n)
    factors = [([i], rng.exponential(size=sizes[i])) for i in range(n) if rng.random() < 0.5]
    joined = 1
    while joined < n:
        new = list(range(joined, min(joined + int(rng.integers(1, 3)), n)))
        scope = rng.permutation([*new, int(rng.integers(joined))] if rng.random() < 0.9 else new)
        values = rng.exponential(size=sizes[scope])
        factors.append((scope.tolist(), np.where(rng.random(values.shape) < 0.2 * zeros, 0.0, values)))
        joined += len(new)
    return FactorGraph(sizes, factors)


def marginal(table: np.ndarray, *axes: int) -> np.ndarray:
    kept = table.sum(axis=tuple(i for i in range(table.ndim) if i not in axes))
    return kept / table.sum()


def at_evidence(table: np.ndarray, evidence: dict[int, int]) -> np.ndarray:
    mask = np.zeros(table.shape)
    mask[tuple(evidence.get(i, slice(None)) for i in range(table.ndim))] = 1.0
    return table * mask


@given(seed=seeds, n=st.integers(1, 8), zeros=st.booleans(), damping=st.sampled_from([0.0, 0.3]))
def test_exact_on_trees(seed: int, n: int, zeros: bool, damping: float) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n, zeros)
    observed = rng.choice(n, min(n - 1, int(rng.integers(0, 3))), replace=False)
    evidence = {int(i): int(rng.integers(tree.cardinalities[i])) for i in observed}
    table = at_evidence(joint(tree), evidence)
    names = tree.variables.decode(evidence)
    if table.sum() == 0:
        with pytest.raises(InfeasibleError, match=r"probability zero|zero everywhere"):
            loopy(tree, None, names, damping=damping)
        return
    answer = loopy(tree, None, names, damping=damping, tol=1e-13)
    for name, found in answer.items():
        np.testing.assert_allclose(found.values, marginal(table, tree.index(name)), atol=1e-10)
        assert not found.standard_errors.any()
        assert found.diagnostics["tree"]
        assert found.diagnostics["log_evidence"] == pytest.approx(np.log(table.sum()), abs=1e-8)
        assert "exact" in found.report


def test_two_passes_are_enough_on_a_chain() -> None:
    rng = np.random.default_rng(0)
    chain = BayesianNetwork(
        {f"v{i}": ["a", "b", "c"] for i in range(200)},
        {f"v{i}": [f"v{i - 1}"] for i in range(1, 200)},
        {f"v{i}": rng.dirichlet(np.ones(3), size=() if i == 0 else 3) for i in range(200)},
    )
    found = loopy(chain, "v0", {"v199": "b"})
    assert found.diagnostics["n_iter"] <= 4
    assert found.diagnostics["converged"]


def plain_fixed_point(graph: FactorGraph, n_iter: int) -> list[np.ndarray]:
    """Textbook belief propagation: all messages at once, from the same old ones, half damped."""
    sizes, factors = graph.cardinalities, graph.factors()
    edges = [(f, v) for f, table in enumerate(factors) for v in table.variables]
    down = {(f, v): np.full(sizes[v], 1 / sizes[v]) for f, v in edges}
    for _ in range(n_iter):
        up = {}
        for f, v in edges:
            message = np.ones(sizes[v])
            for g, u in edges:
                if u == v and g != f:
                    message = message * down[g, u]
            up[f, v] = message / message.sum()
        for f, v in edges:
            table = factors[f].values
            for axis, u in enumerate(factors[f].variables):
                if u != v:
                    shape = [-1 if a == axis else 1 for a in range(table.ndim)]
                    table = table * up[f, u].reshape(shape)
            axis = factors[f].variables.index(v)
            message = table.sum(axis=tuple(a for a in range(table.ndim) if a != axis))
            down[f, v] = 0.5 * down[f, v] + 0.5 * message / message.sum()
    beliefs = []
    for v in range(len(sizes)):
        belief = np.prod([down[f, u] for f, u in edges if u == v] or [np.ones(sizes[v])], axis=0)
        beliefs.append(belief / belief.sum())
    return beliefs


@settings(max_examples=15)
@given(seed=seeds)
def test_the_fixed_point_is_that_of_plain_messages(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, size=6)
    scopes = [[0, 1], [1, 2], [2, 3], [3, 0], [3, 4, 5], [0, 5], [2]]
    # weak interactions have one fixed point
    graph = FactorGraph(sizes, [(s, rng.uniform(0.5, 1.5, size=sizes[s])) for s in scopes])
    expected = plain_fixed_point(graph, 200)
    for damping in (0.0, 0.4):
        answer = loopy(graph, None, damping=damping, tol=1e-12)
        for i, found in enumerate(answer.values()):
            np.testing.assert_allclose(found.values, expected[i], atol=1e-9)
            assert np.isnan(found.standard_errors).all()
            assert not found.diagnostics["tree"]
            assert "error is not known" in found.report
            assert "+/-" not in str(found)


@settings(max_examples=20)
@given(seed=seeds)
def test_random_networks_stay_near_the_truth(seed: int) -> None:
    network = random_network(np.random.default_rng(seed), 6, max_parents=2)
    table = joint(network)
    answer = loopy(network, None, damping=0.1)
    # without evidence all messages upwards are constant, and a polytree or not, marginals of roots are exact
    for i, name in enumerate(network.names):
        if not network.parent_indices[i]:
            np.testing.assert_allclose(answer[name].values, marginal(table, i), atol=1e-8)
        assert answer[name].values.sum() == pytest.approx(1.0)


@settings(max_examples=20)
@given(seed=seeds)
def test_factors_within_others_are_merged_and_make_no_cycle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, size=4)
    scopes = [[0, 1], [1, 0], [2, 1, 0], [0, 2], [2, 3], [3, 2], [3], []]
    graph = FactorGraph(
        sizes,
        [(s, rng.exponential(size=sizes[s])) for s in (scopes[i] for i in rng.permutation(len(scopes)))],
    )
    tables, log_scale = merge_nested(graph.factors())
    assert sorted(tuple(sorted(t.variables)) for t in tables) == [(0, 1, 2), (2, 3), (3,)]
    assert all(t.values.max() == 0.0 for t in tables)
    again = FactorGraph(sizes, [(t.variables, np.exp(t.values)) for t in tables])
    np.testing.assert_allclose(joint(again) * np.exp(log_scale), joint(graph))
    answer = loopy(graph, None, tol=1e-13)
    for i, found in enumerate(answer.values()):
        np.testing.assert_allclose(found.values, marginal(joint(graph), i), atol=1e-10)
        assert found.diagnostics["tree"]
        assert found.diagnostics["log_evidence"] == pytest.approx(np.log(joint(graph).sum()), abs=1e-8)


def test_joint_beliefs_of_variables_in_one_factor() -> None:
    rng = np.random.default_rng(2)
    tree = FactorGraph([2, 3, 2, 2], [([2, 0, 1], rng.random((2, 2, 3))), ([1, 3], rng.random((3, 2)))])
    table = joint(tree)
    np.testing.assert_allclose(loopy(tree, ["x1", "x2"]).values, marginal(table, 1, 2), atol=1e-12)
    np.testing.assert_allclose(loopy(tree, ["x2", "x1"]).values, marginal(table, 1, 2).T, atol=1e-12)
    observed = loopy(tree, ["x3", "x1"], {"x3": "1"})
    np.testing.assert_allclose(observed.values, marginal(at_evidence(table, {3: 1}), 1, 3).T, atol=1e-12)
    with pytest.raises(UnsupportedError, match=r"'x0', 'x3' together.*gibbs"):
        loopy(tree, ["x0", "x3"])


def test_soft_evidence() -> None:
    rng = np.random.default_rng(3)
    tree = FactorGraph([2, 3], [([0, 1], rng.random((2, 3)))])
    table = joint(tree) * np.array([0.2, 0.5, 0.9])
    found = loopy(tree, "x0", likelihoods={"x1": [0.2, 0.5, 0.9]})
    np.testing.assert_allclose(found.values, marginal(table, 0))


def test_a_variable_without_factors_is_uniform() -> None:
    assert loopy(FactorGraph([2, 4], [([0], [1, 3])]), "x1").values.tolist() == [0.25] * 4
    empty = loopy(FactorGraph([2], []), "x0")
    assert empty.diagnostics["log_evidence"] == pytest.approx(np.log(2))


def test_many_factors_do_not_underflow() -> None:
    """A hidden cause of 2,000 observed effects of probability 1e-3 or so each."""
    factors = [([0], [1e-3, 1.001e-3])] * 2000
    found = loopy(FactorGraph([2], factors), "x0")
    odds = 1.001**2000
    assert found["1"] == pytest.approx(odds / (1 + odds), rel=1e-9)


def opposed(n: int) -> BayesianNetwork:
    """A cause with ``n`` effects, one half of which all but rules out one state, and the other the other."""
    rows = [[0.999, 0.001], [0.5, 0.5]]
    effects = [f"x{i}" for i in range(n)]
    tables = {"H": [0.25, 0.75]} | {x: rows if 2 * i < n else rows[::-1] for i, x in enumerate(effects)}
    states = {"H": ["a", "b"]} | {x: [0, 1] for x in effects}
    return BayesianNetwork(states, {x: ["H"] for x in effects}, tables)


def test_a_state_that_seemed_lost_comes_back() -> None:
    """Two hundred effects against a state, far below 1e-308, and then two hundred for it."""
    network = opposed(400)
    found = loopy(network, "H", {f"x{i}": 1 for i in range(400)})
    np.testing.assert_allclose(found.values, [0.25, 0.75], rtol=1e-9)
    expected = 200 * np.log(0.001 * 0.5)
    assert found.diagnostics["log_evidence"] == pytest.approx(expected, rel=1e-12)
    # the same at the two ends of a chain
    away, back = [([0], [1.0, 1e-200])] * 3, [([2], [1e-200, 1.0])] * 3
    chain = FactorGraph([2] * 3, [([0, 1], np.eye(2)), ([1, 2], np.eye(2)), *away, *back, ([1], [1.0, 3.0])])
    for i in range(3):
        np.testing.assert_allclose(loopy(chain, f"x{i}").values, [0.25, 0.75], rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1e3, 1e200])
def test_products_of_equal_factors_beyond_the_range_of_numbers(scale: float) -> None:
    values = scale * np.array([[1.0, 1.001], [1.0, 1.0]])
    found = loopy(FactorGraph([2, 2], [([0, 1], values), ([1, 0], values.T)] * 150), "x0")
    expected = np.array([1 + 1.001**300, 2.0])
    np.testing.assert_allclose(found.values, expected / expected.sum(), rtol=1e-9)
    log_z = 300 * np.log(scale) + np.log(expected.sum())
    assert found.diagnostics["log_evidence"] == pytest.approx(log_z, rel=1e-12)


def test_likelihoods_at_the_edge_of_the_range_of_numbers() -> None:
    graph = FactorGraph([2, 2], [([0, 1], [[4.0, 1.0], [1.0, 4.0]])])
    tiny = loopy(graph, "x1", likelihoods={"x0": [3 * 2.0**-1074, 2.0**-1074]})
    np.testing.assert_allclose(tiny.values, [13 / 20, 7 / 20])


def test_messages_that_do_not_settle_are_reported() -> None:
    """Four spins that all want to differ from each other cannot: the messages go round and round."""
    repel = np.array([[1e-3, 1.0], [1.0, 1e-3]])
    pairs = [(i, j) for i in range(5) for j in range(i)]
    tilt = [([i], [1.0, 1.0 + 0.1 * i]) for i in range(5)]
    graph = FactorGraph([2] * 5, [([i, j], repel) for i, j in pairs] + tilt)
    with pytest.warns(ApproximationWarning, match="raise damping"):
        found = loopy(graph, "x0", max_iter=50)
    status = found.diagnostics["status"]
    assert not status.converged
    assert str(status).startswith("stopped after 50 iterations: log-messages still change by")
    assert len(found.diagnostics["residuals"]) == 50
    assert np.isnan(found.standard_errors).all()


def test_impossible_evidence_around_a_cycle() -> None:
    differ = np.array([[0.0, 1.0], [1.0, 0.0]])
    square = FactorGraph([2] * 4, [([i, (i + 1) % 4], differ) for i in range(4)])
    with pytest.raises(InfeasibleError, match=r"probability zero|zero everywhere"):
        loopy(square, "x1", {"x0": "0", "x2": "1"})
    contradiction = FactorGraph([2, 2], [([0, 1], np.eye(2))])
    with pytest.raises(InfeasibleError, match="probability zero: x0=0, x1=1; change"):
        loopy(contradiction, None, {"x0": "0", "x1": "1"})


def test_options_are_checked() -> None:
    graph = random_graph(np.random.default_rng(0), 3, 2)
    for options in ({"damping": 1.0}, {"damping": -0.1}, {"tol": -1.0}):
        with pytest.raises(DataError, match=r"(damping|tol) is .*; give a"):
            loopy(graph, "x0", **options)
    for max_iter in (0, 2.5, "many"):
        with pytest.raises(DataError, match=r"max_iter is .*whole number of at least 1"):
            loopy(graph, "x0", max_iter=max_iter)

"""Graphs without an allowed labelling: every method says so, or that it does not know; none has a number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_graphs import AllLabellings
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.factors import allowed_assignment
from trellis.structures.graph import GraphInference, GraphScores
from trellis.structures.graph.oracle.graph_oracle import BEST_METHODS, SUM_METHODS


def constraint_graph(seed: int) -> GraphScores:
    """Zeros and -inf: pairs and triples that are allowed or forbidden at random, or must differ."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 7)), int(rng.integers(2, 4))
    edges = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.6]
    pairwise = np.where(rng.random((len(edges), k, k)) < rng.choice([0.2, 0.5]), -np.inf, 0.0)
    if rng.random() < 0.5:
        pairwise[:, np.arange(k), np.arange(k)] = -np.inf
    unary = np.where(rng.random((n, k)) < 0.1, -np.inf, rng.choice([0.0, 1.0]) * rng.normal(size=(n, k)))
    factors = []
    if n > 2 and rng.random() < 0.3:
        nodes = rng.choice(n, 3, replace=False)
        factors.append((nodes, np.where(rng.random((k, k, k)) < 0.5, -np.inf, 0.0)))
    return GraphScores.of(unary, edges, pairwise, factors)


@given(st.integers(0, 2**32))
def test_no_method_answers_where_nothing_is_allowed(seed: int) -> None:
    scores = constraint_graph(seed)
    every = AllLabellings.of(scores)
    for method in BEST_METHODS:
        try:
            found = GraphInference(method).best(scores)
        except UnsupportedError:
            continue
        except InfeasibleError:
            assert not every.feasible, method
            continue
        assert every.feasible, method  # the search is never given up on graphs of this size
        assert found.value > -np.inf
        assert found.value == pytest.approx(scores.score(found.labels), abs=1e-9)
        assert found.value <= every.best + 1e-9 <= found.bound + 2e-9
        assert not found.exact or found.value == pytest.approx(every.best, abs=1e-5)
    for method in SUM_METHODS:
        try:
            sums = GraphInference(method).marginals(scores)
        except UnsupportedError:
            continue
        except InfeasibleError:
            assert not every.feasible, method
            continue
        assert every.feasible, method
        assert not sums.bound or sums.log_partition >= every.log_partition - 1e-9


@pytest.mark.parametrize("n", [3, 5, 7, 31])
def test_odd_rings_whose_neighbours_must_differ(n: int) -> None:
    differ = np.where(np.eye(2) > 0, -np.inf, 0.0)
    ring = GraphScores.of(np.zeros((n, 2)), [(i, (i + 1) % n) for i in range(n)], differ)
    for method in ("auto", "junction_tree", "lp", "message_passing", "icm", "loopy"):
        with pytest.raises(InfeasibleError, match="no allowed labelling"):
            GraphInference(method).best(ring)
    for method in ("auto", "tree_reweighted", "loopy"):
        with pytest.raises(InfeasibleError, match="no allowed labelling"):
            GraphInference(method).marginals(ring)


def test_what_was_not_established_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eleven nodes that must all differ, with ten labels: no method but a search of ten factorial sees it."""
    monkeypatch.setattr(allowed_assignment, "BUDGET", 1000)
    differ = np.where(np.eye(10) > 0, -np.inf, 0.0)
    pigeons = GraphScores.of(np.zeros((11, 10)), [(i, j) for i in range(11) for j in range(i)], differ)
    for method in ("message_passing", "icm", "loopy"):
        found = GraphInference(method, max_iter=3).best(pigeons)
        assert found.value == -np.inf
        assert not found.exact
        assert not found.status.converged
        assert "not established" in found.status.reason
    for method in ("tree_reweighted", "loopy"):
        sums = GraphInference(method, max_iter=3).marginals(pigeons)
        assert not sums.exact
        assert not sums.status.converged
        assert "not established" in sums.status.reason


@pytest.mark.parametrize("seed", range(6))
def test_auto_is_at_least_as_good_as_every_baseline(seed: int) -> None:
    """Frustrated grids and dense graphs, too large for "auto" to begin with a junction tree."""
    rng = np.random.default_rng(seed)
    if seed % 2:
        n, k = 60, 3
        edges = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.4]
    else:
        side, k = 18, 4
        place = np.arange(side * side).reshape(side, side)
        n = side * side
        edges = [*zip(place[:, :-1].ravel(), place[:, 1:].ravel(), strict=True)]
        edges += [*zip(place[:-1].ravel(), place[1:].ravel(), strict=True)]
    scores = GraphScores.of(rng.normal(size=(n, k)), edges, rng.normal(size=(len(edges), k, k)))
    found = GraphInference(max_iter=30).best(scores)
    assert found.value == pytest.approx(scores.score(found.labels), rel=1e-12)
    assert found.bound >= found.value
    for method in ("message_passing", "loopy", "icm"):
        other = GraphInference(method, max_iter=30).best(scores)
        assert found.value >= other.value - 1e-9, method
        assert found.bound <= other.bound + 1e-6
    assert found.method in ("message_passing", "loopy", "junction_tree")
    assert found.exact == (found.bound - found.value <= 1e-6 * max(1.0, abs(found.value)))

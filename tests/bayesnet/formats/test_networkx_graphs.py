"""Networks and factor graphs to networkx and back."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from small_networks import random_graph, random_network, seeds
from trellis import BayesianNetwork, FactorGraph
from trellis.core.errors import DataError


@given(seeds)
def test_networkx_and_back(seed: int) -> None:
    net = random_network(np.random.default_rng(seed), 6)
    graph = net.to_networkx()
    assert nx.is_directed_acyclic_graph(graph)
    assert BayesianNetwork.from_networkx(graph) == net


def test_networkx_graphs_of_others() -> None:
    net = BayesianNetwork.from_networkx(nx.DiGraph([("A", "C"), ("B", "C")]))
    assert net.parents("C") == ["A", "B"]
    assert net.states == (("no", "yes"),) * 3
    with pytest.raises(DataError, match=r"expected a networkx\.DiGraph"):
        BayesianNetwork.from_networkx(nx.Graph([("A", "B")]))
    with pytest.raises(DataError, match="cycle"):
        BayesianNetwork.from_networkx(nx.DiGraph([("A", "B"), ("B", "A")]))
    graph = nx.DiGraph([("A", "B")])
    graph.nodes["B"]["parents"] = ["C"]
    with pytest.raises(DataError, match="do not agree"):
        BayesianNetwork.from_networkx(graph)
    with pytest.raises(DataError, match=r"expected a networkx\.DiGraph"):
        BayesianNetwork.from_networkx([("A", "B")])
    bipartite = FactorGraph([2, 3], [([0, 1], np.ones((2, 3)))]).to_networkx()
    assert sorted(bipartite[("factor", 0)]) == ["x0", "x1"]


@given(seeds)
def test_factor_graphs_to_networkx_and_back(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed), 4, 5)
    assert FactorGraph.from_networkx(graph.to_networkx()) == graph


def test_networkx_graphs_that_are_no_factor_graphs() -> None:
    graph = FactorGraph([2, 2], [([0, 1], np.ones((2, 2)))]).to_networkx()
    with pytest.raises(DataError, match="without directions"):
        FactorGraph.from_networkx(graph.to_directed())
    graph.remove_edge("x0", ("factor", 0))
    with pytest.raises(DataError, match="and its neighbours do not agree; correct one of them"):
        FactorGraph.from_networkx(graph)
    with pytest.raises(DataError, match="the node 'A' has neither 'states'"):
        FactorGraph.from_networkx(nx.Graph([("A", "B")]))

"""Families, interventions, ancestral networks, names, copies, and tables as text."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from small_networks import joint, random_network, seeds
from trellis import BayesianNetwork, load
from trellis.core.errors import DataError


@given(seeds)
def test_families_are_those_of_networkx(seed: int) -> None:
    net = random_network(np.random.default_rng(seed), 8)
    graph = net.to_networkx()
    assert set(net.edges) == set(graph.edges)
    assert len(net.edges) == graph.number_of_edges()
    place = {name: i for i, name in enumerate(net.topological_order)}
    assert all(place[tail] < place[head] for tail, head in net.edges)
    for name in net.names:
        assert set(net.ancestors(name)) == nx.ancestors(graph, name)
        assert set(net.descendants(name)) == nx.descendants(graph, name)
    pair = list(net.names[:2])
    both = nx.descendants(graph, pair[0]) | nx.descendants(graph, pair[1])
    assert set(net.descendants(pair)) == both - set(pair)


@given(seeds)
def test_an_intervention_is_the_truncated_product(seed: int) -> None:
    """Dividing by the table of what is set, and keeping what agrees with it, from the joint distribution."""
    net = random_network(np.random.default_rng(seed), 5)
    name = net.names[seed % 5]
    i, state = net.index(name), net.states[net.index(name)][-1]
    cut = net.do({name: state})
    assert cut.parents(name) == []
    without = net.with_tables(
        [np.ones_like(t) / t.shape[-1] if v == i else t for v, t in enumerate(net.tables)]
    )
    size = len(net.states[i])
    expected = joint(without) * size * np.eye(size)[-1].reshape([-1 if v == i else 1 for v in range(5)])
    np.testing.assert_allclose(joint(cut), expected, atol=1e-12)


def test_seeing_is_not_doing() -> None:
    """By hand: the season decides both: a sprinkler seen to run tells of rain, one turned on does not."""
    net = BayesianNetwork(
        {"Season": ["dry", "wet"], "Sprinkler": ["on", "off"], "Rain": ["yes", "no"]},
        {"Sprinkler": ["Season"], "Rain": ["Season"]},
        {"Season": [0.5, 0.5], "Sprinkler": [[0.8, 0.2], [0.2, 0.8]], "Rain": [[0.1, 0.9], [0.9, 0.1]]},
    )
    seen = net.query("Rain", {"Sprinkler": "on"})
    done = net.do({"Sprinkler": "on"}).query("Rain")
    assert seen["yes"] == pytest.approx(0.8 * 0.1 + 0.2 * 0.9)
    assert done["yes"] == pytest.approx(0.5)
    with pytest.raises(DataError, match="the variable 'Sprinkler' has no state 'open'"):
        net.do({"Sprinkler": "open"})


@given(seeds)
def test_ancestral_networks_are_marginals(seed: int) -> None:
    net = random_network(np.random.default_rng(seed), 6)
    names = list(net.names[:2])
    small = net.ancestral_network(names)
    assert set(small.names) == {*names, *net.ancestors(names)}
    gone = tuple(i for i, name in enumerate(net.names) if name not in small)
    np.testing.assert_allclose(joint(small), joint(net).sum(axis=gone), atol=1e-12)


def test_other_names() -> None:
    net = random_network(np.random.default_rng(4), 5)
    other = net.rename({"v0": "Rain", "v3": "Wet"})
    assert other.names == ("Rain", "v1", "v2", "Wet", "v4")
    assert other.rename({"Rain": "v0", "Wet": "v3"}) == net
    assert net.rename({"v0": "v1", "v1": "v0"}).table("v1").tolist() == net.table("v0").tolist()
    with pytest.raises(DataError, match="'v1' is defined twice"):
        net.rename({"v0": "v1"})
    with pytest.raises(DataError, match="there is no variable 'x'"):
        net.rename({"x": "y"})


def test_copies_are_equal_and_cannot_be_written_to(tmp_path: Path) -> None:
    net = random_network(np.random.default_rng(2), 5)
    graph = net.to_factor_graph()
    net.query("v0")  # plans are kept beside the network
    net.save(tmp_path / "net")
    for twin in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net)), load(tmp_path / "net")):
        assert twin == net
        with pytest.raises(ValueError, match="read-only"):
            twin.tables[0][...] = 0.0
        np.testing.assert_array_equal(twin.query("v1").values, net.query("v1").values)
    twin_graph = pickle.loads(pickle.dumps(graph))
    assert twin_graph == graph
    with pytest.raises(ValueError, match="read-only"):
        twin_graph.factors()[0].values[...] = 0.0
    assert "v0" in net
    assert "v0" in graph
    assert "v9" not in net


def test_a_table_to_read() -> None:
    net = BayesianNetwork(
        {"Rain": ["yes", "no"], "Wind": ["strong", "weak"], "Wet": ["y", "n"]},
        {"Wet": ["Rain", "Wind"]},
        {"Rain": [0.25, 0.75], "Wind": [0.5, 0.5], "Wet": [[[1, 0], [0.5, 0.5]], [[1 / 3, 2 / 3], [0, 1]]]},
    )
    assert net.format_table("Rain") == "P(Rain)\n yes    no\n0.25  0.75"
    assert net.format_table("Wet").splitlines() == [
        "P(Wet | Rain, Wind)",
        "Rain  Wind    |         y         n",
        "yes   strong  |         1         0",
        "yes   weak    |       0.5       0.5",
        "no    strong  |  0.333333  0.666667",
        "no    weak    |         0         1",
    ]
    assert net.format_table("Wet", max_rows=1).splitlines()[-2:] == [
        "yes   strong  |  1  0",
        "... and 3 more rows",
    ]
    with pytest.raises(DataError, match="max_rows is 0; give a whole number of at least 1"):
        net.format_table("Wet", max_rows=0)

"""Networks: what they are made of, what is refused and with which words, and their other forms."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from small_networks import joint, random_graph, random_network, seeds
from trellis import BayesianNetwork, FactorGraph, load
from trellis.bayesnet import NetworkBuilder
from trellis.bayesnet.model.conversions import network_from_graph
from trellis.core.errors import (
    DataError,
    InfeasibleError,
    ModelFileError,
    TrellisError,
    UnsupportedError,
)
from trellis.factors.tables import Table

YES_NO = ["yes", "no"]


def sprinkler() -> BayesianNetwork:
    return (
        NetworkBuilder()
        .variable("Rain", YES_NO, [0.2, 0.8])
        .variable("Sprinkler", YES_NO, {"yes": [0.01, 0.99], "no": [0.4, 0.6]}, given="Rain")
        .variable("Wet", YES_NO)
        .table(
            "Wet",
            {
                ("yes", "yes"): [0.99, 0.01],
                ("yes", "no"): {"yes": 0.8, "no": 0.2},
                ("no", "yes"): [0.9, 0.1],
                ("no", "no"): {"no": 1},
            },
            given=["Rain", "Sprinkler"],
        )
        .build()
    )


def test_the_parts_of_a_network() -> None:
    net = sprinkler()
    assert net.names == ("Rain", "Sprinkler", "Wet")
    assert net.cardinalities.tolist() == [2, 2, 2]
    assert net.parent_indices[2] == (0, 1)
    assert net.child_indices(0) == (1, 2)
    assert net.parents("Wet") == ["Rain", "Sprinkler"]
    assert net.children("Sprinkler") == ["Wet"]
    assert net.table("Wet")[0, 1].tolist() == [0.8, 0.2]
    assert net.table("Wet")[1, 1].tolist() == [0.0, 1.0]
    assert net.factorisation == "P(Rain) P(Sprinkler | Rain) P(Wet | Rain, Sprinkler)"
    assert net.n_parameters == 1 + 2 + 4
    assert repr(net) == "BayesianNetwork(3 variables, 3 edges, 7 free parameters)"
    # P(Wet = yes) by hand: 0.2 (0.01 0.99 + 0.99 0.8) + 0.8 (0.4 0.9 + 0.6 0)
    assert joint(net).sum(axis=(0, 1))[0] == pytest.approx(0.2 * (0.0099 + 0.792) + 0.8 * 0.36)


def test_a_network_does_not_change() -> None:
    table = np.array([0.5, 0.5])
    net = BayesianNetwork({"A": YES_NO}, tables={"A": table})
    table[:] = [1.0, 0.0]
    assert net.tables[0].tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        net.tables[0][0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        net.cardinalities[0] = 3


def test_other_tables_for_the_same_arrows() -> None:
    net = sprinkler()
    drier = net.with_tables({"Rain": {"yes": 0.1, "no": 0.9}})
    assert drier.table("Rain").tolist() == [0.1, 0.9]
    assert drier.table("Wet") is not net.table("Wet")
    assert drier.with_tables(net.tables) == net
    with pytest.raises(DataError, match="there are 3 variables, 3 lists of parents and 2 tables"):
        net.with_tables(net.tables[:2])
    with pytest.raises(DataError, match="there is no variable 'Snow'"):
        net.with_tables({"Snow": [0.1, 0.9]})


def test_rows_are_normalised_beyond_rounding_only() -> None:
    net = BayesianNetwork({"A": ["a", "b", "c"]}, tables={"A": [0.3333333, 0.3333333, 0.3333333]})
    assert net.tables[0].sum() == pytest.approx(1.0, abs=1e-15)
    tenths = [0.1] * 10  # whose sum is not 1 in floating point
    net = BayesianNetwork({"A": range(10)}, tables={"A": tenths})
    assert net.tables[0].tolist() == tenths


@pytest.mark.parametrize(
    ("states", "parents", "tables", "message"),
    [
        ({"A": YES_NO, "B": YES_NO, "C": YES_NO}, {"A": ["C"], "B": ["A"], "C": ["B"]}, "uniform",
         "the edges form a cycle, A -> B -> C -> A; remove one of them"),
        ({"A": YES_NO}, {"A": ["A"]}, "uniform", "the edges form a cycle, A -> A; remove one of them"),
        ({"A": YES_NO, "B": YES_NO}, {"B": ["A", "A"]}, "uniform", "has the parent 'A' twice"),
        ({"A": YES_NO}, {"A": ["Aa"]}, "uniform", "there is no variable 'Aa'; did you mean 'A'?"),
        ({"A": ["x", "x"]}, {}, "uniform", "the variable 'A' has the state 'x' twice"),
        ({"A": []}, {}, "uniform", "the variable 'A' has no states"),
        ({"A": "yes"}, {}, "uniform", "the states of 'A' are one string"),
        ({"": YES_NO}, {}, "uniform", "the name of a variable must be a string that is not empty"),
        ({"A": YES_NO}, {}, {}, "the variable 'A' has no table"),
        ([("A", "B")], {}, "uniform", "states must be a dictionary from variables to their states"),
        ({"A": 2}, {}, "uniform", "the states of 'A' are 2; give a list of names"),
        ({"A": YES_NO}, [("A", "B")], "uniform", "parents must be a dictionary from variables to their"),
        ({"A": YES_NO}, {"A": None}, "uniform", "the parents of 'A' are None; give a list of names"),
        ({"A": YES_NO}, {}, [[0.5, 0.5]], "tables must be a dictionary or 'uniform', got list"),
        ({f"v{i}": YES_NO for i in range(41)}, {"v40": [f"v{i}" for i in range(40)]}, "uniform",
         "the table of 'v40' with its 40 parents would have 2,199,023,255,552 numbers on 41 axes"),
        ({f"v{i}": ["a"] for i in range(71)}, {"v70": [f"v{i}" for i in range(70)]}, "uniform",
         "the table of 'v70' with its 70 parents would have 1 numbers on 71 axes"),
        ({"A": YES_NO}, {}, {"A": [np.inf, -np.inf]}, "the row of 'A' holds -inf"),
        ({"A": YES_NO, "B": YES_NO}, {"B": ["A"]}, {"A": [1, 0], "B": {"yes": [np.nan] * 2, "no": [1, 0]}},
         "the row of 'B' given A=yes holds NaN"),
        ({"A": YES_NO}, {}, {"A": [1, 0], "B": [1, 0]}, "there is no variable 'B'"),
        ({"A": YES_NO}, {}, {"A": [0.5, 0.4]}, "the row of 'A' sums to 0.9 instead of 1"),
        ({"A": YES_NO}, {}, {"A": [1.5, -0.5]}, "the row of 'A' holds -0.5"),
        ({"A": YES_NO}, {}, {"A": [np.nan, 0.5]}, "the row of 'A' holds NaN"),
        ({"A": YES_NO}, {}, {"A": ["x", 0.5]}, "the table of 'A' is not an array of numbers"),
        ({"A": YES_NO}, {}, {"A": [0.5, 0.5, 0.0]}, "the table of 'A' has shape (3,) and needs (2,)"),
        ({"A": YES_NO}, {}, {"A": {"yes": 0.5, "maybe": 0.5}}, "the variable 'A' has no state 'maybe'"),
        ({"A": YES_NO, "B": YES_NO}, {"B": ["A"]}, {"A": [1, 0], "B": [[0.5, 0.5], [0.5, 0.6]]},
         "the row of 'B' given A=no sums to 1.1"),
        ({"A": YES_NO, "B": YES_NO}, {"B": ["A"]}, {"A": [1, 0], "B": {"yes": [0.5, 0.5]}},
         "the table of 'B' has no row given A=no"),
        ({"A": YES_NO, "B": YES_NO}, {"B": ["A"]}, {"A": [1, 0], "B": {"yes": [1.0], "no": [1, 0]}},
         "the row of 'B' given A=yes has 1 numbers and needs 2"),
        ({"A": YES_NO, "B": YES_NO}, {"B": ["A"]}, {"A": [1, 0], "B": {"yes": [1, 0], ("yes",): [1, 0]}},
         "the table of 'B' has two rows given A=yes"),
        ({"A": YES_NO, "B": YES_NO}, {"B": ["A"]}, {"A": [1, 0], "B": {("yes", "no"): [1, 0]}},
         "give one state of each"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(states, parents, tables, message) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        BayesianNetwork(states, parents, tables)


def test_the_writer_refuses_what_is_not_there() -> None:
    with pytest.raises(DataError, match="'A' is defined twice"):
        NetworkBuilder().variable("A", YES_NO).variable("A", YES_NO)
    with pytest.raises(DataError, match="'A' has no table"):
        NetworkBuilder().variable("A", YES_NO).build()
    net = (
        NetworkBuilder()
        .variable("A", YES_NO, [1, 0])
        .variable("B", range(4), given="A")
        .build(missing="uniform")
    )
    assert net.table("B").tolist() == [[0.25] * 4] * 2


def test_states_are_known_by_how_they_are_written() -> None:
    variables = BayesianNetwork({"A": [True, False], "B": [0, 1, 2]}).variables
    assert variables.states == (("True", "False"), ("0", "1", "2"))
    assert variables.encode({"A": np.bool_(False), "B": 2.0}) == {0: 1, 1: 2}
    assert variables.encode({"A": "True", "B": np.int64(1)}) == {0: 0, 1: 1}
    assert variables.decode({1: 2, 0: 0}) == {"B": "2", "A": "True"}
    with pytest.raises(DataError, match=r"'B' has no state '1.5'; its states are '0', '1', '2'"):
        variables.encode({"B": 1.5})
    with pytest.raises(DataError, match="expected a dictionary"):
        variables.encode(["A"])  # type: ignore[arg-type]


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
    with pytest.raises(DataError, match="and its neighbours do not agree"):
        FactorGraph.from_networkx(graph)
    with pytest.raises(DataError, match="the node 'A' has neither 'states'"):
        FactorGraph.from_networkx(nx.Graph([("A", "B")]))


def test_saving_and_loading(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    net, graph = random_network(rng, 8), random_graph(rng, 5, 6)
    net.save(tmp_path / "net.trellis")
    graph.save(tmp_path / "graph.trellis")
    assert load(tmp_path / "net.trellis") == net
    assert load(tmp_path / "graph.trellis") == graph


def test_a_saved_network_is_checked(tmp_path: Path) -> None:
    from trellis.core import storage
    from trellis.core.codec import encode

    for scope, shape in [
        ([0, 0], (2, 2)),
        ([7, 0], (2, 2)),
        ([-1, 0], (2, 2)),
        ([0], (1,)),
        ([], ()),
        (None, ()),
    ]:
        factors = [] if scope is None else [Table(tuple(scope), np.full(shape, 0.5))]
        arrays: dict[str, Any] = {}
        parts = {"names": ["A"], "states": [["a", "b"]], "factors": encode(factors, arrays, "factors")}
        storage.save(tmp_path / "bad", "BayesianNetwork", {**parts, "extra": {}}, arrays)
        with pytest.raises(ModelFileError, match="damaged or incomplete"):
            load(tmp_path / "bad")


# -- factor graphs ------------------------------------------------------------------------------------------


def test_a_factor_graph_takes_names_or_numbers() -> None:
    pair = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    graph = FactorGraph([2, 3], [(["A", "B"], pair), ("A", [1, 0])], names=["A", "B"])
    same = FactorGraph([2, 3], [([0, 1], pair), ([0], [1, 0])], names=["A", "B"])
    assert graph == same
    assert joint(graph).tolist() == [[1, 2, 3], [0, 0, 0]]
    assert repr(graph) == "FactorGraph(2 variables, 2 factors)"


@pytest.mark.parametrize(
    ("sizes", "factors", "options", "message"),
    [
        ([2, 0], [], {}, "variable 1 has cardinality 0"),
        ([2], [([1], [1, 1])], {}, "factor 0 names variable 1, and the variables are 0 to 0"),
        ([2], [([0, 0], np.ones((2, 2)))], {}, "the same variable on two axes"),
        ([2], [([0], [1, 1, 1])], {}, "factor 0 has shape (3,) and needs (2,)"),
        ([2], [([0], [1, -1])], {}, "negative or not finite"),
        ([2], [([0], [1, np.nan])], {}, "negative or not finite"),
        ([2], [([0], [1, np.inf])], {}, "negative or not finite"),
        ([2], [], {"names": ["A", "B"]}, "1 cardinalities, 2 names"),
        ([2], [], {"states": [["a"]]}, "as many states as its cardinality"),
        ([2], [("B", [1, 1])], {}, "there is no variable 'B'"),
        (["two"], [], {}, "variable 0 has cardinality 'two'"),
        ([np.nan], [], {}, "variable 0 has cardinality nan"),
        ([10**12], [], {}, "variable 0 has cardinality 1000000000000; give a whole number from 1 to"),
        ([2], [[1, 2, 3]], {}, "factor 0 is not a pair of variables and values"),
        ([2, 2], [([0.7], [1, 2])], {}, "factor 0 names the variable 0.7"),
        ([2, 2], [([0, 1], [[1], [1, 2]])], {}, "the values of factor 0 are not an array of numbers"),
        ([1] * 70, [(range(70), [1])], {}, "factor 0 has 70 variables; the limit is"),
    ],
)
def test_a_bad_factor_graph_is_refused(sizes, factors, options, message) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        FactorGraph(sizes, factors, **options)


@given(seeds)
def test_a_network_as_factor_graph_and_back(seed: int) -> None:
    net = random_network(np.random.default_rng(seed), 6, zeros=seed % 2 == 0)
    graph = net.to_factor_graph()
    np.testing.assert_allclose(joint(graph), joint(net), atol=1e-15)
    assert joint(graph).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(joint(graph.to_network()), joint(net), atol=1e-12)


@given(seeds)
def test_a_factor_graph_as_network(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(1, 6)), int(rng.integers(0, 7)))
    weights = joint(graph)
    np.testing.assert_allclose(joint(graph.to_network()), weights / weights.sum(), rtol=1e-10, atol=1e-14)


def test_conversion_refuses_the_impossible_and_the_large() -> None:
    opposite = FactorGraph([2, 2], [([0, 1], np.eye(2)), ([0, 1], 1 - np.eye(2))])
    with pytest.raises(InfeasibleError, match="every assignment has weight zero"):
        opposite.to_network()
    dense = FactorGraph([4] * 6, [((i, j), np.ones((4, 4))) for i in range(6) for j in range(i)])
    with pytest.raises(UnsupportedError, match=r"table of 4,096 numbers on 6 axes, and the limits are 1,000"):
        network_from_graph(dense, limit=1000)


def test_conversion_neither_overflows_nor_underflows() -> None:
    """By hand: the weights of a state are products that no floating-point number holds."""
    tiny, huge = (
        FactorGraph([2], [([0], [1e-200, 3e-200])] * 5),
        FactorGraph([2], [([0], [1e200, 1e200])] * 5),
    )
    np.testing.assert_allclose(tiny.to_network().tables[0], np.array([1, 243]) / 244, rtol=1e-10)
    np.testing.assert_allclose(huge.to_network().tables[0], [0.5, 0.5], rtol=1e-10)
    opposed = FactorGraph([2], [([0], [1, 1e-200])] * 2 + [([0], [1e-200, 1])] * 2)
    np.testing.assert_allclose(opposed.to_network().tables[0], [0.5, 0.5], rtol=1e-10)


def test_errors_are_of_one_family() -> None:
    with pytest.raises(TrellisError):
        sprinkler().index("Snow")
    with pytest.raises(DataError, match=r"net\.xml: networks are read from \.bif and \.uai"):
        BayesianNetwork.read("net.xml")
    with pytest.raises(UnsupportedError, match=r"net\.xml: networks are written to"):
        sprinkler().write("net.xml")

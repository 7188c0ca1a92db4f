"""Networks: what they are made of, and what is refused with which words."""

from __future__ import annotations

import re

import numpy as np
import pytest

from small_networks import joint
from trellis import BayesianNetwork
from trellis.bayesnet import NetworkBuilder
from trellis.core.errors import (
    DataError,
    TrellisError,
)

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


def test_other_tables_for_the_same_edges() -> None:
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


def test_errors_are_of_one_family() -> None:
    with pytest.raises(TrellisError):
        sprinkler().index("Snow")
    with pytest.raises(DataError, match=r"net\.xml: networks are read from \.bif and \.uai"):
        BayesianNetwork.read("net.xml")
    with pytest.raises(DataError, match=r"net\.xml: networks are written to"):
        sprinkler().write("net.xml")

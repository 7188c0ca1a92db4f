"""Data frames of all kinds as numbered states, and back; equal rows once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from small_networks import random_network
from trellis import BayesianNetwork
from trellis.bayesnet.model.data_frames import encode_frame
from trellis.bayesnet.model.distinct_rows import distinct_rows
from trellis.core.errors import DataError

RAIN = BayesianNetwork(
    {"Rain": ["yes", "no"], "Wet": ["yes", "no"]},
    {"Wet": ["Rain"]},
    {"Rain": [0.3, 0.7], "Wet": [[0.9, 0.1], [0.2, 0.8]]},
)

NUMBERS = BayesianNetwork({"A": [0, 1], "B": ["x", "y"]}, {"B": ["A"]})


def test_equal_rows_are_met_once() -> None:
    codes = np.array([[0, 1], [1, 0], [0, 1], [-1, 0], [0, 1]], dtype=np.int32)
    rows = distinct_rows(codes, np.array([1.0, 2.0, 0.5, 1.0, 0.0]))
    assert len(rows.codes) == 3
    np.testing.assert_array_equal(rows.codes[rows.inverse], codes[:4])
    assert dict(zip(map(tuple, rows.codes.tolist()), rows.weight, strict=True)) == {
        (0, 1): 1.5, (1, 0): 2.0, (-1, 0): 1.0,
    }  # fmt: skip
    assert sorted(rows.origin.tolist()) == [0, 1, 3]


def frames() -> dict[str, Any]:
    masked = np.ma.array([1, 1, 0], mask=[False, True, False])
    found = {
        "columns": {"A": [1, None, 0], "B": ["y", "x", None]},
        "arrays": {"A": np.array([1.0, np.nan, 0.0]), "B": np.array(["y", "x", None], dtype=object)},
        "masked": {"A": masked, "B": ["y", "x", float("nan")]},
        "array": np.array([[1, "y"], [None, "x"], [0, None]], dtype=object),
        "list": [[1, "y"], [None, "x"], [0, None]],
    }
    try:
        import pandas as pd
    except ImportError:
        pass
    else:
        found["pandas"] = pd.DataFrame({"A": [1, None, 0], "B": ["y", "x", None]})
        found["pandas, nullable"] = pd.DataFrame(
            {"B": pd.Categorical(["y", "x", None]), "A": pd.array([1, None, 0], dtype="Int64")}
        )
    try:
        import polars as pl
    except ImportError:
        pass
    else:
        found["polars"] = pl.DataFrame({"A": [1, None, 0], "B": ["y", "x", None]})
    return found


@pytest.mark.parametrize("kind", list(frames()))
def test_frames_of_all_kinds(kind: str) -> None:
    codes = encode_frame(NUMBERS.variables, frames()[kind])
    assert codes.tolist() == [[1, 1], [-1, 0], [0, -1]]


def test_columns_may_be_left_out() -> None:
    assert encode_frame(NUMBERS.variables, {"B": np.array(["x", "y"])}).tolist() == [[-1, 0], [-1, 1]]
    assert encode_frame(NUMBERS.variables, {"B": np.array([], dtype="<U1")}).shape == (0, 2)


@pytest.mark.parametrize("output", ["columns", "codes", "pandas", "polars"])
def test_samples_come_as_frames_and_go_back(output: str) -> None:
    network = random_network(np.random.default_rng(4), 4)
    codes = network.sample(50, random_state=1, output="codes")
    frame = network.sample(50, random_state=1, output=output)
    if output != "codes":
        np.testing.assert_array_equal(encode_frame(network.variables, frame), codes)
    assert codes.shape == (50, 4)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ({"A": [1], "C": [1]}, "column 'C' is not a variable"),
        ({"A": [1, 0], "B": ["x"]}, "different lengths"),
        ({}, "no columns"),
        ({"A": [1, 2]}, r"row 1 of the frame: the variable 'A' has no state '2'"),
        ({"B": np.array(["x", "z"])}, r"row 1 of the frame: the variable 'B' has no state 'z'"),
        ({"B": [["x"], ["y"]]}, "must have one dimension"),
        ({"B": [{"x"}, {"y"}]}, "name of a state"),
        (np.zeros((3, 3)), r"shape \(rows, 2\)"),
        ([1, 2, 3], r"shape \(rows, 2\)"),
    ],
)
def test_frames_that_cannot_be_read(frame: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        encode_frame(NUMBERS.variables, frame)


def test_outputs_are_checked() -> None:
    with pytest.raises(DataError, match="output is 'csv'; give 'columns', 'codes', 'pandas' or 'polars'"):
        RAIN.sample(3, output="csv")
    with pytest.raises(DataError, match="n is -1"):
        RAIN.sample(-1)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (np.array([1 + 0j, np.nan]), "the column 'A' holds complex numbers; give the names of states"),
        (np.array([np.nan + 0j]), "complex"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "no state '2020-01-01'"),
        (np.array([1, 2], dtype="m8[s]"), "no state '1 seconds'"),
        (np.array([b"yes"]), "no state \"b'yes'\""),
        ([1 + 0j], r"no state '\(1\+0j\)'"),
        (np.array([np.inf]), "no state 'inf'"),
    ],
)
def test_columns_that_hold_no_states(column: object, message: str) -> None:
    net = BayesianNetwork({"A": [0, 1], "B": ["yes", "no"]}, {"B": ["A"]})
    for use in (lambda: net.predict_proba({"A": column}, "B"), lambda: net.fit({"A": column})):
        with pytest.raises(DataError, match=message):
            use()


def test_times_that_are_missing_are_missing() -> None:
    net = BayesianNetwork(
        {"A": [0, 1], "B": ["yes", "no"]}, {"B": ["A"]}, {"A": [0.5, 0.5], "B": [[1, 0], [0, 1]]}
    )
    for column in (np.array(["NaT"], dtype="M8[D]"), np.array(["NaT"], dtype="m8[s]")):
        assert net.predict_proba({"A": column}, "B").tolist() == [[0.5, 0.5]]

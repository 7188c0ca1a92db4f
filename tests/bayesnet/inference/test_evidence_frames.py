"""Tables of evidence: rows against single queries, kinds of frames, missing entries, impossible rows."""

from __future__ import annotations

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given, settings

from small_networks import random_graph, random_network, seeds
from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet import naive_bayes
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError


@pytest.fixture(scope="module")
def net() -> BayesianNetwork:
    return BayesianNetwork(
        {"Rain": ["yes", "no"], "Sprinkler": ["on", "off"], "Wet": ["yes", "no"]},
        {"Sprinkler": ["Rain"], "Wet": ["Rain", "Sprinkler"]},
        {
            "Rain": [0.2, 0.8],
            "Sprinkler": [[0.01, 0.99], [0.4, 0.6]],
            "Wet": [[[0.99, 0.01], [0.8, 0.2]], [[0.9, 0.1], [0.0, 1.0]]],
        },
    )


@settings(max_examples=30)
@given(seeds)
def test_rows_equal_single_queries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    model: BayesianNetwork | FactorGraph
    model = random_network(rng, n, zeros=True) if rng.random() < 0.6 else random_graph(rng, n, 5)
    columns = rng.choice(n, int(rng.integers(1, n)), replace=False).tolist()
    share = rng.choice([0.0, 0.4])
    frame = {
        model.names[v]: [
            None if rng.random() < share else model.states[v][rng.integers(len(model.states[v]))]
            for _ in range(9)
        ]
        for v in columns
    }
    shares = model.predict_proba(frame, impossible="nan")
    best = model.predict(frame, impossible="nan")
    for row in range(9):
        evidence = {name: column[row] for name, column in frame.items() if column[row] is not None}
        try:
            exact = model.query(None, evidence)
        except InfeasibleError:
            assert all(np.isnan(values[row]).all() for values in shares.values())
            assert all(column[row] is None for column in best.values())
            continue
        for name, values in shares.items():
            if name in evidence:
                assert values[row][model.states[model.index(name)].index(evidence[name])] == 1.0
                assert best[name][row] == evidence[name]
            else:
                np.testing.assert_allclose(values[row], exact[name].values, atol=1e-12)
                top = exact[name].values.max()
                assert exact[name][best[name][row]] == pytest.approx(top, abs=1e-12)


def test_by_hand(net: BayesianNetwork) -> None:
    found = net.predict_proba({"Wet": ["yes", None]}, "Rain")
    wet = 0.2 * (0.01 * 0.99 + 0.99 * 0.8)
    dry = 0.8 * 0.4 * 0.9
    np.testing.assert_allclose(found, [[wet / (wet + dry), dry / (wet + dry)], [0.2, 0.8]])
    assert net.predict({"Wet": ["yes", None]}, "Rain").tolist() == ["no", "no"]


def test_all_kinds_of_frames(net: BayesianNetwork) -> None:
    columns = {"Rain": ["yes", None, "no"], "Wet": ["no", "yes", None]}
    expected = net.predict_proba(columns)
    array = np.array([["yes", None, "no"], [None, None, "yes"], ["no", None, None]], dtype=object)
    frames = pandas.DataFrame(columns, index=[5, 6, 7]), polars.DataFrame(columns), array
    for frame in frames:
        found = net.predict_proba(frame)
        assert list(found) == list(expected)
        for name in found:
            np.testing.assert_array_equal(found[name], expected[name])
    filled = net.predict(frames[0])
    assert isinstance(filled, pandas.DataFrame)
    assert filled.index.tolist() == [5, 6, 7]
    assert filled["Rain"].tolist() == ["yes", "no", "no"]
    assert net.predict(frames[1])["Rain"].to_list() == ["yes", "no", "no"]
    assert isinstance(net.predict(array), dict)


def test_targets(net: BayesianNetwork) -> None:
    frame = {"Wet": ["yes", "no"]}
    assert list(net.predict_proba(frame)) == ["Rain", "Sprinkler"]
    assert list(net.predict_proba(frame, ["Wet", "Rain"])) == ["Wet", "Rain"]
    np.testing.assert_array_equal(net.predict_proba(frame, "Wet"), np.eye(2))
    assert list(net.predict(frame, ["Sprinkler"])) == ["Sprinkler"]
    with pytest.raises(DataError, match="no targets"):
        net.predict(frame, [])
    with pytest.raises(DataError, match="'Rian'; did you mean"):
        net.predict(frame, "Rian")


def test_impossible_rows(net: BayesianNetwork) -> None:
    frame = {"Rain": ["yes", "no", "no"], "Sprinkler": ["on", "off", "off"], "Wet": [None, "yes", None]}
    with pytest.raises(InfeasibleError, match=r"row 1 of the frame .*Rain=no, Sprinkler=off, Wet=yes"):
        net.predict_proba(frame, "Wet")
    found = net.predict_proba(frame, "Wet", impossible="nan")
    assert np.isnan(found[1]).all()
    np.testing.assert_allclose(found[[0, 2]], [[0.99, 0.01], [0.0, 1.0]])
    assert net.predict(frame, "Wet", impossible="nan").tolist() == ["yes", None, "no"]
    with pytest.raises(DataError, match="'error' or 'nan'"):
        net.predict(frame, impossible="ignore")


def test_empty_frames(net: BayesianNetwork) -> None:
    assert net.predict_proba({"Wet": []}, "Rain").shape == (0, 2)
    assert net.predict({"Wet": []}, "Rain").tolist() == []


def test_frames_of_no_rows_keep_their_columns(net: BayesianNetwork) -> None:
    """What is predicted does not depend on how many rows are left of a frame."""
    some = pandas.DataFrame({"Wet": ["yes"], "Rain": ["no"]})
    assert list(net.predict(some)) == list(net.predict(some.iloc[:0])) == ["Sprinkler"]
    assert net.predict_proba({"Wet": []})["Rain"].shape == (0, 2)


def test_rows_that_observe_nothing(net: BayesianNetwork) -> None:
    found = net.predict_proba(pandas.DataFrame(index=["a", "b"]), "Rain")
    np.testing.assert_allclose(found, [[0.2, 0.8], [0.2, 0.8]])
    with pytest.raises(DataError, match="no columns"):
        net.predict_proba({})


def test_subclasses_of_frames_come_back(net: BayesianNetwork) -> None:

    class Own(pandas.DataFrame):
        pass

    found = net.predict(Own({"Wet": ["yes", "no"]}, index=[4, 4]))
    assert type(found) is Own
    assert found.index.tolist() == [4, 4]


def test_what_is_no_column_is_said(net: BayesianNetwork) -> None:
    for bad in ("yes", 1, True, None):
        with pytest.raises(DataError, match=f"the column 'Rain' is {bad!r}; give a list"):
            net.predict({"Rain": bad})
    with pytest.raises(DataError, match=r"collect\(\)"):
        net.predict(polars.DataFrame({"Rain": ["yes"]}).lazy())


def test_many_observations_underflow_nothing() -> None:
    """2,000 features: P(row) is far below 1e-308, and rows differ by more than that."""
    rng = np.random.default_rng(0)
    n = 2000
    tables = {f"f{i}": rng.dirichlet([1, 1], 2) for i in range(n)}
    net = naive_bayes("class", ["a", "b"], {f"f{i}": [0, 1] for i in range(n)}, tables=tables)
    values = rng.integers(2, size=(3, n))
    found = net.predict_proba({f"f{i}": values[:, i] for i in range(n)}, "class")
    for row in range(3):
        logs = sum(np.log(tables[f"f{i}"][:, values[row, i]]) for i in range(n)) + np.log(0.5)
        np.testing.assert_allclose(found[row], np.exp(logs - np.logaddexp(*logs)), rtol=1e-9)


def test_entries_beyond_double_precision() -> None:
    """Rows whose answer is lost to underflow are found out and done in log space."""
    tiny = np.array([[1.0, 1e-150], [1e-150, 1e-300]])
    graph = FactorGraph([2] * 4, [((i, i + 1), tiny) for i in range(3)])
    found = graph.predict_proba({"x0": ["1", "0"], "x2": ["1", None], "x3": ["1", "1"]}, "x1")
    expected = np.array([1.0, 1e-300])  # f(1, x1) f(x1, 1): 1e-150 1e-150 against 1e-300 1e-300
    np.testing.assert_allclose(found[0], expected / expected.sum())
    np.testing.assert_allclose(found[1], [1.0, 1e-300], rtol=1e-9)


def test_threads_do_not_change_a_digit(net: BayesianNetwork) -> None:
    frame = net.sample(1000, random_state=0)
    del frame["Rain"]
    one, two = net.predict_proba(frame, n_jobs=1), net.predict_proba(frame, n_jobs=2)
    np.testing.assert_array_equal(one["Rain"], two["Rain"])


def test_memory_is_forecast(net: BayesianNetwork) -> None:
    with pytest.raises(UnsupportedError, match="limit is 10 bytes"):
        net.predict({"Wet": ["yes"]}, memory_limit=10.0)

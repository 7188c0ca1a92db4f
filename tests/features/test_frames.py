"""Frames of pandas and polars with one row per step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from trellis import HMM, MEMM, SequenceLabeler, emissions
from trellis.core.errors import DataError
from trellis.features import ArrayEncoder, SequenceFrame

COLUMNS: dict[str, list[Any]] = {
    "sentence": [7, 7, 3, 3, 3, 7],
    "word": ["Ann", "met", "Bob", "slept", None, "Eve"],
    "long": [3.0, 3.0, 3.0, 5.0, 1.0, float("nan")],
    "tag": ["N", "V", "N", "V", None, "N"],
}
X = [
    [{"word": "Ann", "long": 3.0}, {"word": "met", "long": 3.0}, {"word": "Eve"}],
    [{"word": "Bob", "long": 3.0}, {"word": "slept", "long": 5.0}, {"long": 1.0}],
]
Y = [["N", "V", "N"], ["N", "V", None]]


@pytest.mark.parametrize("dtype", ["object", "string", "category"])
def test_pandas(dtype: str) -> None:
    frame = pd.DataFrame(COLUMNS, index=list("uvwxyz")).astype({"word": dtype})
    data = SequenceFrame(frame, "sentence", "tag")
    assert (data.X, data.y) == (X, Y)
    model = SequenceLabeler(max_iter=20, verbose=False).fit(data.X, data.y)
    found = data.to_series(model.predict(data.X), "guess")
    assert list(found.index) == list("uvwxyz")
    assert found.name == "guess"
    assert found.to_list()[:4] == ["N", "V", "N", "V"]
    table = data.to_frame(model.predict_marginals(data.X), model.classes_)
    assert list(table.index) == list("uvwxyz")
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    np.testing.assert_allclose(table.loc["z"], model.predict_marginals(data.X)[0][2])


def test_a_level_of_a_pandas_index() -> None:
    frame = pd.DataFrame(COLUMNS).assign(step=range(6)).set_index(["sentence", "step"])
    data = SequenceFrame(frame, "sentence", "tag")
    assert (data.X, data.y) == (X, Y)
    assert data.to_series([["a", "b", "f"], ["c", "d", "e"]]).index.equals(frame.index)


def test_polars() -> None:
    frame = pl.DataFrame(COLUMNS).with_columns(pl.col("word").cast(pl.Categorical))
    data = SequenceFrame(frame, "sentence", "tag")
    assert (data.X, data.y) == (X, Y)
    found = data.to_series([["a", "b", "f"], ["c", "d", "e"]])
    assert isinstance(found, pl.Series)
    assert found.to_list() == list("abcdef")
    table = data.to_frame([np.eye(3), 2 * np.eye(3)], ["p", "q", "r"])
    assert isinstance(table, pl.DataFrame)
    assert table["r"].to_list() == [0, 0, 0, 0, 2, 1]


def test_numbers_that_are_categories_are_text() -> None:
    frame = pd.DataFrame({"line": [1, 1], "code": [7, 8]}).astype({"code": "category"})
    assert SequenceFrame(frame, "line").X == [[{"code": "7"}, {"code": "8"}]]


TEXT = {"word": ["Ann", "met", None], "long": [3, 3, 5]}
ROWS = [{"word": "Ann", "long": 3}, {"word": "met", "long": 3}, {"long": 5}]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("options", [{}, {"hashing": 64}])
def test_frames_with_text_are_sequences_of_dictionaries(kind: Any, options: dict[str, Any]) -> None:
    frame, numbers, tags = kind(TEXT), kind({"word": [None], "long": [4.0]}), ["N", "V", "N"]
    for model in (SequenceLabeler(verbose=False, **options), MEMM(verbose=False, **options)):
        X, y = [[{"long": 4.0}], ROWS], [["N"], tags]  # the first frame has no text, but named columns
        found = clone(model).fit([numbers, frame], y).predict_marginals([frame, numbers])
        for ours, theirs in zip(found, model.fit(X, y).predict_marginals(X[::-1]), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        flat = clone(model).fit(frame, tags, lengths=[2, 1])
        assert [len(one) for one in flat.predict(frame, lengths=[2, 1])] == [2, 1]
        with pytest.raises(DataError, match=r"one frame of 3 rows; pass lengths, .*SequenceFrame"):
            model.predict(frame)


def test_frames_with_text_for_a_network() -> None:
    pytest.importorskip("torch")
    from trellis.neural import NeuralSequenceLabeler

    model = NeuralSequenceLabeler("embedding", max_epochs=1, random_state=0, verbose=False)
    tags, frame = ["N", "V", "N"], pd.DataFrame(TEXT)
    found = clone(model).fit([frame] * 4, [tags] * 4).predict_marginals([frame])[0]
    theirs = clone(model).fit([ROWS] * 4, [tags] * 4).predict_marginals([ROWS])[0]
    np.testing.assert_array_equal(found, theirs)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_every_answer_returns_to_its_row(groups: list[int]) -> None:
    for kind in (pd.DataFrame, pl.DataFrame):
        data = SequenceFrame(kind({"g": groups, "row": list(range(len(groups)))}), "g")
        assert data.y is None
        rows = [[step["row"] for step in sequence] for sequence in data.X]
        assert all(sorted(one) == one for one in rows)
        assert data.to_series(rows).to_list() == list(range(len(groups)))


def test_mistakes_are_named() -> None:
    frame = pd.DataFrame(COLUMNS)
    with pytest.raises(DataError, match="no column 'sentences'; it has 'sentence'"):
        SequenceFrame(frame, "sentences")
    with pytest.raises(DataError, match="row 5 belongs to no sequence"):
        SequenceFrame(frame, "long")
    with pytest.raises(DataError, match="no rows"):
        SequenceFrame(frame[:0], "sentence")
    with pytest.raises(DataError, match="do not have the shape of X"):
        SequenceFrame(frame, "sentence").to_series([["a"], ["b"]])


@pytest.mark.parametrize("name", ["shards", "toarray", "to_dicts", "lengths", "step", "X"])
@pytest.mark.parametrize("model", [SequenceLabeler, MEMM])
def test_a_column_may_have_any_name(name: str, model: type[SequenceLabeler | MEMM]) -> None:
    """pandas offers columns as attributes, among them those by which other kinds of data are told."""
    values = np.random.default_rng(0).normal(size=(8, 2))
    labels = [(values[:4, 0] > 0).tolist(), (values[4:, 0] > 0).tolist()]
    frames = [pd.DataFrame(values[i : i + 4], columns=["a", name]) for i in (0, 4)]
    found = model(max_iter=5, verbose=False).fit(frames, labels)
    whole = pd.concat(frames)
    again = model(max_iter=5, verbose=False).fit(whole, np.concatenate(labels), lengths=[4, 4])
    np.testing.assert_array_equal(again.weights_, found.weights_)


@given(st.permutations(["b", "a", "c", "d"]), st.booleans())
@settings(max_examples=20)
def test_numeric_frames_need_the_columns_of_training_in_their_order(names: list[str], polars: bool) -> None:
    rng, make = np.random.default_rng(0), pl.DataFrame if polars else pd.DataFrame
    frames = [make({name: rng.normal(size=3) for name in "abcd"}) for _ in range(2)]
    encoder = ArrayEncoder()
    encoder.fit(frames)
    for one in (encoder, ArrayEncoder.from_state(encoder.to_state())):
        assert one.transform([frame.to_numpy() for frame in frames]).nodes.n_features == 4
        if names == list("abcd"):
            assert one.transform([frame[names] for frame in frames]).nodes.n_features == 4
            continue
        with pytest.raises(DataError, match=r"another order; give X\[\['a', 'b', 'c', 'd'\]\]"):
            one.transform([frame[names] for frame in frames])
        with pytest.raises(DataError, match=r"has the columns \['b', 'c', 'd', 'e'\], but in training"):
            one.transform([make({name: [1.0] for name in "bcde"})])
        for taken in (encoder.fit, HMM(2, emissions.Gaussian()).fit):
            with pytest.raises(DataError, match="frame 1 of X has the columns"):
                taken([frames[0], frames[1][names]])


def test_names_that_are_numbers_are_not_compared() -> None:
    encoder = ArrayEncoder()
    encoder.fit([pd.DataFrame(np.eye(2))])
    assert encoder.transform([pd.DataFrame(np.eye(2), columns=["a", "b"])]).nodes.n_features == 2

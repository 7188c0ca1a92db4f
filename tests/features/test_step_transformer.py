"""``transform`` and ``set_output``: the numbers of ``predict_marginals`` and ``smooth`` in frames."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from trellis import HMM, MEMM, SequenceLabeler, emissions
from trellis.core.errors import DataError, UnsupportedError

RNG = np.random.default_rng(0)
LENGTHS = [3, 1, 4]
FRAMES = [
    pd.DataFrame(RNG.normal(size=(n, 2)), columns=["a", "b"], index=[f"{i}.{t}" for t in range(n)])
    for i, n in enumerate(LENGTHS)
]
LABELS = [["A", "B", "A"], ["B"], ["A", "B", "B", "A"]]
WHOLE = pd.concat(FRAMES)


def fitted(name: str) -> Any:
    if name == "hmm":
        return HMM(2, emissions.Gaussian(), random_state=0, max_iter=3).fit(FRAMES)
    return {"crf": SequenceLabeler, "memm": MEMM}[name](verbose=False, max_iter=3).fit(FRAMES, LABELS)


def probabilities(model: Any, X: Any) -> Any:
    return model.smooth(X) if isinstance(model, HMM) else model.predict_marginals(X)


@pytest.mark.parametrize("name", ["crf", "memm", "hmm"])
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_hold_the_numbers_under_their_names(name: str, kind: str) -> None:
    model = fitted(name)
    plain = probabilities(model, FRAMES)
    for ours, theirs in zip(model.transform(FRAMES), plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert model.set_output(transform=kind) is model
    assert model.set_output(transform=None) is model
    columns = ["hmm0", "hmm1"] if name == "hmm" else ["A", "B"]
    found = model.transform(iter(FRAMES))
    whole = model.transform(WHOLE, lengths=LENGTHS)
    frame = pd.DataFrame if kind == "pandas" else pl.DataFrame
    for one, rows, source in zip(
        [*found, whole], [*plain, np.concatenate(plain)], [*FRAMES, WHOLE], strict=True
    ):
        assert isinstance(one, frame)
        assert list(one.columns) == columns == list(model.get_feature_names_out())
        np.testing.assert_array_equal(one.to_numpy(), rows)
        if kind == "pandas":
            assert one.index.equals(source.index)
    again = clone(model).fit_transform(FRAMES, None if name == "hmm" else LABELS)
    np.testing.assert_array_equal(again[2].to_numpy(), plain[2])
    assert isinstance(model.predict(FRAMES)[0], np.ndarray if name == "hmm" else list)
    for ours, theirs in zip(model.set_output(transform="default").transform(FRAMES), plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_one_array_is_one_sequence_of_an_hmm() -> None:
    found = fitted("hmm").set_output(transform="pandas").transform(FRAMES[0])
    assert list(found.index) == ["0.0", "0.1", "0.2"]


def test_scikit_learns_configuration_and_pipelines() -> None:
    model = fitted("crf")
    with sklearn.config_context(transform_output="polars"):
        assert isinstance(model.transform(FRAMES)[0], pl.DataFrame)
        assert isinstance(clone(model).set_output(transform="default").fit_transform(FRAMES, LABELS), list)
    assert isinstance(model.transform(FRAMES)[0], np.ndarray)
    features = HMM(2, emissions.Gaussian(), random_state=0, max_iter=3)
    states = [[0, 1, 0], [1], [0, 1, 1, 0]]
    piped = make_pipeline(features, SequenceLabeler(verbose=False, max_iter=3)).set_output(transform="pandas")
    inner = clone(features).fit(FRAMES, states).smooth(FRAMES)
    alone = SequenceLabeler(verbose=False, max_iter=3).fit(inner, states)
    assert piped.fit(FRAMES, states).predict(FRAMES) == alone.predict(inner)
    assert isinstance(piped[:-1].transform(FRAMES)[0], pd.DataFrame)
    assert np.isfinite(cross_val_score(piped, FRAMES * 2, states * 2, cv=2, error_score="raise")).all()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_rows_return_to_their_index(lengths: list[int]) -> None:
    model = fitted("crf").set_output(transform="pandas")
    index = RNG.permutation(sum(lengths))
    frame = pd.DataFrame(RNG.normal(size=(sum(lengths), 2)), columns=["a", "b"], index=index)
    bounds = np.cumsum([0, *lengths])
    cut = [frame.iloc[a:b] for a, b in pairwise(bounds)]
    pd.testing.assert_frame_equal(model.transform(frame, lengths=lengths), pd.concat(model.transform(cut)))


def test_labels_that_are_spelled_alike_keep_their_columns() -> None:
    model = SequenceLabeler(verbose=False, max_iter=2).fit([["a", "b"]], [[1, "1"]])
    assert sorted(model.set_output(transform="pandas").transform([["a", "b"]])[0]) == ["'1'", "1"]


def test_mistakes_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    model = fitted("crf")
    with pytest.raises(DataError, match="transform is 'panda'; give one of 'default', 'pandas', 'polars'"):
        model.set_output(transform="panda")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UnsupportedError, match="polars is not installed; run: pip install polars"):
        model.set_output(transform="polars")


def test_neither_pandas_nor_scikit_learn_is_imported() -> None:
    code = (
        "import sys\nfrom trellis import SequenceLabeler\n"
        "SequenceLabeler(max_iter=1, verbose=False).fit_transform([['a', 'b']], [['A', 'B']])\n"
        "print(*sorted({'sklearn', 'pandas', 'polars'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""

"""EM of linear-Gaussian models on shards: that in memory to rounding, the same bits on any threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import LinearGaussian
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.errors import DataError
from trellis.data.sequence_shards import sequence_shard
from trellis.statespace.state_space import SHAPES


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_shard, "LEAST", 20)


def drawn(lengths: list[int], seed: int = 0) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    controls = [rng.normal(size=(n, 1)) for n in lengths]
    X = [
        np.cumsum(rng.normal(size=(n, 2)), axis=0) * 0.3 + u + rng.normal(size=(n, 2))
        for n, u in zip(lengths, controls, strict=True)
    ]
    for x in X:
        x[rng.random(x.shape) < 0.05] = np.nan
    return X, controls


def same(model: LinearGaussian, other: LinearGaussian, *, bits: bool) -> None:
    for key in ("primal", "dual"):
        np.testing.assert_allclose(model.history_[key], other.history_[key], rtol=0 if bits else 1e-9)
    for name in SHAPES:
        ours, theirs = getattr(model, f"{name}_"), getattr(other, f"{name}_")
        if bits:
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9 * np.abs(theirs).max(initial=0.0))


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=2, max_size=8), st.booleans(), st.integers(0, 9))
def test_the_same_model(lengths: list[int], with_controls: bool, seed: int) -> None:
    X, controls = drawn([60, *lengths], seed)
    given = controls if with_controls else None
    options = {"max_iter": 4, "tol": 0.0, "random_state": 0}
    whole = LinearGaussian(2, **options).fit(X, controls=given)
    places = LocalBackend(1), LocalBackend(2), LocalBackend(3, max_memory=1)
    models = [LinearGaussian(2, backend=at, **options).fit(X, controls=given) for at in places]
    for model in models:
        same(model, whole, bits=False)
        same(model, models[0], bits=True)


def test_files(tmp_path: Path) -> None:
    X, controls = drawn([40, 30, 50])
    for i, x in enumerate(X):
        np.save(tmp_path / f"{i}.npy", x)
    options = {"max_iter": 4, "tol": 0.0, "random_state": 0}
    whole = LinearGaussian(2, **options).fit(X)
    same(LinearGaussian(2, n_jobs=2, max_memory="1MB", **options).fit(tmp_path), whole, bits=False)
    with pytest.raises(DataError, match="controls cannot be given with files"):
        LinearGaussian(2).fit(tmp_path, controls=controls)
    with pytest.raises(DataError, match="no sequence of X has two steps"):
        LinearGaussian(1, backend="threads").fit([np.zeros((1, 1)), np.ones((1, 1))])

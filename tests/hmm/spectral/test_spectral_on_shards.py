"""Moments over shards are those of all data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import SpectralHMM
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.errors import DataError, UnsupportedError
from trellis.data.sequence_shards import sequence_shard

pytestmark = pytest.mark.filterwarnings("ignore::trellis.hmm.spectral.spectral_hmm.SpectralWarning")


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_shard, "LEAST", 50)


def drawn(lengths: list[int], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    X = [(np.cumsum(rng.integers(3, size=n)) + rng.integers(2, size=n)) % 5 for n in lengths]
    return [np.where(rng.random(len(x)) < 0.02, -1, x) for x in X]


def same(model: SpectralHMM, other: SpectralHMM, *, bits: bool) -> None:
    assert model.n_triples_ == other.n_triples_
    for ours, theirs in zip(model.operators_, other.operators_, strict=True):
        if bits:
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(0, 120), max_size=6),
    st.integers(0, 20),
    st.sampled_from(["all", "first"]),
    st.sampled_from(["first", "average"]),
    st.booleans(),
)
def test_the_same_operators(
    lengths: list[int], seed: int, triples: str, initial: str, weighted: bool
) -> None:
    X = drawn([*[40] * 40, *lengths], seed)
    weight = np.random.default_rng(seed).random(len(X)) + 0.1 if weighted else None
    options: dict[str, Any] = {"triples": triples, "initial": initial}
    whole = SpectralHMM(2, **options).fit(X, sample_weight=weight)
    models = [
        SpectralHMM(2, backend=LocalBackend(n, memory), **options).fit(X, sample_weight=weight)
        for n, memory in ((1, None), (2, None), (3, 1))
    ]
    for model in models:
        same(model, whole, bits=False)
        same(model, models[0], bits=True)


def test_files_and_what_is_refused(tmp_path: Path) -> None:
    X = drawn([60] * 6, 0)
    for i, x in enumerate(X):
        np.save(tmp_path / f"{i}.npy", x.astype(np.int8))
    same(SpectralHMM(2, n_jobs=2).fit(tmp_path), SpectralHMM(2).fit(X), bits=False)
    with pytest.raises(DataError, match="sample_weight cannot be given with files"):
        SpectralHMM(2).fit(tmp_path, sample_weight=np.ones(6))
    with pytest.raises(DataError, match="no triple of known symbols"):
        SpectralHMM(2, backend="threads").fit([[0, 1], [1, 0]])
    with pytest.raises(DataError, match="no observed value"):
        SpectralHMM(2, backend="threads").fit([[-1, -1]])
    with pytest.raises(UnsupportedError, match="there are 1; give more sequences"):
        SpectralHMM(2, backend="threads").fit(X[:1])

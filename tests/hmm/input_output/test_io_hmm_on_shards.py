"""Input-output HMMs on shards: the regressions of the M-step from sums over shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from trellis import IOHMM, ShardFiles
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.errors import DataError
from trellis.data.sequence_shards import sequence_shard
from trellis.hmm.input_output import GaussianRegression, SoftmaxEmission, softmax_regression

LENGTHS = [60, 0, 1, 45, 30, 2]
EMISSIONS: dict[str, Any] = {
    "diag": GaussianRegression("diag", l2=0.1),
    "full": GaussianRegression("full"),
    "softmax": SoftmaxEmission(4, l2=0.1),
}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_shard, "LEAST", 20)


def drawn(kind: str, lengths: list[int], seed: int) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    inputs = [rng.normal(size=(n, 2)) + 3.0 for n in lengths]
    X: list[Any] = []
    for u in inputs:
        states = rng.integers(2, size=len(u))
        if kind == "softmax":
            X.append(np.where(rng.random(len(u)) < 0.05, -1, (states + rng.integers(3, size=len(u))) % 4))
        else:
            x = u @ rng.normal(size=(2, 2)) + 4.0 * states[:, None] + rng.normal(size=u.shape)
            x[rng.random(x.shape) < 0.05] = np.nan
            X.append(x)
    return X, inputs


def arrays(model: IOHMM) -> list[Any]:
    p = model.parameters_
    return [p.initial, p.transitions, *(a for a in vars(p.emission).values() if isinstance(a, np.ndarray))]


def identified(model: IOHMM) -> list[Any]:
    """What the data determine: a vector may be added to the weights of all classes of a softmax."""
    initial, transitions, weights, *others = arrays(model)
    if isinstance(model.emission_, SoftmaxEmission):
        weights = weights - weights.mean(axis=1, keepdims=True)
    return [
        initial - initial.mean(axis=0),
        transitions - transitions.mean(axis=1, keepdims=True),
        weights,
        *others,
    ]


def same(model: IOHMM, other: IOHMM, *, bits: bool) -> None:
    for key in ("primal", "dual"):
        np.testing.assert_allclose(model.history_[key], other.history_[key], rtol=0 if bits else 1e-9)
    if bits:
        for ours, theirs in zip(arrays(model), arrays(other), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(identified(model), identified(other), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max(initial=0.0))


@pytest.mark.parametrize("kind", EMISSIONS)
@settings(max_examples=2, deadline=None, phases=[Phase.generate])
@given(lengths=st.lists(st.integers(0, 40), max_size=4), seed=st.integers(0, 9))
def test_the_same_model(kind: str, lengths: list[int], seed: int) -> None:
    X, inputs = drawn(kind, [*LENGTHS, *lengths], seed)
    options = {"n_init": 2, "max_iter": 3, "tol": 0.0, "random_state": 0, "l2": 0.1}
    whole = IOHMM(2, EMISSIONS[kind], **options).fit(X, inputs)
    places = LocalBackend(1), LocalBackend(2), LocalBackend(3, max_memory=1)
    models = [IOHMM(2, EMISSIONS[kind], backend=at, **options).fit(X, inputs) for at in places]
    for model in models:
        same(model, whole, bits=False)
        same(model, models[0], bits=True)
    again = whole.set_params(warm_start=True, max_iter=1).fit(X, inputs)
    same(models[0].set_params(warm_start=True, max_iter=1).fit(X, inputs), again, bits=False)


def test_many_weights_take_the_quasi_newton_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax_regression, "NEWTON_LIMIT", 0)
    X, inputs = drawn("softmax", LENGTHS, 0)
    options = {"n_init": 1, "max_iter": 2, "tol": 0.0, "random_state": 0, "l2": 0.1}
    whole = IOHMM(2, EMISSIONS["softmax"], **options).fit(X, inputs)
    model = IOHMM(2, EMISSIONS["softmax"], backend="threads", n_jobs=2, **options).fit(X, inputs)
    np.testing.assert_allclose(model.history_["primal"], whole.history_["primal"], rtol=1e-9)


def test_files(tmp_path: Path) -> None:
    X, inputs = drawn("full", [40, 30, 20], 1)
    for i, (x, u) in enumerate(zip(X, inputs, strict=True)):
        np.savez(tmp_path / f"{i}.npz", X=x, inputs=u)
    options = {"n_init": 1, "max_iter": 2, "tol": 0.0, "random_state": 0}
    whole = IOHMM(2, **options).fit(X, inputs)
    same(IOHMM(2, **options).fit(tmp_path), whole, bits=False)
    named = ShardFiles(tmp_path, label_column="inputs", shard_steps=40)
    same(IOHMM(2, max_memory=1, n_jobs=2, **options).fit(named), whole, bits=False)
    with pytest.raises(DataError, match="inputs are missing"):
        IOHMM(2).fit(X)
    with pytest.raises(DataError, match="inputs cannot be given with files"):
        IOHMM(2).fit(tmp_path, inputs)

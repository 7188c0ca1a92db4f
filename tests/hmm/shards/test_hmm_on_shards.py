"""EM on shards is EM in memory to rounding, and the same bits on any threads, in memory or on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import trellis
from trellis import HMM, ShardFiles
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.errors import DataError, InfeasibleError
from trellis.core.registration import register
from trellis.data.sequence_shards import sequence_shard, sharded_sequences
from trellis.hmm import left_right
from trellis.hmm.emissions import (
    Categorical,
    Emission,
    Gaussian,
    GaussianMixture,
    Multinomial,
    Poisson,
    Product,
)


@register
@dataclass(frozen=True, eq=False, repr=False)
class Waiting(Emission):
    """A user's own: p(x | k) = rate_k exp(- rate_k x)."""

    rates: Any = None

    def __post_init__(self) -> None:
        if self.rates is not None:
            object.__setattr__(self, "n_states", len(self.rates))

    def log_likelihood(self, values: Any) -> Any:
        return np.log(self.rates) - values * self.rates

    def statistics(self, values: Any, posterior: Any) -> dict[str, Any]:
        return {"weight": posterior.sum(axis=0), "sum": posterior.T @ values[:, 0]}

    def maximise(self, statistics: Mapping[str, Any]) -> Waiting:
        return replace(self, rates=statistics["weight"] / statistics["sum"])

    def expected_log_likelihood(self, statistics: Mapping[str, Any]) -> float:
        return float(statistics["weight"] @ np.log(self.rates) - statistics["sum"] @ self.rates)

    def sample(self, states: Any, rng: np.random.Generator) -> Any:
        return rng.exponential(1.0 / np.asarray(self.rates)[states])[:, None]


LENGTHS = [0, 1, 40, 2, 0, 60, 33, 1, 80, 25, 0]
EMISSIONS: dict[str, Emission] = {
    "categorical": Categorical(5),
    "multinomial": Multinomial(3, pseudocount=0.5),
    "poisson": Poisson(),
    "spherical": Gaussian("spherical"),
    "diag": Gaussian("diag"),
    "full": Gaussian("full"),
    "tied": Gaussian("tied"),
    "mixture": GaussianMixture(2, "diag"),
    "product": Product({0: Categorical(3), (1, 2): Gaussian("full")}),
    "own": Waiting(),
}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_shard, "LEAST", 20)


def drawn(kind: str, lengths: list[int] = LENGTHS, seed: int = 0) -> list[Any]:
    """Observations of three states that differ, a few of them missing where that is possible."""
    rng = np.random.default_rng(seed)
    X = []
    for n in lengths:
        states = np.repeat(rng.integers(3, size=n // 5 + 1), 5)[:n]
        normal = 2.0 * states[:, None] + rng.normal(size=(n, 2))
        if kind == "categorical":
            x: Any = (states + rng.integers(3, size=n)) % 5
        elif kind == "multinomial":
            x = rng.multinomial(6, np.eye(3)[states] * 0.4 + 0.2).reshape(n, 3)
        elif kind == "poisson":
            x = rng.poisson(1.0 + 4.0 * states[:, None] * np.ones(2))
        elif kind == "product":
            x = np.hstack([states[:, None].astype(float), normal])
        elif kind == "own":
            x = rng.exponential(1.0 + 3.0 * states)[:, None]
        else:
            x = normal
            x[rng.random(x.shape) < 0.03] = np.nan
        X.append(x)
    return X


def same(model: HMM, other: HMM, *, bits: bool) -> None:
    assert model.status_.n_iter == other.status_.n_iter
    for key in ("primal", "dual", "log_likelihood"):
        np.testing.assert_allclose(model.history_[key], other.history_[key], rtol=0 if bits else 1e-9)
    for ours, theirs in zip(arrays(model), arrays(other), strict=True):
        if bits:
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def arrays(model: HMM) -> list[Any]:
    return [model.initial_, model.transitions_, *_arrays_of(model.emission_)]


def _arrays_of(emission: Emission) -> list[Any]:
    if isinstance(emission, Product):
        return [array for _, part in emission._parts for array in _arrays_of(part)]
    return [value for value in vars(emission).values() if isinstance(value, np.ndarray) and value.ndim]


def places(tmp_path: Path) -> list[LocalBackend]:
    """One to three threads, with states in memory and on disk."""
    return [LocalBackend(1), LocalBackend(2), LocalBackend(3, max_memory=1, folder=tmp_path)]


@pytest.mark.parametrize("kind", EMISSIONS)
def test_every_emission(kind: str, tmp_path: Path) -> None:
    X, options = drawn(kind), {"max_iter": 6, "tol": 0.0, "random_state": 0, "n_init": 2}
    whole = HMM(3, EMISSIONS[kind], **options).fit(X)
    first = None
    for backend in places(tmp_path):
        model = HMM(3, EMISSIONS[kind], backend=backend, **options).fit(X)
        same(model, whole, bits=False)
        assert model.objectives_ == pytest.approx(whole.objectives_, rel=1e-9)
        if first is not None:
            same(model, first, bits=True)
        first = model
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["categorical", "full", "mixture"])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_known_and_partly_known_states(kind: str, share: float, tmp_path: Path) -> None:
    X, rng = drawn(kind), np.random.default_rng(1)
    states: list[Any] = [np.where(rng.random(len(x)) < share, rng.integers(3, size=len(x)), -1) for x in X]
    if share < 1.0:
        states[2] = None
    options = {
        "max_iter": 4,
        "tol": 0.0,
        "initial_pseudocount": 0.5,
        "transition_pseudocount": 0.1,
        "random_state": 0,
    }
    whole = HMM(3, EMISSIONS[kind], **options).fit(X, states)
    models = [HMM(3, EMISSIONS[kind], backend=at, **options).fit(X, states) for at in places(tmp_path)]
    for model in models:
        same(model, whole, bits=False)
        same(model, models[0], bits=True)


def test_many_states_and_few_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    initial, transitions = left_right(150)
    rng = np.random.default_rng(0)
    emission = Categorical(4, probabilities=rng.dirichlet(np.ones(4), 150))
    X = [rng.integers(4, size=60) for _ in range(4)]
    options = {"initial": initial, "transitions": transitions, "max_iter": 3, "tol": 0.0}
    whole = HMM(150, emission, **options).fit(X)
    same(HMM(150, emission, backend="threads", n_jobs=2, **options).fit(X), whole, bits=False)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any),
    seed=st.integers(0, 99),
    known=st.booleans(),
)
def test_any_lengths(lengths: list[int], seed: int, known: bool) -> None:
    X = drawn("categorical", lengths, seed)
    states = [np.where(x > 2, 0, -1) for x in X] if known else None
    options = {"max_iter": 3, "tol": 0.0, "random_state": seed}
    whole = HMM(2, Categorical(5, pseudocount=0.1), **options).fit(X, states)
    one, two = (
        HMM(2, Categorical(5, pseudocount=0.1), backend=LocalBackend(n, memory), **options).fit(X, states)
        for n, memory in ((1, None), (2, 1))
    )
    same(one, whole, bits=False)
    same(one, two, bits=True)


def test_a_start_from_a_sample_knows_rare_symbols(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sharded_sequences, "SAMPLE", 150)
    rng = np.random.default_rng(0)
    X = [rng.integers(4, size=50) for _ in range(20)]
    X[-1][-1] = 4  # once, at the end of the last sequence
    models = [
        HMM(2, Categorical(5), backend=at, max_iter=5, random_state=0, n_init=2).fit(X)
        for at in places(tmp_path)
    ]
    for model in models:
        same(model, models[0], bits=True)
        assert 0.0 < model.emission_.probabilities[:, 4].max() < 0.05


def test_the_context_names_the_backend_and_the_empty_are_refused() -> None:
    X = drawn("diag")
    with trellis.config_context(backend="threads"):
        model = HMM(3, Gaussian(), max_iter=3, random_state=0).fit(X)
        with pytest.raises(DataError, match="no steps to learn from"):
            HMM(3, Gaussian()).fit([np.zeros((0, 2))])
    same(model, HMM(3, Gaussian(), max_iter=3, random_state=0).fit(X), bits=False)


def test_errors_name_the_sequence_among_all() -> None:
    X = [np.zeros(30, int) for _ in range(5)]
    X[3][7] = 1
    emission = Categorical(2, probabilities=[[1.0, 0.0], [1.0, 0.0]])
    model = HMM(2, emission, initial=[0.5, 0.5], transitions=np.full((2, 2), 0.5), backend="threads")
    with pytest.raises(InfeasibleError, match="sequence 3 has probability zero under the model, from step 7"):
        model.fit(X)
    fixed = HMM(2, Categorical(2), transitions=[[1.0, 0.0], [0.5, 0.5]], backend="threads")
    states = [np.zeros(30, int) for _ in range(5)]
    states[4][2] = 1
    with pytest.raises(DataError, match="sequence 4 goes from state 0 to 1 at step 2"):
        fixed.fit(X, states)


def test_shards_take_as_many_bytes_as_the_values_need() -> None:
    rows = {"values": np.array([-1, 3, 100]), "known": None}
    kept = sequence_shard.narrowed(sequence_shard.SequenceShard(rows, np.array([0, 3])))
    assert kept.rows["values"].dtype == np.int8
    np.testing.assert_array_equal(kept.row("values"), rows["values"])
    assert kept.row("values").dtype == np.int64
    for values, kind in ((np.array([0.5, np.nan]), np.float32), (np.array([0.1]), np.float64)):
        assert sequence_shard.narrow(values).dtype == kind
    assert sequence_shard.narrow(np.array([2**40])).dtype == np.int64


@pytest.mark.parametrize("format", ["npy", "npz", "safetensors", "parquet"])
def test_files(format: str, tmp_path: Path) -> None:
    """Symbols of one byte stay so; files that have labels have states."""
    rng = np.random.default_rng(0)
    lengths = [40, 3, 60, 1, 25]
    X = [rng.integers(4, size=n).astype(np.uint8) for n in lengths]
    states = [x % 2 for x in X]
    written(format, tmp_path, X, states)
    files = str(tmp_path / f"*.{format}")
    options = {"max_iter": 5, "tol": 0.0, "random_state": 0}
    for labels in (False, True):
        if labels and format == "npy":  # one array, without any
            continue
        columns = ["x"] if format == "parquet" else None
        given = ShardFiles(
            files, label_column=None if labels else False, feature_columns=columns, shard_steps=50
        )
        whole = HMM(2, Categorical(4), **options).fit(X, states if labels else None)
        same(HMM(2, Categorical(4), **options).fit(given), whole, bits=False)
        small = HMM(2, Categorical(4), n_jobs=2, max_memory=1, **options).fit(given)
        same(small, whole, bits=False)
    if format == "npy":
        same(HMM(2, Categorical(4), **options).fit(files), whole, bits=False)
        with pytest.raises(DataError, match="lengths cannot be given with files"):
            HMM(2, Categorical(4)).fit(files, lengths=lengths)
        np.save(tmp_path / "2.npy", np.array([0, 9], np.uint8))
        with pytest.raises(DataError, match=r"npy.*: step 1 of sequence .*symbol 9 is not valid"):
            HMM(2, Categorical(4)).fit(files)


def written(format: str, folder: Path, X: list[Any], states: list[Any]) -> None:
    if format == "npy":
        for i, x in enumerate(X):
            np.save(folder / f"{i}.npy", x)
        return
    for i, (a, b) in enumerate(((0, 2), (2, 5))):
        x, y = np.concatenate(X[a:b]), np.concatenate(states[a:b])
        lengths = np.array([len(one) for one in X[a:b]])
        path = folder / f"{i}.{format}"
        if format == "npz":
            np.savez(path, X=x, y=y, lengths=lengths)
        elif format == "safetensors":
            save_file({"X": x, "y": y, "lengths": lengths}, path)
        else:
            arrow = pytest.importorskip("pyarrow")
            from pyarrow import parquet

            table = {"id": np.repeat(np.arange(len(lengths)), lengths), "x": x, "y": y.astype(np.int64)}
            parquet.write_table(arrow.table(table), path)


def test_questions_about_shards(tmp_path: Path) -> None:
    X = drawn("categorical")
    model = HMM(3, Categorical(5, pseudocount=0.1), max_iter=3, random_state=0).fit(X)
    spread = HMM(3, Categorical(5, pseudocount=0.1), max_iter=3, random_state=0, backend=LocalBackend(2)).fit(
        X
    )
    model.set_params(backend=None)
    for i, x in enumerate(X):
        np.savez(tmp_path / f"{i}.npz", X=x.astype(np.int8), y=np.full(len(x), 99))
    for source, asked in ((X, spread), (tmp_path, model), (tmp_path, spread)):
        for method in ("smooth", "filter", "decode"):
            expected, found = getattr(model, method)(X), getattr(asked, method)(source)
            assert len(found) == len(X)
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-8)
        np.testing.assert_allclose(asked.log_likelihood(source), model.log_likelihood(X), rtol=1e-9)
        assert asked.score(source) == pytest.approx(model.score(X), rel=1e-9)
        states, joint = asked.decode(source, "max_marginal", return_log_joint=True)
        np.testing.assert_allclose(
            joint, model.decode(X, "max_marginal", return_log_joint=True)[1], rtol=1e-9
        )
        assert len(states) == len(X)
    with trellis.config_context(backend="threads"):
        np.testing.assert_array_equal(np.concatenate(model.decode(X)), np.concatenate(spread.decode(X)))

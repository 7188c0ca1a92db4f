"""Fits on files that something stops: they go on from their checkpoints, on any backend, to the same bits."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stopped_fits import learned, stopped_again_and_again, storing
from trellis import SequenceLabeler, ShardFiles
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.errors import DataError
from trellis.objectives import sharded_problem

pytestmark = pytest.mark.filterwarnings("ignore::trellis.training.TrainingWarning")


def write(folder: Path, n_files: int = 3, seed: int = 0) -> str:
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    for i in range(n_files):
        lines = []
        for _ in range(12):
            for _ in range(rng.integers(1, 6)):
                word = int(rng.integers(9))
                label = "ABC"[word % 3 if rng.random() < 0.8 else int(rng.integers(3))]
                lines.append(f"w{word} {'uv'[word % 2]} {label}")
            lines.append("")
        (folder / f"part{i}.conll").write_text("\n".join(lines) + "\n")
    return str(folder / "*.conll")


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("data"))


def fit(pattern: str, objective: Any = "log", checkpoint: Path | None = None, **options: Any) -> Any:
    options = {"max_iter": 7, "random_state": 3, "verbose": False, **options}
    files = ShardFiles(pattern, shard_steps=20)
    return SequenceLabeler(objective, checkpoint=checkpoint, **options).fit(files, None)


FITS: dict[str, dict[str, Any]] = {
    "lbfgs": {},
    "cutting planes": {"objective": "margin"},
    "stopped early": {"holdout": 0.25},
    "perceptron": {"objective": "perceptron"},
    "adagrad": {"solver": "adagrad"},
    "adam": {"solver": "adam"},
    "minibatch": {"objective": "margin", "solver": "minibatch"},
    "direct": {"objective": "direct", "holdout": 0.3, "max_iter": 2},
}


@pytest.mark.parametrize("name", FITS)
def test_a_stopped_fit_ends_in_the_same_model(name: str, pattern: str, tmp_path: Path) -> None:
    """Each part of the run is on another backend."""
    options = FITS[name]
    whole = fit(pattern, **options)
    backends = [LocalBackend(1), LocalBackend(3), LocalBackend(2, max_memory=1)]
    calls = iter(range(10**6))

    def again(folder: Path) -> Any:
        return fit(pattern, checkpoint=folder, backend=backends[next(calls) % 3], **options)

    resumed, times = stopped_again_and_again(again, tmp_path / "run", 25 if name == "direct" else 2)
    assert times >= 1
    assert learned(resumed) == learned(whole)


class _Killing:
    """Ends the process by ``kill -9`` at the n-th file, while it is written."""

    def __init__(self, at: int) -> None:
        self.at, self.written, self.fsync = at, 0, os.fsync

    def __call__(self, descriptor: int) -> None:
        self.written += 1
        if self.written > self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.fsync(descriptor)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("name", ["lbfgs", "perceptron"])
def test_a_killed_process_loses_nothing(name: str, pattern: str, tmp_path: Path) -> None:
    whole, folder = fit(pattern, **FITS[name]), tmp_path / "run"
    with storing():
        for at in (2, 4, 3):
            child = os.fork()
            if child == 0:
                os.fsync = _Killing(at)
                try:
                    fit(pattern, checkpoint=folder, backend=LocalBackend(1, max_memory=1), **FITS[name])
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
    assert os.listdir(folder)
    assert learned(fit(pattern, checkpoint=folder, **FITS[name])) == learned(whole)


def test_other_files_are_refused(pattern: str, tmp_path: Path) -> None:
    with storing():
        fit(pattern, checkpoint=tmp_path / "run")
    other = write(tmp_path / "other", seed=9)
    with pytest.raises(DataError, match=r"other data \(the checksum of the shards differs\)"):
        fit(other, checkpoint=tmp_path / "run")


class _Failing:
    """Stands for a question: fails at its n-th call, if a file does not say that it has."""

    def __init__(self, at: int, error: BaseException | None) -> None:
        self.calls, self.at, self.error = 0, at, error
        self.question = sharded_problem.shard_value_and_gradient

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        value, gradient = self.question(*arguments)
        if self.calls < self.at:
            return value, gradient
        if self.error is not None:
            raise self.error
        return np.nan, np.full_like(gradient, np.nan)


def test_ctrl_c_keeps_the_last_complete_iteration(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n = len(ShardFiles(pattern, shard_steps=20))
    failing = _Failing(6 * n + 2, KeyboardInterrupt())
    monkeypatch.setattr(sharded_problem, "shard_value_and_gradient", failing)
    model = SequenceLabeler(random_state=3, verbose=False)
    with pytest.raises(KeyboardInterrupt, match="keeps what it had learned"):
        model.fit(ShardFiles(pattern, shard_steps=20), None)
    assert "interrupted" in str(model.status_)
    assert model.n_iter_ >= 3
    assert np.isfinite(model.weights_).all()


def test_nan_ends_the_fit_with_the_last_complete_iteration(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = len(ShardFiles(pattern, shard_steps=20))
    monkeypatch.setattr(sharded_problem, "shard_value_and_gradient", _Failing(6 * n + 2, None))
    model = fit(pattern, max_iter=57, tol=1e-12)
    assert not model.status_.converged
    assert np.isfinite(model.weights_).all()
    assert np.isfinite(model.history_["objective"]).all()


def test_a_shard_that_cannot_be_read_any_more(tmp_path: Path) -> None:
    pattern = write(tmp_path / "data")
    files = ShardFiles(pattern, shard_steps=20)
    files.shards()
    (tmp_path / "data" / "part1.conll").unlink()
    with pytest.raises(DataError, match=r"part1\.conll"):
        SequenceLabeler(verbose=False).fit(files, None)


def test_a_resumed_fit_after_an_error_goes_on(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, n = fit(pattern), len(ShardFiles(pattern, shard_steps=20))
    with storing(), monkeypatch.context() as patch:
        patch.setattr(sharded_problem, "shard_value_and_gradient", _Failing(5 * n, MemoryError("no more")))
        with pytest.raises(MemoryError):
            fit(pattern, checkpoint=tmp_path / "run")
    resumed = fit(pattern, checkpoint=tmp_path / "run", backend=LocalBackend(3))
    assert learned(resumed) == learned(whole)

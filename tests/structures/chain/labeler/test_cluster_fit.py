"""Labellers on a real cluster of two processes: the bits of threads, from files and from memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stopped_fits import learned
from trellis import MEMM, SequenceLabeler, ShardFiles
from trellis.core.backends.local_backend import LocalBackend
from trellis.data.columns import read_columns
from trellis.training import checkpoints

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore::trellis.training.TrainingWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from trellis.core.backends.dask_backend import DaskBackend

    backend = DaskBackend("processes:2")
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for i in range(3):
        rows = []
        for _ in range(12):
            for word in rng.integers(0, 9, rng.integers(1, 6)):
                rows.append(f"w{word} {'ABC'[word % 3 if rng.random() < 0.8 else int(rng.integers(3))]}")
            rows.append("")
        (folder / f"part{i}.conll").write_text("\n".join(rows) + "\n")
    return str(folder / "*.conll")


def labeler(objective: str, **options: Any) -> SequenceLabeler:
    return SequenceLabeler(objective, random_state=1, verbose=False, max_iter=2, **options)


@pytest.mark.parametrize(
    ("objective", "options"),
    [("log", {"holdout": 0.25}), ("margin", {}), ("log", {"solver": "adagrad"})],
)
def test_files_on_a_cluster_give_the_bits_of_threads(
    cluster: Any, pattern: str, objective: str, options: Any
) -> None:
    files = ShardFiles(pattern, shard_steps=40)
    here = labeler(objective, backend=LocalBackend(2), **options).fit(files, None)
    there = labeler(objective, backend=cluster, **options).fit(files, None)
    assert learned(there) == learned(here)


def test_memm_on_a_cluster(cluster: Any, pattern: str) -> None:
    files = ShardFiles(pattern, shard_steps=40)
    here, there = (MEMM(verbose=False, max_iter=3, backend=one).fit(files) for one in ("threads", cluster))
    assert learned(there) == learned(here)
    assert list(there.predict(files)) == list(here.predict(files))
    assert there.score(files) == here.score(files)


def test_memory_and_checkpoints(cluster: Any, pattern: str, tmp_path: Path, monkeypatch: Any) -> None:
    """A fit that began on threads goes on on the cluster; predictions are those of one process."""
    columns = [read_columns(str(path)) for path in sorted(Path(pattern).parent.iterdir())]
    X = [[(w,) for w in words] for one in columns for words in one.sequences(0)]
    y = [labels for one in columns for labels in one.sequences(1)]
    whole = labeler("log", backend="threads").fit(X, y)
    assert learned(labeler("log", backend=cluster).fit(X, y)) == learned(whole)
    files = ShardFiles(pattern, shard_steps=40)
    monkeypatch.setattr(checkpoints, "SHARE", np.inf)
    labeler("log", checkpoint=tmp_path / "run", backend="threads").fit(files, None)
    model = labeler("log", checkpoint=tmp_path / "run", backend=cluster).fit(files, None)
    plain = labeler("log").fit(files, None)
    assert learned(model) == learned(plain)
    answers = list(model.predict(files))
    assert answers == [labels for shard in files.shards() for labels in plain.predict(shard.read()[0])]
    assert [list(one) for one in answers] == [list(one) for one in plain.predict(files)]
    right = np.mean([a == b for p, g in zip(answers, y, strict=True) for a, b in zip(p, g, strict=True)])
    np.testing.assert_allclose(model.score(files), right)
    marginals = list(model.predict_marginals(files))
    assert [len(one) for one in marginals] == [len(one) for one in y]
    np.testing.assert_allclose(np.concatenate(marginals).sum(axis=1), 1.0)

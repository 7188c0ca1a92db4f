"""Arrays and tables in files, cut into shards."""

from __future__ import annotations

import pickle
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from trellis import ShardFiles
from trellis.core.errors import DataError, UnsupportedError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _same(found: list[Any], wanted: list[Any]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


def _read(files: ShardFiles) -> tuple[list[Any], list[Any]]:
    read = []
    for shard in pickle.loads(pickle.dumps(files.shards())):
        X, y = shard.read()
        assert len(X) == shard.n_sequences
        assert sum(map(len, X)) == shard.n_steps
        read.append((X, y))
    X, y = zip(*read, strict=True)
    return list(chain.from_iterable(X)), [] if y[0] is None else list(chain.from_iterable(y))


def _example(lengths: list[int], width: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    n = sum(lengths)
    X = rng.normal(size=(n, width)).astype(np.float32) if width else rng.integers(0, 9, n)
    return X, rng.integers(0, 3, n)


@QUICK
@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=12).filter(any),
    width=st.integers(0, 3),
    shard_steps=st.integers(1, 30),
    kind=st.sampled_from(["npz", "compressed", "by columns", "safetensors", "offsets"]),
)
def test_shards_of_arrays_are_the_arrays(
    tmp_path: Path, lengths: list[int], width: int, shard_steps: int, kind: str
) -> None:
    X, y = _example(lengths, width)
    bounds = np.cumsum(lengths)[:-1]
    arrays = {"X": X, "y": y, "lengths": np.array(lengths)}
    path = tmp_path / ("a.safetensors" if kind == "safetensors" else "a.npz")
    if kind == "safetensors":
        save_file(arrays, path)
    elif kind == "compressed":
        np.savez_compressed(path, **arrays)
    elif kind == "by columns":
        np.savez(path, **{**arrays, "X": np.asfortranarray(X)})
    elif kind == "offsets":
        np.savez(path, X=X, y=y, offsets=np.concatenate([[0], np.cumsum(lengths)]))
    else:
        np.savez(path, **arrays)
    found, labels = _read(ShardFiles(path, shard_steps=shard_steps))
    _same(found, np.split(X, bounds))
    _same(labels, np.split(y, bounds))
    assert ShardFiles(path, label_column=False).shards()[0].read()[1] is None


@QUICK
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=12), shard_steps=st.integers(1, 30))
def test_each_npy_file_is_a_sequence(tmp_path: Path, lengths: list[int], shard_steps: int) -> None:
    folder = tmp_path / "npy"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    X = np.split(_example(lengths, 2)[0], np.cumsum(lengths)[:-1])
    for i, sequence in enumerate(X):
        np.save(folder / f"{i}.npy", sequence)
    files = ShardFiles(folder, shard_steps=shard_steps)
    _same(_read(files)[0], X)
    assert len(files) <= len(X)


@QUICK
@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=10),
    shard_steps=st.integers(1, 20),
    group=st.integers(1, 8),
    kind=st.sampled_from(["steps", "lists", "numbers", "vectors", "number lists"]),
)
def test_shards_of_parquet_are_the_table(
    tmp_path: Path, lengths: list[int], shard_steps: int, group: int, kind: str
) -> None:
    n, bounds = sum(lengths), np.cumsum(lengths)[:-1]
    words = np.array([f"w{i % 7}" for i in range(n)], dtype=object)
    tags = np.array([f"t{i % 3}" for i in range(n)], dtype=object)
    numbers = np.arange(2.0 * n).reshape(n, 2)
    ids = np.repeat([f"s{i}" for i in range(len(lengths))], lengths)

    def lists(values: Any) -> list[Any]:
        return [part.tolist() for part in np.split(values, bounds)]

    tables = {
        "steps": {"sequence_id": ids, "w": words, "y": tags},
        "lists": {"w": lists(words), "y": lists(tags)},
        "numbers": {"sequence_id": ids, "a": numbers[:, 0], "b": numbers[:, 1], "y": tags},
        "vectors": {"X": lists(numbers), "y": lists(tags)},
        "number lists": {"a": lists(numbers[:, 0]), "b": lists(numbers[:, 1]), "y": lists(tags)},
    }
    pq.write_table(pa.table(tables[kind]), tmp_path / "a.parquet", row_group_size=group)
    files = ShardFiles(tmp_path / "a.parquet", shard_steps=shard_steps)
    if kind in ("steps", "lists"):
        read = [shard.read() for shard in files.shards()]
        assert [part for X, _ in read for part in X.sequences(0)] == lists(words)
        assert [part for _, y in read for part in y] == lists(tags)
    else:
        X, y = _read(files)
        _same(X, np.split(numbers, bounds))
        assert y == lists(tags)


def test_parquet_columns_are_chosen_by_name(tmp_path: Path) -> None:
    table = pa.table({"doc": [1, 1, 2], "w": ["a", "b", "c"], "p": ["x", "y", "z"], "n": [1, 2, 3]})
    pq.write_table(table, tmp_path / "a.parquet")
    files = ShardFiles(tmp_path / "a.parquet", label_column="p", feature_columns=["w"], sequence_column="doc")
    X, y = files.shards()[0].read()
    assert (X.sequences(0), y) == ([["a", "b"], ["c"]], [["x", "y"], ["z"]])
    with pytest.raises(DataError, match="no column 'q', only doc, w, p, n"):
        ShardFiles(tmp_path / "a.parquet", label_column="q")
    with pytest.raises(DataError, match="hold strings, others numbers"):
        ShardFiles(tmp_path / "a.parquet", label_column="p", sequence_column="doc")
    with pytest.raises(DataError, match="column w contains no lists; give sequence_column"):
        ShardFiles(tmp_path / "a.parquet", label_column="p", feature_columns=["w"])
    pq.write_table(pa.table({"doc": [1, 1], "w": ["a", None], "y": ["x", "y"]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match="column w has empty cells"):
        ShardFiles(tmp_path / "b.parquet", sequence_column="doc").shards()[0].read()
    with pytest.raises(DataError, match=r"b.parquet has other columns than .*a.parquet"):
        ShardFiles(tmp_path)


def _save(path: Path, **arrays: Any) -> None:
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"Z": np.ones(3)}, "there is no array X, only Z"),
        ({"X": np.ones((2, 2, 2))}, r"X has shape \(2, 2, 2\)"),
        ({"X": np.array(["a"])}, "type <U1"),
        ({"X": np.ones(3), "lengths": [1, 1]}, "lengths add up to 2, but X has 3 steps"),
        ({"X": np.ones(3), "offsets": [0, 2, 1, 3]}, "offsets must not decrease"),
        ({"X": np.ones(3), "y": np.ones(2)}, r"y has shape \(2,\), but X has 3 steps"),
    ],
)
def test_errors_of_arrays(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    _save(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=message):
        ShardFiles(tmp_path / "a.npz")


def test_damaged_and_different_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((1000, 2)))
    np.savez(tmp_path / "a.npz", X=np.ones((1000, 2)))
    save_file({"X": np.ones((1000, 2))}, tmp_path / "a.safetensors")
    pq.write_table(pa.table({"X": [[1.0]]}), tmp_path / "a.parquet")
    for path in list(tmp_path.iterdir()):
        assert len(ShardFiles(path).shards()) == 1
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(DataError, match=f"{path.name}: .*cut short") as error:
            ShardFiles(path)
        assert "\n" not in str(error.value)
        path.unlink()
    np.save(tmp_path / "a.npy", np.ones((5, 2)))
    np.save(tmp_path / "b.npy", np.ones((5, 3)))
    with pytest.raises(DataError, match=r"b.npy has steps of shape \(3,\).*a.npy of shape \(2,\)"):
        ShardFiles(tmp_path)
    with pytest.raises(UnsupportedError, match="feature_columns and sequence_column"):
        ShardFiles(tmp_path / "a.npy", feature_columns=[0])
    np.savez(tmp_path / "o.npz", X=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="type object"):
        ShardFiles(tmp_path / "o.npz")


def test_default_shards_are_of_similar_size_in_bytes(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.ones((3000, 2000), np.float32), lengths=np.full(300, 10))
    files = ShardFiles(tmp_path / "a.npz")
    assert files.shard_steps == 2**24 // 16_000
    assert [shard.n_steps for shard in files.shards()] == [1050, 1050, 900]

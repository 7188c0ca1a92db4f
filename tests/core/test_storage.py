"""Model files: what goes in comes out, and whatever is not a whole model is refused in one sentence."""

from __future__ import annotations

import json
import os
import pickle
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import safetensors.numpy

from trellis.core import storage
from trellis.core.errors import DataError, ModelFileError

posix_only = pytest.mark.skipif(
    os.name == "nt", reason="Windows has access control lists and no signals, not permission bits and SIGKILL"
)
DTYPES = ["float64", "float32", "int64", "int32", "uint64", "uint32", "uint8", "bool"]


def _arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = {name: (rng.normal(size=(3, 4)) * 5).astype(np.int8).astype(name) for name in DTYPES}
    arrays |= {f"empty {name}": np.zeros((0, 2), dtype=name) for name in DTYPES}
    arrays["special"] = np.array([np.inf, -np.inf, np.nan, -0.0])
    arrays["scalar"] = np.array(7.5)
    arrays["not contiguous"] = rng.normal(size=(4, 6))[::2, ::3].T
    arrays["big endian"] = np.arange(5, dtype=">i4")
    return arrays


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.trellis"
    storage.save(
        path,
        "test",
        {"l2": 1.0, "name": "Füße", "none": None, "nested": {"10": [1, 2], "9": [float("inf")]}},
        _arrays(),
    )
    return path


def test_round_trip_of_every_type(model: Path) -> None:
    kind, meta, arrays = storage.read(model)
    assert kind == "test"
    assert meta == {"l2": 1.0, "name": "Füße", "none": None, "nested": {"10": [1, 2], "9": [float("inf")]}}
    expected = _arrays()
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name], strict=name != "big endian")
        assert array.flags.writeable
        assert array.flags.owndata or array.base.flags.writeable


def test_any_safetensors_reader_can_open_it(model: Path) -> None:
    arrays = safetensors.numpy.load_file(model)
    np.testing.assert_array_equal(arrays["int32"], _arrays()["int32"])


def test_the_same_model_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    kind, meta, arrays = storage.read(model)
    storage.save(tmp_path / "again", kind, meta, dict(reversed(arrays.items())))
    assert (tmp_path / "again").read_bytes() == model.read_bytes()


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([object()]), np.zeros(2, complex), np.zeros(1, "f2")]
)
def test_types_that_cannot_be_saved(tmp_path: Path, array: np.ndarray) -> None:
    with pytest.raises(DataError, match="array 'w' has type"):
        storage.save(tmp_path / "m", "test", {}, {"w": array})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("meta", [{"f": print}, {"x": {1, 2}}])
def test_meta_that_is_not_json(tmp_path: Path, meta: dict[str, object]) -> None:
    with pytest.raises(DataError, match="not plain JSON"):
        storage.save(tmp_path / "m", "test", meta, {})


def _refused(path: Path, pattern: str) -> None:
    with pytest.raises(ModelFileError, match=pattern) as caught:
        storage.read(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message


def test_truncation_anywhere(model: Path, tmp_path: Path) -> None:
    content = model.read_bytes()
    header_end = 8 + int.from_bytes(content[:8], "little")
    lengths = {0, 1, 7, 8, 9, header_end - 1, header_end, header_end + 1, len(content) - 1}
    lengths |= set(range(0, len(content), 97))
    damaged = tmp_path / "damaged"
    for length in sorted(lengths):
        damaged.write_bytes(content[:length])
        _refused(damaged, "not a Trellis model|damaged")


def test_bytes_added_at_the_end(model: Path) -> None:
    model.write_bytes(model.read_bytes() + b"\0")
    _refused(model, "not a Trellis model|damaged")


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "m"
    storage.save(
        path, "test", {"l2": 1.0}, {"weights": np.arange(3.0), "labels": np.arange(3, dtype=np.uint8)}
    )
    original = path.read_bytes()
    for position in range(len(original)):
        if original[position : position + 1] == b" ":
            continue  # white space between JSON tokens carries nothing; inside strings it is covered below
        for bit in range(0, 8, 3):
            flipped = bytearray(original)
            flipped[position] ^= 1 << bit
            path.write_bytes(flipped)
            _refused(path, "not a Trellis model|damaged|update trellis")


def _with_head(path: Path, **changes: object) -> None:
    content = path.read_bytes()
    arrays = safetensors.numpy.load(content)
    length = int.from_bytes(content[:8], "little")
    head = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["trellis"])
    path.write_bytes(safetensors.numpy.save(arrays, metadata={"trellis": json.dumps(head | changes)}))


def test_a_newer_format(model: Path) -> None:
    _with_head(model, format_version=storage.FORMAT_VERSION + 1, package_version="99.0")
    _refused(model, r"trellis 99\.0.*update trellis")


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "other"},
        {"checksum": None},
        {"format_version": "1"},
        {"format_version": float("nan")},
        {"meta": {"l2": 2.0}},
    ],
)
def test_a_changed_header(model: Path, changes: dict[str, object]) -> None:
    _with_head(model, **changes)
    _refused(model, "damaged")


def test_foreign_files(tmp_path: Path) -> None:
    contents = {
        "pickle": pickle.dumps({"weights": [1, 2, 3]}),
        "random": np.random.default_rng(1).bytes(4096),
        "text": b"B-NP NN Confidence\n" * 10,
        "safetensors": safetensors.numpy.save({"w": np.zeros(3)}),
        "safetensors of others": safetensors.numpy.save({"w": np.zeros(3)}, metadata={"trellis": "[]"}),
        "no object": (2).to_bytes(8, "little") + b"[]",
        "deep": (200_000).to_bytes(8, "little") + b"[" * 200_000,
        "huge header": (2**63 - 1).to_bytes(8, "little") + b"{}",
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        _refused(path, "not a Trellis model")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    _refused(tmp_path / "absent", "no such file")
    _refused(tmp_path, "is a folder")
    with pytest.raises(ModelFileError, match="is a folder"):
        storage.save(tmp_path, "test", {}, {})
    with pytest.raises(ModelFileError, match="does not exist; make it first"):
        storage.save(tmp_path / "no" / "m", "test", {}, {})


@contextmanager
def _without_privileges() -> Iterator[None]:
    """Root may read and write everything, so the block runs as a user who may not."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@posix_only
def test_no_permission() -> None:
    with _without_privileges(), TemporaryDirectory() as folder:
        model = Path(folder) / "m.trellis"
        storage.save(model, "test", {}, {})
        model.chmod(0)
        _refused(model, "permission denied")
        model.parent.chmod(0o500)
        try:
            with pytest.raises(ModelFileError, match="cannot write here"):
                storage.save(model, "test", {}, {})
        finally:
            model.parent.chmod(0o700)


def test_permission_denied_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_args: object, **_kwargs: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", deny)
        _refused(model, "permission denied")
    monkeypatch.setattr(os, "open", deny)
    with pytest.raises(ModelFileError, match="cannot write here"):
        storage.save(model, "test", {}, {})


@posix_only
def test_permissions_are_kept_and_links_followed(model: Path, tmp_path: Path) -> None:
    model.chmod(0o640)
    link = tmp_path / "latest"
    link.symlink_to(model.name)
    storage.save(link, "newer", {}, {})
    assert link.is_symlink()
    assert storage.read(model)[0] == "newer"
    assert stat.S_IMODE(model.stat().st_mode) == 0o640


@posix_only
def test_a_new_file_obeys_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        storage.save(tmp_path / "m", "test", {}, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o640


def test_an_error_while_writing_keeps_the_old_file(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFileError, match="No space left"):
        storage.save(model, "newer", {}, {})
    monkeypatch.undo()
    assert [p.name for p in model.parent.iterdir()] == [model.name]
    assert storage.read(model)[0] == "test"


CHILD = """
import os, sys, time
import numpy as np
from trellis.core import storage

real = {call}
def slow(*args):
    print("now", flush=True)
    time.sleep(60)
    return real(*args)
{call} = slow
storage.save(sys.argv[1], "newer", {{}}, {{"w": np.zeros(100_000)}})
"""


@posix_only
@pytest.mark.parametrize("call", ["os.fsync", "os.replace"])
def test_killed_while_saving(model: Path, call: str) -> None:
    before = model.read_bytes()
    with subprocess.Popen(
        [sys.executable, "-c", CHILD.format(call=call), str(model)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "now\n"
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    assert model.read_bytes() == before
    assert storage.read(model)[0] == "test"
    left = [p.name for p in model.parent.iterdir() if p != model]
    assert all(name.endswith(".partial") for name in left)
    storage.save(model, "newer", {}, {})  # what the dead process left is removed
    assert storage.read(model)[0] == "newer"
    assert [p.name for p in model.parent.iterdir()] == [model.name]

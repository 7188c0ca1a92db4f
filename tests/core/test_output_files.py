"""Where files are written: whole or not at all, beside other writers; into pipes and devices as they are."""

from __future__ import annotations

import io
import itertools
import os
import random
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trellis.bayesnet import markov_chain
from trellis.core import storage
from trellis.core.errors import DataError, ModelFileError
from trellis.core.output_files import atomic_text, atomic_writer, check_destination, remove_partial
from trellis.data.attributes import write_attributes
from trellis.data.columns import write_columns
from trellis.report.figures import figure_file
from trellis.speech.formats.alignment import Alignment, Interval

posix_only = pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes and devices in folders")


def _put(path: object, content: bytes) -> None:
    with atomic_writer(path) as file:  # type: ignore[arg-type]
        file.write(content)


def _read_in_background(path: Path) -> tuple[threading.Thread, list[bytes]]:
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()), daemon=True)
    reader.start()
    return reader, found


NETWORK = markov_chain(["yes", "no"], 2, 1, transitions=[[0.9, 0.1], [0.2, 0.8]], initial=[0.5, 0.5])
ALIGNMENT = Alignment(
    (Interval(0.0, 0.1, "sil"), Interval(0.1, 0.4, "a")), (Interval(0.1, 0.4, "ah"),), duration=0.4
)


def _figure(path: Path) -> None:
    with figure_file(path, 2, 2) as figure:
        figure.add_subplot()


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "model": ("m.trellis", lambda path: storage.save(path, "test", {}, {"w": np.zeros(3)})),
    "network": ("n.trellis", NETWORK.save),
    "bif": ("n.bif", NETWORK.write),
    "uai": ("n.uai.gz", NETWORK.write),
    "drawing": ("n.dot", NETWORK.draw),
    "textgrid": ("a.TextGrid", ALIGNMENT.write),
    "elan": ("a.eaf", ALIGNMENT.write),
    "json": ("a.json", ALIGNMENT.write),
    "csv": ("a.csv", ALIGNMENT.write),
    "ctm": ("a.ctm", ALIGNMENT.write),
    "lab": ("a.lab", ALIGNMENT.write),
    "phn": ("a.phn", ALIGNMENT.write),
    "columns": ("c.txt", lambda path: write_columns(path, [[("a", "b")]])),
    "attributes": ("c.crfsuite", lambda path: write_attributes(path, [[{"a": 1.0}]], [["b"]])),
    "figure": ("f.png", _figure),
}


@posix_only
@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_writes_into_a_pipe(name: str, tmp_path: Path) -> None:
    if name == "figure":
        pytest.importorskip("matplotlib")
    file, write = WRITERS[name]
    write(tmp_path / file)
    (tmp_path / "pipe").mkdir()
    pipe = tmp_path / "pipe" / file
    os.mkfifo(pipe)
    reader, found = _read_in_background(pipe)
    write(pipe)
    reader.join(10)
    assert found == [(tmp_path / file).read_bytes()]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [p.name for p in pipe.parent.iterdir()] == [file]


@posix_only
@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root makes devices")
@pytest.mark.parametrize("by_link", [False, True])
def test_devices_stay_devices(tmp_path: Path, by_link: bool) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        device.write_bytes(b"")
    except OSError as error:
        pytest.skip(f"no devices here: {error}")
    path = tmp_path / "link" if by_link else device
    if by_link:
        path.symlink_to("null")
    check_destination(path)
    _put(path, b"x" * 100_000)
    assert stat.S_ISCHR(device.stat().st_mode)
    assert path.is_symlink() == by_link


@posix_only
@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no /dev/fd here")
@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_descriptors_are_written_where_they_stand(tmp_path: Path, name: str) -> None:
    if not os.path.isdir(os.path.dirname(name)):
        pytest.skip("no /proc here")
    with (tmp_path / "log").open("wb") as log:
        log.write(b"before ")
        log.flush()
        check_destination(name.format(log.fileno()))
        link = tmp_path / "link"
        link.symlink_to(name.format(log.fileno()))
        _put(name.format(log.fileno()), b"one ")
        _put(link, b"two ")
        log.write(b"after")
    assert (tmp_path / "log").read_bytes() == b"before one two after"
    with pytest.raises(ModelFileError, match="cannot write here"):
        _put(name.format(9999), b"")
    with pytest.raises(ModelFileError, match="cannot write here"):
        check_destination(name.format(9999))


def test_streams(tmp_path: Path) -> None:
    stream = io.BytesIO()
    storage.save(stream, "test", {}, {"w": np.zeros(3)})
    storage.save(tmp_path / "m", "test", {}, {"w": np.zeros(3)})
    assert stream.getvalue() == (tmp_path / "m").read_bytes()


def _bad_places(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "file").write_bytes(b"kept")
    places = {
        "a folder": str(tmp_path),
        "a folder to be": str(tmp_path / "new") + os.sep,
        "no folder": str(tmp_path / "missing" / "x"),
        "a file as a folder": str(tmp_path / "file" / "x"),
        "a long name": str(tmp_path / ("x" * 300)),
        "a null character": str(tmp_path / "x\0y"),
        "nothing": "",
    }
    if os.name != "nt":
        (tmp_path / "loop").symlink_to("loop")
        (tmp_path / "dangling").symlink_to(tmp_path / "missing" / "x")
        places |= {"a loop": str(tmp_path / "loop"), "a dangling link": str(tmp_path / "dangling")}
    return places


def test_places_that_cannot_be_written_are_told_before_and_after(tmp_path: Path) -> None:
    places = _bad_places(tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    for path in places.values():
        with pytest.raises(ModelFileError) as ahead:
            check_destination(path)
        with pytest.raises(ModelFileError) as late:
            _put(path, b"x")
        assert str(ahead.value) == str(late.value)
        assert "\n" not in str(ahead.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_bytes() == b"kept"


def test_checking_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    check_destination(tmp_path / "old")
    check_destination(tmp_path / "new")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"old": b"old"}


@pytest.mark.parametrize("name", ["ä" * 120, "😀" * 63, "x" * 255])
def test_the_longest_names(tmp_path: Path, name: str) -> None:
    try:
        (tmp_path / name).write_bytes(b"")
    except OSError:
        pytest.skip("not a name here")
    _put(tmp_path / name, b"whole")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [(name, b"whole")]


@posix_only
def test_what_dead_writers_left_is_removed_and_what_living_ones_write_is_not(tmp_path: Path) -> None:
    target = tmp_path / "m"
    for number in (0, 1, 3):
        (tmp_path / f".m.{number}.partial").write_bytes(b"left behind")
    with atomic_writer(target) as first:
        first.write(b"first")
        with atomic_writer(target) as second:
            second.write(b"second")
            assert sum(p.name.endswith(".partial") for p in tmp_path.iterdir()) == 2
            remove_partial(target)
            assert sum(p.name.endswith(".partial") for p in tmp_path.iterdir()) == 2
        assert target.read_bytes() == b"second"
    assert target.read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


@posix_only
def test_a_link_laid_in_the_way_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / ".m.0.partial").symlink_to(victim)
    (tmp_path / ".m.1.partial").mkdir()
    os.mkfifo(tmp_path / ".m.2.partial")
    _put(tmp_path / "m", b"whole")
    assert (tmp_path / "m").read_bytes() == b"whole"
    assert victim.read_bytes() == b"precious"


@posix_only
def test_a_folder_that_may_not_be_listed(tmp_path: Path) -> None:
    folder = tmp_path / "box"
    folder.mkdir(0o300)
    try:
        _put(folder / "m", b"whole")
    finally:
        folder.chmod(0o700)
    assert (folder / "m").read_bytes() == b"whole"


def test_an_error_keeps_the_old_text_file(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    write_columns(path, [[("old", "O")]])
    before = path.read_bytes()
    with pytest.raises(DataError, match="cannot represent"):
        write_columns(path, [[("new", "O"), ("a\nb", "O")]])
    with pytest.raises(DataError, match="cannot be written as UTF-8"), atomic_text(path) as file:
        file.write("a\udc80b")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("c.txt", before)]


CHILD = """
import sys
from trellis.core.output_files import atomic_writer
own = sys.argv[2].encode() * 100_000
print("go", flush=True)
for _ in range(int(sys.argv[3])):
    with atomic_writer(sys.argv[1]) as file:
        file.write(own)
"""


def _writer(path: Path, letter: str, times: int) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), letter, str(times)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    return child


def test_two_writers_at_once_leave_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "m"
    children = [_writer(path, letter, 40) for letter in "ab"]
    while any(child.poll() is None for child in children):
        if path.exists():
            assert len(set(path.read_bytes())) == 1
    assert [child.wait() for child in children] == [0, 0]
    assert [len(p.read_bytes()) for p in tmp_path.iterdir()] == [100_000]


@posix_only
def test_killed_at_random_moments(tmp_path: Path) -> None:
    rng, path = random.Random(0), tmp_path / "m"
    _put(path, b"o" * 100_000)
    for letter in itertools.islice(itertools.cycle("ab"), 10):
        child = _writer(path, letter, 10**6)
        threading.Event().wait(rng.uniform(0.0, 0.05))
        child.kill()
        child.wait()
        content = path.read_bytes()
        assert len(content) == 100_000
        assert len(set(content)) == 1
        assert len(list(tmp_path.iterdir())) <= 2
    _put(path, b"whole")
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


@posix_only
def test_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "m"
    _put(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(ModelFileError, match=r"writing failed .* an existing file is unchanged"):
            _put(path, b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("m", b"old")]

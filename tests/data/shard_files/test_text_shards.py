"""Text files cut into shards: nothing is lost, doubled or moved, wherever the cuts are."""

from __future__ import annotations

import gzip
import pickle
import tempfile
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import ShardFiles
from trellis.core.errors import DataError
from trellis.data.attributes import read_attributes
from trellis.data.columns import CONLLU_COLUMNS, read_columns, read_conllu
from trellis.data.shard_files import as_shard_files, text_ranges, text_shards
from trellis.data.shard_files.file_paths import find_files

WORDS = st.sampled_from(["a", "b,c", "ü", "#x", "12"])
BLANK = st.sampled_from(["", "", "  ", "\t"])


@st.composite
def texts(draw: Any, line: Any, comments: bool) -> bytes:
    """A file of at least one sequence, with blank lines (and comments) wherever they may be."""
    parts: list[str] = draw(st.lists(BLANK, max_size=2))
    for _ in range(draw(st.integers(1, 12))):
        parts += draw(st.lists(line, min_size=1, max_size=4))
        if comments and draw(st.booleans()):
            parts.append("# a comment inside")
            parts += draw(st.lists(line, max_size=2))
        parts += draw(st.lists(BLANK, min_size=1, max_size=3))
        if comments and draw(st.booleans()):
            parts += ["# a comment between", *draw(st.lists(BLANK, max_size=1))]
    text = draw(st.sampled_from(["\n", "\r\n"])).join(parts)
    text = text.rstrip() if draw(st.booleans()) else text + "\n"
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


COLUMN_LINE = st.tuples(WORDS, WORDS).map(" ".join)
CONLLU_LINE = st.tuples(st.sampled_from(["1", "1", "2", "1-2", "1.1"]), WORDS, WORDS).map(
    lambda x: "\t".join([x[0], x[1], "_", x[2], *"______"])
)
ATTRIBUTE_LINE = st.tuples(WORDS, st.lists(st.sampled_from(["w=a", "w=b:2", "bias"]), max_size=3)).map(
    lambda x: "\t".join([x[0], *x[1], "always"])
)


def _rows(data: Any) -> list[list[tuple[str, ...]]]:
    columns = [data.sequences(j) for j in range(data.n_columns)]
    return [list(zip(*steps, strict=True)) for steps in zip(*columns, strict=True)]


def _attributes(data: Any) -> list[Any]:
    values = np.broadcast_to(data.values, data.codes.shape)
    steps = [
        [(data.names[data.codes[i]], values[i]) for i in range(a, b)]
        for a, b in zip(data.indptr[:-1], data.indptr[1:], strict=True)
    ]
    return [steps[a:b] for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)]


def _cut(content: bytes, zipped: bool, shard_steps: int, folder: str, **options: Any) -> tuple[str, Any]:
    path = Path(folder) / ("data.txt.gz" if zipped else "data.txt")
    path.write_bytes(gzip.compress(content, mtime=0) if zipped else content)
    files = ShardFiles(path, shard_steps=shard_steps, **options)
    shards = files.shards()
    for shard in shards:
        inputs, labels = pickle.loads(pickle.dumps(shard)).read()
        assert len(inputs) == shard.n_sequences == len(labels)
        assert inputs.n_steps == shard.n_steps == sum(map(len, labels))
    # as even as sequences allow: all but the last reach the number, and do so with their last sequence
    for shard in shards[:-1]:
        lengths = np.diff(shard.read()[0].offsets)
        assert shard.n_steps >= shard_steps > shard.n_steps - lengths[lengths > 0][-1] or len(shards) == 1
    return str(path), shards


@given(texts(COLUMN_LINE, False), st.booleans(), st.integers(1, 20), st.sampled_from([7, 64, 4096]))
def test_shards_of_column_files_are_the_file(
    content: bytes, zipped: bool, shard_steps: int, chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(text_ranges, "_CHUNK", chunk)
        path, shards = _cut(content, zipped, shard_steps, folder, format="columns")
        whole = read_columns(path)
        read = [shard.read() for shard in shards]
        assert list(chain.from_iterable(_rows(x) for x, _ in read)) == _rows(whole.without(-1))
        assert list(chain.from_iterable(y for _, y in read)) == whole.sequences(-1)
        assert whole.lines is not None
        found = [x.lines.where(t) for x, _ in read for t in range(x.n_steps)]
        assert found == [whole.lines.where(t) for t in range(whole.n_steps)]


@given(texts(CONLLU_LINE, True), st.booleans(), st.integers(1, 20))
def test_shards_of_conllu_files_are_the_file(content: bytes, zipped: bool, shard_steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if not any(
            line.split(b"\t")[0] in (b"1", b"2")
            for line in content.replace(b"\xef\xbb\xbf", b"").split(b"\n")
        ):
            return
        path, shards = _cut(content, zipped, shard_steps, folder, format="conllu")
        whole = read_conllu(path)
        read = [shard.read() for shard in shards]
        found = chain.from_iterable(chain.from_iterable(_rows(x) for x, _ in read))
        assert list(found) == [(word,) for word in whole.column(0)]
        assert [steps for _, y in read for steps in y if steps] == [s for s in whole.sequences(1) if s]


@given(texts(ATTRIBUTE_LINE, False), st.booleans(), st.integers(1, 20))
def test_shards_of_attribute_files_are_the_file(content: bytes, zipped: bool, shard_steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, shards = _cut(content, zipped, shard_steps, folder, format="crfsuite")
        whole = read_attributes(path)
        read = [shard.read() for shard in shards]
        assert list(chain.from_iterable(_attributes(x) for x, _ in read)) == _attributes(whole)
        assert list(chain.from_iterable(y for _, y in read)) == whole.labels()


@settings(max_examples=30, deadline=None)
@given(st.lists(texts(COLUMN_LINE, False), min_size=1, max_size=6), st.integers(1, 30))
def test_small_files_share_shards(contents: list[bytes], shard_steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for i, content in enumerate(contents):
            (Path(folder) / f"part-{i}.txt").write_bytes(content)
        shards = ShardFiles(folder, format="columns", shard_steps=shard_steps).shards()
        whole = [read_columns(Path(folder) / f"part-{i}.txt") for i in range(len(contents))]
        read = [shard.read() for shard in shards]
        assert list(chain.from_iterable(_rows(x) for x, _ in read)) == list(
            chain.from_iterable(_rows(x.without(-1)) for x in whole)
        )
        where = [one.lines.where(t) for one in whole if one.lines for t in range(one.n_steps)]
        assert [x.lines.where(t) for x, _ in read for t in range(x.n_steps)] == where
        for a, b in pairwise(shards):
            assert 2 * (a.n_steps + b.pieces[0].n_steps) > 3 * shard_steps


def test_small_attribute_files_share_shards(tmp_path: Path) -> None:
    (tmp_path / "a.crfsuite").write_text("B\tx:2\ty\n\nI\ty\n", "utf-8")
    (tmp_path / "b.crfsuite").write_text("I\ty\tz\nB\tz\n", "utf-8")
    (shard,) = ShardFiles(tmp_path, format="crfsuite").shards()
    X, y = shard.read()
    assert _attributes(X) == [
        [[("x", 2.0), ("y", 1.0)]],
        [[("y", 1.0)]],
        [[("y", 1.0), ("z", 1.0)], [("z", 1.0)]],
    ]
    assert y == [["B"], ["I"], ["I", "B"]] == X.labels()
    assert X.lines.where(3) == f"{tmp_path / 'b.crfsuite'}:2"


def test_files_are_found_in_natural_order(tmp_path: Path) -> None:
    for name in ("part-10.txt", "part-2.txt", "part-1.txt", ".hidden", "_SUCCESS"):
        (tmp_path / name).write_text("a B\n", "utf-8")
    wanted = [str(tmp_path / f"part-{i}.txt") for i in (1, 2, 10)]
    assert find_files(tmp_path) == find_files(f"{tmp_path}/part-*.txt") == find_files(wanted[::-1]) == wanted
    assert find_files([tmp_path, wanted[0]]) == wanted
    assert as_shard_files([["a"]]) is None
    files = as_shard_files(f"{tmp_path}/part-*.txt")
    assert files is not None
    assert as_shard_files(files) is files
    assert files.paths == wanted


def test_columns_are_chosen(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a P X\nb Q Y\n", "utf-8")
    X, y = ShardFiles(tmp_path / "a.txt", label_column=1, feature_columns=[0]).shards()[0].read()
    assert _rows(X) == [[("a",), ("b",)]]
    assert y == [["P", "Q"]]
    X, y = ShardFiles(tmp_path / "a.txt", label_column=False).shards()[0].read()
    assert _rows(X) == [[("a", "P", "X"), ("b", "Q", "Y")]]
    assert y is None
    row = "\t".join(["1", "w", "l", "N", *"______"])
    (tmp_path / "b.conllu").write_text(f"# text\n{row}\n", "utf-8")
    files = ShardFiles(tmp_path / "b.conllu", label_column="upos", feature_columns=["form", "lemma"])
    assert files.format == "conllu"
    assert files.reader.layout.features == (CONLLU_COLUMNS.index("form"), CONLLU_COLUMNS.index("lemma"))
    assert files.shards()[0].read()[1] == [["N"]]


def test_gzip_goes_on_where_it_was_read(tmp_path: Path) -> None:
    content = b"".join(b"w%d L\n\n" % i for i in range(20_000))
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(content))
    for start, stop in ((0, 10), (10, 5000), (4000, 6000), (100_000, 100_010), (7, 9), (6000, 6001)):
        assert text_ranges.read_range(str(path), start, stop) == content[start:stop]
    path.write_bytes(gzip.compress(content[::-1] + b"x"))  # another file of this name is not gone on with
    assert text_ranges.read_range(str(path), 100_010, 100_020) == content[::-1][100_010:100_020]


def test_the_fingerprint_is_of_names_contents_and_cuts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a B\n", "utf-8")
    first = ShardFiles(tmp_path / "a.txt").fingerprint()
    assert ShardFiles(str(tmp_path / "a*")).fingerprint() == first
    assert ShardFiles(tmp_path / "a.txt", shard_steps=1).fingerprint() != first
    assert ShardFiles(tmp_path / "a.txt", label_column=0).fingerprint() != first
    (tmp_path / "a.txt").write_text("a I\n", "utf-8")
    assert ShardFiles(tmp_path / "a.txt").fingerprint() != first


def _damaged(content: bytes) -> bytes:
    return gzip.compress(content * 5000)[:-20]


@pytest.mark.parametrize(
    ("files", "given", "options", "message"),
    [
        ({}, "*.txt", {}, "no file matches this pattern"),
        ({}, "", {}, "there are no files in this folder"),
        ({}, "a.txt", {}, "no such file or folder"),
        ({"a.txt": b"a B\n", "b.npy": b""}, "", {}, "b.npy is a file in the format npy, but .*a.txt is text"),
        (
            {"a.txt": b"a B\n", "b.txt": b"L\tw=a\n"},
            "",
            {},
            "b.txt looks like crfsuite, but .*a.txt like",
        ),
        ({"a.txt": b"a B\n", "b.txt": b"a b B\n"}, "", {}, "b.txt has 3 columns, but .*a.txt has 2"),
        ({"a.txt": b"a B\n", "b.txt": b"\n\n"}, "", {}, "b.txt: the file contains no sequences"),
        ({"a.txt": b"a B\n"}, "", {"format": "word"}, "format is 'word'; choose from columns"),
        ({"a.txt": b"a B\n"}, "", {"encoding": "utf-16"}, "utf-16 cannot be cut into shards"),
        ({"a.txt": b"a B\n"}, "", {"shard_steps": 0}, "shard_steps"),
        ({"a.txt": b"a B\n"}, "", {"label_column": 2}, "there is no column 2"),
        ({"a.gz": _damaged(b"a B\n\n")}, "", {}, "a.gz: the gzip data are damaged or cut short"),
        ({"a.gz": b"\x1f\x8bnothing"}, "", {}, "a.gz: the gzip data are damaged or cut short"),
    ],
)
def test_errors_name_the_file(
    tmp_path: Path, files: dict[str, bytes], given: str, options: dict[str, Any], message: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        ShardFiles(tmp_path / given, **options).shards()
    assert "\n" not in str(error.value)


def test_errors_in_a_shard_name_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_shards, "_HEAD", 100)  # what is wrong is behind what is looked at first
    (tmp_path / "a.txt").write_bytes(b"a B\n\n" * 100 + b"a b B\n" + b"\na \xff\n")
    shards = ShardFiles(tmp_path / "a.txt", shard_steps=10).shards()
    assert len(shards[0].read()[0]) == 10
    with pytest.raises(DataError, match=r"a.txt:203: byte 0xff is not valid utf-8"):
        shards[-1].read()
    (tmp_path / "a.txt").write_bytes(b"a B\n\n" * 100 + b"a b B\n")
    with pytest.raises(DataError, match=r"a.txt:201: 3 columns, but earlier lines have 2"):
        ShardFiles(tmp_path / "a.txt", shard_steps=10).shards()[-1].read()
    (tmp_path / "a.txt").write_bytes(b"a B\n\n" * 10)
    with pytest.raises(DataError, match="shorter than when it was cut"):
        shards[-1].read()

"""Column files against plain ``str.split``, and every kind of bad file."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError, UnsupportedError
from trellis.data.columns import ColumnData, iter_column_blocks, read_columns, read_conllu, write_columns

TEXT = "the DT B-NP\ndog NN I-NP\n\n\nbarks VBZ B-VP\n"

words = st.text(alphabet="aé#\u3000\xa0\x1c\u2028", min_size=1, max_size=3)
rows = st.lists(st.tuples(words, words), min_size=1, max_size=4)


def python_rows(data: ColumnData) -> list[list[tuple[str, ...]]]:
    columns = [data.sequences(j) for j in range(data.n_columns)]
    return [list(zip(*sequence, strict=True)) for sequence in zip(*columns, strict=True)]


def test_rows_and_sequences() -> None:
    data = read_columns(io.StringIO(TEXT))
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.sequences(0) == [["the", "dog"], ["barks"]]
    assert data.column(-1) == ["B-NP", "I-NP", "B-VP"]
    assert data.select([-1, 0]).column(0) == data.column(2)
    assert data.without(-1).n_columns == 2
    with pytest.raises(DataError, match="there is no column 3"):
        data.column(3)


@given(
    st.lists(rows, min_size=1, max_size=5),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([" ", "\t", " \t "]),
)
def test_reading_is_splitting_at_ascii_blanks(sequences, newline, blank) -> None:
    text = (newline + " \t" + newline).join(
        newline.join(blank.join(row) + blank for row in sequence) for sequence in sequences
    )
    data = read_columns(io.BytesIO(text.encode()))
    assert python_rows(data) == sequences  # str.split would also cut at U+00A0, U+3000 and control characters


@given(st.lists(rows, min_size=1, max_size=7), st.integers(1, 4))
def test_blocks_are_the_whole(sequences, size) -> None:
    text = "\n\n" + "\n\n\n".join("\n".join("\t".join(row) for row in s) for s in sequences)
    blocks = list(iter_column_blocks(io.BytesIO(text.encode()), size))
    assert [row for block in blocks for row in python_rows(block)] == sequences
    assert all(len(block) == size for block in blocks[:-1])


@given(st.lists(rows, min_size=1, max_size=5))
def test_write_then_read(sequences) -> None:
    target = io.StringIO()
    write_columns(target, sequences)
    assert python_rows(read_columns(io.StringIO(target.getvalue()), separator="\t")) == sequences


def test_tagged_lines_are_the_original_ones() -> None:
    codes = np.array([0, 1, 0])
    data = read_columns(io.StringIO(TEXT))
    expected = b"the DT B-NP X\ndog NN I-NP Y\n\n\nbarks VBZ B-VP X\n"
    assert data.tagged(codes, ["X", "Y"]) == expected
    one = read_columns(io.StringIO("# a comment\nthe\n\ndog\nbarks"), comments=True)
    assert one.tagged(codes, ["X", "Y"]) == b"# a comment\nthe\tX\n\ndog\tY\nbarks\tX\n"
    streamed = b"".join(
        block.tagged(codes[block.codes[0] * 0], ["X", "Y"])
        for block in iter_column_blocks(io.StringIO(TEXT), 1)
    )
    assert streamed == expected.replace(b"Y", b"X")
    with pytest.raises(UnsupportedError, match="no lines to repeat"):
        ColumnData.from_sequences([[("a",)]]).tagged(codes[:1], ["X"])


def test_gzip_paths_and_encodings(tmp_path, monkeypatch) -> None:
    path = tmp_path / "data.txt"  # told by its content, not its name
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert read_columns(path).column(0) == ["the", "dog", "barks"]
    assert len(list(iter_column_blocks(str(path), 1))) == 2
    assert read_columns(io.BytesIO(gzip.compress(TEXT.encode()))).n_steps == 3
    path.write_bytes("\ufeffcafé X\n".encode())
    assert read_columns(path).column(0) == ["café"]
    path.write_bytes("café X\n".encode("latin-1"))
    assert read_columns(path, encoding="latin-1").column(0) == ["café"]
    path.write_bytes("café X\n".encode("utf-16"))
    assert read_columns(path, encoding="utf-16").column(0) == ["café"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert read_columns("-").n_steps == 3


def test_the_callers_stream_stays_open() -> None:
    stream = io.BytesIO(TEXT.encode())
    read_columns(stream)
    assert not stream.closed


def test_tabs_keep_blanks_and_empty_fields() -> None:
    data = read_columns(io.StringIO("New York\t\tX\nx\ty z\tY\n"), separator="\t")
    assert data.column(0) == ["New York", "x"]
    assert data.column(1) == ["", "y z"]


def test_bad_files_are_named_with_their_line(tmp_path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"a b\n\n# c d e\nx y\n")
    with pytest.raises(DataError, match=r"bad.txt:3: 4 columns, but line 1 has 2"):
        read_columns(path)
    assert read_columns(path, comments=True).column(0) == ["a", "x"]
    with pytest.raises(DataError, match=r"bad.txt:3: 4 columns, but earlier lines have 2"):
        list(iter_column_blocks(path, 1))
    path.write_bytes(b"a b\nc \xff\n")
    with pytest.raises(DataError, match=r"bad.txt:2: byte 0xff is not valid utf-8"):
        read_columns(path)
    path.write_bytes(b"a b\n\nc \xff\n")
    with pytest.raises(DataError, match=r"bad.txt:3: byte 0xff"):
        list(iter_column_blocks(path, 1))
    for empty in (b"", b"\n \n"):
        path.write_bytes(empty)
        with pytest.raises(DataError, match=r"bad.txt: the file contains no sequences"):
            read_columns(path)
        with pytest.raises(DataError, match=r"bad.txt: the file contains no sequences"):
            list(iter_column_blocks(path))
    path.write_bytes(gzip.compress(TEXT.encode() * 100)[:-20])
    with pytest.raises(DataError, match=r"bad.txt: the gzip data are damaged"):
        read_columns(path)
    with pytest.raises(DataError, match=r"nowhere.txt: cannot be read"):
        read_columns(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match="unknown encoding"):
        read_columns(io.BytesIO(b"a"), encoding="klingon")
    with pytest.raises(DataError, match="separator is ','"):
        read_columns(io.BytesIO(b"a"), separator=",")


def test_comment_only_blocks_in_a_stream() -> None:
    text = "# only a comment\n\na b\n"
    data = list(iter_column_blocks(io.StringIO(text), 1, comments=True))
    assert [block.column(0) for block in data] == [["a"]]
    assert data[0].tagged(np.array([0]), ["X"]).decode() == text.replace("a b", "a b X")


def test_from_sequences_names_bad_rows() -> None:
    with pytest.raises(DataError, match="step 1 of sequence 0 has 1 columns, but the first has 2"):
        ColumnData.from_sequences([[("a", "b"), ("c",)]])
    with pytest.raises(DataError, match="step 0 of sequence 1 is 'ab'"):
        ColumnData.from_sequences([[("a", "b")], ["ab"]])
    with pytest.raises(DataError, match="no rows"):
        ColumnData.from_sequences([[]])


def test_write_refuses_what_cannot_be_read_back() -> None:
    for value in ("", "a\tb", "a\nb", " "):
        with pytest.raises(DataError, match="cannot represent"):
            write_columns(io.StringIO(), [[("x", value)]])
    with pytest.raises(DataError, match="cannot represent"):
        write_columns(io.StringIO(), [[("New York",)]], " ")
    with pytest.raises(DataError, match="separator is ','"):
        write_columns(io.StringIO(), [[("x",)]], ",")


CONLLU = """# text = vámonos al mar
1-2	vámonos	_	_	_	_	_	_	_	_
1	vamos	ir	VERB	_	_	0	root	_	_
2	nos	nosotros	PRON	_	_	1	obj	_	_
2.1	x	_	_	_	_	_	_	_	_

1	New York	New York	PROPN	_	_	0	root	_	_
"""


def test_conllu() -> None:
    data = read_conllu(io.StringIO(CONLLU), ["form", "upos"])
    assert data.sequences(0) == [["vamos", "nos"], ["New York"]]
    assert data.column(1) == ["VERB", "PRON", "PROPN"]
    tagged = data.tagged(np.array([0, 1, 1]), ["A", "B"]).decode().split("\n")
    assert tagged[1] == CONLLU.split("\n")[1]
    assert tagged[3].endswith("\t_\tB")
    with pytest.raises(DataError, match="'pos' is not a CoNLL-U column"):
        read_conllu(io.StringIO(CONLLU), ["pos"])
    with pytest.raises(DataError, match="10 tab-separated columns, not 1"):
        read_conllu(io.StringIO("a b\n"))

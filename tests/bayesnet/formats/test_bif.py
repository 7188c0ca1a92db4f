"""BIF files: what they may look like, that nothing is lost, and that bad ones are refused with their line."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_networks import random_network, seeds
from trellis import BayesianNetwork
from trellis.bayesnet.formats.bif import read_bif, write_bif
from trellis.core.errors import DataError

WET = """network "garden" { property author = somebody; }
// the weather
variable Rain {
  type discrete [ 2 ] { yes, no };
  property position = (1, 2);
}
variable "Grass wet" { type discrete[3] {dry, "a bit", <5/12+ }; }
/* what depends
   on what */
variable Sprinkler { type discrete [ 2 ] { on, off }; }
probability ( Rain ) { table 0.25 7.5e-1; }
probability ( "Grass wet" | Rain, Sprinkler ) {
  default 0.2, 0.3, 0.5;
  (yes, off) 0.5, 0.25, 0.25;
  (no, on) 1, 0, 0;
}
probability ( Sprinkler Rain ) { table 0.1, 0.6, 0.9, 0.4; }
"""


def read(text: str, tmp_path: Path) -> BayesianNetwork:
    path = tmp_path / "net.bif"
    path.write_text(text)
    return BayesianNetwork.read(path)


def test_a_file_with_everything(tmp_path: Path) -> None:
    net = read(WET, tmp_path)
    assert net.names == ("Rain", "Grass wet", "Sprinkler")
    assert net.states[1] == ("dry", "a bit", "<5/12+")
    assert net.parents("Grass wet") == ["Rain", "Sprinkler"]
    assert net.table("Rain").tolist() == [0.25, 0.75]
    wet = net.table("Grass wet")
    assert wet[0, 1].tolist() == [0.5, 0.25, 0.25]
    assert wet[1, 0].tolist() == [1, 0, 0]
    assert wet[0, 0].tolist() == wet[1, 1].tolist() == [0.2, 0.3, 0.5]
    # in a "table" the variable itself changes slowest
    assert net.table("Sprinkler").tolist() == [[0.1, 0.9], [0.6, 0.4]]


def test_properties_hold_anything(tmp_path: Path) -> None:
    plain = read(WET, tmp_path)
    text = WET.replace("property author = somebody;", 'property url = http://a.b/c; property p = {x} 5" }};')
    text = text.replace("position = (1, 2);", "site = https://a.b;  // and a comment; with a semicolon")
    text = text.replace("table 0.25", "property seen = {yes}; // once }\n table 0.25")
    assert "https" in text
    assert "{yes}" in text
    assert read(text, tmp_path) == plain
    named = (
        "variable property { type discrete [ 2 ] { property, b }; } probability ( property ) { table 1 0; }"
    )
    assert read(named, tmp_path).states == (("property", "b"),)
    row = "(property) 0.5 0.5; (b) 1 0; } // end"
    child = f"variable c {{ type discrete [ 2 ] {{ x, y }}; }} probability ( c | property ) {{ {row}\n"
    assert read(named + child, tmp_path).table("c").tolist() == [[0.5, 0.5], [1, 0]]


def test_too_many_parents(tmp_path: Path) -> None:
    names = [f"v{i}" for i in range(70)]
    text = "".join(f"variable {v} {{ type discrete [ 1 ] {{ a }}; }}\n" for v in names)
    text += "".join(f"probability ( {v} ) {{ table 1; }}\n" for v in names[1:])
    with pytest.raises(DataError, match=r"net\.bif:140: 'v0' has 69 parents; the limit is"):
        read(f"{text}probability ( v0 | {', '.join(names[1:])} ) {{ default 1; }}", tmp_path)


def test_gzip_windows_lines_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "net.bif.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + WET.replace("\n", "\r\n").encode()))
    assert BayesianNetwork.read(path) == read(WET, tmp_path)
    (tmp_path / "cut.bif.gz").write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"cut\.bif\.gz"):
        BayesianNetwork.read(tmp_path / "cut.bif.gz")


@given(seeds)
@settings(max_examples=40)
def test_round_trip_to_the_last_bit(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = tmp_path_factory.mktemp("bif") / "net.bif"
    net = random_network(np.random.default_rng(seed), 6, zeros=seed % 2 == 0)
    net.write(path)
    assert BayesianNetwork.read(path) == net


names = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters='"\n\r'), min_size=1, max_size=6
)


@given(
    st.lists(names, min_size=2, max_size=2, unique=True), st.lists(names, min_size=2, max_size=4, unique=True)
)
def test_any_names_survive(
    tmp_path_factory: pytest.TempPathFactory, variables: list[str], states: list[str]
) -> None:
    path = tmp_path_factory.mktemp("bif") / "net.bif"
    a, b = variables
    net = BayesianNetwork({a: states, b: ["x", "y"]}, {b: [a]})
    write_bif(net, path)
    assert read_bif(path) == net


def test_names_that_bif_cannot_hold(tmp_path: Path) -> None:
    net = BayesianNetwork({'a"b': ["x"]})
    with pytest.raises(DataError, match="rename it"):
        net.write(tmp_path / "net.bif")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("variable Sprinkler {", "variable Rain {", 10, "the variable 'Rain' is defined twice"),
        ("variable Sprinkler {", "variabel Sprinkler {", 10,
         "expected 'network', 'variable' or 'probability'"),
        ("{ on, off }", "{ on, on }", 10, "needs states with different names"),
        ("[ 2 ] { yes, no }", "[ 3 ] { yes, no }", 4, "should have 3 states by its type and lists 2"),
        ("{ yes, no };", "{ yes, no }", 5, "expected ';', found 'property'"),
        ("0.25 7.5e-1", "0.25 0.85", 11, "the row of 'Rain' sums to 1.1"),
        ("0.25 7.5e-1", "1.25 -0.25", 11, "the row of 'Rain' holds -0.25"),
        ("0.25 7.5e-1", "1e999 -1e999", 11, "the row of 'Rain' holds -inf"),
        ("0.25 7.5e-1", "nan 1", 11, "the row of 'Rain' holds NaN"),
        ("0.25 7.5e-1", "0.25", 11, "expected 2 numbers and then ';', found ';'"),
        ("0.25 7.5e-1", "0.25 0.5 0.25", 11, "expected ';' after 2 numbers, found '0.25'"),
        ("0.25 7.5e-1", "0.25 0_75", 11, "expected a number, found '0_75'"),
        ("table 0.25 7.5e-1;", "", 11, "the table of 'Rain' has no row"),
        ("(yes, off) 0.5", "(yes, of) 0.5", 14,
         "the variable 'Sprinkler' has no state 'of'; did you mean 'off'?"),
        ("(yes, off) 0.5", "(yes off no) 0.5", 14, "expected ')', found 'no'"),
        ("(no, on) 1, 0, 0", "(no, on) 1, 0, 1", 15, "'Grass wet' given Rain=no, Sprinkler=on sums to 2"),
        ("(no, on)", "(yes, off)", 15, "there is a second row given Rain=yes, Sprinkler=off"),
        ("  default 0.2, 0.3, 0.5;\n", "", 12, "has no row given Rain=yes, Sprinkler=on"),
        ("( Sprinkler Rain )", "( Sprinkler Snow )", 17, "there is no variable 'Snow'"),
        ("( Sprinkler Rain )", "( Rain Sprinkler )", 17, "'Rain' has a second probability block"),
        ("( Sprinkler Rain )", "( Sprinkler Rain Rain )", 17, "is named twice here"),
        ("probability ( Rain ) { table 0.25 7.5e-1; }\n", "", 3,
         "the variable 'Rain' has no probability block"),
        ("probability ( Rain ) { table 0.25", "probability ( Rain | Sprinkler ) { table 0.25 0.25 0.75", 11,
         "the edges form a cycle"),
        ("on what */", "on what", 8, "this comment is not closed"),
        ('"a bit"', '"a bit', 7, "a quote that is not closed"),
        ("0.4; }", "0.4;", 17, "this probability block has no closing brace"),
    ],
)  # fmt: skip
def test_the_line_of_what_is_wrong(tmp_path: Path, old: str, new: str, line: int, message: str) -> None:
    assert old in WET
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read(WET.replace(old, new, 1), tmp_path)
    assert f"net.bif:{line}: " in str(caught.value)


def test_a_default_cannot_fill_the_memory(tmp_path: Path) -> None:
    wide = "".join(f"variable v{i} {{ type discrete [ 2 ] {{ a, b }}; }}\n" for i in range(31))
    wide += "".join(f"probability ( v{i} ) {{ table 0.5 0.5; }}\n" for i in range(30))
    above = ", ".join(f"v{i}" for i in range(30))  # NumPy 1.26 has arrays of at most 32 axes
    with pytest.raises(DataError, match="the limit for a file of this size is"):
        read(f"{wide}probability ( v30 | {above} ) {{ default 0.5, 0.5; }}", tmp_path)
    with pytest.raises(DataError, match="has no row given v0=a"):
        read(f"{wide}probability ( v30 | {above} ) {{ }}", tmp_path)
    # no single table is large, all of them together are
    roots = "".join(f"probability ( v{i} ) {{ table 0.5 0.5; }}\n" for i in range(20))
    above = ", ".join(f"v{i}" for i in range(17))
    tables = "".join(f"probability ( v{i} | {above} ) {{ default 0.5, 0.5; }}\n" for i in range(20, 60))
    names = "".join(f"variable v{i} {{ type discrete [ 2 ] {{ a, b }}; }}\n" for i in range(60))
    with pytest.raises(DataError, match=r"net\.bif:\d+: with the table of 'v\d+', default rows fill"):
        read(names + roots + tables, tmp_path)
    few = "".join(
        f"probability ( v{i} | v0, v1 ) {{ default 0.5, 0.5; (a, b) 0.9, 0.1; }}\n" for i in range(20, 60)
    )
    assert read(names + roots + few, tmp_path).table("v59").tolist() == [
        [[0.5] * 2, [0.9, 0.1]],
        [[0.5] * 2] * 2,
    ]


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"net\.bif:1: this file defines no variables"):
        read("", tmp_path)
    (tmp_path / "latin.bif").write_bytes(WET.replace("Sprinkler", "Pr\u00e9").encode("latin-1"))
    with pytest.raises(DataError, match=r"latin\.bif:10: byte 0xe9 is not valid utf-8"):
        BayesianNetwork.read(tmp_path / "latin.bif")
    assert BayesianNetwork.read(tmp_path / "latin.bif", encoding="latin-1").names[2] == "Pr\u00e9"
    with pytest.raises(DataError, match=r"none\.bif: cannot be read"):
        BayesianNetwork.read(tmp_path / "none.bif")


def test_rounded_rows_are_normalised(tmp_path: Path) -> None:
    text = "variable A { type discrete [ 3 ] { a b c }; } probability ( A ) { table 0.333 0.333 0.333; }"
    np.testing.assert_allclose(read(text, tmp_path).tables[0], 1 / 3)
    (tmp_path / "net.bif").write_text(text.replace("0.333", "0.33"))
    with pytest.raises(DataError, match=r"sums to 0.99"):
        BayesianNetwork.read(tmp_path / "net.bif")
    assert BayesianNetwork.read(tmp_path / "net.bif", tolerance=0.02).tables[0][0] == pytest.approx(1 / 3)


pieces = st.sampled_from(
    [*"{}()[];|,\"\n/", "//", "/*", "*/", "variable", "probability", "network", "table", "default", "type",
     "discrete", "property", "0.5", "-1", "1e999", "nan", "99999999999", "Rain", "yes", "\x00", "\u2028"]
)  # fmt: skip


@given(st.data())
def test_damaged_files_give_a_line_and_never_more(data: st.DataObject) -> None:
    """Cut, doubled and mixed up: every file is either read or refused in one sentence with its line."""
    text = WET
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 60)))
        middle = "".join(data.draw(st.lists(st.one_of(pieces, st.text(max_size=3)), max_size=4)))
        text = text[:start] + middle + text[end:]
    refusal = ""
    try:
        net = read_bif(io.BytesIO(text.encode("utf-8", "replace")))
    except DataError as error:
        refusal = str(error)
    else:
        assert all(np.allclose(table.sum(axis=-1), 1) for table in net.tables)
    assert not refusal or re.fullmatch(r"<stream>:\d+: \S[^\n]*", refusal), refusal

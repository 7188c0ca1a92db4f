"""UAI and libDAI files: hand-written ones, round trips, and damaged ones refused with their line."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_networks import joint, random_graph, random_network, seeds
from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet import read_evidence, read_evidence_samples, write_evidence
from trellis.bayesnet.formats.libdai import read_fg
from trellis.bayesnet.formats.uai import read_uai
from trellis.core.errors import DataError

MARKOV = """MARKOV
3
2 2 3
3
2 0 1
2 1 2
0

4
0.4 0.6
0.7 0.3

6
1 2 3
4 5 6
1 2.5
"""

BAYES = """BAYES
2
2 3
2
1 0
2 0 1
2 0.25 0.75
6
0.5 0.25 0.25
0 1 0
"""


def written(tmp_path: Path, text: str, name: str = "net.uai") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_markov_network(tmp_path: Path) -> None:
    graph = FactorGraph.read(written(tmp_path, MARKOV))
    assert graph.names == ("x0", "x1", "x2")
    assert graph.states[2] == ("0", "1", "2")
    assert [factor.variables for factor in graph.factors()] == [(0, 1), (1, 2), ()]
    assert joint(graph)[0, 1, 2] == pytest.approx(0.6 * 6 * 2.5)
    with pytest.raises(DataError, match=r"net\.uai: this is a factor graph; use trellis\.FactorGraph"):
        BayesianNetwork.read(tmp_path / "net.uai")


def test_a_bayesian_network(tmp_path: Path) -> None:
    net = BayesianNetwork.read(written(tmp_path, BAYES))
    assert net.parent_indices[1] == (0,)
    assert net.tables[1].tolist() == [[0.5, 0.25, 0.25], [0, 1, 0]]
    (tmp_path / "net.uai.gz").write_bytes(gzip.compress(BAYES.encode()))
    assert BayesianNetwork.read(tmp_path / "net.uai.gz") == net
    assert FactorGraph.read(tmp_path / "net.uai") == net.to_factor_graph()


@given(seeds)
@settings(max_examples=30)
def test_round_trips_to_the_last_bit(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = tmp_path_factory.mktemp("uai") / "net.uai"
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 4, 5)
    graph.write(path)
    assert FactorGraph.read(path) == graph
    net = random_network(rng, 5)
    net.write(path)
    again = BayesianNetwork.read(path)
    assert all(np.array_equal(a, b) for a, b in zip(again.tables, net.tables, strict=True))
    assert [again.parent_indices[i] for i in range(5)] == [net.parent_indices[i] for i in range(5)]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    graph = FactorGraph([2], [([0], [1, 1])])
    with pytest.raises(DataError, match=r"factor graphs are written to \.uai"):
        graph.write(tmp_path / "graph.bif")
    with pytest.raises(DataError, match=r"factor graphs also from"):
        FactorGraph.read(tmp_path / "graph.txt")


@pytest.mark.parametrize(
    ("text", "old", "new", "line", "message"),
    [
        (MARKOV, "MARKOV", "MARKOW", 1, "expected BAYES or MARKOV, found 'MARKOW'"),
        (MARKOV, "2 2 3", "2 2 x", 3, "expected the number of states of variable 2, found 'x'"),
        (MARKOV, "2 2 3", "2 0 3", 3, "variable 1 has no states"),
        (MARKOV, "2 2 3", "2 2 99999999999", 3, "below"),
        (MARKOV, "2 1 2", "2 1 3", 6, "expected the number of a variable below 3, found 3"),
        (MARKOV, "2 1 2", "2 1 1", 6, "factor 1 names a variable twice"),
        (MARKOV, "\n4\n", "\n5\n", 9, "factor 0 has 5 values, and its variables need 4 (2 x 2)"),
        (MARKOV, "0.7 0.3", "0.7 -0.3", 11, "expected a number that is not negative, found '-0.3'"),
        (MARKOV, "0.7 0.3", "0.7 nan", 11, "expected a number that is not negative, found 'nan'"),
        (MARKOV, "0.7 0.3", "0.7 inf", 11, "expected a number that is not negative, found 'inf'"),
        (MARKOV, "0.7 0.3", "0.7 0_3", 11, "expected a number that is not negative, found '0_3'"),
        (MARKOV, "1 2.5", "1", 16, "expected 1 values, found 0 before the end of the file"),
        (MARKOV, "1 2.5", "1 2.5 7", 16, "expected the end of the file, found '7'"),
        (BAYES, "0 1 0", "0 1 1", 8, "the row of 'x1' given x0=1 sums to 2"),
        (BAYES, "2 0 1\n", "2 1 0\n", 8, "factor 1 is a second table of x0"),
        (BAYES, "2\n1 0\n2 0 1\n2 0.25 0.75\n", "1\n2 0 1\n", 1, "no factor has x0 as its last variable"),
    ],
)
def test_the_line_of_what_is_wrong(
    tmp_path: Path, text: str, old: str, new: str, line: int, message: str
) -> None:
    assert old in text
    path = written(tmp_path, text.replace(old, new, 1))
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        (BayesianNetwork if text is BAYES else FactorGraph).read(path)
    assert f"net.uai:{line}: " in str(caught.value)


def test_evidence(tmp_path: Path) -> None:
    graph = FactorGraph.read(written(tmp_path, MARKOV))
    for text, expected in [
        ("2 0 1 2 0", {"x0": "1", "x2": "0"}),
        ("1\n2 0 1 2 0\n", {"x0": "1", "x2": "0"}),
        ("1 2 1", {"x2": "1"}),
        ("1\n1 2 1", {"x2": "1"}),
        ("0", {}),
        ("1 0", {}),
        ("3 0 1 1 1 2 0", {"x0": "1", "x1": "1", "x2": "0"}),
    ]:
        assert read_evidence(written(tmp_path, text, "net.evid"), graph) == expected
    for evidence in ({"x0": 1, "x2": "0"}, {"x1": 0}, {}):
        write_evidence(tmp_path / "net.evid", graph, evidence)
        read_back = read_evidence(tmp_path / "net.evid", graph)
        assert read_back == {name: str(state) for name, state in evidence.items()}
    for text, message in [
        ("2 0 1", "expected the number of a variable, found the end of the file"),
        ("2 0 2 1 0", "expected the number of a state below 2, found 2"),
        ("2 0 1 0 0", "variable 0 is observed in two states"),
        ("1 0 1 5", "expected"),
        ("", "expected the number of observed variables"),
        ("2 1 0 1 1 2 0", "this file has 2 samples of evidence; read them with read_evidence_samples"),
        ("3 0 1 1 1", "found the end of the file"),
    ]:
        with pytest.raises(DataError, match=rf"net\.evid:1: .*{message}"):
            read_evidence(written(tmp_path, text, "net.evid"), graph)


def test_samples_of_evidence(tmp_path: Path) -> None:
    graph = FactorGraph.read(written(tmp_path, MARKOV))
    for text, expected in [
        ("2\n1 0 1\n1 2 0\n", [{"x0": "1"}, {"x2": "0"}]),
        ("3\n2 0 1 1 1\n0\n1 2 2\n", [{"x0": "1", "x1": "1"}, {}, {"x2": "2"}]),
        ("2 0 0", [{}, {}]),
        ("2 0 1 2 0", [{"x0": "1", "x2": "0"}]),
        ("0", [{}]),
    ]:
        assert read_evidence_samples(written(tmp_path, text, "net.evid"), graph) == expected
    with pytest.raises(DataError, match=r"net\.evid:3: expected the number of a state below 2, found 2"):
        read_evidence_samples(written(tmp_path, "2\n1 0 1\n1 1 2\n", "net.evid"), graph)


def test_a_short_file_cannot_ask_for_much_memory(tmp_path: Path) -> None:
    for text, name, message in [
        ("MARKOV 1 9999999 0", "a.uai", "a.uai:1: expected the number of states of variable 0 below"),
        ("MARKOV 70 " + "1 " * 70 + "1 70 " + " ".join(map(str, range(70))) + " 1 1", "b.uai",
         "b.uai:1: factor 0 has 70 variables; the limit is"),
        ("3 " + "".join(f"1 {i} 900000 0 " for i in range(3)), "c.fg",
         "c.fg:1: expected the number of states of a variable below"),
        ("9 " + "".join(f"2 {2 * i} {2 * i + 1} 9000 9000 0 " for i in range(9)), "d.fg",
         "d.fg:1: this factor has 81,000,000 values, and a file of this size may have"),
    ]:  # fmt: skip
        with pytest.raises(DataError, match=re.escape(message)):
            FactorGraph.read(written(tmp_path, text, name))


def test_gzipped_files_are_written_too(tmp_path: Path) -> None:
    net = random_network(np.random.default_rng(1), 4)
    for name in ("net.bif.gz", "net.uai.gz"):
        net.write(tmp_path / name)
        assert (tmp_path / name).read_bytes()[:2] == b"\x1f\x8b"
        assert BayesianNetwork.read(tmp_path / name).tables[3].tolist() == net.tables[3].tolist()
    graph = net.to_factor_graph()
    graph.write(tmp_path / "graph.uai.gz")
    assert [f.variables for f in FactorGraph.read(tmp_path / "graph.uai.gz").factors()] == [
        f.variables for f in graph.factors()
    ]
    write_evidence(tmp_path / "net.evid.gz", net, {"v0": "s0"})
    assert read_evidence(tmp_path / "net.evid.gz", net) == {"v0": "s0"}


FG = """# two factors
2

2
4 1
3 2
6
0 1
1 2
2 3
3 4
4 5
5 6

1
9
2
1
1 0.5
"""


def test_libdai_has_the_first_variable_fastest(tmp_path: Path) -> None:
    graph = FactorGraph.read(written(tmp_path, FG, "graph.fg"))
    assert graph.names == ("x1", "x4", "x9")
    first, second = graph.factors()
    assert first.variables == (1, 0)
    assert first.values.tolist() == [[1, 4], [2, 5], [3, 6]]  # rows: x4, columns: x1
    assert second.values.tolist() == [0, 0.5]
    for old, new, line, message in [
        ("4 1\n", "4 4\n", 4, "names a variable twice"),
        ("5 6\n", "6 6\n", 13, "expected the place of a value below 6"),
        ("9\n2\n", "4\n2\n", 15, "variable 4 has 2 states here and 3 before"),
        ("3 2\n", "99999999 99999999\n", 6, "states of a variable below"),
        ("3 2\n", "9999 999\n", 4, "this factor has 9,989,001 values, and a file of this size"),
    ]:
        with pytest.raises(DataError, match=rf"graph\.fg:{line}: .*{message}"):
            FactorGraph.read(written(tmp_path, FG.replace(old, new, 1), "graph.fg"))


words = st.sampled_from(
    ["0", "1", "2", "3", "-1", "1e999", "nan", "99999999999999999999", "BAYES", "\n", "x", "#", "\x00"]
)


@given(st.sampled_from([MARKOV, BAYES, FG, "2 0 1 2 0"]), st.data())
def test_damaged_files_give_a_line_and_never_more(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + " ".join(data.draw(st.lists(words, max_size=3))) + text[end:]
    graph = FactorGraph([2, 2, 3], [])
    for reader in (
        lambda source: read_uai(source, as_graph=True),
        read_uai,
        read_fg,
        lambda source: read_evidence(source, graph),
    ):
        refusal = ""
        try:
            reader(io.BytesIO(text.encode()))
        except DataError as error:
            refusal = str(error)
        assert not refusal or re.fullmatch(r"<stream>:\d+: \S[^\n]*", refusal), refusal

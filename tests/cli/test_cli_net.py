"""``trellis net``: every command against the library, and one sentence for whatever is wrong."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from trellis import BayesianNetwork, FactorGraph, load
from trellis.bayesnet import NetworkBuilder
from trellis.cli.app import app
from trellis.core.errors import TrellisError

NET = (
    NetworkBuilder()
    .variable("Rain", ["yes", "no"], [0.2, 0.8])
    .variable("Sprinkler", ["yes", "no"], {"yes": [0.01, 0.99], "no": [0.4, 0.6]}, given="Rain")
    .variable("Wet", ["yes", "no"], [[[0.99, 0.01], [0.8, 0.2]], [[0.9, 0.1], [0.05, 0.95]]],
              given=["Rain", "Sprinkler"])
    .build()
)  # fmt: skip


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    NET.write(tmp_path / "garden.bif")
    return tmp_path / "garden.bif"


def run(*arguments: object, stdin: str | None = None) -> str:
    result = CliRunner().invoke(app, ["net", *map(str, arguments)], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_show(garden: Path) -> None:
    text = run("show", garden)
    assert "3 variables, 3 edges" in text
    assert "Wet        yes no  given Rain, Sprinkler" in text
    assert run("show", garden, "Rain", "Wet") == f"{NET.format_table('Rain')}\n\n{NET.format_table('Wet')}\n"


def test_query(garden: Path) -> None:
    assert run("query", garden, "Rain", "-e", "Wet=yes") == f"{NET.query('Rain', {'Wet': 'yes'})}\n"
    everything = run("query", garden, "-e", "Wet=yes")
    assert everything.count("P(") == 2
    joint = json.loads(run("query", garden, "Rain", "Sprinkler", "-e", "Wet=yes", "--json"))
    exact = NET.query(["Rain", "Sprinkler"], {"Wet": "yes"})
    assert joint["Rain, Sprinkler"]["probabilities"]["yes, no"] == pytest.approx(exact["yes", "no"])
    soft = NET.query("Rain", likelihoods={"Wet": [1, 0.5]})
    assert run("query", garden, "Rain", "--soft", "Wet=1,0.5") == f"{soft}\n"


def test_approximate_queries_say_so(garden: Path) -> None:
    text = run("query", garden, "Rain", "-e", "Wet=yes", "--method", "gibbs", "--samples", 2000)
    expected = NET.query("Rain", {"Wet": "yes"}, method="gibbs", n_sweeps=2000, random_state=0)
    assert text == f"{expected}\n"
    found = json.loads(run("query", garden, "Rain", "--method", "loopy", "--json"))["Rain"]
    assert found["method"] == "loopy"
    assert found["probabilities"]["yes"] == pytest.approx(0.2)
    arguments = [
        "net",
        "query",
        str(garden),
        "Rain",
        "-e",
        "Wet=yes",
        "--method",
        "rejection",
        "--samples",
        "20",
    ]
    result = CliRunner().invoke(app, arguments)
    assert "trellis: warning: rejection: " in result.stderr


def test_every_method_is_offered() -> None:
    from trellis.bayesnet.inference.query import APPROXIMATE, EXACT
    from trellis.cli.net.query import Method

    assert [str(method) for method in Method] == [*EXACT, *APPROXIMATE]


def test_the_best_assignment(garden: Path) -> None:
    best = NET.mpe({"Wet": "yes"})
    lines = run("query", garden, "--mpe", "-e", "Wet=yes").splitlines()
    assert [line.split() for line in lines[:-1]] == [list(pair) for pair in best.items()]
    found = json.loads(run("query", garden, "--mpe", "-e", "Wet=yes", "--json"))
    assert found["states"] == dict(best)
    assert found["log_probability"] == pytest.approx(best.log_probability)


@pytest.mark.parametrize(
    "command",
    [["show"], ["query"], ["draw", "-o", "n.dot"], ["separate", "Größe", "Wet"]],
    ids=lambda c: c[0],
)
def test_networks_in_other_encodings(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    NET.write("n.bif")
    text = Path("n.bif").read_text(encoding="utf-8").replace("Rain", "Größe")
    Path("n.bif").write_text(text, encoding="utf-8")
    expected = run(command[0], "n.bif", *command[1:])
    Path("n.bif").write_text(text, encoding="latin-1")
    assert run(command[0], "n.bif", *command[1:], "--encoding", "latin-1") == expected


def test_other_files(tmp_path: Path) -> None:
    graph = FactorGraph([2, 3], [((0, 1), np.arange(1.0, 7.0).reshape(2, 3))])
    graph.write(tmp_path / "g.uai")
    (tmp_path / "g.uai.evid").write_text("1 0 1")
    text = run("query", tmp_path / "g.uai", "x1", "--evidence-file", tmp_path / "g.uai.evid")
    assert text == f"{graph.query('x1', {'x0': 1})}\n"
    (tmp_path / "g.16.evid").write_text("1 0 1", encoding="utf-16")
    (tmp_path / "g.16.uai").write_text((tmp_path / "g.uai").read_text(), encoding="utf-16")
    paths = tmp_path / "g.16.uai", "x1", "--evidence-file", tmp_path / "g.16.evid"
    assert run("query", *paths, "--encoding", "utf-16") == text
    NET.write(tmp_path / "n.uai")
    assert "given x0, x1" in run("show", tmp_path / "n.uai")  # BAYES: it has arrows
    graph.save(tmp_path / "g.trellis")
    assert "2 variables" in run("show", tmp_path / "g.trellis")
    run("draw", tmp_path / "g.uai", "-o", tmp_path / "g.dot")
    assert "dir=none" in (tmp_path / "g.dot").read_text()


def test_separation_and_pictures(garden: Path, tmp_path: Path) -> None:
    text = run("separate", garden, "Rain", "Wet", "-g", "Sprinkler", "--draw", tmp_path / "why.dot")
    assert text == f"{NET.explain_separation('Rain', 'Wet', ['Sprinkler'])}\n"
    run("draw", garden, "-o", tmp_path / "garden.dot", "--observed", "Wet")
    assert "Sprinkler" in (tmp_path / "garden.dot").read_text()
    assert (tmp_path / "why.dot").exists()


def test_rows_are_filled(garden: Path, tmp_path: Path) -> None:
    table = "Wet,Sprinkler\nyes,\nno,yes\n?,no\n"
    found = rows_of(run("predict", garden, "-", "--missing", "?", stdin=table))
    frame = {"Wet": ["yes", "no", None], "Sprinkler": [None, "yes", "no"]}
    for name, column in NET.predict(frame).items():
        assert [row[name] for row in found] == column.tolist()
    (tmp_path / "rows.tsv").write_text("Wet\tSprinkler\nyes\t\n")
    run("predict", garden, tmp_path / "rows.tsv", "-p", "-t", "Rain", "-o", tmp_path / "out.csv")
    (row,) = rows_of((tmp_path / "out.csv").read_text())
    assert float(row["Rain=yes"]) == pytest.approx(NET.query("Rain", {"Wet": "yes"})["yes"], rel=1e-5)


def test_tables_are_learned(garden: Path, tmp_path: Path) -> None:
    data = NET.sample(500, random_state=0)
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(data), *zip(*data.values(), strict=True)])
    result = CliRunner().invoke(
        app, ["net", "fit", str(garden), str(tmp_path / "rows.csv"), "-o", str(tmp_path / "new.bif")]
    )
    assert result.exit_code == 0, result.output
    assert "log-likelihood" in result.stderr
    assert BayesianNetwork.read(tmp_path / "new.bif") == NET.fit(data)
    hidden = (tmp_path / "rows.csv").read_text().replace("yes,yes,yes", "yes,,yes")
    run("fit", garden, "-", "-o", tmp_path / "new.trellis", "--pseudocount", 1, stdin=hidden)
    frame = {name: [row[name] or None for row in rows_of(hidden)] for name in NET.names}
    assert load(tmp_path / "new.trellis") == NET.fit(frame, pseudocount=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", "NET", "Rian"], "there is no variable 'Rian'; did you mean 'Rain'?"),
        (["query", "NET", "Rain", "-e", "Wet"], "--evidence Wet: give a name, = and a value"),
        (["query", "NET", "Rain", "-e", "Wet=maybe"], "maybe"),
        (["query", "NET", "Rain", "-e", "Wet=yes", "-e", "Wet=no"], "'Wet' is given twice"),
        (["query", "NET", "Rain", "--soft", "Wet=1,x"], "the likelihoods of 'Wet' must be 2 numbers"),
        (["query", "NET", "Rain", "--mpe"], "--mpe covers all variables"),
        (["query", "NET", "Rain", "--samples", "5"], "--samples does not apply to --method auto"),
        (["query", "NET", "Rain", "--memory", "1e-9"], "would need"),
        (["predict", "NET", "ROWS"], "rows.csv:3: "),
        (["fit", "NET", "RAGGED", "-o", "new.bif"], "ragged.csv:2: 3 cells, but the first line names 2"),
        (["predict", "NET", "NAMES"], "names.csv:1: there is no variable 'Rein'"),
        (["predict", "NET", "EMPTY"], "empty.csv: this file is empty"),
        (["separate", "GRAPH", "x0", "x1"], "this is a factor graph, which has no directed edges"),
        (["show", "absent.bif"], "absent.bif"),
    ],
)  # fmt: skip
def test_what_is_wrong(garden: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    files = {
        "ROWS": ("rows.csv", "Wet\nyes\nperhaps\n"),
        "RAGGED": ("ragged.csv", "Wet,Rain\nyes,no,yes\n"),
        "NAMES": ("names.csv", "Wet,Rein\nyes,no\n"),
        "EMPTY": ("empty.csv", ""),
        "GRAPH": ("g.uai", "MARKOV 2 2 2 1 2 0 1 4 1 2 3 4"),
    }
    for name, text in files.values():
        (tmp_path / name).write_text(text)
    places = {"NET": garden} | {key: tmp_path / name for key, (name, _) in files.items()}
    before = sorted(tmp_path.iterdir())
    with pytest.raises(TrellisError) as error:
        run(*(places.get(word, word) for word in arguments))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert sorted(tmp_path.iterdir()) == before


def test_help_is_quick_to_load() -> None:
    """Neither NumPy nor Numba is needed to say what there is."""
    code = "import sys; import trellis.cli.app; print('numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"

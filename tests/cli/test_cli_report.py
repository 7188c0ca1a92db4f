"""``trellis report``: pages of labellers and networks, and one sentence for whatever is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from trellis import SequenceLabeler
from trellis.bayesnet import NetworkBuilder
from trellis.cli.app import app
from trellis.core.errors import DataError, ModelFileError, TrellisError, UnsupportedError

LINES = "the D\ncat N\n\na D\ndog N\nsat V\n\n" * 4
NET = NetworkBuilder().variable("Rain", ["yes", "no"], [0.2, 0.8]).build()


def run(*arguments: object, stdin: str | None = None) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    (folder / "data.txt").write_text(LINES)
    (folder / "bare.txt").write_text("the\ncat\n\n")
    run("train", folder / "data.txt", "-o", folder / "tagger.trellis", "--max-iter", 5)
    NET.write(folder / "rain.bif")
    NET.save(folder / "rain.trellis")
    SequenceLabeler(max_iter=2).fit([["a", "b"]], [["x", "y"]]).save(folder / "python.trellis")
    NET.to_factor_graph().save(folder / "graph.trellis")
    return folder


def test_the_page_of_a_labeller(folder: Path) -> None:
    run(
        "report", folder / "tagger.trellis", folder / "data.txt", "-o", folder / "a.html", "--title", "<Tags>"
    )
    text = (folder / "a.html").read_text("utf-8")
    assert "<h1>&lt;Tags&gt;</h1>" in text
    assert "<b>8</b> sequences" in text
    assert run("report", folder / "tagger.trellis", "-", "-o", "-", "--title", "<Tags>", stdin=LINES) == text


@pytest.mark.parametrize("name", ["rain.bif", "rain.trellis"])
def test_the_page_of_a_network(folder: Path, name: str) -> None:
    run("report", folder / name, "-o", folder / "net.html")
    text = (folder / "net.html").read_text("utf-8")
    assert f"{name}</h1>" in text
    assert "<span>yes</span><b>20.0 %</b>" in text


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("tagger.trellis",), DataError, "needs a labelled file"),
        (("tagger.trellis", "bare.txt"), DataError, "has 1 columns, but 2 are needed"),
        (("tagger.trellis", "nothing.txt"), TrellisError, "nothing.txt"),
        (("nothing.trellis", "data.txt"), ModelFileError, "no such file"),
        (("rain.bif", "data.txt"), UnsupportedError, "takes no data; leave out"),
        (("python.trellis", "data.txt"), ModelFileError, "saved from Python"),
        (("graph.trellis", "data.txt"), ModelFileError, "holds a FactorGraph"),
    ],
)
def test_what_is_wrong_is_told(
    folder: Path, arguments: tuple[str, ...], error: type[TrellisError], message: str
) -> None:
    with pytest.raises(error, match=message):
        run("report", *(folder / name for name in arguments), "-o", folder / "wrong.html")
    assert not (folder / "wrong.html").exists()

"""``trellis report``: the page of each kind of model, and one sentence for whatever is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from page_checks import page_stages, without_times
from trellis import (
    HMM,
    IOHMM,
    MEMM,
    Graph,
    GraphLabeler,
    LinearGaussian,
    SequenceLabeler,
    emissions,
    load,
)
from trellis.bayesnet import NetworkBuilder
from trellis.cli.app import app
from trellis.core.errors import DataError, ModelFileError, TrellisError, UnsupportedError
from trellis.speech import Corpus, builtin_aligner, synthetic_corpus
from trellis.structures.graph import read_graphs, write_graphs

LINES = "the D\ncat N\n\na D\ndog N\nsat V\n\n" * 4
NET = NetworkBuilder().variable("Rain", ["yes", "no"], [0.2, 0.8]).build()


def run(*arguments: object, stdin: str | None = None) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def save_others(folder: Path) -> None:
    """Models that are not made by ``trellis train``, and files for them."""
    rng = np.random.default_rng(0)
    X = [np.repeat([0.0, 6.0], 10)[:, None] + rng.normal(size=(20, 1)) for _ in range(3)]
    HMM(2, emissions.Gaussian(), random_state=0, max_iter=5).fit(X).save(folder / "hmm.trellis")
    LinearGaussian(1, random_state=0, max_iter=3).fit(X).save(folder / "space.trellis")
    IOHMM(1, random_state=0, n_init=1, max_iter=3).fit(X, X).save(folder / "driven.trellis")
    np.savez(folder / "driven.npz", X=np.concatenate(X), inputs=np.concatenate(X), lengths=[20] * 3)
    np.savez(folder / "arrays.npz", X=np.concatenate(X))
    coins = emissions.Categorical(2, probabilities=[[0.9, 0.1], [0.2, 0.8]])
    known = HMM(2, coins, initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.1, 0.9]])
    known.save(folder / "coins.trellis")
    (folder / "coins.txt").write_text("0\n0\n1\n\n1\n1\n")
    (folder / "numbers.csv").write_text("1.5\n2\n")
    (folder / "names.csv").write_text("level,time\n")
    (folder / "bad.csv").write_text("1\n2\nx\n")
    graphs = [Graph.grid(rng.normal(size=(3, 4))) for _ in range(6)]
    labels = [(graph.nodes[:, 0] > 0).astype(int).reshape(3, 4) for graph in graphs]
    GraphLabeler("log", max_iter=5).fit(graphs, labels).save(folder / "graphs.trellis")
    write_graphs(folder / "graphs.npz", graphs, labels)
    write_graphs(folder / "bare.npz", graphs)
    builtin_aligner().save(folder / "aligner.trellis")
    (folder / "empty").mkdir()
    (folder / "corpus").mkdir()


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
    save_others(folder)
    return folder


def test_the_page_of_a_labeller(folder: Path) -> None:
    run(
        "report", folder / "tagger.trellis", folder / "data.txt", "-o", folder / "a.html", "--title", "<Tags>"
    )
    text = (folder / "a.html").read_text("utf-8")
    assert "<h1>&lt;Tags&gt;</h1>" in text
    assert "<b>8</b> sequences" in text
    piped = run("report", folder / "tagger.trellis", "-", "-o", "-", "--title", "<Tags>", stdin=LINES)
    assert without_times(piped) == without_times(text)
    assert page_stages(text) == (
        ["reading", "encoding", "arranging", "training", "checking"],
        ["reading", "encoding and scoring", "predicting", "marginals"],
    )


def test_files_in_shards_are_read_and_encoded_in_one_stage(folder: Path) -> None:
    run("train", folder / "data.txt", folder / "data.txt", "-o", folder / "two.trellis", "--max-iter", 5)
    known = load(folder / "two.trellis").fit_seconds_
    assert list(known) == ["reading and encoding", "arranging", "training", "checking"]
    run("report", folder / "two.trellis", folder / "data.txt", "-o", folder / "two.html")
    assert page_stages((folder / "two.html").read_text("utf-8"))[0] == list(known)


@pytest.mark.parametrize("name", ["rain.bif", "rain.trellis"])
def test_the_page_of_a_network(folder: Path, name: str) -> None:
    run("report", folder / name, "-o", folder / "net.html")
    text = (folder / "net.html").read_text("utf-8")
    assert f"{name}</h1>" in text
    assert "<span>yes</span><b>20.0 %</b>" in text


def test_the_pages_of_hidden_markov_models_and_state_spaces(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = [np.repeat([0.0, 6.0], 10) + rng.normal(size=20) for _ in range(3)]
    for name in ("hmm", "space"):
        model = load(folder / f"{name}.trellis")
        expected = f"{model.log_likelihood([x[:, None] for x in X]).sum():,.2f}"
        for file in (folder / "numbers.csv", folder / "arrays.npz"):
            write_numbers(file, X)
            run("report", folder / f"{name}.trellis", file, "-o", folder / "hmm.html")
            text = (folder / "hmm.html").read_text("utf-8")
            assert f"<dd>{expected}, " in text
            assert "<b>3</b> sequences" in text
    run("report", folder / "coins.trellis", folder / "coins.txt", "-o", folder / "coins.html")
    assert "<b>2</b> sequences · <b>5</b> steps" in (folder / "coins.html").read_text("utf-8")
    run("report", folder / "driven.trellis", folder / "driven.npz", "-o", folder / "driven.html")
    assert "mean over all inputs" in (folder / "driven.html").read_text("utf-8")


def write_numbers(path: Path, X: list[np.ndarray]) -> None:
    if path.suffix == ".csv":
        texts = ["\n".join(repr(float(x)) for x in row) for row in X]
        path.write_text("level\n" + "\n\n".join(texts) + "\n")
    else:
        np.savez(path, X=np.concatenate(X)[:, None], lengths=[len(row) for row in X])


def test_the_page_of_a_labeller_of_graphs(folder: Path) -> None:
    run("report", folder / "graphs.trellis", folder / "graphs.npz", "-o", folder / "graphs.html")
    model, (graphs, labels) = load(folder / "graphs.trellis"), read_graphs(folder / "graphs.npz")
    text = (folder / "graphs.html").read_text("utf-8")
    assert f"<dt>nodes right</dt><dd><b>{100 * model.score(graphs, labels):.2f} %</b>" in text


def test_the_page_of_an_aligner(folder: Path) -> None:
    corpus = synthetic_corpus()[:2]
    for utterance in corpus:
        shutil.copy(utterance.audio, folder / "corpus" / utterance.audio.name)
        utterance.reference.to_textgrid(folder / "corpus" / f"{utterance.audio.stem}.TextGrid")
    run("report", folder / "aligner.trellis", folder / "corpus", "-o", folder / "aligner.html")
    found = builtin_aligner().evaluate(Corpus.read(folder / "corpus", "textgrids"))
    text = (folder / "aligner.html").read_text("utf-8")
    assert f"<dt>within 20 ms</dt><dd><b>{100 * found.within[20.0].value:.2f} %</b>" in text


def test_labellers_that_were_saved_from_python(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 2)) for _ in range(10)]
    y = [["a" if row[0] > 0 else "b" for row in x] for x in X]
    model = MEMM(max_iter=5).fit(X, y)
    model.save(folder / "memm.trellis")
    flat = np.concatenate([np.array(labels) for labels in y])
    np.savez(folder / "memm.npz", X=np.concatenate(X), y=flat, lengths=[6] * 10)
    run("report", folder / "memm.trellis", folder / "memm.npz", "-o", folder / "memm.html")
    text = (folder / "memm.html").read_text("utf-8")
    assert f"<dt>steps right</dt><dd><b>{100 * model.score(X, y):.2f} %</b>" in text


def test_a_network_of_words_reads_a_column_file(folder: Path) -> None:
    pytest.importorskip("torch")
    from trellis.neural import NeuralSequenceLabeler

    X, y = [["the", "cat"], ["a", "dog", "sat"]] * 4, [["D", "N"], ["D", "N", "V"]] * 4  # those of LINES
    model = NeuralSequenceLabeler(max_epochs=2, hidden=4, embedding_dim=4, random_state=0).fit(X, y)
    model.save(folder / "network.trellis")
    run("report", folder / "network.trellis", folder / "data.txt", "-o", folder / "network.html")
    text = (folder / "network.html").read_text("utf-8")
    assert f"<dt>steps right</dt><dd><b>{100 * model.score(X, y):.2f} %</b>" in text


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("tagger.trellis",), DataError, "needs a labelled file"),
        (("tagger.trellis", "bare.txt"), DataError, "has 1 columns, but 2 are needed"),
        (("tagger.trellis", "nothing.txt"), TrellisError, "nothing.txt"),
        (("nothing.trellis", "data.txt"), ModelFileError, "no such file"),
        (("rain.bif", "data.txt"), UnsupportedError, "takes no data; leave out"),
        (("python.trellis", "data.txt"), ModelFileError, "saved from Python"),
        (("graph.trellis", "data.txt"), UnsupportedError, "there is no page for a FactorGraph"),
        (("hmm.trellis",), DataError, "needs a file of observations"),
        (("hmm.trellis", "names.csv"), DataError, "names, but no numbers"),
        (("hmm.trellis", "bad.csv"), DataError, r"bad.csv:3: 'x' is not a line of 1 numbers"),
        (("driven.trellis", "numbers.csv"), DataError, "this is a text file; give numbers as"),
        (("graphs.trellis", "bare.npz"), DataError, "no labels to compare with"),
        (("graphs.trellis", "data.txt"), DataError, "data.txt"),
        (("graphs.trellis", "arrays.npz"), DataError, "there is no array nodes"),
        (("aligner.trellis", "empty"), DataError, "no label files"),
    ],
)
def test_what_is_wrong_is_told(
    folder: Path, arguments: tuple[str, ...], error: type[TrellisError], message: str
) -> None:
    with pytest.raises(error, match=message):
        run("report", *(folder / name for name in arguments), "-o", folder / "wrong.html")
    assert not (folder / "wrong.html").exists()

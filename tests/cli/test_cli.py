"""The command line from the outside: real files, real processes where it matters."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trellis import __version__, load
from trellis.cli.app import app
from trellis.core.errors import DataError, ModelFileError, TrellisError, UnsupportedError
from trellis.core.file_formats import FileFormat
from trellis.data.shard_files.input_format import choose_format, detect_format

TRELLIS = [sys.executable, "-c", "from trellis.cli import main; main()"]

COLUMNS = """\
The DT B-NP
cat NN I-NP
sat VBD B-VP

Dogs NNS B-NP
bark VBP B-VP
. . O

"""
CRFSUITE = "B-NP\tw=The\tfirst\nI-NP\tw=cat\tlength:3\n\nB-VP\tw=sat\n"
CONLLU = """\
# text = Cats' nap
1-2\tCats'\t_\t_\t_\t_\t_\t_\t_\t_
1\tCats\tcat\tNOUN\t_\t_\t0\t_\t_\t_
2\t'\t's\tPART\t_\t_\t1\t_\t_\t_
3\tnap\tnap\tVERB\t_\t_\t1\t_\t_\t_

"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (COLUMNS, FileFormat.columns),
        (COLUMNS.replace(" ", "\t"), FileFormat.columns),
        (CRFSUITE, FileFormat.crfsuite),
        ("NP\tw=a\tp=b\n\nVP\tw=c\tp=d\n", FileFormat.crfsuite),
        ("NP\tw=a\tn:1.5\n\nVP\tw=c\tn:-2e3\n", FileFormat.crfsuite),
        ("NP\tw=a\tfirst\n\nVP\n", FileFormat.crfsuite),  # a step without attributes
        ("10:30\tTIME\n=\tSYM\n", FileFormat.columns),
        ("The\tDT\tB-NP\ncat\tNN\n", FileFormat.columns),  # a broken line, not attributes
        ("The\tDT\tB-NP\ncat\n", FileFormat.columns),
        (CONLLU, FileFormat.conllu),
    ],
)
def test_formats_are_told_apart(text: str, expected: FileFormat) -> None:
    assert detect_format(text.encode(), "file") is expected


def test_an_empty_file_has_no_format() -> None:
    with pytest.raises(DataError, match=r"empty\.txt: the file contains no sequences"):
        detect_format(b"\n \n", "empty.txt")


def test_label_and_feature_columns() -> None:
    text = COLUMNS.encode()
    layout = choose_format(text, "file", None)
    assert (layout.label, layout.features) == (2, (0, 1))
    layout = choose_format(text, "file", None, label_column="0", feature_columns="-1")
    assert (layout.label, layout.features) == (0, (2,))
    data = layout.parse(text, "file")
    assert layout.labels(data) == [["The", "cat", "sat"], ["Dogs", "bark", "."]]
    assert layout.inputs(data).column(0) == ["B-NP", "I-NP", "B-VP", "B-NP", "B-VP", "O"]
    unlabelled = layout.parse(b"DT B-NP\n", "file")  # without column 0, the others move up
    assert layout.inputs(unlabelled).column(0) == ["B-NP"]


def test_conllu_columns_by_name() -> None:
    layout = choose_format(CONLLU.encode(), "file", None)
    data = layout.parse(CONLLU.encode(), "file")
    assert layout.labels(data) == [["NOUN", "PART", "VERB"]]
    assert layout.inputs(data).column(0) == ["Cats", "'", "nap"]
    layout = choose_format(CONLLU.encode(), "file", None, label_column="lemma", feature_columns="form, upos")
    assert layout.inputs(data).column(1) == ["NOUN", "PART", "VERB"]
    assert layout.labels(data) == [["cat", "'s", "nap"]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a\nb\n", {}, "only one column"),
        (COLUMNS, {"label_column": "5"}, "there is no column 5"),
        (COLUMNS, {"label_column": "pos"}, "'pos' is not a whole number"),
        (COLUMNS, {"feature_columns": "0,2"}, "column 2 is both label and feature"),
        (CRFSUITE, {"label_column": "0"}, "no columns to choose"),
        (CONLLU, {"label_column": "tag"}, "one of id, form"),
    ],
)
def test_columns_that_do_not_fit(text: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(TrellisError, match=message):
        choose_format(text.encode(), "file", None, **options)


SENTENCES = [
    "the DT B-NP|cat NN I-NP|sat VBD B-VP|on IN B-PP|the DT B-NP|mat NN I-NP|. . O",
    "dogs NNS B-NP|bark VBP B-VP|. . O",
    "the DT B-NP|old JJ I-NP|dog NN I-NP|sat VBD B-VP|. . O",
    "a DT B-NP|cat NN I-NP|saw VBD B-VP|dogs NNS B-NP|in IN B-PP|the DT B-NP|garden NN I-NP|. . O",
]


def _column_file(separator: str = " ", repeat: int = 3) -> str:
    text = "".join(sentence.replace("|", "\n") + "\n\n" for sentence in SENTENCES * repeat)
    return text.replace(" ", separator)


def _attribute_file() -> str:
    lines = []
    for sentence in SENTENCES * 3:
        for step in sentence.split("|"):
            word, tag, label = step.split(" ")
            lines.append(f"{label}\tw={word}\tpos={tag}\tlength:{len(word)}")
        lines.append("")
    return "\n".join(lines) + "\n"


def run(*arguments: object, stdin: str | bytes | None = None) -> str:
    """What a command writes to stdout; errors are raised."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    (folder / "train.txt").write_text(_column_file())
    run("train", folder / "train.txt", "-o", folder / "model", "--constraints", "bio", "--l2", 0.1, "--quiet")
    return folder


def test_version_and_help() -> None:
    assert run("--version") == f"trellis {__version__}\n"
    for command in ([], ["train"], ["tag"], ["evaluate"], ["inspect"], ["bound"]):
        assert "--help" in run(*command, "--help")


def test_help_names_every_choice() -> None:
    from trellis.losses.labelings import LOSSES
    from trellis.objectives import OBJECTIVES
    from trellis.solvers import SOLVERS

    words = set(re.findall(r"\w+", run("train", "--help")))
    assert {*OBJECTIVES, *LOSSES, *SOLVERS, "bio", "bioes", *FileFormat} <= words


def test_every_option_has_a_sentence() -> None:
    import typer

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        for parameter in command.params:
            assert (parameter.help or "").endswith("."), f"{name} {parameter.name}"


def test_train_ends_with_status_size_and_place(folder: Path) -> None:
    result = CliRunner().invoke(app, ["train", str(folder / "train.txt"), "-o", str(folder / "other")])
    assert result.exit_code == 0
    assert result.stdout == ""
    status, size = result.stderr.splitlines()
    assert re.match(r"(converged|stopped) after \d+ iterations?: ", status)
    assert size.startswith("69 tokens in 12 sequences, 5 labels, ")
    assert re.search(r"[\d.]+ s \(.*training [\d.]+ m?s.*\); the model is in", size)
    assert size.endswith(f"the model is in {folder / 'other'}")


def test_train_stops_as_crfsuite_does(folder: Path) -> None:
    arguments = [
        "train",
        folder / "train.txt",
        "-o",
        folder / "other",
        "--l1",
        0.1,
        "--delta",
        0.3,
        "--period",
        2,
    ]
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert "2 iterations lowered the objective by less than 0.3 of it" in result.stderr
    with pytest.raises(UnsupportedError, match="does not look at how the objective falls"):
        run(*arguments, "--objective", "margin", "--l1", 0)


def run_with_notes(*arguments: object) -> str:
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False).stderr


def test_train_says_that_a_model_knows_one_label(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("same a\n\nsame a\n\nsame b\n")
    arguments = ["train", str(tmp_path / "train.txt"), "-o", str(tmp_path / "model")]
    lines = CliRunner().invoke(app, arguments).stderr.splitlines()
    assert lines[0].startswith("trellis: warning: the model gives the label 'a' to each of the 3 steps of")
    assert CliRunner().invoke(app, [*arguments, "--quiet"]).stderr == ""
    (tmp_path / "train.txt").write_text("one a\n\nother a\n")
    lines = CliRunner().invoke(app, arguments).stderr.splitlines()
    assert lines[0].startswith("trellis: warning: all known labels of the training data are 'a'")


@pytest.mark.parametrize("odd", ["b-NP", "NP", "Z-NP", "B_NP"])
def test_evaluate_says_which_label_takes_the_span_f1_away(odd: str, tmp_path: Path) -> None:
    data = tmp_path / "train.txt"
    for last, said in ((odd, True), ("I-NP", False)):
        data.write_text(f"the B-NP\ncat I-NP\nsees O\nme B-VP\nnow {last}\n\n" * 3)
        run("train", data, "-o", tmp_path / "model", "-q")
        done = run_with_notes("evaluate", tmp_path / "model", data)
        assert ("without span F1" in done and repr(odd) in done) == said


@pytest.mark.parametrize("mark", [",", ";", "|"])
def test_columns_with_other_separators_are_named(mark: str, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(f"a{mark}N{mark}B-X\nb{mark}N{mark}O\n")
    with pytest.raises(DataError, match=f"separated by blanks or tabs, not by '[{mark}]'"):
        run("train", tmp_path / "train.txt", "-o", tmp_path / "model")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_the_likely_encoding_is_suggested(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("caf\u00e9 N\nou C\n", encoding)
    with pytest.raises(DataError, match=f"--encoding {encoding}"):
        run("train", tmp_path / "train.txt", "-o", tmp_path / "model")
    run("train", tmp_path / "train.txt", "-o", tmp_path / "model", "--encoding", encoding)
    assert (tmp_path / "model").exists()


def test_tag_echoes_the_lines(folder: Path) -> None:
    text = _column_file(repeat=1)
    expected = "".join(f"{line} {line.split()[-1]}\n" if line else "\n" for line in text.splitlines())
    assert run("tag", folder / "model", folder / "train.txt") == expected * 3
    assert run("tag", folder / "model", stdin=text) == expected
    assert run("tag", folder / "model", "-", stdin=gzip.compress(text.encode())) == expected


def test_tag_without_the_label_column(folder: Path) -> None:
    unlabelled = re.sub(r" \S+$", "", _column_file(repeat=1), flags=re.MULTILINE)
    assert run("tag", folder / "model", stdin=unlabelled) == _column_file(repeat=1)
    labels = [line.split()[-1] if line else "" for line in _column_file(repeat=1).splitlines()]
    assert run("tag", folder / "model", "--labels-only", stdin=unlabelled).splitlines() == labels


def test_blocks_make_no_difference(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run("tag", folder / "model", folder / "train.txt", "-k", 2)
    monkeypatch.setattr("trellis.cli.tag.SEQUENCES_PER_BLOCK", 5)
    assert run("tag", folder / "model", folder / "train.txt", "-k", 2) == whole


def test_marginals_and_k_best(folder: Path) -> None:
    lines = run("tag", folder / "model", "--marginals", stdin="the DT\ncat NN\n").splitlines()
    fields = [line.split(" ") for line in lines if line]
    assert [f[2] for f in fields] == ["B-NP", "I-NP"]
    assert all(0.2 < float(f[3]) <= 1 for f in fields)
    ranked = run("tag", folder / "model", "--k-best", 3, stdin="the DT\ncat NN\n\na DT\n").split("\n\n")
    heads = [block.splitlines()[0].split() for block in ranked if block]
    assert [head[1:3] for head in heads] == [[s, r] for s in "12" for r in "123"]
    assert [float(head[3]) for head in heads[:3]] == sorted((float(h[3]) for h in heads[:3]), reverse=True)
    assert ranked[0].splitlines()[1:] == ["the DT B-NP", "cat NN I-NP"]


def test_decoding_by_expected_loss(folder: Path, tmp_path: Path) -> None:
    """The loss is that of the model; what is not there is said in one line."""
    for loss in ("hamming", "span_f1"):
        run("train", folder / "train.txt", "-o", tmp_path / loss, "--loss", loss, "-q", "--l2", 50)
        unsure = "the NN\ncat DT\n\nthe XX\nthe DT\nzz NN\n"
        labels = run("tag", tmp_path / loss, "--labels-only", "--decoding", "minimum_risk", stdin=unsure)
        model = load(tmp_path / loss)
        rows = [[("the", "NN"), ("cat", "DT")], [("the", "XX"), ("the", "DT"), ("zz", "NN")]]
        wanted = model.predict(rows, decoding="minimum_risk")
        assert labels == "".join("\n".join(row) + "\n\n" for row in wanted)
    report = run(
        "evaluate", tmp_path / "span_f1", folder / "train.txt", "--decoding", "minimum_risk", "--json"
    )
    assert json.loads(report)
    for options, words in (
        (["--decoding", "worst"], "--decoding is 'worst'; give 'best' or 'minimum_risk'"),
        (["--decoding", "minimum_risk", "-k", "2"], "give only one of them"),
    ):
        with pytest.raises(TrellisError, match=re.escape(words)):
            run("tag", folder / "model", folder / "train.txt", *options)
    with pytest.raises(TrellisError, match="--decoding is 'worst'"):
        run("evaluate", folder / "model", folder / "train.txt", "--decoding", "worst")


def test_output_files_are_written_whole(folder: Path, tmp_path: Path) -> None:
    run("tag", folder / "model", folder / "train.txt", "-o", tmp_path / "out.txt.gz")
    assert gzip.decompress((tmp_path / "out.txt.gz").read_bytes()).decode() == run(
        "tag", folder / "model", folder / "train.txt"
    )
    (tmp_path / "bad.txt").write_text("the DT B-NP\n\na DT X Y\n")
    (tmp_path / "kept.txt").write_text("old")
    with pytest.raises(DataError, match=r"bad.txt:3: 4 columns"):
        run("tag", folder / "model", tmp_path / "bad.txt", "-o", tmp_path / "kept.txt")
    assert (tmp_path / "kept.txt").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.txt", "kept.txt", "out.txt.gz"]


def test_evaluate(folder: Path) -> None:
    lines = run("evaluate", folder / "model", folder / "train.txt").splitlines()
    assert re.fullmatch(
        r"span F1  100\.00  \(95% interval 6\d\.\d to 100\.0\)   "
        r"tokens right  100\.00  \(6\d\.\d to 100\.0\)   "
        r"sequences right  100\.00  \(73\.5 to 100\.0\)",
        lines[0],
    )
    assert any(line.split()[:2] == ["NP", "100.00"] for line in lines)
    wrong = _column_file(repeat=1).replace("mat NN I-NP", "mat NN B-NP")
    figures = json.loads(run("evaluate", folder / "model", "--json", stdin=wrong))
    # of 17 gold spans, "the" and "mat" are merged by the model into one: 15 right of 16 predicted
    spans = wrong.count("B-")
    assert figures["span_f1"] == pytest.approx(2 * (spans - 2) / (2 * spans - 1))
    assert figures["tokens_right"] == pytest.approx(22 / 23)
    assert figures["sequences_right"] == pytest.approx(3 / 4)


def test_labels_that_are_not_spans(tmp_path: Path) -> None:
    text = re.sub(r" \S+$", "", _column_file(), flags=re.MULTILINE)
    (tmp_path / "pos.txt").write_text(text)
    run("train", tmp_path / "pos.txt", "-o", tmp_path / "m", "-q")
    lines = run("evaluate", tmp_path / "m", tmp_path / "pos.txt").splitlines()
    assert re.match(r"tokens right  100\.00  \(95% interval", lines[0])
    assert any(line.split()[:2] == ["DT", "100.00"] for line in lines)


def test_inspect(folder: Path) -> None:
    text = run("inspect", folder / "model", "-n", 2)
    assert "objective=log" in text
    assert "constraints=bio" in text
    assert re.search(r"\nB-NP\n +[+-]\d+\.\d+  U:", text)
    report = json.loads(run("inspect", folder / "model", "--json", "-l", "B-NP", "-l", "O"))
    assert set(report["strongest_weights"]) == {"B-NP", "O"}
    row, column = report["labels"].index("O"), report["labels"].index("I-NP")
    assert report["transitions"][row][column] is None  # JSON has no -inf
    assert all(
        not top
        for top in json.loads(run("inspect", folder / "model", "--json", "-n", 0))[
            "strongest_weights"
        ].values()
    )
    assert "U:" not in run("inspect", folder / "model", "-n", 0)
    with pytest.raises(DataError, match="the model has no label 'B-XY'"):
        run("inspect", folder / "model", "-l", "B-XY")


def test_errors_of_training_name_the_line(folder: Path, tmp_path: Path) -> None:
    file, dev = tmp_path / "train.txt", tmp_path / "dev.txt"
    file.write_text("a X B-x\n\nb X O\nc X I-x\n")
    with pytest.raises(DataError, match=r"train\.txt:4: step 1 of sequence 1: 'I-x' may not follow 'O'"):
        run("train", file, "-o", tmp_path / "model", "--constraints", "bio")
    dev.write_text("a X O\n\nc X S-x\n")
    with pytest.raises(DataError, match=r"dev\.txt:3: label 'S-x' does not occur in the training file"):
        run("train", file, "-o", tmp_path / "model", "--dev", dev)
    with pytest.raises(DataError, match=r"train\.txt: no line has a tab"):
        run("train", file, "-o", tmp_path / "model", "--format", "crfsuite")
    assert not (tmp_path / "model").exists()


def test_attribute_and_conllu_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(_attribute_file())
    run("train", tmp_path / "a.txt", "-o", tmp_path / "a", "-q")
    labels = [line.split("\t")[0] for line in _attribute_file().splitlines()]
    assert run("tag", tmp_path / "a", tmp_path / "a.txt").splitlines() == labels
    assert run("evaluate", tmp_path / "a", tmp_path / "a.txt").startswith("span F1  100.00")
    (tmp_path / "c.conllu").write_text(CONLLU * 3)
    run("train", tmp_path / "c.conllu", "-o", tmp_path / "c", "-q", "--label-column", "upos")
    tagged = run("tag", tmp_path / "c", tmp_path / "c.conllu").splitlines()
    assert tagged[:3] == [*CONLLU.splitlines()[:2], CONLLU.splitlines()[2] + "\tNOUN"]


def test_template_dev_file_pairs_and_class_weights(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("U00:%x[0,0]\nU01:%x[0,1]\nB\n")
    labels = sorted(set(re.findall(r"\S+$", _column_file(), re.MULTILINE)))
    (tmp_path / "pairs").write_text(
        "".join(f"{a} {b}\n" for a in labels for b in labels if (a, b) != ("O", "I-NP"))
    )
    options = [
        "--template",
        tmp_path / "t",
        "--constraints",
        tmp_path / "pairs",
        "--dev",
        folder / "train.txt",
    ]
    options += ["--class-weight", "B-NP=2", "--min-count", 2, "--seed", 1, "--jobs", 1, "--max-iter", 30]
    run("train", folder / "train.txt", "-o", tmp_path / "m", "-q", *options)
    report = json.loads(run("inspect", tmp_path / "m", "--json"))
    features = {feature for top in report["strongest_weights"].values() for feature, _ in top}
    assert features
    assert all(feature.startswith(("U00:", "U01:")) for feature in features)
    assert not any("garden" in feature and "3" in feature for feature in features)
    assert report["transitions"][labels.index("O")][labels.index("I-NP")] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--objective", "logg"], "objective='logg' is not known"),
        (["--loss", "huber"], "loss='huber' is not known"),
        (["--solver", "newton"], "solver='newton' is not known"),
        (["--epsilon", "1"], "apply only to --objective direct"),
        (["--objective", "direct", "--epsilon", "soon"], "epsilon='soon'"),
        (["--holdout", "0.5", "--dev", "x"], "both say what to hold out"),
        (["--class-weight", "B-NP"], "--class-weight B-NP: give a name, = and a value, as in"),
        (
            ["--class-weight", "B-NP=heavy"],
            "--class-weight B-NP=heavy: give a number, as in --class-weight B-NP=2",
        ),
        (["--class-weight", "B-NP=1", "--class-weight", "B-NP=2"], "'B-NP' is given twice"),
        (["--latent-states", "many"], "--latent-states many: give a name, = and a value"),
        (["--latent-states", "O=x"], "--latent-states O=x: give a number"),
        (["--constraints", "iob"], "constraints is 'iob'"),
        (["--template", "nowhere.tpl"], "nowhere.tpl: cannot be read"),
        (["--no-average"], "--no-average needs a --solver"),
        (["--encoding", "klingon"], "unknown encoding 'klingon'"),
        (["--label-column", "9"], "there is no column 9"),
    ],
)
def test_options_that_cannot_be_used(folder: Path, tmp_path: Path, options: list[str], message: str) -> None:
    with pytest.raises(TrellisError, match=re.escape(message)):
        run("train", folder / "train.txt", "-o", tmp_path / "m", "-q", *options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["perceptron", "subgradient", "sgd", "adagrad", "adam"])
def test_averaging_can_be_switched_off(name: str) -> None:
    from trellis.cli.train import _solver

    assert _solver(name, average=True) == name
    assert not _solver(name, average=False).average


def test_the_direct_objective_by_options(folder: Path, tmp_path: Path) -> None:
    options = [
        "--objective",
        "direct",
        "--epsilon",
        2.5,
        "--sign",
        "worse",
        "--max-iter",
        2,
        "--holdout",
        0.25,
    ]
    run("train", folder / "train.txt", "-o", tmp_path / "m", "-q", *options)
    assert "Direct(epsilon=2.5, sign='worse'" in run("inspect", tmp_path / "m")


def test_every_objective_by_name(folder: Path, tmp_path: Path) -> None:
    from trellis.objectives import OBJECTIVES

    shown = " ".join(run("train", "--help").split())
    for name, record in OBJECTIVES.items():
        if record.__module__.startswith("trellis."):
            assert re.search(rf"--objective NAME.*\b{name}\b.*--loss", shown)
    run("train", folder / "train.txt", "-o", tmp_path / "m", "-q", "--objective", "squared_margin")
    assert "squared_margin" in run("inspect", tmp_path / "m")


def test_files_that_do_not_fit_the_model(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has 1 columns, but the model was trained on 3"):
        run("tag", folder / "model", stdin="the\ncat\n")
    with pytest.raises(DataError, match="has 2 columns, but 3 are needed"):
        run("evaluate", folder / "model", stdin="the DT\n")
    (tmp_path / "pairs").write_text("O O\nO\n")
    with pytest.raises(DataError, match="pairs:2: 1 columns, but line 1 has 2"):
        run("train", folder / "train.txt", "-o", tmp_path / "m", "--constraints", tmp_path / "pairs")
    with pytest.raises(UnsupportedError, match="give only one of them"):
        run("tag", folder / "model", "-m", "-k", 2, stdin="the DT\n")


def test_a_model_saved_from_python_reads_no_files(tmp_path: Path) -> None:
    from trellis import SequenceLabeler

    SequenceLabeler(max_iter=3).fit([[["a"], ["b"]]], [["x", "y"]]).save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="saved from Python"):
        run("tag", tmp_path / "m", stdin="a\n")
    assert "max_iter=3" in run("inspect", tmp_path / "m")


def test_errors_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [*TRELLIS, "tag", str(tmp_path / "absent")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("trellis: error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="pipes behave otherwise there")
def test_a_reader_that_leaves_is_no_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(_column_file(repeat=3000))
    tag = subprocess.Popen(
        [*TRELLIS, "tag", str(folder / "model"), str(tmp_path / "long.txt")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert tag.stdout is not None
    assert tag.stderr is not None
    assert tag.stdout.readline() == b"the DT B-NP B-NP\n"
    tag.stdout.close()
    assert tag.stderr.read() == b""
    tag.stderr.close()
    tag.wait()


@pytest.mark.parametrize(("n_labels", "said"), [(99, False), (101, True), (300, True)])
def test_a_column_of_words_among_the_labels_is_doubted(tmp_path: Path, n_labels: int, said: bool) -> None:
    lines = [f"w{i % 7} {i % n_labels}" + "\n" * (i % 10 == 9) for i in range(5 * n_labels)]
    (tmp_path / "train").write_text("\n".join(lines))
    notes = run_with_notes("train", tmp_path / "train", "-o", tmp_path / "m", "--max-iter", "1")
    assert (f"the {len(lines):,} tokens have {n_labels} different labels" in notes) == said


def test_no_help_speaks_of_python_s_none() -> None:
    for command in ("train", "align train", "net fit"):
        assert "None" not in run(*command.split(), "--help")

"""The alignment commands from the outside, with an aligner that makes all phones equally long."""

from __future__ import annotations

import csv
import inspect
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from small_speech import open_even, write_wav
from trellis.cli.align.choices import AlignmentFormat, CorpusLayout, Folding
from trellis.cli.app import app
from trellis.core.errors import DataError, ModelFileError, TrellisError, UnsupportedError
from trellis.core.status import Status
from trellis.speech.align import aligner_parameters as declared
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Interval
from trellis.speech.formats.textgrid import read_textgrid_tiers, write_textgrid_tiers

TRELLIS = [sys.executable, "-c", "from trellis.cli import main; main()"]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["align", *map(str, arguments)], catch_exceptions=False)


def run(*arguments: object) -> str:
    """What a command that must succeed writes to stdout."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("trellis.cli.align.models.open_aligner", open_even)
    monkeypatch.chdir(tmp_path)
    Path("model").write_bytes(b"")
    folder = tmp_path / "recordings"
    (folder / "deep").mkdir(parents=True)
    for name in ("one", "deep/two"):
        write_wav(folder / f"{name}.wav", 0.4)
        (folder / f"{name}.phones").write_text("h ow")
    return folder


def test_every_option_has_a_sentence() -> None:
    import typer

    group: Any = typer.main.get_command(app).commands["align"]  # type: ignore[attr-defined]
    assert set(group.commands) == {"train", "run", "adapt", "evaluate", "studio"}
    for name, command in group.commands.items():
        for parameter in command.params:
            assert (parameter.help or "").endswith("."), f"{name} {parameter.name}"


def test_choices_are_those_of_the_library() -> None:
    from trellis.speech.acoustics.classifier_names import CLASSIFIERS
    from trellis.speech.corpus.corpus import Corpus
    from trellis.speech.formats import FORMATS
    from trellis.speech.phones import folding
    from trellis.structures.segments.problem.alignment_losses import ALIGNMENT_LOSSES

    assert set(AlignmentFormat) == set(FORMATS)
    assert tuple(Folding) == declared.FOLD.constraint.names == tuple(folding.FOLDINGS)
    assert set(declared.CLASSIFIER.constraint.names) == set(CLASSIFIERS)
    assert set(declared.LOSS.constraint.names) == set(ALIGNMENT_LOSSES)
    assert all(callable(getattr(Corpus, layout)) for layout in CorpusLayout)


def test_help_loads_no_numbers() -> None:
    heavy = "numpy", "soundfile"
    code = f"import sys, trellis.cli.app; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_run_writes_every_format_in_place(recordings: Path) -> None:
    formats = ",".join(AlignmentFormat)
    result = invoke("run", "model", recordings, "-o", "out", "--to", formats, "--page")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert re.search(r"aligned 2 recordings \(0\.8 s of sound\) in \d+\.\d s", result.stderr)
    suffixes = {".TextGrid", ".eaf", ".json", ".csv", ".ctm", ".lab", ".phn", ".txt", ".html"}
    assert {p.suffix for p in Path("out/deep").iterdir()} == suffixes
    for suffix in suffixes - {".html"}:
        made = Alignment.read(f"out/deep/two{suffix}")
        assert made.labels == ("h", "ow")
        assert made.starts.tolist() == pytest.approx([0, 0.2])
    assert "<title>two.wav</title>" in Path("out/deep/two.html").read_text("utf-8")


def test_run_from_words(recordings: Path) -> None:
    (recordings / "one.txt").write_text("Hello, you.")
    (recordings / "deep" / "two.lab").write_text("hello stranger")
    options = ["run", "model", recordings, "--dictionary", "d", "--to", "phn,textgrid"]
    result = invoke(*options, "-o", "noisy")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == "1 word is not in d; aligned as noise (spn): stranger"
    assert f"check {recordings}/deep/two.wav: stranger is unknown" in result.stderr
    assert Alignment.read("noisy/deep/two.TextGrid").labels == ("h", "ow", "spn")
    result = invoke(*options, "-o", "out", "--unknown", "error")
    assert result.exit_code == 1  # one of two could not be aligned
    lines = result.stderr.splitlines()
    assert lines[0] == (
        "1 word is not in d; recordings that contain them are not aligned (1 of 2): stranger"
    )  # before anything is aligned
    assert lines[1].startswith("aligned 1 recording ")
    assert lines[2] == f"failed {recordings}/deep/two.wav: 1 word is not in the dictionary; add: stranger"
    assert sorted(p.name for p in Path("out").iterdir()) == ["one.TextGrid", "one.phn", "one.wrd"]
    assert [w.label for w in Alignment.read("out/one.TextGrid").words if w.label] == ["Hello", "you"]
    assert Alignment.read("out/one.wrd").words[1].label == "you"


def test_one_transcript_for_all(recordings: Path) -> None:
    run("run", "model", recordings / "one.wav", "-o", "a", "--phones", "a b c", "-q")
    assert Alignment.read("a/one.TextGrid").labels == ("a", "b", "c")
    Path("prompt.txt").write_text("you you")
    run("run", "model", recordings, "-o", "b", "--words", "prompt.txt", "-d", "d", "-q")
    assert Alignment.read("b/deep/two.TextGrid").labels == ("y", "uw", "y", "uw")
    os.rename(recordings / "one.phones", "one.phones")
    run("run", "model", recordings / "one.wav", "-o", "c", "--transcripts", ".", "-q")
    assert Alignment.read("c/one.TextGrid").labels == ("h", "ow")


def test_flags_and_failures_are_listed_at_the_end(recordings: Path) -> None:
    (recordings / "one.phones").write_text("odd ow")
    (recordings / "bad.wav").write_bytes(b"RIFF")
    (recordings / "bad.phones").write_text("h")
    write_wav(recordings / "mute.wav", 0.2)
    result = invoke("run", "model", recordings, "-o", "out")
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0].startswith("aligned 2 recordings")
    assert lines[1] == f"check {recordings}/one.wav: phone 1 is odd"
    assert lines[2].startswith(f"failed {recordings}/bad.wav: ")
    assert lines[3].startswith(f"failed {recordings}/mute.wav: ")
    assert "no transcript of this name" in lines[3]
    assert len(lines) == 4


def test_resume_does_only_what_is_left(recordings: Path) -> None:
    options = ("run", "model", recordings, "-o", "out", "--to", "json,csv", "--resume")
    run(*options)
    first = Path("out/one.json").stat().st_mtime_ns
    assert "aligned 0 recordings" in invoke(*options).stderr
    Path("out/deep/two.csv").unlink()
    assert re.search(r"aligned 1 recording .* 1 were up to date", invoke(*options).stderr)
    assert Path("out/one.json").stat().st_mtime_ns == first
    later = Path("out/one.json").stat().st_mtime + 10
    os.utime("model", (later, later))
    assert "aligned 2 recordings" in invoke(*options).stderr


def test_several_processes_write_the_same(recordings: Path) -> None:
    for i in range(3):
        write_wav(recordings / f"{i}.wav", 0.2 + 0.1 * i)
        (recordings / f"{i}.phones").write_text("h ow " * (i + 1))
    run("run", "model", recordings, "-o", "a", "--to", "json", "-q")
    run("run", "model", recordings, "-o", "b", "--to", "json", "-q", "--jobs", 2)
    names = sorted(p.relative_to("a") for p in Path("a").rglob("*.json"))
    assert len(names) == 5
    for name in names:
        assert Path("a", name).read_bytes() == Path("b", name).read_bytes()


def test_pages_show_a_reference(recordings: Path) -> None:
    for name in ("one", "deep/two"):
        (Path("ref") / name).parent.mkdir(parents=True, exist_ok=True)
        Alignment.from_starts([0.0, 0.15], ["h", "ow"], 0.4).to_textgrid(f"ref/{name}.TextGrid")
    run("run", "model", recordings, "-o", "out", "--page", "--reference", "ref", "-q")
    assert '"errors":[[0.2,0.2,50]]' in Path("out/deep/two.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--to", "textgrid,praat"], "no format 'praat'; choose from textgrid, elan, json"),
        (["--to", ","], "no format ''"),
        (["--phones", "a", "--words", "b"], "give one of them"),
        (["--words", "b"], "--words needs a --dictionary"),
        (["--reference", "ref"], "--reference needs --page"),
        (["--transcripts", "nowhere"], "no transcript of this name"),
        (["-o", "model"], "is a file; give a folder"),
        (["-o", "recordings", "--to", "json,lab"], "lab files in this folder would be read as transcripts"),
    ],
)
def test_options_that_cannot_be_used(recordings: Path, options: list[str], message: str) -> None:
    before = sorted(recordings.rglob("*"))
    with pytest.raises(TrellisError, match=re.escape(message)):
        invoke("run", "model", "recordings", "-o", "out", *options)
    assert not Path("out").exists()
    assert sorted(recordings.rglob("*")) == before


def test_other_models_are_no_aligners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelFileError, match="no such file"):
        invoke("run", tmp_path / "absent", tmp_path, "-o", tmp_path / "out")
    monkeypatch.setattr("trellis.core.persistence.load", lambda path: [])
    with pytest.raises(ModelFileError, match="m: this is a list, not an aligner"):
        invoke("run", tmp_path / "m", tmp_path, "-o", tmp_path / "out")


def test_errors_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [*TRELLIS, "align", "evaluate", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("trellis: error: ")
    assert done.stderr.count("\n") == 1


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    for i in range(4):
        reference = Alignment.from_starts([0.0, 0.1, 0.3, 0.6], ["sil", "t", "a", "sil"], 1.0)
        for name, shift in (("ref", 0.0), ("hyp", 0.012), ("other", 0.003 * i)):
            (tmp_path / name).mkdir(exist_ok=True)
            starts = reference.starts + shift * (reference.starts > 0)
            made = Alignment.from_starts(starts, reference.labels, 1.0)
            made.write(tmp_path / name / f"u{i}.{'TextGrid' if name == 'ref' else 'json'}")
    return tmp_path


def test_evaluate(judged: Path) -> None:
    text = run("evaluate", judged / "ref", judged / "hyp")
    assert text.startswith("12 boundaries in 4 recordings\n")
    rows = [line.split() for line in text.splitlines()]
    # none, and all, of four recordings: the limits of Clopper and Pearson
    assert ["10", "ms", "0.0", "%", "0.0", "to", "60.2", "100.0", "%", "39.8", "to", "100.0"] in rows
    assert ["bias", "+12.0", "ms", "-"] in rows
    assert "mean and bias need 100 recordings" in invoke("evaluate", judged / "ref", judged / "hyp").stderr
    again = json.loads(run("evaluate", judged / "ref", judged / "hyp", "--json"))
    assert again["within_ms"]["10"]["value"] == 0
    assert again["within_ms"]["20"]["value"] == 1
    assert again["bias_ms"] == {"value": pytest.approx(12), "low": None, "high": None}


def test_evaluate_by_class(judged: Path) -> None:
    text = run("evaluate", judged / "ref", judged / "hyp", "--by-class", "--side", "pair")
    assert re.search(r"vowel\|silence +4 +0\.0 +100\.0", text)
    figures = json.loads(run("evaluate", judged / "ref", judged / "hyp", "--by-class", "--json"))
    assert set(figures["by_class"]) == {"vowel", "stop", "silence"}
    rows = list(csv.DictReader(io.StringIO(run("evaluate", judged / "ref", judged / "hyp", "--csv"))))
    assert next(r["value"] for r in rows if r["figure"] == "within_20_ms") == "1.0"
    with pytest.raises(UnsupportedError, match="give only one of them"):
        invoke("evaluate", judged / "ref", judged / "hyp", "--csv", "--json")


def test_evaluate_two_systems(judged: Path) -> None:
    text = run("evaluate", judged / "ref", judged / "hyp", "--against", judged / "other")
    assert "compared on 12 boundaries in 4 recordings" in text
    assert re.search(
        r"mean +12\.0 ms +4\.5 ms +\+7\.5 ms +- *\n", text
    )  # of four recordings, no interval and no mark
    assert re.search(r"10 ms +0\.0 +100\.0 +-100\.0 % +-100\.0 to [+-]\d+\.\d", text)


def test_evaluate_lists_what_it_leaves_out(judged: Path) -> None:
    Alignment.from_starts([0.0], ["t"], 1.0).write(judged / "hyp" / "u3.json")
    result = invoke("evaluate", judged / "ref", judged / "hyp")
    assert result.exit_code == 0
    assert "u3: 2 phones in the reference, 1 in the hypothesis" in result.stderr
    assert result.stdout.startswith("9 boundaries in 3 recordings")


def test_training_options_are_those_of_the_aligner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from trellis.speech.align import aligner

    seen: dict[str, Any] = {}

    class Recorder:
        status_ = "converged"

        def __init__(self, *values: Any, **options: Any) -> None:
            bound = inspect.signature(real.__init__).bind(self, *values, **options)
            seen.update(bound.arguments)

        def fit(self, corpus: Any, progress: Any) -> None:
            seen["ids"] = [u.id for u in corpus]

        def save(self, path: str) -> None:
            Path(path).write_text("model")

    real = aligner.Aligner
    monkeypatch.setattr(aligner, "Aligner", Recorder)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name in ("a", "b"):
        write_wav(folder / f"{name}.wav", 1.0)
        Alignment.from_starts([0.0, 0.5], ["t", "a"], 1.0).to_textgrid(folder / f"{name}.TextGrid")
    options = ["--loss", "tau_insensitive", "--tau", 15, "--epsilon", 1.1, "--fold", "broad", "--seed", 3]
    options += [
        "--features",
        "classifier, duration",
        "--step",
        5,
        "--refine",
        "never",
        "--phone-tier",
        "phones",
    ]
    result = invoke("train", folder, "-o", tmp_path / "m", *options)
    assert result.exit_code == 0, result.output
    assert "converged\n2 recordings, 0.0 minutes of sound" in result.stderr
    assert seen["ids"] == ["a", "b"]
    assert (seen["loss"], seen["tau_ms"], seen["epsilon"]) == ("tau_insensitive", 15, 1.1)
    assert (seen["fold"], seen["random_state"], seen["step_ms"]) == ("broad", 3, 5)
    assert (seen["features"], seen["refine"]) == (["classifier", "duration"], "never")
    (folder / "b.wav").unlink()
    with pytest.raises(DataError, match="there is no recording named b"):
        invoke("train", folder, "-o", tmp_path / "n")
    assert not (tmp_path / "n").exists()
    result = invoke("train", folder, "-o", tmp_path / "n", "--skip-bad", "--layout", "textgrids")
    assert "skipped" in result.stderr
    assert seen["ids"] == ["a"]
    defaults = {name: p.default for name, p in inspect.signature(real.__init__).parameters.items()}
    given = {name: value for name, value in seen.items() if name not in ("self", "ids")}
    assert given == {name: defaults[name] for name in given}
    with pytest.raises(UnsupportedError, match="--split does not apply to a corpus with layout textgrids"):
        invoke("train", folder, "-o", tmp_path / "n", "--split", "train")
    with pytest.raises(ModelFileError, match="does not exist; make it first"):
        invoke("train", folder, "-o", tmp_path / "no" / "m")


def test_adapt_learns_from_a_folder_and_replaces_nothing_when_it_cannot(
    recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command from the outside; what is learned is tested with the library."""
    seen: dict[str, Any] = {}

    class Adapting:
        random_state = 0
        status_ = Status(False, "the network moved all the way")

        def set_params(self, **given: Any) -> None:
            seen.update(given)

        def adapt(self, corpus: Any, progress: Any, checkpoint: Any) -> Any:
            seen["ids"] = [u.id for u in corpus]
            seen["channel"] = corpus[0].channel
            if seen.get("stop"):
                raise KeyboardInterrupt
            return self

        def save(self, path: str) -> None:
            Path(path).write_text("adapted")

    monkeypatch.setattr("trellis.cli.align.models.open_aligner", lambda model, dictionary: (Adapting(), None))
    for name in ("one", "deep/two"):
        Alignment.from_starts([0.0, 0.2], ["h", "ow"], 0.4).to_textgrid(recordings / f"{name}.TextGrid")
    result = invoke("adapt", "model", recordings, "-o", "new", "--seed", 3, "--channel", 0)
    assert result.exit_code == 0, result.output
    assert seen == {"random_state": 3, "ids": ["deep/two", "one"], "channel": 0}
    assert "the network moved all the way\n2 recordings" in result.stderr
    assert Path("new").read_text() == "adapted"
    assert invoke("adapt", "model", recordings, "-o", "new", "-q").stderr == ""

    (recordings / "deep/two.wav").unlink()
    with pytest.raises(DataError, match="there is no recording named"):
        invoke("adapt", "model", recordings, "-o", "other")
    result = invoke("adapt", "model", recordings, "-o", "other", "--skip-bad")
    assert "skipped" in result.stderr
    assert seen["ids"] == ["one"]
    with pytest.raises(ModelFileError, match="does not exist; make it first"):
        invoke("adapt", "model", recordings, "-o", "no/such/place")
    with pytest.raises(UnsupportedError, match="--split does not apply"):
        invoke("adapt", "model", recordings, "-o", "other", "--skip-bad", "--split", "train")
    seen["stop"] = True
    Path("model").write_text("base")
    stopped = CliRunner().invoke(
        app, ["align", "adapt", "model", str(recordings), "-o", "model", "--skip-bad"]
    )
    assert stopped.exit_code != 0
    assert Path("model").read_text() == "base"


def test_adapt_refuses_a_model_of_another_kind(tmp_path: Path) -> None:
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler

    other = tmp_path / "other.trellis"
    SequenceLabeler().fit([[["a"], ["b"]]], [["A", "B"]]).save(other)
    with pytest.raises(ModelFileError, match="this is a SequenceLabeler, not an aligner"):
        invoke("adapt", other, tmp_path, "-o", tmp_path / "new")


def test_a_page_shows_the_reference_at_its_own_place(recordings: Path) -> None:
    """Two recordings of one name in two folders: each has the reference of its own folder."""
    write_wav(recordings / "two.wav", 0.4)
    (recordings / "two.phones").write_text("h ow")
    for name, label in (("deep/two", "qq"), ("other/two", "zz"), ("two", "xx")):
        path = Path("references", name).with_suffix(".TextGrid")
        path.parent.mkdir(parents=True, exist_ok=True)
        Alignment.from_starts([0.0, 0.2], ["h", label], 0.4).to_textgrid(path)
    run("run", "model", recordings, "-o", "out", "--page", "--reference", "references")
    for name, label in (("deep/two", "qq"), ("two", "xx")):
        page = Path("out", f"{name}.html").read_text("utf-8")
        assert [word for word in ("qq", "zz", "xx") if f'"{word}"' in page] == [label]
    assert '"xx"' not in Path("out/one.html").read_text("utf-8")
    (recordings / "two.wav").rename("recordings/deep/new.wav")
    Path("references/two.TextGrid").unlink()
    with pytest.raises(DataError, match=r"several references are named two \(deep/two, other/two\)"):
        run(
            "run",
            "model",
            recordings / "deep" / "two.wav",
            "-o",
            "out2",
            "--page",
            "--reference",
            "references",
        )
    assert not Path("out2").exists()


def test_a_folder_is_no_transcript(recordings: Path) -> None:
    Path("h").mkdir()
    run("run", "model", recordings / "one.wav", "-o", "out", "--phones", "h")
    assert Alignment.read("out/one.TextGrid").labels == ("h",)


def test_csv_has_the_difference(judged: Path) -> None:
    rows = list(
        csv.reader(
            io.StringIO(run("evaluate", judged / "ref", judged / "hyp", "--against", judged / "ref", "--csv"))
        )
    )
    found = {row[2]: float(row[3]) for row in rows if row[0] == "difference"}
    alone = {row[2]: float(row[3]) for row in rows if row[0] == "all"}
    assert found["bias_ms"] == pytest.approx(alone["bias_ms"])  # the reference itself has none
    assert found["within_10_ms"] == pytest.approx(alone["within_10_ms"] - 1)


def test_a_negative_seed_is_told_at_once() -> None:
    assert invoke("train", "corpus", "-o", "model", "--seed", -1).exit_code == 2


def test_texts_in_another_encoding(recordings: Path, tmp_path: Path) -> None:
    (recordings / "one.txt").write_bytes("«hello» you\n".encode("latin-1"))
    (recordings / "one.phones").unlink()
    arguments = ["run", "model", recordings / "one.wav", "-o", "out", "-d", "words.dict", "--to", "lab"]
    with pytest.raises(DataError, match="is not utf-8"):
        invoke(*arguments)
    run(*arguments, "--encoding", "latin-1")
    (tmp_path / "ref.lab").write_bytes("0 2000000 ü\n2000000 4000000 a\n".encode("latin-1"))
    compared = ["evaluate", "ref.lab", "ref.lab", "--csv", "--by-class", "--classes", "none"]
    with pytest.raises(DataError):
        invoke(*compared)
    assert "all" in run(*compared, "--encoding", "latin-1")


@pytest.fixture
def talk(recordings: Path) -> Path:
    """A recording of two speakers who talk at the same time, in the folder of its session."""
    folder = recordings / "session"
    folder.mkdir()
    write_wav(folder / "talk.wav", 3.0)
    anna = (Interval(0.2, 1.0, "Hello, you!"), Interval(1.5, 2.1, "you stranger"))
    ben = (Interval(0.8, 1.7, "hello"), Interval(2.0, 2.01, "hello hello"))
    tiers = [("Anna", anna), ("Ben/B", ben), ("notes", ())]
    write_textgrid_tiers(tiers, 3.0, folder / "talk.TextGrid")
    return folder


def test_utterances_of_speakers_become_one_textgrid(talk: Path) -> None:
    result = invoke("run", "model", talk.parent, "-o", "out", "-d", "d", "--to", "textgrid,json")
    assert result.exit_code == 0
    made = read_textgrid_tiers("out/session/talk.TextGrid")
    assert list(made.tiers) == ["Anna - words", "Anna - phones", "Ben/B - words", "Ben/B - phones"]
    assert made.duration == 3.0
    spoken = {name: [i for i in tier if i.label] for name, tier in made.tiers.items()}
    assert [w.label for w in spoken["Anna - words"]] == ["Hello", "you", "you", "stranger"]
    assert [p.label for p in spoken["Anna - phones"]] == ["h", "ow", "y", "uw", "y", "uw", "spn"]
    assert spoken["Anna - phones"][0].start == 0.2
    assert spoken["Anna - phones"][3].end == 1.0
    assert spoken["Anna - phones"][-1].end == 2.1
    assert [(w.start, w.end) for w in spoken["Ben/B - words"]] == [(0.8, 1.7)]
    assert "Ben/B, 2.00 to 2.01 s: not aligned, " in result.stderr  # too short; the rest is not lost
    assert "Anna, 1.50 to 2.10 s: stranger is unknown" in result.stderr
    assert sorted(p.name for p in Path("out/session").iterdir()) == [
        "talk - Anna.json", "talk - Ben_B.json", "talk.TextGrid",
    ]  # fmt: skip
    assert Alignment.read("out/session/talk - Anna.json").confidence is not None
    text = run("evaluate", "out", "out", "--csv")
    assert "all" in text
    again = invoke("run", "model", talk.parent, "-o", "out", "-d", "d", "--to", "textgrid,json", "--resume")
    assert "were up to date" in again.stderr


def test_tiers_can_be_chosen_and_transcripts_are_never_replaced(talk: Path) -> None:
    run("run", "model", talk, "-o", "out", "-d", "d", "--tiers", "Anna", "-q", "--page")
    assert list(read_textgrid_tiers("out/talk.TextGrid").tiers) == ["Anna - words", "Anna - phones"]
    assert "talk.wav - Anna" in Path("out/talk - Anna.html").read_text("utf-8")
    before = (talk / "talk.TextGrid").read_bytes()
    with pytest.raises(UnsupportedError, match="the result would overwrite the transcript"):
        invoke("run", "model", talk, "-o", talk, "-d", "d")
    assert (talk / "talk.TextGrid").read_bytes() == before


def test_words_keep_their_times(recordings: Path) -> None:
    words = (Interval(0.05, 0.2, "hello"), Interval(0.2, 0.31, "you"))
    write_textgrid_tiers([("words", words)], 0.4, recordings / "one.TextGrid")
    run("run", "model", recordings / "one.wav", "-o", "out", "-d", "d", "--keep-words", "-q")
    made = Alignment.read("out/one.TextGrid")
    assert [w for w in made.words if w.label] == list(words)
    phones = [p for p in made.phones if p.label]
    assert [p.label for p in phones] == ["h", "ow", "y", "uw"]
    assert [phones[0].start, phones[1].end, phones[2].start, phones[3].end] == [0.05, 0.2, 0.2, 0.31]


def test_bad_labels_stop_or_are_skipped_before_training(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, label in (("a", "a"), ("b", "a?")):
        write_wav(folder / f"{name}.wav", 1.0)
        Alignment.from_starts([0.0, 0.5], ["t", label], 1.0).to_textgrid(folder / f"{name}.TextGrid")
    options = ["train", folder, "-o", tmp_path / "m", "--fold", "voiced"]
    with pytest.raises(DataError, match=r"b\.TextGrid, tier 'phones': at 0.500 s the phone 'a\?' contains"):
        invoke(*options)
    with pytest.raises(DataError, match="1 utterances with a reference are too few"):
        invoke(*options, "--skip-bad")
    with pytest.raises(DataError, match="2 utterances with a reference are too few"):
        invoke(*options, "--unknown-phones", "noise")

"""How the program ends: signals, pipes, full disks, bad places to write to; and what reaches a terminal."""

from __future__ import annotations

import io
import os
import signal
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trellis import SequenceLabeler, __version__, load
from trellis.cli.app import app
from trellis.cli.console import printable
from trellis.core import storage
from trellis.core.errors import DataError, ModelFileError, TrellisError, UnsupportedError

TRELLIS = [sys.executable, "-c", "from trellis.cli import main; main()"]
ESCAPE = "\x1b[31mred\x1b[0m"
posix_only = pytest.mark.skipif(os.name == "nt", reason="pipes, signals and terminals are others there")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A column file, and a model of it; one of its labels is a command to the terminal."""
    folder = tmp_path_factory.mktemp("process")
    (folder / "data.txt").write_text(f"the D\ncat N\n\na D\ndög {ESCAPE}\n\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["train", str(folder / "data.txt"), "-o", str(folder / "model"), "-q"])
    assert done.exit_code == 0
    return folder


def _ends(*arguments: object, **streams: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*TRELLIS, *map(str, arguments)], check=False, **streams)  # type: ignore[call-overload]


# -- places -------------------------------------------------------------------------------------------------

COMMANDS = {
    "train": ["train", "no data", "-o"],
    "tag": ["tag", "no model", "no data", "-o"],
    "align train": ["align", "train", "no corpus", "-o"],
    "net fit": ["net", "fit", "no network", "no rows", "-o"],
    "net predict": ["net", "predict", "no network", "no rows", "-o"],
    "net draw": ["net", "draw", "no network", "-o"],
    "net separate": ["net", "separate", "no network", "A", "B", "--draw"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_places_are_checked_before_anything_is_read(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "missing" / "x.png", tmp_path / "file" / "x.png"):
        done = CliRunner().invoke(app, [*COMMANDS[command], str(place)])
        assert isinstance(done.exception, ModelFileError)
        assert str(place) in str(done.exception)
        done = CliRunner().invoke(app, [*COMMANDS[command], str(tmp_path / "x.png")])
        assert isinstance(done.exception, TrellisError)
        assert "no " in str(done.exception)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


def test_the_folder_of_results_is_checked_first(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        done = CliRunner().invoke(app, ["align", "run", "no model", "no sound", "-o", str(place)])
        assert isinstance(done.exception, ModelFileError)
        assert "is a file; give a folder" in str(done.exception)
    for command in (["align", "run", "m", "a", "-o", "-"], ["net", "draw", "n", "-o", "-"]):
        assert isinstance(CliRunner().invoke(app, command).exception, UnsupportedError)
    done = CliRunner().invoke(app, ["align", "run", "no model", "x.wav", "-o", str(tmp_path / "a" / "b")])
    assert "no model" in str(done.exception)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


# the command, with {} for the input that -o (or --draw) would replace; the other paths are read later
OVERWRITING = {
    "train": ["train", "{}", "-o"],
    "train, of several": ["train", "no data*", "{}", "-o"],
    "train --dev": ["train", "no data", "--dev", "{}", "-o"],
    "train --template": ["train", "no data", "-t", "{}", "-o"],
    "train --constraints": ["train", "no data", "--constraints", "{}", "-o"],
    "tag, the model": ["tag", "{}", "no data", "-o"],
    "tag, the file": ["tag", "no model", "{}", "-o"],
    "report, the model": ["report", "{}", "no data", "-o"],
    "report, the file": ["report", "no model", "{}", "-o"],
    "align train": ["align", "train", "{}", "-o"],
    "align adapt": ["align", "adapt", "no model", "{}", "-o"],
    "net fit": ["net", "fit", "no network", "{}", "-o"],
    "net predict, the network": ["net", "predict", "{}", "no rows", "-o"],
    "net predict, the rows": ["net", "predict", "no network", "{}", "-o"],
    "net draw": ["net", "draw", "{}", "-o"],
    "net separate": ["net", "separate", "{}", "A", "B", "--draw"],
}


@pytest.mark.parametrize("way", ["the same path", "another path", "a link", "a hard link"])
@pytest.mark.parametrize("command", OVERWRITING)
def test_an_output_never_replaces_an_input(command: str, way: str, tmp_path: Path) -> None:
    held = tmp_path / "held.png"
    held.write_text("a X\n")
    (tmp_path / "no data 2").write_text("a X\n")
    output = tmp_path / "other.png" if "link" in way else held
    if way == "a link":
        output.symlink_to(held)
    elif way == "a hard link":
        os.link(held, output)
    shown = f"{tmp_path}/../{tmp_path.name}/held.png" if way == "another path" else str(output)
    words = [word.format(held).replace("no data*", f"{tmp_path}/no data*") for word in OVERWRITING[command]]
    done = CliRunner().invoke(app, [*words, shown])
    assert isinstance(done.exception, DataError)
    assert "would overwrite" in str(done.exception)
    assert str(held) in str(done.exception)
    assert held.read_text() == "a X\n"


@posix_only
def test_pipes_get_what_is_written(folder: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    command = ["tag", str(folder / "model"), str(folder / "data.txt")]
    done = CliRunner().invoke(app, [*command, "-o", str(pipe)])
    reader.join(20)
    assert done.exit_code == 0
    assert found == [CliRunner().invoke(app, command).stdout_bytes]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_python_runs_the_package_as_the_program() -> None:
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "trellis", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"trellis {__version__}\n"), done.stderr


def test_a_model_on_standard_output(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["train", str(folder / "data.txt"), "-o", "-", "-q"])
    (tmp_path / "m").write_bytes(done.stdout_bytes)
    assert isinstance(load(tmp_path / "m"), SequenceLabeler)


# -- signals ------------------------------------------------------------------------------------------------

TRAINING = """
import sys
from trellis.training import driver

real = driver._append

def told(history, measured):
    real(history, measured)
    print("iteration", flush=True)

driver._append = told
from trellis.cli import main
main()
"""


@posix_only
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_training_keeps_the_old_model(tmp_path: Path, number: signal.Signals, code: int) -> None:
    (tmp_path / "m").write_bytes(b"old")
    contradictory = tmp_path.with_suffix(".txt")
    contradictory.write_text("x A\n\nx B\n\n")
    options = ["--objective", "perceptron", "--max-iter", "100000000", "-j", "1"]
    arguments = ["train", str(contradictory), "-o", str(tmp_path / "m"), *options]
    child = subprocess.Popen(
        [sys.executable, "-c", TRAINING, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "iteration\n"
    drain = threading.Thread(target=child.stdout.read, daemon=True)
    drain.start()
    child.send_signal(number)
    assert child.stderr is not None
    said = child.stderr.read()
    assert child.wait() == code
    drain.join()
    child.stdout.close()
    child.stderr.close()
    *warned, told = said.splitlines()
    assert f"what was learned is in {tmp_path / 'm.interrupted'}" in told
    assert all(line.startswith("trellis: warning: ") for line in warned)
    assert (tmp_path / "m").read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "m.interrupted"]
    assert isinstance(load(tmp_path / "m.interrupted"), SequenceLabeler)


def test_without_memory_it_is_one_line_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """An array that no machine has room for, in the third iteration."""
    data, folder = tmp_path / "data.txt", tmp_path / "run"
    data.write_text("x A\n\nx B\n\n")

    def train(program: str, name: str, *more: str) -> subprocess.CompletedProcess[str]:
        options = ["--objective", "perceptron", "--max-iter", "9", "--seed", "1", "-j", "1", *more]
        arguments = ["train", str(data), "-o", str(tmp_path / name), *options]
        return subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
        )

    stored = "import trellis.training.checkpoints as c; c.SHARE = float('inf')\n" + TRAINING
    huge = "    if len(history.get('seconds', ())) == 3: __import__('numpy').ones(10**16)\n    real("
    done = train(stored.replace("    real(", huge), "m", "--checkpoint", str(folder))
    assert done.returncode == 2, done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith("trellis: error: there is not enough memory (Unable to allocate")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "m").exists()
    assert any(folder.iterdir())
    assert train(stored, "m", "--checkpoint", str(folder)).returncode == 0
    assert train(stored, "whole").returncode == 0
    found, whole = load(tmp_path / "m"), load(tmp_path / "whole")
    assert found.weights_.tobytes() == whole.weights_.tobytes()


@posix_only
def test_sigterm_stores_the_iteration_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """It arrives in the middle of an iteration, whose end is awaited."""
    data, folder = tmp_path / "data.txt", tmp_path / "run"
    data.write_text("x A\n\nx B\n\n")
    options = ["--objective", "perceptron", "--max-iter", "40", "-j", "1", "--checkpoint", str(folder)]
    command = ["train", str(data), "-o", str(tmp_path / "m"), *options]
    slow = TRAINING.replace("    real(", "    __import__('time').sleep(0.2)\n    real(")
    child = subprocess.Popen(
        [sys.executable, "-c", slow, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "iteration\n"
    child.send_signal(signal.SIGTERM)
    lines, said = child.communicate()
    assert child.returncode == 143
    assert said.endswith(f"; the same command resumes from the checkpoint in {folder}\n")
    assert [p.name for p in folder.iterdir()] == ["checkpoint.0"]
    _, meta, arrays = storage.read(folder / "checkpoint.0")
    assert len(arrays["run.history.seconds"]) == 1 + lines.count("iteration")
    assert meta["current"]["stage"] == 0
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, *command], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("iteration") == 40 - len(arrays["run.history.seconds"])
    whole = CliRunner().invoke(app, ["train", str(data), "-o", str(tmp_path / "whole"), *options[:-2]])
    assert whole.exit_code == 0
    assert (load(tmp_path / "m").weights_ == load(tmp_path / "whole").weights_).all()
    assert load(tmp_path / "m").status_ == load(tmp_path / "whole").status_
    other = _ends(*command, "--l2", "3", stderr=subprocess.PIPE)
    assert other.returncode == 2
    assert other.stderr.decode() == (
        f"trellis: error: the checkpoint in {folder} is from a run with other options (l2 was 1.0, now "
        "3.0); remove it, or give another folder\n"
    )


@pytest.mark.parametrize("command", [["train", "no data"], ["net", "fit", "no network", "no rows"]])
def test_the_folder_of_checkpoints_is_checked_first(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = ["-o", str(tmp_path / "m"), "--checkpoint", str(tmp_path / "file")]
    done = CliRunner().invoke(app, [*command, *options])
    assert isinstance(done.exception, ModelFileError)
    assert "is a file; give a folder" in str(done.exception)


# -- streams ------------------------------------------------------------------------------------------------


@posix_only
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("command", [["tag"], ["inspect"], ["--help"]], ids=" ".join)
def test_a_full_disk_is_one_sentence(folder: Path, command: list[str]) -> None:
    files = {"tag": [folder / "model", folder / "data.txt"], "inspect": [folder / "model"]}.get(
        command[0], []
    )
    with open("/dev/full", "wb") as full:
        done = _ends(*command, *files, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.decode() == (
        "trellis: error: standard output cannot be written (No space left on device)\n"
    )


@posix_only
def test_closed_streams(folder: Path) -> None:
    inspect = [*TRELLIS, "inspect", str(folder / "model")]
    closed = [sys.executable, "-c", "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])"]
    done = subprocess.run([*closed, *inspect], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"trellis: error: standard output cannot be written (the stream is closed)\n"
    reading = subprocess.Popen(inspect, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reading.stdout is not None
    assert reading.stderr is not None
    reading.stdout.close()
    assert reading.stderr.read() == b""
    reading.stderr.close()
    assert reading.wait() == 141


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("command", ["tag", "inspect", "evaluate"])
def test_what_a_terminal_would_obey_is_shown(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [command, str(folder / "model")] + [str(folder / "data.txt")] * (command != "inspect")
    assert ESCAPE.encode() in CliRunner().invoke(app, arguments).stdout_bytes
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", _Terminal(shown, encoding="utf-8"))
    app(arguments, standalone_mode=False)
    sys.stdout.flush()
    assert ESCAPE.encode() not in shown.getvalue()
    assert b"\\x1b[31mred" in shown.getvalue()


@posix_only
def test_a_real_terminal(folder: Path) -> None:
    import pty

    terminal, its_end = pty.openpty()
    child = subprocess.Popen(
        [*TRELLIS, "inspect", str(folder / "model")], stdout=its_end, stderr=subprocess.DEVNULL
    )
    os.close(its_end)
    shown = b""
    with suppress(OSError):  # when the other end is closed
        while part := os.read(terminal, 10_000):
            shown += part
    os.close(terminal)
    assert child.wait() == 0
    assert ESCAPE.encode() not in shown
    assert b"\\x1b[31mred" in shown


def test_printable() -> None:
    assert printable("a\tb\nc é 😀 שלום") == "a\tb\nc é 😀 שלום"
    assert printable("\x1b]0;x\x07\x9b\r\u202e\x7f") == "\\x1b]0;x\\x07\\x9b\\r\\u202e\\x7f"


def test_output_that_the_stream_cannot_encode(folder: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "cp1251"}
    done = _ends(
        "inspect", folder / "model", "-n", 99, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"d\\xf6g" in done.stdout


# -- encodings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["tag", "evaluate"])
def test_files_in_another_encoding_than_the_training_file(folder: Path, tmp_path: Path, command: str) -> None:
    text = (folder / "data.txt").read_text(encoding="utf-8")
    (tmp_path / "latin.txt").write_bytes(text.encode("latin-1"))
    expected = CliRunner().invoke(app, [command, str(folder / "model"), str(folder / "data.txt")])
    arguments = [command, str(folder / "model"), str(tmp_path / "latin.txt")]
    assert "not valid utf-8" in str(CliRunner().invoke(app, arguments).exception)
    done = CliRunner().invoke(app, [*arguments, "--encoding", "latin-1"])
    assert done.exit_code == 0
    assert done.stdout_bytes == expected.stdout_bytes

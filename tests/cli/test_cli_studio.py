"""The studio from the outside: what it refuses before it starts, what it prints, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from http.client import HTTPResponse
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from typer.testing import CliRunner

from small_speech import open_even, write_wav
from studio_server import TRELLIS, dictionary, recordings, small_aligner, studio
from trellis.cli.align.studio import _open_browser
from trellis.cli.app import app
from trellis.core.errors import DataError, MissingExtraError, ModelFileError, TrellisError, UnsupportedError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("trellis.cli.align.models.open_aligner", open_even)
    (tmp_path / "model").write_bytes(b"")
    made = tmp_path / "recordings"
    made.mkdir()
    write_wav(made / "one.wav", 0.4)
    (made / "one.phones").write_text("h ow")
    return made


def _problem(*arguments: object) -> TrellisError:
    error = CliRunner().invoke(app, ["align", "studio", *map(str, arguments), "--no-browser"]).exception
    assert isinstance(error, TrellisError)
    return error


def test_a_missing_extra_is_named_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    error = _problem("no model", folder)
    assert isinstance(error, MissingExtraError)
    assert "pip install 'trellis-learn[studio]'" in str(error)


def test_what_cannot_work_is_refused_before_it_starts(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    assert isinstance(_problem(model, tmp_path / "missing"), DataError)
    assert "give the folder" in str(_problem(model, model))
    (tmp_path / "empty").mkdir()
    assert "no recordings here" in str(_problem(model, tmp_path / "empty"))
    assert isinstance(_problem(model, folder, "--save-model", tmp_path / "missing" / "m"), ModelFileError)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        error = _problem(model, folder, "--port", taken.getsockname()[1])
        assert isinstance(error, UnsupportedError)
        assert "cannot be used" in str(error)
    (folder / ".trellis-studio").write_text("a file")
    assert isinstance(_problem(model, folder), ModelFileError)
    assert sorted(p.name for p in folder.iterdir()) == [".trellis-studio", "one.phones", "one.wav"]


def test_the_token_is_no_argument_of_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    _open_browser("http://127.0.0.1:1/?token=secret")
    assert "secret" not in opened[0]
    path = Path(opened[0].removeprefix("file://"))
    assert "url=http://127.0.0.1:1/?token=secret" in path.read_text()
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o077 == 0
    path.unlink()


def test_it_serves_this_machine_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    model = small_aligner(tmp_path / "model")
    truth = recordings(tmp_path / "recordings", 2)
    words = dictionary(tmp_path / "words.dict", truth)
    with studio(model, tmp_path / "recordings", "-d", words) as running:
        address, _, token = running.address.partition("/?token=")
        assert address.startswith("http://127.0.0.1:")
        page: HTTPResponse = urlopen(running.address)
        cookie = str(page.headers["set-cookie"]).partition(";")[0]
        assert cookie == f"trellis-studio-{address.rpartition(':')[2]}={token}"
        assert b"Trellis studio" in page.read()
        content = json.load(urlopen(Request(f"{address}/api/recordings", headers={"cookie": cookie})))
        assert [row["name"] for row in content["recordings"]] == [u.audio.name for u in truth]
        command = [*TRELLIS, "align", "studio", model, tmp_path / "recordings", "-d", words]
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        assert second.returncode == 2
        assert "another studio is open on this folder" in second.stderr
        code, errors = running.end(signal.SIGINT)
    assert code == 130
    assert "Traceback" not in errors
    assert not list(tmp_path.rglob("*.partial"))

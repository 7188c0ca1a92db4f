"""Work in the background: a bad recording stops nobody, results last, and learning touches no correction."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tone_speech
from small_speech import EvenAligner, write_wav
from studio_server import recordings, small_aligner
from trellis import load
from trellis.core.errors import DataError
from trellis.core.status import Status
from trellis.speech.corpus.dictionary import Dictionary
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.formats.alignment import Alignment
from trellis.studio.background import Background
from trellis.studio.workspace import Settings, Workspace


class _Phones:
    def encode(self, labels: tuple[str, ...], where: str) -> None:
        if "alien" in labels:
            raise DataError(f"{where}: the model does not know 'alien'")


class LearningAligner(EvenAligner):
    """Every phone is equally long; one that has learned begins them all 50 ms later."""

    late = 0.0
    status_ = Status(False, "it moved", 3)
    wait: threading.Event | None = None
    aligned: list[str] = []  # noqa: RUF012
    heard: list[str] = []  # noqa: RUF012

    class model_:  # noqa: N801
        class acoustics:  # noqa: N801
            phones = _Phones()

    def __init__(self, late: float = 0.0) -> None:
        self.late = late

    def align(self, audio: Any, phones: Any = None, **options: Any) -> Alignment:
        self.aligned.append(Path(audio).name)
        if self.wait is not None:
            self.wait.wait(10)
        found = super().align(audio, phones, **options)
        starts = found.starts + self.late
        starts[0] = 0.0
        return Alignment.from_starts(
            starts, found.labels, float(found.duration or 0), confidence=found.confidence
        )

    def adapt(self, corpus: Any, progress: Any = None) -> LearningAligner:
        self.heard.extend(u.id for u in corpus)
        for share in range(11):
            progress("learning", share / 10)
            time.sleep(0.005 if self.wait is None else 0.05)
        return LearningAligner(0.05)

    def save(self, path: Path) -> None:
        path.write_text("late")


def _open(path: str) -> tuple[Any, Dictionary | None]:
    return LearningAligner(0.05 if Path(path).read_text() == "late" else 0.0), None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    LearningAligner.aligned.clear()
    LearningAligner.heard.clear()
    LearningAligner.wait = None
    root = tmp_path / "recordings"
    root.mkdir()
    for name in ("a", "b", "c"):
        write_wav(root / f"{name}.wav", 1.0)
        (root / f"{name}.phones").write_text("x y z")
    (root / "bad.wav").write_bytes(b"no sound")
    (root / "bad.phones").write_text("x")
    write_wav(root / "mute.wav", 1.0)  # without a transcript
    (tmp_path / "model").write_text("base")
    return root


def _start(folder: Path, n_jobs: int = 1) -> tuple[Workspace, Background]:
    workspace = Workspace(Settings(str(folder.parent / "model"), folder, _open, n_jobs=n_jobs), None)
    background = Background(workspace)
    background.start_aligning()
    return workspace, background


def _end(background: Background) -> None:
    ends = time.monotonic() + 20
    while background.task.is_running:
        assert time.monotonic() < ends
        time.sleep(0.01)


def _states(workspace: Workspace) -> dict[str, str]:
    return {desk.name: desk.state for desk in workspace.desks}


def _starts(workspace: Workspace, name: str) -> list[float]:
    found = next(desk for desk in workspace.desks if desk.name == name).alignment
    assert found is not None
    return [round(float(t), 3) for t in found.starts]


def test_a_bad_recording_stops_nobody(folder: Path) -> None:
    workspace, background = _start(folder)
    _end(background)
    assert background.task.problem is None
    good = dict.fromkeys(("a.wav", "b.wav", "c.wav"), "untouched")
    assert _states(workspace) == {**good, "bad.wav": "failed", "mute.wav": "failed"}
    rows = {row["name"]: row for row in workspace.listing()}
    assert "no transcript" in rows["mute.wav"]["problem"]
    assert "cannot be read" in rows["bad.wav"]["problem"]
    assert rows["a.wav"]["least"] == pytest.approx(0.1)
    assert not list(folder.glob("*.TextGrid"))


def test_what_was_aligned_is_not_aligned_again(folder: Path) -> None:
    _end(_start(folder)[1])
    LearningAligner.aligned.clear()
    workspace, background = _start(folder)
    _end(background)
    assert LearningAligner.aligned == []
    assert _states(workspace)["a.wav"] == "untouched"
    (folder / "a.phones").write_text("x y z w")
    workspace, background = _start(folder)
    _end(background)
    assert LearningAligner.aligned == ["a.wav"]  # its transcript is new


def test_learning_moves_only_what_nobody_touched(folder: Path) -> None:
    workspace, background = _start(folder)
    _end(background)
    with pytest.raises(DataError, match="no recording is corrected yet"):
        background.start_learning()
    desk = workspace.desks[0]
    desk.edit({"op": "move", "boundary": 1, "time": 0.4}, desk.version)
    before = _starts(workspace, "b.wav")
    background.start_learning()
    with pytest.raises(DataError, match="another task is still running"):
        background.start_learning()
    _end(background)
    task = background.task
    assert (task.problem, task.status) == (None, "it moved")
    assert LearningAligner.heard == ["a.wav"]
    assert _starts(workspace, "a.wav")[1] == 0.4
    assert _starts(workspace, "b.wav") == [before[0], *(round(t + 0.05, 3) for t in before[1:])]
    assert [(m.name, m.n_moved, m.n_boundaries) for m in task.moved] == [("b.wav", 2, 3), ("c.wav", 2, 3)]
    assert task.moved[0].largest_ms == pytest.approx(50)
    assert background.uses_adapted
    later, again = _start(folder)  # what was learned lasts
    _end(again)
    assert again.uses_adapted
    assert _starts(later, "b.wav") == _starts(workspace, "b.wav")
    (folder.parent / "model").write_text("another base")
    assert not Background(later).uses_adapted


def test_phones_that_the_model_does_not_know_are_left_out(folder: Path) -> None:
    workspace, background = _start(folder)
    _end(background)
    for desk in workspace.desks[:1]:
        desk.edit({"op": "rename", "index": 1, "label": "alien"}, desk.version)
    background.start_learning()
    _end(background)
    assert "does not know 'alien'" in str(background.task.problem)
    desk = next(d for d in workspace.desks if d.name == "b.wav")
    desk.edit({"op": "confirm"}, desk.version)
    background.start_learning()
    _end(background)
    assert background.task.problem is None
    assert "left out: a.wav" in str(background.task.status)
    assert LearningAligner.heard == ["b.wav"]


def test_learning_can_be_cancelled(folder: Path) -> None:
    workspace, background = _start(folder)
    _end(background)
    desk = workspace.desks[0]
    desk.edit({"op": "confirm"}, desk.version)
    LearningAligner.wait = threading.Event()
    background.start_learning()
    background.cancel()
    _end(background)
    assert background.task.problem == "cancelled"
    assert not workspace.save_model.exists()
    LearningAligner.wait.set()
    background.start_learning()
    _end(background)
    assert background.task.problem is None


def test_closing_does_not_wait_for_long_work(folder: Path) -> None:
    LearningAligner.wait = threading.Event()
    _, background = _start(folder)
    began = time.monotonic()
    while not LearningAligner.aligned:
        assert time.monotonic() < began + 10
        time.sleep(0.01)
    began = time.monotonic()
    assert not background.close(0.1)
    assert time.monotonic() - began < 2
    LearningAligner.wait.set()
    assert background.close(10)


ORPHAN = """
import os, time
from multiprocessing import get_context
from trellis.studio.worker_processes import open_given

def wait(path):
    print(os.getpid(), flush=True)
    time.sleep(60)

if __name__ == "__main__":
    get_context("spawn").Process(target=open_given, args=(wait, "model")).start()
    time.sleep(60)
"""


def test_processes_end_with_the_studio(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(ORPHAN)
    command = [sys.executable, tmp_path / "parent.py"]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert int(parent.stdout.readline()) > 0
    began = time.monotonic()
    parent.kill()
    assert parent.stdout.read() == ""  # at its end when the process that was left has closed it
    parent.wait()
    assert time.monotonic() - began < 10


def test_a_person_is_faster_than_the_aligner(folder: Path) -> None:
    workspace, background = _start(folder)
    _end(background)
    desk = workspace.desks[0]
    aligned = desk.alignment
    desk.edit({"op": "move", "boundary": 1, "time": 0.4}, desk.version)
    assert aligned is not None
    assert desk.align(aligned) is None
    assert _starts(workspace, "a.wav")[1] == 0.4


def test_corrections_teach_a_real_aligner(tmp_path: Path) -> None:
    """The corpus that the studio makes of corrections is one that an aligner learns from."""
    model = small_aligner(tmp_path / "model")
    truth = recordings(tmp_path / "recordings", 3)
    for utterance in truth[:2]:
        shifted = utterance.reference
        assert shifted is not None
        shifted.to_textgrid(utterance.audio.with_suffix(".TextGrid"))
    shutil.copy(truth[0].audio, tmp_path / "elsewhere.wav")
    settings = Settings(str(model), tmp_path / "recordings", lambda path: (load(path), None))
    workspace = Workspace(settings, None)
    corpus = workspace.corrected()
    assert [u.id for u in corpus] == [u.audio.name for u in truth[:2]]
    assert all(isinstance(u, Utterance) and u.reference is not None for u in corpus)
    assert {label for u in corpus for label in u.phones} <= {*tone_speech.MEAN_MS}
    adapted = load(model).adapt(corpus)
    assert "corrected recordings" in str(adapted.status_)

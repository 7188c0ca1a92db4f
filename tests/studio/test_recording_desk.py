"""Saving: the journal first, the TextGrid at once, and no file of anybody else lost."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from pathlib import Path

import pytest

from small_speech import write_wav
from trellis.core.errors import DataError, ModelFileError
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.textgrid import read_textgrid, read_textgrid_tiers
from trellis.studio import recording_desk
from trellis.studio.folder import Folder
from trellis.studio.journal import Journal
from trellis.studio.recording_desk import RecordingDesk, StaleError

ALIGNED = Alignment.from_starts(
    [0.0, 0.25, 0.5, 0.75],
    ["sil", "a", "b", "sil"],
    1.0,
    confidence=(1.0, 0.3, 0.8, math.nan),
    flags=("odd",),
)
MINE = '''File type = "ooTextFile"
Object class = "TextGrid"

0
1
<exists>
3
"IntervalTier" "MAU" 0 1 2
0 0.5 "a"
0.5 1 "b"
"IntervalTier" "notes" 0 1 1
0 1 "creaky ""voice"""
"TextTier" "clicks" 0 1 1
0.3 "!"
'''


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "sub").mkdir()
    write_wav(tmp_path / "sub" / "talk.wav", 1.0)
    return Folder(tmp_path)


def _desk(folder: Folder, aligned: bool = True) -> RecordingDesk:
    desk = RecordingDesk(folder, "sub/talk.wav")
    if aligned and not desk.is_corrected:
        desk.align(ALIGNED)
    return desk


def _move(desk: RecordingDesk, time: float, boundary: int = 1) -> None:
    desk.edit({"op": "move", "boundary": boundary, "time": time}, desk.version)


def _starts(folder: Folder) -> list[float]:
    return [float(t) for t in read_textgrid(folder.root / "sub" / "talk.TextGrid").starts]


def test_an_edit_is_on_disk_when_it_is_answered(folder: Folder) -> None:
    desk = _desk(folder)
    assert desk.state == "untouched"
    assert not (folder.root / "sub" / "talk.TextGrid").exists()  # nothing is written that nobody corrected
    _move(desk, 0.3125)
    assert _starts(folder) == [0.0, 0.3125, 0.5, 0.75]
    assert desk.state == "corrected"
    _move(desk, 0.625, 2)
    desk.undo(desk.version)
    assert _starts(folder) == [0.0, 0.3125, 0.5, 0.75]
    desk.redo(desk.version)
    assert _starts(folder) == [0.0, 0.3125, 0.625, 0.75]
    again = RecordingDesk(folder, "sub/talk.wav")
    assert again.state == "corrected"
    assert again.steps == (2, 0)
    again.undo(again.version)
    again.undo(again.version)
    assert again.state == "untouched"
    assert not (folder.root / "sub" / "talk.TextGrid").exists()  # it was the studio's own
    assert again.summary().flags == ("odd",)


@pytest.mark.parametrize("cut", ["before the TextGrid", "inside a line"])
def test_a_save_that_was_cut_short(folder: Folder, monkeypatch: pytest.MonkeyPatch, cut: str) -> None:
    desk = _desk(folder)
    _move(desk, 0.3)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    if cut == "before the TextGrid":
        with monkeypatch.context() as patch:
            patch.setattr(recording_desk, "atomic_writer", dies)
            with pytest.raises(KeyboardInterrupt):
                _move(desk, 0.4)
        expected = [0.0, 0.4, 0.5, 0.75]
    else:
        with folder.journal("sub/talk.wav").open("a") as file:
            file.write('{"edit": {"op": "move", "bound')
        expected = [0.0, 0.3, 0.5, 0.75]
    assert _starts(folder) == [0.0, 0.3, 0.5, 0.75]
    again = RecordingDesk(folder, "sub/talk.wav")
    assert again.notice is None
    assert _starts(folder) == expected
    _move(again, 0.35)  # and goes on
    rows = RecordingDesk(folder, "sub/talk.wav").to_json()["phones"]
    assert [row[0] for row in rows] == [0.0, 0.35, 0.5, 0.75]


def test_a_textgrid_that_was_there_counts_as_corrected(folder: Folder) -> None:
    path = folder.root / "sub" / "talk.TextGrid"
    path.write_text(MINE)
    desk = _desk(folder)
    assert desk.state == "given"
    assert desk.alignment is not None
    assert desk.alignment.labels == ("a", "b")
    assert desk.align(ALIGNED) is None  # the aligner does not touch it
    assert path.read_text() == MINE
    _move(desk, 0.6)
    grid = read_textgrid_tiers(path)
    assert list(grid.tiers) == ["MAU", "notes"]  # names and other tiers are kept
    assert [(i.start, i.label) for i in grid.tiers["MAU"]] == [(0.0, "a"), (0.6, "b")]
    assert grid.tiers["notes"][0].label == 'creaky "voice"'
    assert (folder.home / "before" / "sub" / "talk.TextGrid.1").read_text() == MINE
    desk.undo(desk.version)
    assert path.read_text() == MINE  # to the byte
    again = RecordingDesk(folder, "sub/talk.wav")
    assert again.state == "given"
    again.redo(again.version)
    assert [i.start for i in read_textgrid_tiers(path).tiers["MAU"]] == [0.0, 0.6]


@pytest.mark.parametrize("open_then", [False, True])
def test_what_another_program_saves_is_adopted(folder: Folder, open_then: bool) -> None:
    desk = _desk(folder)
    _move(desk, 0.3)
    path = folder.root / "sub" / "talk.TextGrid"
    path.write_text(MINE)
    if open_then:
        with pytest.raises(StaleError, match="another program"):
            _move(desk, 0.4)
    else:
        desk = RecordingDesk(folder, "sub/talk.wav")
    assert desk.alignment is not None
    assert desk.alignment.labels == ("a", "b")
    assert desk.notice is not None
    assert path.read_text() == MINE
    desk.undo(desk.version)
    assert _starts(folder) == [0.0, 0.3, 0.5, 0.75]
    assert (folder.home / "before" / "sub" / "talk.TextGrid.1").read_text() == MINE


def test_a_textgrid_that_appears_is_not_overwritten(folder: Folder) -> None:
    desk = _desk(folder)
    path = folder.root / "sub" / "talk.TextGrid"
    path.write_text(MINE)
    with pytest.raises(StaleError):
        _move(desk, 0.4)
    assert path.read_text() == MINE
    desk.undo(desk.version)
    assert path.read_text() == MINE
    assert desk.state == "untouched"


def test_a_textgrid_without_phones_is_kept(folder: Folder) -> None:
    path = folder.root / "sub" / "talk.TextGrid"
    transcript = MINE.replace('"MAU"', '"speaker"').replace('"a"', '"hello you"')
    path.write_text(transcript)
    desk = _desk(folder)
    assert desk.state == "untouched"
    assert "not taken as an alignment" in str(desk.notice)
    _move(desk, 0.3)
    assert (folder.home / "before" / "sub" / "talk.TextGrid.1").read_text() == transcript
    desk.undo(desk.version)
    assert path.read_text() == transcript


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a process that was forked")
@pytest.mark.parametrize("round", range(12))
def test_killed_at_any_moment(folder: Folder, round: int) -> None:
    """What was answered is there after the power failed, and at most one edit more; in two lives."""
    answered = 0
    for life in range(2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            desk = _desk(folder)
            for number in range(10**6):
                _move(desk, 0.26 + 0.2 * ((number * 37 + round) % 100) / 100)
                os.write(writing, b".")
        os.close(writing)
        wanted = 1 + (round + 5 * life) % 7
        got = 0
        while got < wanted:
            got += len(os.read(reading, 1))
        time.sleep(0.0007 * round)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while more := os.read(reading, 4096):
            got += len(more)
        os.close(reading)
        answered += got
        again = RecordingDesk(folder, "sub/talk.wav")
        assert again.notice is None
        assert again.steps[0] in (answered, answered + 1)
        answered = again.steps[0]
        assert again.alignment is not None
        assert _starts(folder) == again.alignment.starts.tolist()
    for _ in range(answered):
        again.undo(again.version)
    assert not (folder.root / "sub" / "talk.TextGrid").exists()
    assert [row[3] for row in again.to_json()["phones"]] == [1.0, 0.3, 0.8, None]


def test_two_windows_do_not_overwrite_each_other(folder: Folder) -> None:
    desk = _desk(folder)
    shown = desk.version
    _move(desk, 0.3)
    with pytest.raises(StaleError, match="another window"):
        desk.edit({"op": "merge", "boundary": 1}, shown)
    assert _starts(folder) == [0.0, 0.3, 0.5, 0.75]


def test_an_edit_that_is_refused_leaves_no_trace(folder: Folder) -> None:
    desk = _desk(folder)
    with pytest.raises(DataError):
        _move(desk, 0.7)
    assert not folder.journal("sub/talk.wav").exists()
    assert desk.state == "untouched"


def test_a_full_disk_does_not_lose_an_edit(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = _desk(folder)

    def full(*_: object) -> None:
        raise ModelFileError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(recording_desk, "atomic_writer", full)
        with pytest.raises(ModelFileError):
            _move(desk, 0.3)
    assert RecordingDesk(folder, "sub/talk.wav").state == "corrected"
    assert _starts(folder) == [0.0, 0.3, 0.5, 0.75]


def test_a_damaged_journal_is_named(folder: Folder) -> None:
    _move(_desk(folder), 0.3)
    path = folder.journal("sub/talk.wav")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{oops", *lines[1:]]) + "\n")
    desk = RecordingDesk(folder, "sub/talk.wav")
    assert desk.state == "failed"
    assert "journal is damaged" in str(desk.problem)
    assert _starts(folder) == [0.0, 0.3, 0.5, 0.75]


def test_nothing_leaves_the_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    write_wav(outside / "secret.wav", 1.0)
    write_wav(inside / "talk.wav", 1.0)
    (inside / "link.wav").symlink_to(outside / "secret.wav")
    (inside / "talk.TextGrid").symlink_to(outside / "talk.TextGrid")
    folder = Folder(inside)
    for name in ("link.wav", "talk.wav"):
        desk = RecordingDesk(folder, name)
        assert desk.state == "failed"
        assert "leads out of" in str(desk.problem)
    with pytest.raises(DataError, match="leads out"):
        folder.check_inside(inside / ".." / "out" / "secret.wav")
    (inside / ".trellis-studio").symlink_to(outside)
    with pytest.raises(DataError, match="leads out"):
        Folder(inside)


def test_the_journal_takes_back_what_it_could_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "j" / "a.jsonl")
    journal.append([{"base": 1}])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(DataError, match="the edit was not made"):
            journal.append([{"edit": 1}])
    assert journal.read() == [{"base": 1}]
    journal.path.write_text(json.dumps([1]) + "\n")
    with pytest.raises(DataError, match="not a record"):
        journal.read()

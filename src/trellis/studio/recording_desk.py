"""One recording at work: its alignment, its edits, and the TextGrid beside it.

Saving an edit is three steps: the line of the journal is forced to disk, the TextGrid is replaced in one
step, the answer is sent. Whatever dies in between, the next start replays the journal and writes the TextGrid
again.

A TextGrid that the studio did not write is never lost. One that was there first is the alignment to go on
from, and is copied before the first edit replaces it. One that another program saves meanwhile is adopted as
a step that can be undone. Where every edit is undone, a TextGrid that only the studio wrote goes away again.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trellis.core.errors import DataError, TrellisError
from trellis.core.output_files import atomic_writer
from trellis.speech.audio.recordings import audio_info
from trellis.speech.formats.alignment import Alignment
from trellis.studio.edit_history import Change, EditHistory
from trellis.studio.edits import Edit, apply_edit, gapless
from trellis.studio.folder import Folder
from trellis.studio.journal import Journal, Line, alignment_to_json
from trellis.studio.saved_textgrids import Dress, read_saved, render

_RECENT = 20  # states that a TextGrid may be in, where saves were cut short
_OUTSIDE = "was saved by another program; its version is shown, and undo returns to yours"
State = Literal["waiting", "untouched", "corrected", "given", "failed"]


class StaleError(TrellisError):
    """The page showed another state than the one that an edit was meant for."""


@dataclass(frozen=True)
class Summary:
    """What the list of recordings shows. ``doubt`` sorts it: 1 - the confidence of the least sure tenth."""

    state: State
    problem: str | None
    flags: tuple[str, ...]
    doubt: float | None
    least: float | None
    n_phones: int
    n_edits: int


class RecordingDesk:
    """The alignment of one recording and every change of it; one change at a time."""

    def __init__(self, folder: Folder, name: str) -> None:
        self.name, self.audio = name, folder.root / name
        self.version = 0
        self.problem: str | None = None
        self.notice: str | None = None
        self.duration = 0.0
        self._folder, self._lock = folder, threading.RLock()
        self._history: EditHistory | None = None
        self._dress, self._given = Dress(), False
        self._journal: Journal | None = None
        self._before: Path | None = None  # the copy of the TextGrid that was there before the first edit
        self._on_disk: str | None = None  # the digest of the TextGrid that the studio knows
        try:
            self._open()
        except DataError as error:
            self.problem = str(error)

    def _open(self) -> None:
        folder = self._folder
        folder.check_inside(self.audio)
        self.duration = audio_info(self.audio).duration
        journal = self._journal = Journal(folder.journal(self.name))
        self._history, base, passed = journal.replay()
        path = folder.textgrid(self.name)
        there = path.read_bytes() if path.exists() else None
        if self._history is None:
            self._load_given(path, there)
            return
        self._dress, self._given = Dress.from_json(base["dress"]), bool(base["given"])
        self._before = None if base["before"] is None else folder.check_inside(folder.home / base["before"])
        self._on_disk = _digest(there)
        if there is None or self._is_ours(there, passed):
            self._write(path)  # where a save was cut short, this completes it
        else:
            self._adopt(path)

    def _is_ours(self, there: bytes, passed: list[Alignment]) -> bool:
        """Whether the studio wrote this TextGrid, or began from it."""
        if self._before is not None and self._before.read_bytes() == there:
            return True
        return any(render(alignment, self._dress) == there for alignment in reversed(passed[-_RECENT:]))

    def _load_given(self, path: Path, there: bytes | None) -> None:
        self._on_disk = _digest(there)
        if there is None:
            return
        try:
            alignment, self._dress = read_saved(path, self.duration)
        except DataError as error:
            self.notice = f"{path.name} is not taken as an alignment ({error}); a copy is kept when you save"
            return
        self._history, self._given = EditHistory(alignment), True

    # --- what is there ------------------------------------------------------------------------------------

    @property
    def alignment(self) -> Alignment | None:
        return None if self._history is None else self._history.now

    @property
    def state(self) -> State:
        if self._history is None:
            return "failed" if self.problem else "waiting"
        if self._history.n_done:
            return "corrected"
        return "given" if self._given else "untouched"

    @property
    def is_corrected(self) -> bool:
        """Whether a person vouches for the alignment."""
        return self.state in ("corrected", "given")

    @property
    def steps(self) -> tuple[int, int]:
        """How many steps can be undone and redone."""
        return (0, 0) if self._history is None else (self._history.n_done, self._history.n_undone)

    def summary(self) -> Summary:
        with self._lock:
            now = self.alignment
            sure = sorted(c for c in (now.confidence or () if now else ()) if not math.isnan(c))
            tenth = sure[: max(1, len(sure) // 10)]
            doubt = 1.0 - sum(tenth) / len(tenth) if tenth else None
            flags = now.flags if now and self.state == "untouched" else ()
            count = len(now.phones) if now else 0
            least = sure[0] if sure else None
            return Summary(self.state, self.problem, flags, doubt, least, count, self.steps[0])

    # --- what people do -----------------------------------------------------------------------------------

    def edit(self, edit: Edit, version: int) -> Change:
        with self._lock:
            new = apply_edit(self._current(version).now, edit)
            return self._save([{"edit": dict(edit)}], lambda history: history.step(new))

    def undo(self, version: int) -> Change:
        with self._lock:
            if not self._current(version).n_done:
                raise DataError("there is nothing to undo")
            return self._save([{"step": "undo"}], EditHistory.undo)

    def redo(self, version: int) -> Change:
        with self._lock:
            if not self._current(version).n_undone:
                raise DataError("there is nothing to redo")
            return self._save([{"step": "redo"}], EditHistory.redo)

    def align(self, alignment: Alignment) -> Alignment | None:
        """Take the aligner's alignment, unless a person made one; the one before, or None if not taken."""
        with self._lock:
            if self.is_corrected:
                return None
            before = self.alignment
            self._history, self._given, self.problem = EditHistory(gapless(alignment)), False, None
            self.version += 1
            return before or self.alignment

    def fail(self, problem: str) -> None:
        """The aligner could not align it; an alignment that is there stays."""
        with self._lock:
            if self._history is None:
                self.problem = problem

    # --- saving -------------------------------------------------------------------------------------------

    def _current(self, version: int) -> EditHistory:
        if self._history is None:
            raise DataError(f"{self.name}: there is no alignment to change yet")
        if version != self.version:
            raise StaleError(f"{self.name} was changed in another window; the new version is shown")
        path = self._folder.textgrid(self.name)
        there = path.read_bytes() if path.exists() else None
        if there is not None and _digest(there) != self._on_disk:
            self._adopt(path)
            raise StaleError(
                f"{path.name} was saved by another program; its version is shown, and undo returns to yours"
            )
        return self._history

    def _save(self, lines: list[Line], step: Callable[[EditHistory], Change]) -> Change:
        """Journal first, then the TextGrid."""
        history, journal = self._history, self._journal
        if history is None or journal is None:
            raise DataError(f"{self.name}: there is no alignment to change yet")
        path = self._folder.textgrid(self.name)
        if history.n_done + history.n_undone == 0:
            lines = [self._base(path, history.now), *lines]
        journal.append(lines)
        change = step(history)
        self.version += 1
        self._write(path)
        return change

    def _base(self, path: Path, alignment: Alignment) -> Line:
        """The first line of a journal; the TextGrid that is there is copied first."""
        self._before = self._folder.keep(path, path.read_bytes()) if path.exists() else None
        before = None if self._before is None else self._before.relative_to(self._folder.home).as_posix()
        shape = {"dress": self._dress.to_json(), "given": self._given, "before": before}
        return {"base": alignment_to_json(alignment), **shape}

    def _adopt(self, path: Path) -> None:
        """Another program saved the TextGrid: a copy is kept, and its alignment is a step."""
        history, journal = self._history, self._journal
        if history is None or journal is None:
            return
        there = path.read_bytes()
        kept = self._folder.keep(path, there)
        self._on_disk = _digest(there)
        try:
            alignment, _ = read_saved(path, self.duration)
        except DataError as error:
            self.notice = f"{path.name} was replaced by another program ({error}); a copy is in {kept}"
            if history.n_done:
                self._write(path)
            return
        lines: list[Line] = [{"outside": alignment_to_json(alignment)}]
        if history.n_done + history.n_undone == 0:
            lines = [self._base(path, history.now), *lines]
        journal.append(lines)
        history.step(alignment)
        self.version += 1
        self.notice = f"{path.name} {_OUTSIDE}"

    def _write(self, path: Path) -> None:
        """Bring the TextGrid to what the history says: with every edit undone, to what was there before."""
        history = self._history
        if history is None:
            return
        if history.n_done:
            content = render(history.now, self._dress)
        elif self._before is not None:
            content = self._before.read_bytes()
        else:
            if path.exists() and _digest(path.read_bytes()) == self._on_disk:
                path.unlink()
                self._on_disk = None
            return
        if _digest(content) != self._on_disk or not path.exists():
            with atomic_writer(path) as file:
                file.write(content)
            self._on_disk = _digest(content)

    def to_json(self) -> dict[str, Any]:
        """All that the page needs to show the recording."""
        with self._lock:
            now, (undo, redo) = self.alignment, self.steps
            content = {"flags": [], "phones": [], "words": []} if now is None else alignment_to_json(now)
            return {
                **content,
                "name": self.name,
                "duration": self.duration,
                "state": self.state,
                "problem": self.problem,
                "notice": self.notice,
                "version": self.version,
                "undo": undo,
                "redo": redo,
            }


def _digest(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()

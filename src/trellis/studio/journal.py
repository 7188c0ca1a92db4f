"""The journal of one recording: every edit is on disk before it is answered, and is replayed after a crash.

A journal is a file of JSON lines that only grows; a line counts once its line end is on disk (``fsync``), so
a line that a dying process left unfinished is an edit that nobody was told of, and is dropped. Lines are

* ``{"base": ..., "dress": ...}``: the alignment that edits begin from, which forgets all lines before it;
* ``{"edit": {...}}``: an edit of :mod:`trellis.studio.edits`; ``{"step": "undo"}`` and ``"redo"``;
* ``{"outside": ...}``: another program saved the TextGrid; its alignment, which can be undone like an edit.

An alignment is stored as rows of start, end, label and confidence, with every digit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trellis.core.errors import DataError, TrellisError
from trellis.speech.formats.alignment import Alignment
from trellis.studio.edit_history import EditHistory, from_rows, phone_rows, word_rows
from trellis.studio.edits import apply_edit

Line = Mapping[str, Any]


def alignment_to_json(alignment: Alignment) -> dict[str, Any]:
    return {
        "duration": alignment.duration,
        "phones": phone_rows(alignment),
        "words": word_rows(alignment),
        "flags": list(alignment.flags),
    }


def alignment_from_json(content: Mapping[str, Any]) -> Alignment:
    like = Alignment((), duration=float(content["duration"]), flags=tuple(map(str, content["flags"])))
    return from_rows(
        [(float(a), float(b), str(c), d) for a, b, c, d in content["phones"]],
        [(float(a), float(b), str(c), d) for a, b, c, d in content["words"]],
        like,
    )


class Journal:
    """Lines are appended with :meth:`append`, which returns when they are on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[dict[str, Any]]:
        """The complete lines; an unfinished one at the end is cut off. No journal has no lines."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DataError(f"{self.path}: the journal cannot be read ({error.strerror})") from error
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self.path, whole)
        lines = []
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                found = json.loads(line)
            except ValueError as error:
                raise self._damaged(number, str(error)) from error
            if not isinstance(found, dict):
                raise self._damaged(number, "it is not a record")
            lines.append(found)
        return lines

    def append(self, lines: Iterable[Line]) -> None:
        """Add lines, and return when they are on disk. What could not be written whole is taken back."""
        content = "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        before = 0 if new else self.path.stat().st_size
        try:
            with self.path.open("ab") as file:
                file.write(content.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if self.path.exists():
                os.truncate(self.path, before)
            raise DataError(
                f"{self.path}: the journal cannot be written ({error.strerror}); the edit was not made"
            ) from error
        if new:
            _sync_folder(self.path.parent)

    def replay(self) -> tuple[EditHistory | None, dict[str, Any], list[Alignment]]:
        """Where the lines lead to (None if there are none), the base line, all alignments on the way."""
        history: EditHistory | None = None
        base: dict[str, Any] = {}
        passed: list[Alignment] = []
        for number, line in enumerate(self.read(), 1):
            try:
                if "base" in line:
                    history, base = EditHistory(alignment_from_json(line["base"])), line
                elif history is None:
                    raise DataError("an edit before its base")
                elif "outside" in line:
                    history.step(alignment_from_json(line["outside"]))
                elif "edit" in line:
                    history.step(apply_edit(history.now, line["edit"]))
                else:
                    history.undo() if line.get("step") == "undo" else history.redo()
            except (TrellisError, KeyError, TypeError, ValueError) as error:
                raise self._damaged(number, str(error)) from error
            passed.append(history.now)
        return history, base, passed

    def _damaged(self, number: int, why: str) -> DataError:
        return DataError(
            f"{self.path}:{number}: the journal is damaged ({why}); the TextGrid is as it was last saved; "
            "move the journal away to continue from it"
        )


def _sync_folder(folder: Path) -> None:
    """Force the name of a new file to disk, where the system lets us open its folder."""
    if hasattr(os, "O_DIRECTORY"):
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

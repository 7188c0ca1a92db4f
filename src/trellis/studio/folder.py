"""The folder of recordings and the studio's own files in it, none of which may lie outside.

Beside ``talk.wav`` lies ``talk.TextGrid`` with what a person corrected. All else is in ``.trellis-studio/``::

    journal/talk.wav.jsonl      every edit (:mod:`trellis.studio.journal`)
    aligned/talk.alignment      what the aligner found, so that the next start is quick
    before/talk.TextGrid.1      a TextGrid that was there before the studio wrote its own
    model.trellis               the model that learned from the corrections
    lock                        held while a studio is open

Names are chosen so that no reader of corpora takes these files for labels of their own.
"""

from __future__ import annotations

import os
from pathlib import Path

from trellis.core.errors import DataError

HOME = ".trellis-studio"


class Folder:
    """A folder of recordings by their names: paths relative to it, with ``/``."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            what = "this is a file" if root.exists() else "no such folder"
            raise DataError(f"{root}: {what}; give the folder of the recordings")
        self.root = root
        self._real = Path(os.path.realpath(root))
        self.home = root / HOME
        self.check_inside(self.home)

    def lock(self) -> None:
        """Refuse a second studio on the same folder; the lock ends with the process, however that ends."""
        try:
            import fcntl
        except ImportError:  # Windows: two of them are not noticed
            return
        self.home.mkdir(exist_ok=True)
        self._lock = (self.home / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataError(
                f"{self.root}: another studio is open on this folder; use that one, or stop it"
            ) from error
        except OSError:  # some network drives have no locks
            return

    def name(self, audio: Path) -> str:
        return audio.relative_to(self.root).as_posix()

    def check_inside(self, path: Path) -> Path:
        """The path, unless links lead from it to a place outside the folder."""
        real = Path(os.path.realpath(path))
        if real != self._real and self._real not in real.parents:
            raise DataError(f"{path}: this leads out of {self.root}; copy the file into the folder")
        return path

    def textgrid(self, name: str) -> Path:
        """The TextGrid beside a recording; one that is there keeps the case of its suffix."""
        path = self.root / name
        there = next(
            (p for p in (path.with_suffix(s) for s in (".TextGrid", ".textgrid")) if p.exists()), None
        )
        return self.check_inside(there or path.with_suffix(".TextGrid"))

    def journal(self, name: str) -> Path:
        return self.check_inside(self.home / "journal" / f"{name}.jsonl")

    @property
    def aligned(self) -> Path:
        return self.home / "aligned"

    @property
    def model(self) -> Path:
        return self.home / "model.trellis"

    def keep(self, path: Path, content: bytes) -> Path:
        """Keep a copy of a TextGrid that another program wrote; the same content is kept once."""
        place = self.home / "before" / path.relative_to(self.root)
        place.parent.mkdir(parents=True, exist_ok=True)
        number = 1
        while (copy := place.with_name(f"{place.name}.{number}")).exists():
            if copy.read_bytes() == content:
                return copy
            number += 1
        from trellis.core.output_files import atomic_writer

        with atomic_writer(self.check_inside(copy)) as file:
            file.write(content)
        return copy

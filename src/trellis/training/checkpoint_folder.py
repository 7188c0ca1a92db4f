"""The files of a checkpoint: the last two, written by turns, in a folder.

Each is complete by itself (:mod:`trellis.core.storage`: versioned, with a checksum, replaced atomically), and
says which number it has. A new one takes the place of the older one, so that whatever stops the program, or
damages one file, the other one is there. When nothing is left to do, the older one goes.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Mapping
from typing import Any

from trellis.core import storage
from trellis.core.codec import Arrays
from trellis.core.errors import ModelFileError
from trellis.core.output_files import check_folder

KIND = "Checkpoint"
VERSION = 1  # of what a checkpoint holds
NAMES = ("checkpoint.0", "checkpoint.1")


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or read; training goes on, and the sentence says from where."""


class CheckpointFolder:
    """A folder, made if it is not there."""

    def __init__(self, path: storage.PathLike) -> None:
        check_folder(path)
        self.shown = os.fspath(path)
        self._number, self._newest = 0, 1  # the next goes to the first name
        try:
            os.makedirs(self.shown, exist_ok=True)
        except OSError as error:
            raise ModelFileError(f"{self.shown}: the folder cannot be made ({error.strerror})") from error

    @property
    def empty(self) -> bool:
        """Whether nothing was ever stored in it."""
        return self._number == 0

    def read(self) -> tuple[dict[str, Any], Arrays] | None:
        """What the newer file holds that is whole; None where there is no file."""
        found: tuple[dict[str, Any], Arrays] | None = None
        damaged: list[ModelFileError] = []
        for i, name in enumerate(NAMES):
            if not os.path.exists(os.path.join(self.shown, name)):
                continue
            try:
                meta, arrays = self._read(name)
            except _DamagedError as error:
                damaged.append(error)
                continue
            if meta["number"] > self._number:
                found, self._number, self._newest = (meta, arrays), meta["number"], i
        if damaged and found is None:
            raise ModelFileError(f"{damaged[0]}; remove the folder to start again") from damaged[0]
        if damaged:
            warnings.warn(f"{damaged[0]}; resuming from the other one", CheckpointWarning, stacklevel=4)
        return found

    def write(self, meta: Mapping[str, Any], arrays: Arrays) -> None:
        """In place of the older file."""
        at = 1 - self._newest
        content = {"version": VERSION, "number": self._number + 1, **meta}
        storage.save(os.path.join(self.shown, NAMES[at]), KIND, content, arrays)
        self._number, self._newest = self._number + 1, at

    def remove_older(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.shown, NAMES[1 - self._newest]))

    def _read(self, name: str) -> tuple[dict[str, Any], Arrays]:
        path = os.path.join(self.shown, name)
        try:
            kind, meta, arrays = storage.read(path)
        except ModelFileError as error:
            if "update trellis" in str(error):
                raise
            raise _DamagedError(f"{path}: the checkpoint is damaged or cannot be read") from error
        if kind != KIND:
            raise ModelFileError(f"{path}: this is a {kind}, not a checkpoint; give another folder")
        if not isinstance(meta.get("number"), int) or not isinstance(meta.get("version"), int):
            raise _DamagedError(f"{path}: the checkpoint is damaged or cannot be read")
        if meta["version"] > VERSION:
            raise ModelFileError(
                f"{path}: a newer version of trellis wrote this checkpoint; update trellis, or give another "
                "folder"
            )
        return meta, arrays


class _DamagedError(ModelFileError):
    """One file of two."""

"""Which files are meant: a folder, a pattern, a path, or a list of these; in natural order."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from typing import Any

from trellis.core.errors import DataError

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
_DIGITS = re.compile(r"(\d+)")


def find_files(paths: Paths) -> list[str]:
    """The paths of the files, each once, ``part-2`` before ``part-10``.

    A folder stands for the files in it, but for those whose names begin with a dot or an underscore (what
    other tools leave there).
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise DataError("there are no files in an empty list of paths; give at least one")
    found: list[str] = []
    for one in given:
        if not isinstance(one, str | os.PathLike):
            raise DataError(f"a path is a string or a Path, not {one!r}")
        found += _files_of(os.fspath(one))
    return sorted(dict.fromkeys(found), key=natural_key)


def natural_key(path: str) -> list[Any]:
    """Runs of digits compare as numbers; ``1`` and ``01`` then by their text, so that no two are equal."""
    parts = _DIGITS.split(path)
    return [*(int(part) if i % 2 else part for i, part in enumerate(parts)), "", path]


def _files_of(path: str) -> list[str]:
    if os.path.isdir(path):
        names = [name for name in os.listdir(path) if name[0] not in "._"]
        files = [full for name in names if os.path.isfile(full := os.path.join(path, name))]
        if not files:
            raise DataError(f"{path}: there are no files in this folder")
        return files
    if os.path.exists(path):
        return [path]
    if glob.has_magic(path):
        matching = [name for name in glob.glob(path, recursive=True) if os.path.isfile(name)]
        if not matching:
            raise DataError(f"{path}: no file matches this pattern")
        return matching
    raise DataError(f"{path}: there is no such file or folder")

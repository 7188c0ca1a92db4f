"""The files of a corpus: label files, the recordings that belong to them, and lists of ids."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.audio.recordings import AUDIO_SUFFIXES
from trellis.speech.formats.text_files import read_lines

# suffix of the label files -> layout. Files .lab may hold only the words to align, so they come last.
_LAYOUTS = {".textgrid": "textgrids", ".phn": "timit", ".ctm": "ctm", ".json": "json", ".lab": "labs"}


def find_files(root: PathLike, suffixes: Collection[str]) -> list[Path]:
    """Files under ``root`` whose names end in one of ``suffixes`` (lower case), in any case, in order.

    Hidden files are left out: some systems put ``._name`` beside every file.
    """
    folder = Path(root)
    if not folder.is_dir():
        what = "this is a file, not a folder" if folder.exists() else "no such folder"
        raise DataError(f"{folder}: {what}; give the folder of the corpus")
    found = []
    for place, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        found += [
            Path(place, name)
            for name in names
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in suffixes
        ]
    return sorted(found)


def find_label_files(root: PathLike, suffix: str) -> list[Path]:
    """The label files under ``root``, at least one; ``root`` may be a single file."""
    path = Path(root)
    if path.is_file() and path.suffix.lower() == suffix:
        return [path]
    files = find_files(root, (suffix,))
    if not files:
        raise DataError(f"{path}: no file with the suffix {suffix} in this folder or below; check the path")
    return files


def guess_layout(root: PathLike) -> str:
    """The layout of the label files under ``root``."""
    path = Path(root)
    if path.is_file():
        found = [_LAYOUTS[path.suffix.lower()]] if path.suffix.lower() in _LAYOUTS else []
    else:
        there = {file.suffix.lower() for file in find_files(root, tuple(_LAYOUTS))}
        found = [layout for suffix, layout in _LAYOUTS.items() if suffix in there]
    if len(found) != 1:
        what = f"label files of several layouts ({', '.join(found)})" if found else "no label files"
        raise DataError(f"{path}: {what}; give the layout: timit, textgrids, labs, ctm or json")
    return found[0]


class AudioFinder:
    """Recordings under a folder by their path without suffix; each name must belong to one recording."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._by_name: dict[str, list[Path]] = {}
        self._by_stem: dict[str, list[Path]] = {}
        for path in find_files(folder, AUDIO_SUFFIXES):
            self._by_name.setdefault(path.relative_to(folder).with_suffix("").as_posix(), []).append(path)
            self._by_stem.setdefault(path.stem, []).append(path)

    def find(self, name: str) -> Path:
        """The recording at this place, or else the only one with this name anywhere below the folder."""
        found = self._by_name.get(name) or self._by_stem.get(name.rpartition("/")[2], [])
        if len(found) == 1:
            return found[0]
        if not found:
            raise DataError(
                f"{self._folder}: there is no recording named {name} ({', '.join(AUDIO_SUFFIXES[:4])} ...) "
                "for the labels of that name; give the folder of the recordings, or leave these labels out"
            )
        raise DataError(
            f"{self._folder}: several recordings for the labels {name} "
            f"({', '.join(path.name for path in found)}); keep one of them"
        )


def timit_audio(labels: Path) -> Path:
    """The recording of a ``.PHN`` file: ``.WAV`` beside it, or the ``.WAV.wav`` of converted copies."""
    for suffix in (".WAV", ".wav"):
        for more in ("", ".wav", ".WAV"):
            path = labels.with_name(labels.stem + suffix + more)
            if path.is_file():
                return path
    raise DataError(f"{labels}: there is no recording {labels.stem}.WAV beside it; copy the corpus again")


def timit_split(files: Sequence[Path], root: PathLike, split: str) -> list[Path]:
    """The files below a folder called ``split``, in any case (``root`` itself may be that folder)."""
    base = Path(root).resolve()
    inside = [f for f in files if split in map(str.lower, f.resolve().relative_to(base).parts[:-1])]
    if not inside and base.name.lower() == split:
        inside = list(files)
    if not inside:
        raise DataError(
            f"{base}: no folder {split} with .PHN files; give the folder that holds TRAIN and TEST"
        )
    return inside


def read_list(path: PathLike) -> list[str]:
    """Ids, one per line; blank lines and comments after ``#`` are ignored."""
    names = [line.partition("#")[0].strip() for _, line in read_lines(path)]
    return [name for name in names if name]

"""The files of a data set, and their shards."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from itertools import chain
from typing import Any

from trellis.core.arguments import check_int
from trellis.core.checksums import checksum
from trellis.core.errors import DataError
from trellis.core.file_formats import ARRAY_SUFFIXES, FileFormat
from trellis.data.shard_files.array_files import ArrayFiles, array_files
from trellis.data.shard_files.file_paths import Paths, find_files
from trellis.data.shard_files.file_shard import FileShard, gathered
from trellis.data.shard_files.parquet_files import ParquetFiles
from trellis.data.shard_files.text_shards import TextFiles, text_files
from trellis.data.streams import reading

Column = int | str
_CHUNK = 4 * 2**20


class ShardFiles:
    r"""Files of sequences, cut into shards of about ``shard_steps`` steps at sequence boundaries.

    ``paths``: a folder, a pattern (``"data/*.conll.gz"``), a path, or a list of these; read in natural order
    of their names. All files must have the same format and columns, which is checked at once by what they
    begin with.

    ``format``: "columns" (CoNLL, CRF++), "conllu" or "crfsuite", each plain or gzip, None: as the files look;
    "parquet", "safetensors", "npz" and "npy" by their names. ``label_column``: of text files, counted from 0
    (-1 is the last, the default), or the name of a column of CoNLL-U or Parquet files; False where there are
    no labels. ``feature_columns``: a list of such columns, None: all others. ``sequence_column``: of Parquet
    files with one row for each step, the column whose value tells sequences apart. ``tabs``: whether only
    tabs separate columns. ``shard_steps``: None is as many as take some 15 MB when they are encoded.

    Examples
    --------
    >>> from pathlib import Path
    >>> from trellis import ShardFiles
    >>> _ = Path("train.conll").write_text("the D\ncat N\n\na D\ndog N\n\n")
    >>> ShardFiles("train.conll", shard_steps=2).format
    'columns'
    """

    def __init__(
        self,
        paths: Paths,
        *,
        format: str | None = None,
        label_column: Column | bool | None = None,
        feature_columns: str | Iterable[Column] | None = None,
        sequence_column: str | None = None,
        tabs: bool = False,
        encoding: str = "utf-8",
        shard_steps: int | None = None,
    ) -> None:
        self.paths = find_files(paths)
        self.format = _one_format(self.paths, format)
        if shard_steps is not None:
            check_int("shard_steps", shard_steps, 1)
        names = None if feature_columns is None else _names(feature_columns)
        self.reader: TextFiles | ArrayFiles | ParquetFiles
        if self.format is not None and self.format in ARRAY_SUFFIXES.values():
            self.reader = array_files(
                self.paths,
                self.format,
                label_column=label_column,
                feature_columns=names,
                sequence_column=sequence_column,
            )
        else:
            label = label_column if label_column is None or label_column is False else str(label_column)
            self.reader = text_files(
                self.paths,
                None if self.format is None else FileFormat(self.format),
                label_column=label,
                feature_columns=None if names is None else ",".join(names),
                tabs=tabs,
                encoding=encoding,
            )
            self.format = self.reader.layout.format.value
        self.shard_steps = self.reader.shard_steps if shard_steps is None else shard_steps
        self._shards: list[FileShard] | None = None
        self._fingerprint: str | None = None

    def shards(self) -> list[FileShard]:
        """The shards, in the order of the files. The first call reads through all files."""
        if self._shards is None:
            cut = (self.reader.cut(path, self.shard_steps) for path in self.paths)
            self._shards = gathered(chain.from_iterable(cut), self.shard_steps)
        return self._shards

    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits of the names, sizes and contents (CRC-32) of the files, and of how they
        are read and cut: equal ones mean equal shards."""
        if self._fingerprint is None:
            files = [(os.path.basename(path), os.path.getsize(path), _crc(path)) for path in self.paths]
            self._fingerprint = checksum([files, repr(self.reader), self.shard_steps])
        return self._fingerprint

    def __len__(self) -> int:
        return len(self.shards())

    def __repr__(self) -> str:
        more = f", and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"ShardFiles({self.paths[0]!r}{more})"


def as_shard_files(X: Any) -> ShardFiles | None:
    """``X`` of ``fit`` as files: a ``ShardFiles`` as it is, a string or path with the defaults; else None."""
    if isinstance(X, ShardFiles):
        return X
    return ShardFiles(X) if isinstance(X, str | os.PathLike) else None


def comes_in_shards(X: Any) -> bool:
    """Whether ``X`` has the method ``shards`` of ``ShardFiles``; a frame may have a column of that name."""
    return callable(getattr(X, "shards", None))


def encoding_stage(X: Any) -> str:
    """What ``fit_seconds_`` calls the making of arrays from ``X``: files are read and encoded at once."""
    in_files = isinstance(X, str | os.PathLike) or comes_in_shards(X)
    return "reading and encoding" if in_files else "encoding"


def _one_format(paths: list[str], given: str | None) -> str | None:
    """The format as given, else by the ends of the names; None: a text file of some kind."""
    known = [*(one.value for one in FileFormat), *ARRAY_SUFFIXES.values()]
    if given is not None and given not in known:
        raise DataError(f"format is {given!r}; choose from {', '.join(known)}, or None")
    by_name = [ARRAY_SUFFIXES.get(os.path.splitext(path)[1].lower()) for path in paths]
    if given is not None:
        return str(given)
    for path, format in zip(paths, by_name, strict=True):
        if format != by_name[0]:
            raise DataError(
                f"{path} is {_called(format)}, but {paths[0]} is {_called(by_name[0])}; give one format"
            )
    return by_name[0]


def _called(format: str | None) -> str:
    return "text" if format is None else f"a file in the format {format}"


def _names(columns: str | Iterable[Column]) -> list[str]:
    if isinstance(columns, str):
        return [part.strip() for part in columns.split(",")]
    return [str(column) for column in columns]


def _crc(path: str) -> int:
    crc = 0
    with reading(path), open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc

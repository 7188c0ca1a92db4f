"""Arrays in files: X (steps, columns) or (steps,), perhaps y (steps,), and lengths or offsets of sequences.

A file without lengths and offsets is one sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arrays import AnyArray, IntArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.data.sequences import check_offsets, offsets_from_lengths
from trellis.data.shard_files.array_stores import ArrayStore, open_store
from trellis.data.shard_files.parquet_files import ParquetFiles, parquet_files
from trellis.data.shard_files.piece_cuts import cut_places

SHARD_BYTES = 16 * 2**20
SHARD_STEPS = 250_000  # at most, because posteriors over states may be larger than what is observed


@dataclass(frozen=True)
class ArrayPiece:
    """Sequences ``first`` to before ``last`` of one file, which are its rows ``start`` to before ``stop``."""

    path: str
    format: str
    labels: str | None
    first: int
    last: int
    start: int
    stop: int

    @property
    def n_sequences(self) -> int:
        return self.last - self.first

    @property
    def n_steps(self) -> int:
        return self.stop - self.start

    def read(self) -> tuple[list[AnyArray], list[AnyArray] | None]:
        with open_store(self.path, self.format) as store:
            inside = _offsets(store, self.path)[self.first : self.last + 1][1:-1] - self.start
            X = np.split(store.rows("X", self.start, self.stop), inside)
            if self.labels is None:
                return X, None
            return X, np.split(store.rows(self.labels, self.start, self.stop), inside)


@dataclass(frozen=True)
class ArrayFiles:
    """How files of arrays are read; ``row``: the shape of one step."""

    format: str
    labels: str | None
    row: tuple[int, ...]

    @property
    def shard_steps(self) -> int:
        return max(1, min(SHARD_STEPS, SHARD_BYTES // (8 * max(int(np.prod(self.row)), 1))))

    def cut(self, path: str, shard_steps: int) -> list[ArrayPiece]:
        with open_store(path, self.format) as store:
            offsets = _offsets(store, path)
        places = cut_places(offsets, shard_steps)
        bounds = offsets[places].tolist()
        return [
            ArrayPiece(path, self.format, self.labels, *places[i : i + 2], *bounds[i : i + 2])
            for i in range(len(places) - 1)
        ]


def array_files(
    paths: list[str],
    format: str,
    *,
    label_column: Any,
    feature_columns: list[str] | None,
    sequence_column: str | None,
) -> ArrayFiles | ParquetFiles:
    """How to read files of arrays; what they say of themselves must agree."""
    if format == "parquet":
        return parquet_files(paths, label_column, feature_columns, sequence_column)
    if feature_columns is not None or sequence_column is not None:
        raise UnsupportedError(
            f"files in the format {format} contain arrays X, y and lengths; feature_columns and "
            "sequence_column are for files with columns"
        )
    found, *others = (_described(path, format, label_column) for path in paths)
    for path, one in zip(paths[1:], others, strict=True):
        if one != found:
            raise DataError(
                f"{path} has steps of shape {one.row} {_with(one)}, but {paths[0]} of shape {found.row} "
                f"{_with(found)}; all files need the same"
            )
    return found


def _with(files: ArrayFiles) -> str:
    return "without labels" if files.labels is None else f"with labels {files.labels}"


def _described(path: str, format: str, label_column: Any) -> ArrayFiles:
    with open_store(path, format) as store:
        return _description(store, path, format, label_column)


def _description(store: ArrayStore, path: str, format: str, label_column: Any) -> ArrayFiles:
    names = store.names()
    if "X" not in names:
        raise DataError(f"{path}: there is no array X, only {', '.join(names) or 'nothing'}")
    shape, dtype = store.shape("X"), store.dtype("X")
    if len(shape) not in (1, 2) or dtype.kind not in "buif":
        raise DataError(
            f"{path}: X has shape {shape} and type {dtype}; it must be numbers, (steps,) or (steps, columns)"
        )
    offsets = _offsets(store, path)
    if len(offsets) < 2:
        raise DataError(f"{path}: the file contains no sequences")
    labels = ("y" if "y" in names else None) if label_column is None else label_column or None
    if labels is not None:
        if labels not in names:
            raise DataError(f"{path}: there is no array {labels}, only {', '.join(names)}")
        if store.shape(labels)[:1] != shape[:1]:
            raise DataError(
                f"{path}: {labels} has shape {store.shape(labels)}, but X has {shape[0]} steps; give a label "
                "for each"
            )
    return ArrayFiles(format, labels, shape[1:])


def _offsets(store: ArrayStore, path: str) -> IntArray:
    """Where the sequences begin, and the number of steps."""
    n, names = store.shape("X")[0], store.names()
    if "lengths" in names:
        lengths = store.rows("lengths", 0, store.shape("lengths")[0])
        offsets = offsets_from_lengths(lengths)
        if offsets[-1] != n:
            raise DataError(f"{path}: lengths add up to {offsets[-1]}, but X has {n} steps")
        return offsets
    if "offsets" in names:
        offsets = store.rows("offsets", 0, store.shape("offsets")[0]).astype(np.int64)
        try:
            check_offsets(offsets, n)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
        return offsets
    return np.array([0, n], np.int64)

"""Parquet files: one row for each step with a column that tells sequences apart, or one row for each sequence
with columns of lists.

Columns of strings are read as columns (:class:`~trellis.data.columns.ColumnData`), columns of numbers as
arrays (steps, columns); a single column of lists of numbers as the rows of such arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from trellis.core.arrays import AnyArray, IntArray
from trellis.core.errors import DataError, MissingExtraError
from trellis.data.columns import ColumnData
from trellis.data.shard_files.piece_cuts import cut_places
from trellis.data.streams import reading

SHARD_STEPS = 100_000
_IDS = ("sequence", "sequence_id", "sentence_id", "id")  # names that are taken for the column of sequences
_LABELS = ("y", "label", "labels")


@dataclass(frozen=True)
class ParquetFiles:
    """How Parquet files are read. ``sequence``: the column that tells sequences apart; None: each row is one.
    ``strings``: whether the features are strings."""

    features: tuple[str, ...]
    labels: str | None
    sequence: str | None
    strings: bool

    @property
    def shard_steps(self) -> int:
        return SHARD_STEPS

    def cut(self, path: str, shard_steps: int) -> list[ParquetPiece]:
        rows, steps = self._bounds(path)
        if len(rows) < 2:
            raise DataError(f"{path}: the file contains no sequences")
        places = cut_places(steps, shard_steps)
        return [
            ParquetPiece(path, self, b - a, int(steps[b] - steps[a]), int(rows[a]), int(rows[b]))
            for a, b in pairwise(places)
        ]

    def _bounds(self, path: str) -> tuple[IntArray, IntArray]:
        """The first row of each sequence and how many steps are before it; at last, those of all."""
        with open_parquet(path) as file:
            if self.sequence is None:
                lengths = [np.empty(0, np.int64)]
                for batch in file.iter_batches(columns=[self.features[0]]):
                    lengths.append(_lengths(batch.column(0), path))
                steps = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
                return np.arange(len(steps)), steps
            starts, previous, row = list[Any](), None, 0
            for batch in file.iter_batches(columns=[self.sequence]):
                ids = batch.column(0).to_numpy(zero_copy_only=False)
                if len(ids):
                    changes = np.flatnonzero(ids[1:] != ids[:-1]) + 1
                    first = [] if row and ids[0] == previous else [0]
                    starts.append(np.concatenate([first, changes]) + row)
                    previous, row = ids[-1], row + len(ids)
            rows = np.concatenate([*starts, [row]]).astype(np.int64) if row else np.zeros(1, np.int64)
            return rows, rows


@dataclass(frozen=True)
class ParquetPiece:
    """Rows ``start`` to before ``stop`` of one file, which are whole sequences."""

    path: str
    files: ParquetFiles
    n_sequences: int
    n_steps: int
    start: int
    stop: int

    def read(self) -> tuple[Any, Any]:
        files = self.files
        extra = [name for name in (files.labels, files.sequence) if name is not None]
        table = _rows(self.path, [*files.features, *extra], self.start, self.stop)
        if files.sequence is None:
            offsets = np.concatenate([[0], np.cumsum(_lengths(table.column(files.features[0]), self.path))])
            for name in (*files.features, *extra):
                if not np.array_equal(_lengths(table.column(name), self.path), np.diff(offsets)):
                    raise DataError(f"{self.path}: lists of column {name} differ in length from the features")
            flat = {name: _flat(table.column(name)) for name in (*files.features, *extra)}
        else:
            flat = {name: table.column(name).combine_chunks() for name in (*files.features, *extra)}
            ids = flat[files.sequence].to_numpy(zero_copy_only=False)
            offsets = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1, [len(ids)]])
        offsets = offsets.astype(np.int64)
        for name, column in flat.items():
            if column.null_count:
                raise DataError(f"{self.path}: column {name} has empty cells; fill them, or drop their rows")
        labels = None
        if files.labels is not None:
            values = flat[files.labels].to_pylist()
            labels = [values[a:b] for a, b in pairwise(offsets.tolist())]
        columns = [flat[name] for name in files.features]
        if files.strings:
            return _columns(columns, offsets), labels
        return np.split(_matrix(columns, self.path), offsets[1:-1]), labels


def parquet_files(
    paths: list[str], label_column: Any, feature_columns: list[str] | None, sequence_column: str | None
) -> ParquetFiles:
    """How to read the files, by the columns of the first; those of the others must be the same."""
    schemas = []
    for path in paths:
        with open_parquet(path) as file:
            schemas.append({field.name: field.type for field in file.schema_arrow})
    for path, schema in zip(paths, schemas, strict=True):
        if schema != schemas[0]:
            raise DataError(f"{path} has other columns than {paths[0]}; all files need the same")
    first, types = paths[0], schemas[0]

    def checked(name: str) -> str:
        if name not in types:
            raise DataError(f"{first}: there is no column {name!r}, only {', '.join(types)}")
        return name

    def chosen(given: Any, usual: tuple[str, ...]) -> str | None:
        if given is None:
            return next((name for name in usual if name in types), None)
        return checked(str(given)) if given is not False else None

    labels = chosen(label_column, _LABELS)
    sequence = chosen(sequence_column, _IDS)
    others = [name for name in types if name not in (labels, sequence)]
    features = tuple(map(checked, feature_columns)) if feature_columns is not None else tuple(others)
    if not features:
        raise DataError(f"{first}: there are no columns of features")
    if sequence_column is None and _is_list(types[features[0]]) and (not sequence or labels is None):
        sequence = None
    if labels is not None and sequence is not None and _is_list(types[labels]):
        sequence = None  # one row for each sequence, whatever its number is
        features = tuple(name for name in features if _is_list(types[name]))
    return ParquetFiles(features, labels, sequence, _strings(types, features, sequence is None, first))


def _is_list(kind: Any) -> bool:
    import pyarrow.types as t

    return bool(t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind))


def _strings(types: Any, features: tuple[str, ...], lists: bool, path: str) -> bool:
    """Whether the features are strings; they are all strings or all numbers."""
    import pyarrow.types as t

    kinds = []
    for name in features:
        kind = types[name]
        if lists:
            if not _is_list(kind):
                raise DataError(
                    f"{path}: column {name} contains no lists; give sequence_column, the column that tells "
                    "sequences apart, or columns of lists with one row for each sequence"
                )
            kind = kind.value_type
        if _is_list(kind) and len(features) == 1:
            kind = kind.value_type
        is_string = t.is_string(kind) or t.is_large_string(kind) or t.is_dictionary(kind)
        if not is_string and not (t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind)):
            raise DataError(f"{path}: column {name} holds {kind}; features are strings or numbers")
        kinds.append(bool(is_string))
    if len(set(kinds)) > 1:
        raise DataError(f"{path}: some columns of features hold strings, others numbers; choose one kind")
    return kinds[0]


@contextmanager
def open_parquet(path: str) -> Iterator[Any]:
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingExtraError(
            "Parquet files need pyarrow, which is not installed; run: pip install 'trellis-learn[parquet]'"
        ) from error
    try:
        with reading(path), ParquetFile(path, memory_map=False) as file:
            yield file
    except pyarrow.ArrowException as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{path}: this is not a Parquet file, or it is damaged or cut short ({reason})"
        ) from error


def _rows(path: str, columns: list[str], start: int, stop: int) -> Any:
    """Some rows, from the row groups that hold any of them."""
    with open_parquet(path) as file:
        counts = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        bounds = np.concatenate([[0], np.cumsum(counts)])
        groups = np.flatnonzero((bounds[:-1] < stop) & (bounds[1:] > start)).tolist()
        before = int(bounds[groups[0]]) if groups else 0
        table = file.read_row_groups(groups, columns=list(dict.fromkeys(columns)))
        if table.num_rows < stop - before:
            raise DataError(f"{path}: the file is shorter than when it was cut into shards; start again")
        return table.slice(start - before, stop - start)


def _lengths(column: Any, path: str) -> IntArray:
    import pyarrow.compute as pc

    lengths = pc.list_value_length(column)
    if lengths.null_count:
        raise DataError(f"{path}: a list is missing; fill it, or drop its row")
    return (
        np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)
        if _is_plain(lengths)
        else np.asarray(lengths.to_numpy(), np.int64)
    )


def _is_plain(values: Any) -> bool:
    import pyarrow

    return isinstance(values, pyarrow.Array)


def _flat(column: Any) -> Any:
    import pyarrow.compute as pc

    flat = pc.list_flatten(column)
    return flat if _is_plain(flat) else flat.combine_chunks()


def _matrix(columns: list[Any], path: str) -> AnyArray:
    """Numbers (steps, columns), or (steps,) of a single column of plain numbers."""
    if len(columns) > 1:
        return np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])
    if not _is_list(columns[0].type):
        return np.asarray(columns[0].to_numpy(zero_copy_only=False))
    lengths = _lengths(columns[0], path)
    if len(set(lengths.tolist())) > 1:
        raise DataError(
            f"{path}: steps have from {lengths.min()} to {lengths.max()} numbers, not all the same"
        )
    return np.asarray(_flat(columns[0]).to_numpy(zero_copy_only=False)).reshape(len(lengths), -1)


def _columns(columns: list[Any], offsets: IntArray) -> ColumnData:
    codes, vocabularies = [], []
    for column in columns:
        coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        codes.append(np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int32))
        vocabularies.append([str(value) for value in coded.dictionary.to_pylist()])
    return ColumnData(np.stack(codes), tuple(vocabularies), offsets)

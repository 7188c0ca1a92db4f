"""Files of rows, in pieces: each CSV or TSV file is one, and so is each row group of a Parquet file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from trellis.bayesnet.formats.row_tables import read_rows
from trellis.bayesnet.model.data_frames import Codes, encode_frame
from trellis.bayesnet.model.variables import Variables
from trellis.core.errors import DataError
from trellis.data.shard_files.file_paths import find_files
from trellis.data.shard_files.parquet_files import open_parquet

TEXT, PARQUET = (".csv", ".tsv", ".txt"), (".parquet", ".pq")


@dataclass(frozen=True)
class RowPiece:
    """``group``: the row group of a Parquet file, None for a file of text."""

    path: str
    group: int | None = None

    @property
    def name(self) -> str:
        return self.path if self.group is None else f"{self.path} (row group {self.group})"

    def read(self, variables: Variables) -> Codes:
        """The states of its rows, -1 where one is missing."""
        if self.group is None:
            return encode_frame(variables, read_rows(self.path, variables))
        with open_parquet(self.path) as file:
            columns = file.read_row_group(self.group).to_pydict()
        try:
            return encode_frame(variables, columns)
        except DataError as error:
            raise DataError(f"{self.name}: {error}") from error


def row_pieces(frame: Any) -> list[RowPiece] | None:
    """What ``frame`` names, if it is a path, a folder or a pattern; None where it is data."""
    if not isinstance(frame, str | os.PathLike):
        return None
    pieces = []
    for path in find_files(frame):
        suffix = os.path.splitext(path)[1].lower()
        if suffix in TEXT:
            pieces.append(RowPiece(path))
        elif suffix in PARQUET:
            with open_parquet(path) as file:
                pieces += [RowPiece(path, group) for group in range(file.num_row_groups)]
        else:
            known = ", ".join((*TEXT, *PARQUET))
            raise DataError(f"{path}: rows of a network are read from {known} files; convert it")
    return pieces

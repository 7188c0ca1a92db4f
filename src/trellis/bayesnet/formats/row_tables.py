"""Tables of rows for networks: comma- or tab-separated files with a line of names, empty where unobserved."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import IO

from trellis.bayesnet.model.variables import Variables
from trellis.core.errors import DataError
from trellis.data.streams import read_utf8, source_name

Columns = dict[str, list[str | None]]
_GAPS = frozenset({"na", "n/a", "nan", "<na>", "none", "null", "nil", "?", ".", "-", "missing"})


def read_rows(
    path: str, variables: Variables, missing: Iterable[str] = (), encoding: str = "utf-8"
) -> Columns:
    """The columns of a file that are variables; every state is checked, so that errors name the line.

    ``missing``: what else than an empty cell stands for "not observed".
    """
    shown, text = source_name(path), read_utf8(path, encoding).decode()
    first = text.partition("\n")[0]
    reader = csv.reader(io.StringIO(text), delimiter="\t" if "\t" in first else ",")
    try:
        header = next(reader, [])
        if not header:
            raise DataError(f"{shown}: this file is empty; give a line of names and rows below it")
        _check_names(shown, header, variables)
        columns: Columns = {name: [] for name in header}
        gaps = {"", *missing}
        codes: set[tuple[int, str]] = set()
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise DataError(
                    f"{shown}:{reader.line_num}: {len(row)} cells, but the first line names {len(header)}"
                )
            for i, (name, cell) in enumerate(zip(header, row, strict=True)):
                if cell in gaps:
                    columns[name].append(None)
                    continue
                if (i, cell) not in codes:
                    _check_state(f"{shown}:{reader.line_num}", variables, name, cell)
                    codes.add((i, cell))
                columns[name].append(cell)
    except csv.Error as error:
        raise DataError(f"{shown}:{reader.line_num}: {error}") from None
    return columns


def _check_names(shown: str, header: Sequence[str], variables: Variables) -> None:
    for i, name in enumerate(header):
        if name in header[:i]:
            raise DataError(f"{shown}:1: the column {name!r} appears twice; keep one")
        try:
            variables.index(name)
        except DataError as error:
            hint = "; separate the columns by commas or tabs" if len(header) == 1 and ";" in name else ""
            raise DataError(f"{shown}:1: {error}{hint}") from None


def _check_state(place: str, variables: Variables, name: str, cell: str) -> None:
    try:
        variables.code(variables.index(name), cell)
    except DataError as error:
        gap = cell.strip().lower() in _GAPS
        hint = f"; where it is missing, leave the cell empty, or give --missing {cell!r}" if gap else ""
        raise DataError(f"{place}: {error}{hint}") from None


def write_rows(file: IO[bytes], columns: Mapping[str, Sequence[str | None]]) -> None:
    """Columns as comma-separated lines under their names."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    file.write(text.getvalue().encode())

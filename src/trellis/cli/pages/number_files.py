"""Tables of numbers as text: a step in each line, a blank line between sequences, perhaps a line of names.

Columns are separated by commas, or by blanks and tabs; an empty cell and ``NaN`` are missing values.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from trellis.core.errors import DataError
from trellis.core.file_formats import ARRAY_SUFFIXES

if TYPE_CHECKING:
    from numpy.typing import NDArray


def is_text_table(path: str) -> bool:
    """Whether a path is one file that is no file of arrays."""
    return path == "-" or (os.path.isfile(path) and os.path.splitext(path)[1].lower() not in ARRAY_SUFFIXES)


def read_number_table(path: str, encoding: str = "utf-8") -> list[NDArray[Any]]:
    """An array for each sequence: (steps, columns), or (steps,) of one column; whole numbers stay whole."""
    import numpy as np

    from trellis.data.streams import read_utf8, source_name

    name = source_name(path)
    lines = read_utf8(path, encoding).decode("utf-8").split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise DataError(f"{name}: the file is empty; give a line of numbers for each step")
    width = len(_cells(lines[first]))
    begin = first + (_numbers(_cells(lines[first])) is None)  # a line of names
    sequences: list[list[list[float]]] = [[]]
    for number, line in enumerate(lines[begin:], begin + 1):
        if not line.strip():
            sequences.append([])
            continue
        row = _numbers(_cells(line))
        if row is None or len(row) != width:
            raise DataError(
                f"{name}:{number}: {line.strip()[:40]!r} is not a line of {width} numbers; all lines need "
                "the same number of columns"
            )
        sequences[-1].append(row)
    rows = [np.array(one) for one in sequences if one]
    if not rows:
        raise DataError(
            f"{name}: there is a line of names, but no numbers below it; give a line of numbers for each step"
        )
    if width == 1:
        rows = [one[:, 0] for one in rows]
    whole = all(((one == np.rint(one)) & (np.abs(one) < 2.0**53)).all() for one in rows)
    return [one.astype(np.int64) if whole else one for one in rows]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")] if "," in line else line.split()


def _numbers(cells: list[str]) -> list[float] | None:
    try:
        return [float(cell) if cell else float("nan") for cell in cells]
    except ValueError:
        return None

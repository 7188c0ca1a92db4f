"""Frames of pandas or polars with one row per step: into sequences, and answers back into frames.

Neither package is imported: a frame of pandas has an ``index``, one of polars has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.data.flatten import flatten
from trellis.data.sequences import offsets_from_lengths
from trellis.data.user_input import frame_rows, is_missing


class SequenceFrame:
    """The rows of a frame as the steps of sequences.

    ``X`` has a dictionary for each step, with every other column: text and categories become the features
    name=value, numbers keep their value, missing values are left out. Sequences come in the order in which
    they first appear.

    Parameters
    ----------
    frame : DataFrame of pandas or polars
        One row per step. The rows of a sequence stand in the order of its steps; they need not be
        neighbours.
    groups : str
        The column that says which sequence a row belongs to, or a level of a pandas index.
    labels : str, default None
        The column of the labels, if there is one.

    Examples
    --------
    >>> import pandas as pd
    >>> from trellis.features import SequenceFrame
    >>> frame = pd.DataFrame({"line": [1, 1, 2], "word": ["a", "b", "c"], "tag": ["X", "Y", "X"]})
    >>> data = SequenceFrame(frame, groups="line", labels="tag")
    >>> data.X, data.y
    ([[{'word': 'a'}, {'word': 'b'}], [{'word': 'c'}]], [['X', 'Y'], ['X']])
    >>> data.to_series([["Y", "Y"], ["X"]]).tolist()
    ['Y', 'Y', 'X']
    """

    def __init__(self, frame: Any, groups: str, labels: str | None = None) -> None:
        self.frame, self.groups, self.labels = frame, groups, labels
        self._order, self._offsets = _sorted_rows(_values(frame, groups))
        used = [groups, labels]
        columns = [name for name in frame.columns if name not in used]
        self.X: list[list[dict[Any, Any]]] = self._cut(frame_rows(frame, columns))
        tags = None if labels is None else [None if is_missing(v) else v for v in _values(frame, labels)]
        self.y: list[list[Any]] | None = None if tags is None else self._cut(tags)

    def to_series(self, answers: Any, name: str = "prediction") -> Any:
        """What ``predict`` gave for ``X``, as a series in the order of the frame's rows, with its index."""
        flat, offsets = flatten("the answers", answers, None, item="label", strings=True)
        self._check(offsets)
        values: list[Any] = [None] * len(flat)
        for row, value in zip(self._order.tolist(), flat, strict=True):
            values[row] = value
        return self._like(values, name)

    def to_frame(self, marginals: Sequence[Any], columns: Sequence[Any]) -> Any:
        """What ``predict_marginals`` gave for ``X``, as a frame in the order of the frame's rows, with its
        index. ``columns``: the names of the labels, such as ``classes_``."""
        self._check(offsets_from_lengths([len(one) for one in marginals]))
        packed = np.concatenate([np.asarray(one) for one in marginals])
        table = np.empty_like(packed)
        table[self._order] = packed
        made = {str(name): table[:, i] for i, name in enumerate(columns)}
        return type(self.frame)(made, **self._index())

    def _like(self, values: list[Any], name: str) -> Any:
        if self._index():
            return type(self.frame)({name: values}, **self._index())[name]
        return type(self.frame)({name: values}).get_column(name)

    def _index(self) -> dict[str, Any]:
        return {"index": self.frame.index} if hasattr(self.frame, "index") else {}

    def _cut(self, rows: list[Any]) -> list[list[Any]]:
        order, bounds = self._order.tolist(), self._offsets.tolist()
        return [[rows[i] for i in order[a:b]] for a, b in pairwise(bounds)]

    def _check(self, offsets: IntArray) -> None:
        if not np.array_equal(offsets, self._offsets):
            raise DataError(
                "the answers do not have the shape of X; give what the model predicts for the X of this frame"
            )


def _values(frame: Any, name: str) -> list[Any]:
    """The values of a column, or of a level of a pandas index."""
    if name in frame.columns:
        return list(frame[name].to_list())
    if name in getattr(getattr(frame, "index", None), "names", ()):
        return list(frame.index.get_level_values(name))
    raise DataError(f"the frame has no column {name!r}; it has {', '.join(map(repr, frame.columns))}")


def _sorted_rows(groups: list[Any]) -> tuple[IntArray, IntArray]:
    """The rows, sequence by sequence, and the offsets of the sequences."""
    number: dict[Any, int] = {}
    for row, group in enumerate(groups):
        if is_missing(group):
            raise DataError(f"row {row} belongs to no sequence; fill in the column of sequences")
        number.setdefault(group, len(number))
    codes = np.array([number[group] for group in groups], dtype=np.int64)
    if not len(codes):
        raise DataError("the frame has no rows; give at least one")
    return np.argsort(codes, kind="stable"), offsets_from_lengths(np.bincount(codes))

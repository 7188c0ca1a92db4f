"""What several files hold, as if it had been one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from trellis.data.attributes import AttributeData, join_attributes
from trellis.data.columns import ColumnData, join_columns


def join_pieces(read: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Inputs and labels of several pieces, in order; all are of the same kind."""
    if len(read) == 1:
        return read[0]
    inputs, labels = zip(*read, strict=True)
    joined_labels = None if labels[0] is None else list(chain.from_iterable(labels))
    if isinstance(inputs[0], ColumnData):
        return join_columns(inputs), joined_labels
    if isinstance(inputs[0], AttributeData):
        return join_attributes(inputs), joined_labels
    return list(chain.from_iterable(inputs)), joined_labels

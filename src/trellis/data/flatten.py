"""Nested lists, flattened: the one reader of what users give as sequences of Python values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError, shown
from trellis.data.sequences import lengths_error, offsets_from_lengths
from trellis.data.user_input import as_arrays


def flatten(
    name: str, values: Any, lengths: ArrayLike | None = None, *, item: str = "step", strings: bool = False
) -> tuple[list[Any], IntArray]:
    """All items of a list of sequences end to end, and the offsets of the sequences.

    With ``lengths``, ``values`` is one flat list already. Arrays, frames and series become lists of Python
    values. ``strings``: whether a string is a sequence of characters; otherwise it is refused as one.
    """
    values = as_arrays(values)
    if not isinstance(values, Iterable) or (isinstance(values, np.ndarray) and values.ndim == 0):
        raise DataError(f"{name} is {shown(values)}; give a list of sequences, each a list of {item}s")
    if lengths is not None:
        items = list(_to_list(values))
        offsets = offsets_from_lengths(lengths)
        if offsets[-1] != len(items):
            inner = sum(len(one) for one in items if isinstance(one, list | tuple | np.ndarray))
            hint = f" ({name} is a list of sequences already: leave lengths out)" * (
                inner == int(offsets[-1])
            )
            raise lengths_error(name, f"{len(items)} {item}s", offsets, hint)
        return items, offsets
    sequences = [_to_list(sequence) for sequence in values]
    for kind in set(map(type, sequences)):
        if not issubclass(kind, Sequence) or issubclass(kind, bytes if strings else str | bytes):
            index = next(i for i, sequence in enumerate(sequences) if type(sequence) is kind)
            raise DataError(
                f"sequence {index} of {name} is {shown(sequences[index])}; give a list of sequences, each a "
                f"list of {item}s"
                + f" (a single one is [{name}]; several end to end need lengths)"
                * (name in ("X", "y"))
            )
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    return list(chain.from_iterable(sequences)), offsets_from_lengths(lengths)


def _to_list(values: Any) -> Any:
    """Arrays, frames and series as lists of Python values, which hash faster and can be saved."""
    values = as_arrays(values)
    return values.tolist() if isinstance(values, np.ndarray) else values

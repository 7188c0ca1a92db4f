"""Some sequences of the data of a labeller, in the form in which all of them came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trellis.data.attributes import AttributeData
from trellis.data.columns import ColumnData
from trellis.data.sequences import take_runs


def chosen_sequences(X: Any, chosen: Sequence[int]) -> Any:
    """The chosen sequences in this order; those of files lose their lines."""
    if isinstance(X, ColumnData):
        steps, offsets = take_runs(X.offsets, np.array(chosen, np.int64))
        return replace(X, codes=X.codes[:, steps], offsets=offsets, lines=None)
    if isinstance(X, AttributeData):
        steps, offsets = take_runs(X.offsets, np.array(chosen, np.int64))
        entries, indptr = take_runs(X.indptr, steps)
        return replace(
            X,
            indptr=indptr,
            codes=X.codes[entries],
            values=X.values if len(X.values) == 1 else X.values[entries],
            offsets=offsets,
            label_codes=X.label_codes[steps],
            lines=None,
        )
    rows = X if isinstance(X, list | tuple | np.ndarray) else list(X)
    return [rows[i] for i in chosen]

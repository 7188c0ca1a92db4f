"""Sequences of symbols, checked and packed; -1 (missing) becomes one more symbol."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.data.row_checks import check_symbols
from trellis.data.sequences import Sequences

MOST_SYMBOLS = 10**7  # that are taken from the data alone


def pack_symbols(X: Any, lengths: ArrayLike | None, n_symbols: int | None) -> tuple[Sequences, int]:
    """The sequences packed, -1 where a symbol is missing; and the number of symbols, which is the largest
    plus 1 if it is not known."""
    data = Sequences.pack(X, lengths, check=partial(check_symbols, n_symbols=n_symbols))
    if n_symbols is not None:
        return data, n_symbols
    largest = int(data.values.max(initial=0))
    if largest >= MOST_SYMBOLS:
        raise DataError(
            f"the largest symbol is {largest}, and each from 0 on has its own operator; number the symbols "
            "that occur from 0 on, or give n_symbols"
        )
    return data, largest + 1


def missing_as_last(symbols: IntArray, n_symbols: int) -> IntArray:
    """-1 becomes ``n_symbols``: the operator there is the sum of all others."""
    return np.where(symbols < 0, n_symbols, symbols)


def sequence_weights(sample_weight: ArrayLike | None, n_sequences: int) -> FloatArray:
    if sample_weight is None:
        return np.ones(n_sequences)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_sequences,) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise DataError(
            f"sample_weight of shape {weight.shape} must have one finite weight, not negative, for each of "
            f"the {n_sequences} sequences"
        )
    return weight


def sum_per_sequence(values: FloatArray, offsets: IntArray) -> FloatArray:
    """The sum over each sequence; 0 for an empty one."""
    # reduceat would give an empty sequence its successor's first value
    total = np.zeros(len(offsets) - 1)
    filled = np.diff(offsets) > 0
    if filled.any():
        total[filled] = np.add.reduceat(values, offsets[:-1][filled])
    return total

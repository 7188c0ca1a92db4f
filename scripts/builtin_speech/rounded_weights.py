"""Weights of a network with fewer bits, so that the wheel's compression finds something to leave out.

A matrix is rounded column by column to whole multiples of a power of two: ``BITS`` bits, sign included, for
the largest weight of the column. Stored as float32, what was rounded off is zeros, which deflate packs;
readers need not know.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trellis.core import storage
from trellis.core.arrays import AnyArray

BITS = 12
SMALLEST = 1000  # smaller arrays take no room, and stay as they are


def round_weights(path: Path, bits: int = BITS) -> None:
    """Round the large float32 matrices of a model file in place."""
    kind, meta, arrays = storage.read(path)
    large = {
        name: rounded(array, bits)
        for name, array in arrays.items()
        if array.dtype == np.float32 and array.ndim == 2 and array.size >= SMALLEST
    }
    storage.save(path, kind, meta, {**arrays, **large})


def rounded(matrix: AnyArray, bits: int) -> AnyArray:
    largest = np.abs(matrix).max(axis=0)
    with np.errstate(divide="ignore"):
        step = np.exp2(np.ceil(np.log2(largest / (2 ** (bits - 1) - 1))))
    step[largest == 0.0] = 1.0
    return (np.rint(matrix / step) * step).astype(matrix.dtype)

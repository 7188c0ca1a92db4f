"""Sums of exponentials over an axis of an array: the one log-sum-exp in NumPy.

``-inf`` stands for "impossible": where a whole row is, its log-sum is ``-inf`` and its softmax zero, never
NaN. (SciPy's is several times slower on small arrays, and slow to import; for two numbers there is
``np.logaddexp``.) Kernels have :mod:`trellis.core.logspace_kernels`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = TypeVar("Floats", bound=np.floating[Any])
Axis = int | tuple[int, ...] | None


def softmax_and_log_sum(x: NDArray[Floats], axis: Axis = -1) -> tuple[NDArray[Floats], NDArray[Floats]]:
    """exp x / sum exp x, and log sum exp x with its axis kept at length 1."""
    weights, total, log_total = _exp_and_sum(x, axis)
    weights /= np.where(total > 0.0, total, 1.0)
    return weights, log_total


def softmax(x: NDArray[Floats], axis: Axis = -1) -> NDArray[Floats]:
    """exp x / sum exp x along an axis."""
    return softmax_and_log_sum(x, axis)[0]


def log_sum_exp(x: NDArray[Floats], axis: Axis = -1, *, keepdims: bool = False) -> NDArray[Floats]:
    """log sum exp x along an axis (None: over all entries)."""
    log_total = _exp_and_sum(x, axis)[2]
    return log_total if keepdims else log_total.squeeze(axis)


def log_softmax(x: NDArray[Floats], axis: Axis = -1) -> NDArray[Floats]:
    """x - log sum exp x along an axis, of rows with a finite entry."""
    return x - log_sum_exp(x, axis, keepdims=True)


def _exp_and_sum(x: NDArray[Floats], axis: Axis) -> tuple[NDArray[Floats], NDArray[Floats], NDArray[Floats]]:
    top = x.max(axis=axis, keepdims=True, initial=-np.inf)
    weights = np.exp(x - np.where(top > -np.inf, top, 0.0))
    total = weights.sum(axis=axis, keepdims=True)
    with np.errstate(divide="ignore"):
        return weights, total, np.log(total) + top

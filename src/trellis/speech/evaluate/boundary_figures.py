"""The figures of ``boundary_evaluation`` on arrays, each for every bootstrap sample at once.

Each figure but the median is a ratio of sums over utterances, so a sample is a row of counts (how often each
utterance was drawn) and all samples are one matrix product. A median weights the sorted errors by the counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import FloatArray, IntArray

FRAME_SECONDS = 0.01
ALLOWANCE = 1e-9  # seconds: 0.31 - 0.30 must count as within 10 ms


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95% bootstrap interval."""

    value: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


def figures(
    true: FloatArray, found: FloatArray, owner: IntArray, counts: IntArray, tolerances_ms: Sequence[float]
) -> dict[str, FloatArray]:
    """Every figure by name, one number for each row of ``counts``.

    ``true`` and ``found`` are the boundaries in seconds, ``owner`` the utterance that each belongs to.
    """
    n_utterances = counts.shape[1]
    error = found - true
    frames = np.abs(_frame(found) - _frame(true))
    columns: dict[str, FloatArray] = {"bias": 1e3 * error, "mean": 1e3 * np.abs(error)}
    for ms in tolerances_ms:
        limit = ms / 1e3 + ALLOWANCE
        columns[f"within {ms:g}"] = (np.abs(error) <= limit).astype(np.float64)
        columns[f"frames {ms:g}"] = (frames * FRAME_SECONDS <= limit).astype(np.float64)
    sums = np.stack([np.bincount(owner, column, n_utterances) for column in columns.values()], axis=1)
    n = np.maximum(counts @ np.bincount(owner, minlength=n_utterances), 1)
    result = dict(zip(columns, ((counts @ sums) / n[:, None]).T, strict=True))
    result["median"] = _medians(1e3 * np.abs(error), owner, counts)
    return result


def estimates(point: Mapping[str, FloatArray], drawn: Mapping[str, FloatArray]) -> dict[str, Estimate]:
    """The single figures of ``point`` with the 95% percentile intervals of those ``drawn``."""
    result = {}
    for name, value in point.items():
        low, high = np.quantile(drawn[name], [0.025, 0.975])
        result[name] = Estimate(float(value[0]), float(low), float(high))
    return result


def _frame(seconds: FloatArray) -> FloatArray:
    """The nearest frame; halves round up, also where division has made them slightly less."""
    return np.floor(seconds / FRAME_SECONDS + 0.5 + 1e-7)


def _medians(values: FloatArray, owner: IntArray, counts: IntArray) -> FloatArray:
    """For each row of ``counts`` the median of ``values``, each repeated as often as its owner counts."""
    order = np.argsort(values, kind="stable")
    ranked, owners = values[order], owner[order]
    result = np.zeros(len(counts))
    for row, count in enumerate(counts):
        below = np.cumsum(count[owners])
        if len(below) and below[-1]:
            middle = np.searchsorted(below, [(below[-1] + 1) // 2, below[-1] // 2 + 1])
            result[row] = ranked[middle].mean()
    return result

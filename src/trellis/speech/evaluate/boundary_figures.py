"""The figures of ``boundary_evaluation`` on arrays, with 95% intervals over utterances.

Each figure but the median is a ratio of sums over utterances. Shares within a tolerance have the interval of
a share (:mod:`trellis.core.share_intervals`), their differences and means of times that of a signed sum
(:mod:`trellis.core.signed_sum_intervals`). The median may be any time of which the share of boundaries up to
it may be one half, by the interval of that share (Woodruff 1952). A difference of medians has the limits of
two independent ones, whose distances to the medians add as squares (Zou and Donner 2008): too far apart
where the two systems are alike.

An interval that cannot be given is NaN: nothing bounds how far a recording may go wrong, so means have none
below 100 utterances, and the median has none if the share up to the longest time may be below one half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.share_intervals import examples_interval
from trellis.core.signed_sum_intervals import REFUSED, signed_sum_interval

FRAME_SECONDS = 0.01
ALLOWANCE = 1e-9  # seconds: 0.31 - 0.30 must count as within 10 ms
DELTA = 0.05
TIMES = ("bias", "mean")


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95% interval, NaN where none can be given."""

    value: float
    low: float
    high: float

    @property
    def has_interval(self) -> bool:
        return not math.isnan(self.low)

    def to_json(self) -> dict[str, float | None]:
        limits = (self.low, self.high) if self.has_interval else (None, None)
        return {"value": self.value, "low": limits[0], "high": limits[1]}


@dataclass(frozen=True, eq=False)
class BoundaryFigures:
    """``true`` and ``found``: boundaries in seconds; ``owner``: the utterance that each belongs to."""

    true: FloatArray
    found: FloatArray
    owner: IntArray
    tolerances_ms: Sequence[float]

    @cached_property
    def milliseconds(self) -> FloatArray:
        return 1e3 * np.abs(self.found - self.true)

    @cached_property
    def sizes(self) -> FloatArray:
        """Boundaries of each utterance; those without any have no part in intervals."""
        return np.bincount(self.owner).astype(np.float64)

    @cached_property
    def sums(self) -> dict[str, FloatArray]:
        """By figure, what its mean adds up over utterances."""
        error = self.found - self.true
        frames = np.abs(_frame(self.found) - _frame(self.true))
        columns: dict[str, FloatArray] = {"bias": 1e3 * error, "mean": 1e3 * np.abs(error)}
        for ms in self.tolerances_ms:
            limit = ms / 1e3 + ALLOWANCE
            columns[f"within {ms:g}"] = (np.abs(error) <= limit).astype(np.float64)
            columns[f"frames {ms:g}"] = (frames * FRAME_SECONDS <= limit).astype(np.float64)
        return {name: np.bincount(self.owner, column).astype(np.float64) for name, column in columns.items()}

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """Every figure by name."""
        total = float(self.sizes.sum())
        result = {}
        for name, sums in self.sums.items():
            value = float(sums.sum()) / total
            if name in TIMES:
                d, e = sums / total, (sums - value * self.sizes) / total
                limits = signed_sum_interval(d, e, DELTA, (0.0 if name == "mean" else None, None))
            else:
                limits = examples_interval(sums, self.sizes - sums, DELTA)
            result[name] = Estimate(value, *limits)
        result["median"] = Estimate(float(np.median(self.milliseconds)), *self._median_limits())
        return result

    def minus(self, other: BoundaryFigures) -> dict[str, Estimate]:
        """The differences to figures of the same boundaries."""
        total, sizes = float(self.sizes.sum()), self.sizes
        result = {}
        for name, sums in self.sums.items():
            d = (sums - other.sums[name]) / total
            value = float(d.sum())
            e = d - value * sizes / total
            if name in TIMES:
                limits = signed_sum_interval(d, e, DELTA)
            else:
                largest = float(sizes.max()) / total
                reach = largest * (1.0 + value), largest * (1.0 - value)
                low, high = signed_sum_interval(d, e, DELTA, reach)
                limits = max(low, -1.0), min(high, 1.0)
            result[name] = Estimate(value, *limits)
        result["median"] = _difference(self.estimates["median"], other.estimates["median"])
        return result

    def _median_limits(self) -> tuple[float, float]:
        times = np.unique(self.milliseconds)

        def share(k: int) -> tuple[float, float]:
            """The interval of the share of boundaries up to the k-th time."""
            inside = np.bincount(self.owner, self.milliseconds <= times[k]).astype(np.float64)
            return examples_interval(inside, self.sizes - inside, DELTA)

        if share(len(times) - 1)[0] < 0.5:
            return REFUSED  # even the longest time may be below the median
        low = _first(len(times), lambda k: share(k)[1] >= 0.5)
        high = _first(len(times), lambda k: share(k)[0] >= 0.5)
        return float(times[low]), float(times[high])


def _difference(a: Estimate, b: Estimate) -> Estimate:
    value = a.value - b.value
    low = value - math.hypot(a.value - a.low, b.high - b.value)
    high = value + math.hypot(a.high - a.value, b.value - b.low)
    return Estimate(value, low, high)


def _first(n: int, holds: Callable[[int], bool]) -> int:
    """The first of 0 .. n - 1 from which on it holds; it holds for the last."""
    below, above = -1, n - 1
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above


def _frame(seconds: FloatArray) -> FloatArray:
    """The nearest frame; halves round up, also where division has made them slightly less."""
    return np.floor(seconds / FRAME_SECONDS + 0.5 + 1e-7)

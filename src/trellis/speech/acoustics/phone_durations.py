"""Durations of phones: Gaussians on the length and on the logarithm of the length, per kind of phone.

    duration:       log N(l; mu, sigma^2)               = -(l - mu)^2 / (2 sigma^2) - log sigma + const
    log_duration:   log N(log l; m, s^2)                = -(log l - m)^2 / (2 s^2) - log s + const

with l in seconds, constants left out. Estimates of rare kinds are shrunk towards those of all phones, as if
``PRIOR`` more phones of average length had been seen (likewise for variances). Silence may have any length:
its score is always 0.

The minimum length of a segment is ``shortest_ms``; the maximum is ``SLACK`` times the longest of its kind in
training (at least ``AT_LEAST`` seconds). Silence has no maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register

PRIOR = 5.0
SLACK = 1.5
AT_LEAST = 0.3
SMALLEST_LOG_DEVIATION = 0.2
SMALLEST_DEVIATION = 0.005  # seconds


@register
@dataclass(frozen=True, eq=False)
class DurationModel:
    """One entry per kind of phone: ``mean``, ``deviation`` (seconds), ``log_mean``, ``log_deviation``,
    ``longest`` (seconds, inf for silence)."""

    mean: FloatArray
    deviation: FloatArray
    log_mean: FloatArray
    log_deviation: FloatArray
    longest: FloatArray

    def __post_init__(self) -> None:
        positive = (self.mean, self.deviation, self.log_deviation, self.longest)
        if not all((a > 0).all() and a.shape == self.log_mean.shape for a in positive):
            raise DataError("the durations of the model are not positive")

    @classmethod
    def fit(
        cls, kinds: Sequence[IntArray], seconds: Sequence[FloatArray], silent: BoolArray
    ) -> DurationModel:
        """``kinds[u]``: the kind of each phone of utterance u; ``silent``: which kinds are silence."""
        kind, length = np.concatenate(kinds), np.concatenate(seconds)
        if not (length > 0).all():
            raise DataError(
                "a phone of the reference has no length; correct its times or leave the utterance out"
            )
        spoken = ~silent[kind]
        if not spoken.any():
            raise DataError(
                "the reference alignments contain nothing but silence; give utterances with phones"
            )
        n = len(silent)
        mean, deviation = _moments(kind, length, spoken, n, SMALLEST_DEVIATION)
        log_mean, log_deviation = _moments(kind, np.log(length), spoken, n, SMALLEST_LOG_DEVIATION)
        longest = np.full(n, AT_LEAST)
        np.maximum.at(longest, kind, SLACK * length)
        longest[silent] = np.inf
        return cls(mean, deviation, log_mean, log_deviation, longest)

    def limits(
        self, kinds: IntArray, step: float, n_frames: int, shortest: float
    ) -> tuple[IntArray, IntArray]:
        """Minimum and maximum lengths of nodes of these kinds, in frames of ``step`` seconds."""
        low = max(1, round(shortest / step))
        high = np.minimum(np.ceil(self.longest[kinds] / step), n_frames)
        return np.full(len(kinds), low), np.maximum(high, low).astype(np.int64)

    def tables(self, step: float, longest: int, kinds: IntArray | None = None) -> FloatArray:
        """(2, kinds, longest + 1): duration and log-duration scores of each length in frames; 0 at length 0.

        With ``kinds``, the rows of all others stay 0: an utterance has few of them.
        """
        used = np.arange(len(self.mean)) if kinds is None else np.unique(kinds)
        used = used[np.isfinite(self.longest[used])]  # silence has no preferred length
        seconds = np.maximum(np.arange(longest + 1.0), 1.0) * step
        both = np.zeros((2, len(self.mean), longest + 1))
        both[0, used, 1:] = _log_gaussian(seconds[1:], self.mean[used], self.deviation[used])
        both[1, used, 1:] = _log_gaussian(np.log(seconds[1:]), self.log_mean[used], self.log_deviation[used])
        return both


def _moments(
    kind: IntArray, values: FloatArray, spoken: BoolArray, n_kinds: int, smallest: float
) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation of each kind, shrunk towards those of all spoken phones."""
    overall, spread = values[spoken].mean(), max(values[spoken].var(), smallest**2)
    counts = np.bincount(kind, minlength=n_kinds)
    mean = (np.bincount(kind, values, n_kinds) + PRIOR * overall) / (counts + PRIOR)
    squares = np.bincount(kind, (values - mean[kind]) ** 2, n_kinds)
    deviation = np.sqrt((squares + PRIOR * spread) / (counts + PRIOR))
    return mean, np.maximum(deviation, smallest)


def _log_gaussian(values: FloatArray, mean: FloatArray, deviation: FloatArray) -> FloatArray:
    z = (values - mean[:, None]) / deviation[:, None]
    return np.asarray(-0.5 * z**2 - np.log(deviation)[:, None])

"""From the posterior of a start to the frequency with which such starts are right.

    confidence = sigmoid(a + b logit c),      c from ``start_posterior``, kept within ``SMALLEST`` of 0 and 1

a and b are those that make the starts of unseen utterances most probable, drawn to the identity (a = 0,
b = 1) with the strength of ``PRIOR`` starts in the middle of the scale, and below ``FEWEST`` boundaries the
posterior stays as it is. b is at least ``SMALLEST_SLOPE``: a more probable start is never called less sure.

The pull is strong because the starts to learn from are not like those to come: most are of voices and
languages that were heard in training, and those of one language err together. What they teach claims too much
elsewhere. ``PRIOR`` is where the log-loss on languages that are left out of the calibration is smallest: 20
languages, each held out by the model of its fold, and left out in turn.

There is nothing but c in it. Spread and entropy of the posterior, fit and length of the phones around, their
classes, the boundary score and the score of the utterance were tried beside it, in groups: on languages that
were not in training no group ranked errors better than c alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.speech.align.doubt.ridge_logistic import fit_logistic, log_odds, sigmoid

SMALLEST = 1e-4
FEWEST = 20  # boundaries
PRIOR = 2000.0
SMALLEST_SLOPE = 0.1


@register
@dataclass(frozen=True)
class ConfidenceCalibration:
    """``offset`` a and ``slope`` b."""

    offset: float = 0.0
    slope: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.offset) and np.isfinite(self.slope) and self.slope > 0):
            raise DataError("the calibration of confidences is not finite, or it falls")

    def __call__(self, share: FloatArray) -> FloatArray:
        return sigmoid(self.offset + self.slope * log_odds(share, SMALLEST))

    @classmethod
    def fit(cls, share: FloatArray, right: BoolArray) -> ConfidenceCalibration:
        """``share``: (n,), c of each start; ``right``: whether it was within the tolerance."""
        if len(share) < FEWEST:
            return cls()
        x = np.stack([np.ones(len(share)), log_odds(share, SMALLEST)], axis=1)
        prior, strength = np.array([0.0, 1.0]), np.full(2, 0.25 * PRIOR)
        offset, slope = fit_logistic(x, right, np.ones(len(share)), prior, strength)
        return cls(float(offset), max(float(slope), SMALLEST_SLOPE))


IDENTITY = ConfidenceCalibration()

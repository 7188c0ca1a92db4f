"""Whether a transcript is what was said: a probability, and the phone that looks most wrong.

Two logistic regressions on what :mod:`.match_statistics` measures, learned from the transcripts of utterances
that the classifiers have not heard and wrong ones made from them (:mod:`.wrong_transcripts`):

    phone    log-odds that phone k is right:          l_k = w . x_k
    whole    log-odds that the transcript is right:   v . (mean l, min l, mean of the two smallest, x_whole)

x are standardised and kept within ``LARGEST`` deviations; right and wrong transcripts count the same in sum,
and the weights are drawn to 0 with the strength ``PENALTY``. ``probability`` is therefore that for a
transcript which is as likely to be wrong as right.

A transcript is flagged below ``threshold``, which is to leave at most 2 in 100 right ones flagged: the
utterances are dealt into ``FOLDS`` stretches (neighbours in a corpus are alike, so each stretch is strange to
the others), each is judged by regressions on the others, and the threshold is the ``QUANTILE`` of those
log-odds. Where they are fewer than ``MANY`` it is no higher than their mean less ``DEVIATIONS`` deviations.
Below ``FEWEST`` utterances nothing is learned, and nothing is flagged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.speech.align.doubt.match_statistics import MatchStatistics
from trellis.speech.align.doubt.ridge_logistic import fit_logistic, sigmoid

FEWEST = 15  # utterances
FOLDS = 5
LARGEST = 4.0
PENALTY = 50.0
QUANTILE = 0.015
MANY = 100
DEVIATIONS = 2.5


@register
@dataclass(frozen=True, eq=False)
class Regression:
    """sigmoid(offset + weights . (x - mean) / deviation)."""

    mean: FloatArray
    deviation: FloatArray
    weights: FloatArray
    offset: float

    def __post_init__(self) -> None:
        shapes = {self.mean.shape, self.deviation.shape, self.weights.shape}
        if len(shapes) != 1 or not (self.deviation > 0).all() or not np.isfinite(self.weights).all():
            raise DataError("the regression of the transcript match does not fit its statistics")

    def __call__(self, x: FloatArray) -> FloatArray:
        """Log-odds, (n,)."""
        return np.asarray(self.offset + _standard(x, self.mean, self.deviation) @ self.weights)

    @classmethod
    def fit(cls, x: FloatArray, right: BoolArray) -> Regression:
        mean, deviation = x.mean(axis=0), x.std(axis=0)
        deviation = np.where(deviation > 1e-9, deviation, 1.0)
        table = np.concatenate([np.ones((len(x), 1)), _standard(x, mean, deviation)], axis=1)
        n_right = int(right.sum())
        counts = np.where(right, 1.0, n_right / max(len(right) - n_right, 1))
        penalty = np.full(table.shape[1], PENALTY)
        penalty[0] = 1e-3
        w = fit_logistic(table, right, counts, np.zeros(table.shape[1]), penalty)
        return cls(mean, deviation, w[1:], float(w[0]))


@dataclass(frozen=True, eq=False)
class JudgedTranscript:
    """An example: ``wrong`` (n,) for the phones of ``statistics``; ``utterance``: which one it belongs to."""

    statistics: MatchStatistics
    wrong: BoolArray
    utterance: int
    kind: str = "right"

    @property
    def right(self) -> bool:
        return self.kind == "right"


@dataclass(frozen=True)
class Match:
    """``probability`` that the transcript is what was said, ``worst``: the place of the phone that looks most
    wrong."""

    probability: float
    worst: int
    flagged: bool


@register
@dataclass(frozen=True, eq=False)
class TranscriptMatch:
    """The two regressions, and the log-odds below which a transcript is flagged."""

    phone: Regression
    whole: Regression
    threshold: float

    def __call__(self, statistics: MatchStatistics) -> Match | None:
        """None for a transcript that is all silence."""
        if not len(statistics.places):
            return None
        odds = self.phone(statistics.phones)
        total = self.whole(_whole(odds, statistics)[None])
        worst = int(statistics.places[int(np.argmin(odds))])
        return Match(float(sigmoid(total)[0]), worst, bool(total[0] < self.threshold))

    @classmethod
    def fit(cls, examples: Sequence[JudgedTranscript]) -> TranscriptMatch | None:
        """None below ``FEWEST`` utterances with a right transcript and wrong ones."""
        used = [e for e in examples if len(e.statistics.places)]
        utterances = sorted({e.utterance for e in used if e.right})
        if len(utterances) < FEWEST or all(e.right for e in used):
            return None
        left_out: list[float] = []
        for part in np.array_split(np.array(utterances), FOLDS):
            inside = set(part.tolist())
            model = cls._regressions([e for e in used if e.utterance not in inside])
            left_out += [model._odds(e) for e in used if e.right and e.utterance in inside]
        odds = np.array(left_out)
        threshold = float(np.quantile(odds, QUANTILE))
        if len(odds) < MANY:
            threshold = min(threshold, float(odds.mean() - DEVIATIONS * odds.std()))
        found = cls._regressions(used)
        return cls(found.phone, found.whole, threshold)

    @classmethod
    def _regressions(cls, examples: Sequence[JudgedTranscript]) -> TranscriptMatch:
        phones = np.concatenate([e.statistics.phones for e in examples])
        phone = Regression.fit(phones, ~np.concatenate([e.wrong for e in examples]))
        whole = np.array([_whole(phone(e.statistics.phones), e.statistics) for e in examples])
        return cls(phone, Regression.fit(whole, np.array([e.right for e in examples])), -np.inf)

    def _odds(self, example: JudgedTranscript) -> float:
        statistics = example.statistics
        return float(self.whole(_whole(self.phone(statistics.phones), statistics)[None])[0])


def _whole(odds: FloatArray, statistics: MatchStatistics) -> FloatArray:
    smallest = np.sort(odds)[:2]
    return np.array([odds.mean(), smallest[0], smallest.mean(), *statistics.whole])


def _standard(x: FloatArray, mean: FloatArray, deviation: FloatArray) -> FloatArray:
    return np.asarray(np.clip((x - mean) / deviation, -LARGEST, LARGEST))

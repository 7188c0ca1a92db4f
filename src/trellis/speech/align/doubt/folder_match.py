"""Which transcripts of a folder stand out from the others.

How well a transcript matches depends on the voice, the recording and the language as much as on the
transcript: a language that the model hears badly has low odds throughout, and one that it hears well hides a
wrong transcript behind odds that elsewhere would be usual. The recordings of a folder mostly share all of
these. With l_i the log-odds of recording i (``transcript_match``), and over the n others of its folder

    centre    m = n median(l) / (n + CENTRE)
    spread    s^2 = (n (1.4826 median |l - median(l)|)^2 + SPREAD) / (n + SPREAD)

recording i is doubted if (l_i - m) / s < -``FAR``. Medians are not moved by a few wrong transcripts; few
recordings leave the centre near 0 and the spread near 1, which are about those of all languages together.

If more than ``MANY`` of a folder are doubtful each on its own, the folder is no measure of what is right, and
these stay doubted as well. Below ``FEWEST`` recordings each is judged on its own.

The constants are those that find most on the held-out languages of the folds of ``benchmarks/doubt.py``, each
judged by regressions that left it out, with at most 1.5 in 100 right transcripts doubted there: languages
that nothing was chosen on have more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray
from trellis.speech.align.doubt.ridge_logistic import log_odds

CENTRE, SPREAD = 5.0, 30.0  # recordings that the prior of each counts as
FAR = 2.67
MANY = 0.25
FEWEST = 10
PLENTY = 1000  # recordings: one more or less no longer moves a median
_SMALLEST = 1e-12
_NORMAL = 1.4826  # from the median deviation to the standard deviation of a normal distribution


def doubted_in_folder(matches: Sequence[float], alone: Sequence[bool]) -> BoolArray:
    """(n,): the recordings whose transcripts are doubted. ``matches``: the probability that each is what was
    said; ``alone``: whether it is doubted on its own."""
    own = np.array(alone, dtype=np.bool_)
    odds = log_odds(np.array(matches, dtype=np.float64), _SMALLEST)
    if len(odds) < FEWEST:
        return own
    if len(odds) > PLENTY:
        far = _distance(odds, odds) < -FAR
    else:
        far = np.array([_distance(odds[i], np.delete(odds, i)) < -FAR for i in range(len(odds))])
    return far | own if own.mean() > MANY else far


def _distance(odds: FloatArray, others: FloatArray) -> FloatArray:
    """(l - m) / s."""
    n, middle = len(others), np.median(others)
    deviation = _NORMAL * np.median(np.abs(others - middle))
    spread = np.sqrt((n * deviation**2 + SPREAD) / (n + SPREAD))
    return np.asarray((odds - middle * n / (n + CENTRE)) / spread)

"""The difference of two shares of matched pairs, such as the errors of two models on the same examples.

Of m pairs, n differ; in x of these only the first errs. With theta the probability that a pair differs, and
pi that it is then the first that errs,

    P(only the first errs) - P(only the second errs) = theta (2 pi - 1)

A limit is a quantile of this with pi and theta replaced by independent variables whose own quantiles are the
limits of Clopper and Pearson (melded limits: Fay and Lumbard 2021):

    lower limit   pi ~ Beta(x, n - x + 1), and theta ~ Beta(n, m - n + 1) where 2 pi > 1, else
                  theta ~ Beta(n + 1, m - n)
    upper limit   minus the lower limit with the two models exchanged

It holds its level for every m, and excludes 0 exactly where McNemar's exact test tells a difference.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, ndtr

from trellis.core.arrays import FloatArray
from trellis.core.signed_sum_intervals import GRID, WEIGHTS


def matched_pairs_interval(only_a: int, only_b: int, m: int, delta: float) -> tuple[float, float]:
    """The limits of the difference a - b with confidence 1 - delta."""
    return _lower_limit(only_a, only_b, m, delta / 2), -_lower_limit(only_b, only_a, m, delta / 2)


def _lower_limit(x: int, others: int, m: int, tail: float) -> float:
    n = x + others
    # 2 pi - 1; where the first never errs alone, nothing bounds pi from below
    slopes = 2.0 * betaincinv(x, others + 1, ndtr(GRID)) - 1.0 if x else np.full(len(GRID), -1.0)
    negative = float(betainc(x, others + 1, 0.5)) if x else 1.0  # the probability that 2 pi is below 1

    def missing(limit: float) -> float:
        return _probability_up_to(limit, slopes, n, m) - tail

    low, high = (-1.0, 0.0) if negative >= tail else (0.0, 1.0)
    if missing(low) >= 0.0:
        return low
    return high if missing(high) <= 0.0 else float(brentq(missing, low, high, xtol=1e-12))


def _probability_up_to(limit: float, slopes: FloatArray, n: int, m: int) -> float:
    """That theta (2 pi - 1) is at most ``limit``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = np.minimum(np.abs(limit) / np.abs(slopes), 1.0)
    if limit >= 0.0:
        inside = betainc(n, m - n + 1, theta) if n else np.ones_like(theta)
        return float(WEIGHTS @ np.where(slopes > 0.0, inside, 1.0))
    inside = 1.0 - betainc(n + 1, m - n, theta) if n < m else np.ones_like(theta)
    return float(WEIGHTS @ np.where((slopes < 0.0) & (np.abs(slopes) >= -limit), inside, 0.0))

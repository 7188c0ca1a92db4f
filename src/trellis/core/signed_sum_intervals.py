"""Intervals of sums of signed contributions over independent examples: differences of two systems, and means.

An estimate is D = sum d over m examples; e, which adds up to 0, is what each example adds to it beyond its
share (the influence, which tells the variance). The contributions above and below 0 are sums of their own,

    A = sum max(d, 0)      B = sum max(-d, 0)      D = A - B

and each is bounded as in :mod:`trellis.core.share_intervals`: by a Gamma variable with the mean A and the
variance r A from below, and from above as if one more example of the largest possible size M had come, mean
A + M and variance r A + M^2. What a unit of variance weighs follows from that of D,

    r = m / (m - 1) sum e^2  t^2 / z^2  /  (A + B)          at least max |d| / m

with quantiles t of Student's distribution with m - 1 degrees of freedom and z of the normal one. The lower
limit is the quantile of A from below minus B from above, independent of each other, the upper limit that of
A from above minus B from below. Where only few d are not 0, and these are alike, they are limits of Poisson
counts.

Where it is known what one more example can do at most (``reach``), M is the larger of the largest influence
seen on that side and reach min(1, FEW / k), with k = A^2 / sum d^2: as many examples tell of that side. So
it is not ruled out that a few more are turned around altogether where few examples tell; where many do, it
is taken that those which decide are among them.

Where nothing bounds an example, M is twice the largest influence seen. That holds the level only if there
are ``FEWEST`` examples: no number of them bounds the mean of what may be arbitrarily large, but so many are
likely to have met what happens to one in twenty. With fewer there is no interval.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammainccinv, gammaincinv, ndtr, ndtri, stdtrit

from trellis.core.arrays import FloatArray

FEW = 10.0  # examples that tell of one side
FEWEST = 100  # examples of what has no bound
REFUSED = (math.nan, math.nan)
# quantiles of the normal distribution, so that sums over both tails of another one are exact
GRID = np.linspace(-8.5, 8.5, 681)
WEIGHTS = np.exp(-0.5 * GRID**2) / np.exp(-0.5 * GRID**2).sum()

Gamma = tuple[float, float]  # mean and variance; a variance of 0 is the mean itself


def signed_sum_interval(
    d: FloatArray, e: FloatArray, delta: float, reach: tuple[float | None, float | None] = (None, None)
) -> tuple[float, float]:
    """The interval of sum d with confidence 1 - delta; NaN where none can be given.

    ``reach``: how much one more example can take away and add at most, ``None`` where nothing bounds it.
    """
    m = len(d)
    bounded = None not in reach
    if m < (2 if bounded else FEWEST):
        return (-math.inf, math.inf) if bounded else REFUSED
    z = -float(ndtri(delta / 2))
    surer = (float(stdtrit(m - 1, 1.0 - delta / 2)) / z) ** 2
    variance = surer * m / (m - 1) * float((e**2).sum())
    sides = np.maximum(-d, 0.0), np.maximum(d, 0.0)
    below, above = (float(side.sum()) for side in sides)
    largest = float(np.abs(d).max())
    r = max(variance / (above + below), largest / m) if above + below > 0.0 else 0.0
    seen = max(-float(e.min()), 0.0), max(float(e.max()), 0.0)
    if not bounded and max(seen) == 0.0:
        return REFUSED  # all alike: nothing tells what else an example may be
    down, up = (
        _one_more(side, bound, most, max(seen), r)
        for side, bound, most in zip(sides, reach, seen, strict=True)
    )
    tail = float(ndtr(-z))
    low = difference_quantile((above, r * above), (below + down, r * below + down**2), tail)
    high = difference_quantile((above + up, r * above + up**2), (below, r * below), 1.0 - tail)
    return low, high


def difference_quantile(x: Gamma, y: Gamma, p: float) -> float:
    """The p-quantile of X - Y for independent Gamma variables."""
    if y[1] <= 0.0:
        return float(_quantiles(x, np.array([p]), np.array([1.0 - p]))[0]) - y[0]
    if x[1] <= 0.0:
        return x[0] - float(_quantiles(y, np.array([1.0 - p]), np.array([p]))[0])
    taken = _quantiles(y, ndtr(GRID), ndtr(-GRID))
    shape, scale = x[0] ** 2 / x[1], x[1] / x[0]

    def missing(c: float) -> float:
        return float(WEIGHTS @ gammainc(shape, np.maximum(c + taken, 0.0) / scale)) - p

    spread = math.sqrt(x[1] + y[1])
    low = high = x[0] - y[0]
    while missing(low) > 0.0:
        low, spread = low - spread, 2.0 * spread
    while missing(high) < 0.0:
        high, spread = high + spread, 2.0 * spread
    return float(brentq(missing, low, high, xtol=1e-12 * spread, rtol=1e-12)) if low < high else low


def _one_more(side: FloatArray, reach: float | None, seen: float, most_seen: float, r: float) -> float:
    """What one more example may do on this side."""
    if reach is None:
        return max(2.0 * most_seen, r)
    if reach <= 0.0:
        return 0.0
    told = float(side.sum()) ** 2 / max(float((side**2).sum()), 1e-300)
    return max(seen, reach * min(1.0, FEW / max(told, 1e-300)), r)


def _quantiles(of: Gamma, levels: FloatArray, above: FloatArray) -> FloatArray:
    """``above`` is 1 - ``levels``, which may be too near to 1 to tell."""
    mean, variance = of
    if variance <= 0.0:
        return np.full(len(levels), mean)
    shape, scale = mean**2 / variance, variance / mean
    return np.asarray(scale * np.where(levels < 0.5, gammaincinv(shape, levels), gammainccinv(shape, above)))

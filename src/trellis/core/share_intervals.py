"""Intervals of shares: of probabilities estimated by weighted samples, and of errors among examples.

A cell has probability p = a / (a + b), where a and b are the expected sums of the weights inside and outside
of it. Each sum is a weighted Poisson count, and no weight is larger than a known bound M. Fay and Feuer
(1997) bound the mean of such a sum, given its value s and the sum q of squared weights, by quantiles of Gamma
distributions with the mean and the variance

    from below   s, q                    (0 if s is 0)
    from above   s + M, q + M^2          as if one more sample, of the largest possible weight, had come

The lower limit of p is the quantile of a / (a + b) with a from below and b from above, independent of each
other (Fay, Proschan and Brittain 2015 call such limits melded), the upper limit that with a from above and b
from below. The ratio of two Gamma variables is that of a Beta one, so that with Gamma(shape k, scale t)

    p = t_a x / (t_a x + t_b (1 - x)),      x the quantile of Beta(k_a, k_b)

Where all weights are 1 these are the limits of Clopper and Pearson. Where M is much larger than all weights
that were drawn together, the limits are near 0 and 1: a sample may come that changes everything.

**Examples.** A share of sums over m independent examples (F1, tokens that are right) is treated in the same
way, with the units of an example drawn together: p = sum a / n, n = sum (a + b). What such a draw weighs
follows from the variance of p (Korn and Graubard 1998: Clopper and Pearson with an effective sample size):

    s^2 = m / (m - 1) sum ((1 - p) a - p b)^2 / n^2  t^2 / z^2          r = s^2 n / (p (1 - p))

with quantiles t of Student's distribution with m - 1 degrees of freedom and z of the normal one; r is at
least L / m, L the largest a + b, and L itself if p is 0 or 1. Then q = r s for both sums, and M = r, or more
where few examples tell of the rarer side: M = L min(1, 10 / k) with k the smaller of (sum a)^2 / sum a^2 and
the same of b. Where all examples but few are right, one more of the largest size, all wrong, is not ruled
out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray, IntArray

FEW = 10.0  # examples that tell of the rarer side
LARGEST = 1e100  # of a bound in units of the largest weight drawn, so that its square is a number


class Tally(NamedTuple):
    """For each cell: weights and squared weights inside and outside of it, and how large one can be there."""

    inside: FloatArray
    inside_squared: FloatArray
    inside_bound: FloatArray
    outside: FloatArray
    outside_squared: FloatArray
    outside_bound: FloatArray

    def interval(self, z: float) -> tuple[FloatArray, FloatArray]:
        """The limits of each cell; each is missed with the probability that a normal variable exceeds z."""
        from scipy.special import ndtr  # here, like the others: importing it takes longer than a query

        tail = float(ndtr(-z))
        inside, outside = self[:3], self[3:]
        return _lower_limit(*inside, *outside, tail), 1.0 - _lower_limit(*outside, *inside, tail)

    def part(self, first: int, last: int, shape: tuple[int, ...]) -> Tally:
        """The cells ``first`` .. ``last - 1``, in this shape."""
        return Tally(*(array[first:last].reshape(shape) for array in self))

    def without(self, cells: BoolArray) -> Tally:
        """The tally as if these cells had never been looked at: their intervals reach from 0 to 1."""
        inside, inside_squared, outside, outside_squared = (
            np.where(cells, 0.0, part) for part in (*self[:2], *self[3:5])
        )
        return Tally(inside, inside_squared, self.inside_bound, outside, outside_squared, self.outside_bound)


def examples_interval(a: FloatArray, b: FloatArray, delta: float) -> tuple[float, float]:
    """The interval of sum a / sum (a + b) over independent examples, with confidence 1 - delta.

    0 to 1 if all are 0.
    """
    m, sizes = len(a), a + b
    total, largest = float(sizes.sum()), float(sizes.max(initial=0.0))
    if total == 0.0:
        return 0.0, 1.0
    from scipy.special import ndtri, stdtrit

    p, z = float(a.sum()) / total, -float(ndtri(delta / 2))
    r = largest
    if m > 1 and 0.0 < p < 1.0:
        surer = (float(stdtrit(m - 1, 1.0 - delta / 2)) / z) ** 2
        variance = surer * m / (m - 1) * float((((1.0 - p) * a - p * b) ** 2).sum()) / total**2
        r = max(variance * total / (p * (1.0 - p)), largest / m)
    told = min(float(part.sum()) ** 2 / max(float((part**2).sum()), 1e-300) for part in (a, b))
    bound = max(r, largest * min(1.0, FEW / max(told, 1e-300)))
    inside, outside = float(a.sum()), float(b.sum())
    parts = (inside, r * inside, bound, outside, r * outside, bound)
    low, high = Tally(*(np.array(part) for part in parts)).interval(z)
    return float(low), float(high)


def of_others(values: FloatArray, starts: IntArray, total: np.ufunc) -> FloatArray:
    """``total`` (add or maximum) of all other cells of the same scope; scopes begin at ``starts``.

    Differences to the total of the scope would lose what is small.
    """
    out = np.zeros_like(values)
    for start, end in pairwise(starts.tolist()):
        scope = values[start:end]
        out[start + 1 : end] = total.accumulate(scope)[:-1]
        out[start : end - 1] = total(out[start : end - 1], total.accumulate(scope[::-1])[-2::-1])
    return out


def _lower_limit(
    a: FloatArray,
    a_squared: FloatArray,
    a_bound: FloatArray,
    b: FloatArray,
    b_squared: FloatArray,
    b_bound: FloatArray,
    tail: float,
) -> FloatArray:
    from scipy.special import betaincinv

    del a_bound
    more, more_squared = b + b_bound, b_squared + b_bound**2
    some, alone = (a > 0) & (more > 0), (a > 0) & (more == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale_a, scale_b = a_squared / a, more_squared / more
        x = betaincinv(np.where(some, a / scale_a, 1.0), np.where(some, more / scale_b, 1.0), tail)
        limit = scale_a * x / (scale_a * x + scale_b * (1.0 - x))
    return np.where(some, limit, np.where(alone, 1.0, 0.0))

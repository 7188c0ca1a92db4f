"""Intervals for a loss measured on held-out examples, with confidence 1 - delta.

    Hoeffding            mean +- range sqrt(ln(2/delta) / (2 m))                   any loss within a range
    Clopper-Pearson      the exact binomial interval                              losses that are 0 or 1
    empirical Bernstein  mean +- sqrt(2 V ln(4/delta) / m) + 7 range ln(4/delta) / (3 (m - 1)),
                         V the sample variance                                    any loss within a range
    Korn-Graubard        Clopper-Pearson with the effective size of examples of several units, each right or
                         wrong (trellis.core.share_intervals)                     shares of sums: F1, tokens
    Gamma                limits of sums of signed parts (trellis.core.signed_sum_intervals), from 100
                         examples on                                              means of any loss
    bootstrap            quantiles delta/2 and 1 - delta/2 of the statistic of m examples drawn with
                         replacement                                              any statistic of sums
    order statistics     two of the values themselves                             a quantile

The first three hold for every m; Clopper-Pearson is that of Clopper and Pearson (1934), empirical Bernstein
that of Maurer and Pontil (2009) made two-sided, the shorter one when most losses are alike. That of Korn and
Graubard holds its level in simulations from two examples on, with few errors and with many; so do the Gamma
limits from 100 examples on, unless what decides the mean happens to fewer than one in twenty. The bootstrap
is right only as m grows (with 30 sequences and 2% errors 78 of 100 intervals hold the truth), and where no
example was wrong it says nothing: its interval is then a single point. It is used only where it is asked for.
Held-out means that the examples played no part in learning. Examples are what is independent: sequences, not
their steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, betaincinv

from trellis.core.arguments import as_floats, check_fraction, check_int
from trellis.core.arrays import FloatArray
from trellis.core.bootstrap import resampled_sums
from trellis.core.errors import DataError
from trellis.core.share_intervals import examples_interval
from trellis.core.signed_sum_intervals import FEWEST, signed_sum_interval


@dataclass(frozen=True)
class Interval:
    """``value`` with ``low`` and ``high``; the truth lies between them with ``confidence``.

    Examples
    --------
    >>> from trellis.theory import clopper_pearson_interval
    >>> interval = clopper_pearson_interval(3, 100)
    >>> interval.value, round(interval.low, 4), round(interval.high, 4)
    (0.03, 0.0062, 0.0852)
    """

    value: float
    low: float
    high: float
    confidence: float
    name: str

    @property
    def width(self) -> float:
        return self.high - self.low

    def __contains__(self, truth: float) -> bool:
        return self.low <= truth <= self.high

    def __str__(self) -> str:
        return (
            f"{self.value:.4g} ({100 * self.confidence:g}% interval {self.low:.4g} to {self.high:.4g}, "
            f"{self.name})"
        )


def hoeffding_interval(
    losses: ArrayLike, *, delta: float = 0.05, low: float = 0.0, high: float = 1.0
) -> Interval:
    """For losses between ``low`` and ``high``.

    Examples
    --------
    >>> from trellis.theory import hoeffding_interval
    >>> interval = hoeffding_interval([0.0, 1.0, 0.0, 0.0] * 100)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.182, 0.318)
    """
    values = _losses(losses, low, high)
    width = (high - low) * np.sqrt(np.log(2.0 / check_fraction("delta", delta)) / (2.0 * len(values)))
    return _interval(values, float(width), delta, low, high, "Hoeffding")


def empirical_bernstein_interval(
    losses: ArrayLike, *, delta: float = 0.05, low: float = 0.0, high: float = 1.0
) -> Interval:
    """For losses between ``low`` and ``high``; at least two of them.

    Examples
    --------
    >>> from trellis.theory import empirical_bernstein_interval
    >>> interval = empirical_bernstein_interval([0.0, 0.1, 0.0, 0.2] * 100)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.037, 0.113)
    """
    values = _losses(losses, low, high)
    m = len(values)
    if m < 2:
        raise DataError("empirical Bernstein needs at least two losses; use hoeffding_interval for one")
    log_term = np.log(4.0 / check_fraction("delta", delta))
    width = np.sqrt(2.0 * values.var(ddof=1) * log_term / m) + 7.0 * (high - low) * log_term / (3.0 * (m - 1))
    return _interval(values, float(width), delta, low, high, "empirical Bernstein")


def clopper_pearson_interval(errors: int, m: int, *, delta: float = 0.05) -> Interval:
    """The exact interval of a proportion: ``errors`` of ``m``.

    Examples
    --------
    >>> from trellis.theory import clopper_pearson_interval
    >>> interval = clopper_pearson_interval(0, 100)
    >>> interval.low, round(interval.high, 4)
    (0.0, 0.0362)
    """
    low, high = clopper_pearson_limits(errors, m, delta=delta)
    return Interval(float(errors) / float(m), float(low), float(high), 1 - delta, "Clopper-Pearson")


def clopper_pearson_limits(
    errors: ArrayLike, m: ArrayLike, *, delta: float = 0.05
) -> tuple[FloatArray, FloatArray]:
    """The same for arrays of counts, which broadcast: lower and upper limits.

    Examples
    --------
    >>> from trellis.theory import clopper_pearson_limits
    >>> low, high = clopper_pearson_limits([0, 3], 100)
    >>> high.round(4).tolist()
    [0.0362, 0.0852]
    """
    check_fraction("delta", delta)
    k, n = np.broadcast_arrays(as_floats("errors", errors), as_floats("m", m))
    if not np.all((k >= 0) & (k <= n) & (n >= 1) & (k == np.floor(k)) & (n == np.floor(n))):
        raise DataError(
            f"{errors!r} errors of {m!r} examples: give whole numbers with 0 <= errors <= m and m >= 1"
        )
    # of no errors the lower limit is 0, and of nothing but errors the upper limit is 1
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, delta / 2), 0.0)
    high = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 1 - delta / 2), 1.0)
    return low, high


def share_interval(inside: ArrayLike, outside: ArrayLike, *, delta: float = 0.05) -> Interval:
    """The share of sums over examples, sum inside / sum (inside + outside): units that are right and wrong,
    for one, of each sequence. 2 correct, and predicted + gold - 2 correct, make it F1.

    Examples
    --------
    >>> from trellis.theory import share_interval
    >>> interval = share_interval([9, 8, 10, 9] * 10, [1, 2, 0, 1] * 10)
    >>> interval.value, interval.low < 0.9 < interval.high
    (0.9, True)
    """
    check_fraction("delta", delta)
    a, b = as_floats("inside", inside), as_floats("outside", outside)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise DataError(
            f"inside and outside have shapes {a.shape} and {b.shape}; give one number of each for every "
            "example"
        )
    bad = ~((a >= 0) & (b >= 0) & (a + b < np.inf))
    if bad.any():
        i = int(np.argmax(bad))
        raise DataError(
            f"example {i} has {a[i]} inside and {b[i]} outside; give finite numbers of at least 0"
        )
    low, high = examples_interval(a, b, delta)
    total = float((a + b).sum())
    return Interval(float(a.sum()) / total if total else 0.0, low, high, 1 - delta, "Korn-Graubard")


def mean_interval(losses: ArrayLike, *, delta: float = 0.05) -> Interval:
    """For losses that nothing bounds, at least 100 of them.

    Examples
    --------
    >>> from trellis.theory import mean_interval
    >>> interval = mean_interval([0.0, 2.0] * 100)
    >>> round(interval.low, 2), round(interval.high, 2)
    (0.87, 1.16)
    """
    values = _losses(losses, -np.inf, np.inf)
    check_fraction("delta", delta)
    m, mean = len(values), float(values.mean())
    low, high = signed_sum_interval(
        values / m, (values - mean) / m, delta, (0.0 if (values >= 0).all() else None, None)
    )
    if np.isnan(low):
        why = f"of fewer than {FEWEST} losses" if m < FEWEST else "of equal losses"
        raise DataError(
            f"the mean {why} that nothing bounds has no interval that holds; give more examples, or divide "
            "the loss by the largest that it can be"
        )
    return Interval(mean, low, high, 1 - delta, "Gamma")


Statistic = Callable[[FloatArray], FloatArray]


def bootstrap_interval(
    counts: ArrayLike,
    statistic: Statistic,
    *,
    delta: float = 0.05,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """For a ``statistic`` of sums over examples: ``counts`` is (m, k), one row for each example.

    ``statistic`` takes sums (..., k) and gives (...). F1, for one: rows of correct, predicted and gold spans,
    and ``2 s[..., 0] / (s[..., 1] + s[..., 2])``.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.theory import Share, bootstrap_interval
    >>> counts = np.array([[1, 2], [2, 2], [0, 2]] * 20)  # right, all
    >>> interval = bootstrap_interval(counts, Share(inside=(1.0, 0.0), size=(0.0, 1.0)))
    >>> interval.low < interval.value < interval.high
    True
    """
    rows = as_floats("counts", counts)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or not len(rows):
        raise DataError(f"counts have shape {rows.shape}; give one row for each of at least one example")
    if not np.isfinite(rows).all():
        i = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise DataError(f"the counts of example {i} are {rows[i]}; give finite numbers")
    n_resamples = check_int("n_resamples", n_resamples, 1)
    check_fraction("delta", delta)
    sums = resampled_sums(rows, n_resamples, seed)
    low, high = np.quantile(statistic(sums), [delta / 2, 1 - delta / 2])
    return Interval(float(statistic(rows.sum(axis=0))), float(low), float(high), 1 - delta, "bootstrap")


def quantile_interval(
    values: ArrayLike, level: float, *, delta: float = 0.05, low: float = -np.inf, high: float = np.inf
) -> Interval:
    """The ``level`` quantile of what ``values`` (n,) are a sample of, between two of them.

    The number of values up to the quantile is binomial, so with F its distribution function the r-th and s-th
    smallest values enclose it for r the largest with F(r - 1) <= delta/2 and s the smallest with F(s - 1) >=
    1 - delta/2. ``low`` and ``high``, what values can be at all, take the place of an end for which there are
    too few values. The quantile itself is the smallest value with a share of ``level`` up to it.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.theory import quantile_interval
    >>> interval = quantile_interval(np.arange(101.0), 0.5)
    >>> interval.value, interval.low, interval.high
    (50.0, 40.0, 60.0)
    """
    ordered = np.sort(as_floats("values", values).ravel())
    n = len(ordered)
    if not n or not np.isfinite(ordered).all():
        raise DataError("a quantile needs at least one value, and finite ones")
    check_fraction("level", level)
    check_fraction("delta", delta)
    below = bdtr(np.arange(n), n, level)  # F(0), ..., F(n - 1)
    r = int(np.searchsorted(below, delta / 2, side="right"))
    s = int(np.searchsorted(below, 1 - delta / 2, side="left")) + 1
    # 0.95 * 20 is a hair above 19
    value = ordered[int(np.ceil(level * n * (1 - 1e-12))) - 1]
    ends = (ordered[r - 1] if r >= 1 else low), (ordered[s - 1] if s <= n else high)
    return Interval(float(value), float(ends[0]), float(ends[1]), 1 - delta, "order statistics")


def _interval(values: FloatArray, width: float, delta: float, low: float, high: float, name: str) -> Interval:
    mean = float(values.mean())
    return Interval(mean, max(mean - width, low), min(mean + width, high), 1 - delta, name)


def _losses(losses: ArrayLike, low: float, high: float) -> FloatArray:
    values = as_floats("losses", losses).ravel()
    if not high > low:
        raise DataError(f"the range of the loss is from {low} to {high}; give low < high")
    if len(values) == 0:
        raise DataError("no losses were given; measure the loss on at least one held-out example")
    inside = (values >= low) & (values <= high) & np.isfinite(values)
    if not inside.all():
        i = int(np.argmin(inside))
        raise DataError(
            f"loss {i} is {values[i]}, outside of {low} to {high}; give the loss's own low and high"
        )
    return values

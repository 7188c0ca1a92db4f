"""Two models on the same examples: paired tests, and an interval for the difference.

    McNemar (exact)   losses 0 or 1: of the n examples that just one model gets wrong, those that a
                      gets wrong are binomial(n, 1/2) in number if the two err alike
    randomisation     any statistic of sums: if the models are alike, swapping their results on any examples
                      changes nothing but chance; p is the share of swaps with a difference at least as large

The randomisation test is exact (all swaps) up to 12 examples on which the models differ; beyond, swaps are
drawn and p = (1 + hits) / (1 + draws), which is a valid p-value for any number of draws. A difference is
always a's figure minus b's. Its interval keeps the pairs:

    losses 0 or 1     melded limits (trellis.theory.matched_pairs): they hold for every number of examples
    shares of sums    limits of signed sums (trellis.theory.share_statistics), which hold from two examples on
    other means       the same; from 100 examples on, because nothing bounds what an example may be
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr

from trellis.core.arguments import as_floats, check_fraction, check_int
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.theory.matched_pairs import matched_pairs_interval
from trellis.theory.share_statistics import Share, ratio

EXACT_UP_TO = 12
_ROUNDING = 1e-12  # relative: a swap whose difference is the observed one must count, whatever the units
_CELLS = 1 << 21  # of swaps that are held in memory at a time


@dataclass(frozen=True)
class Comparison:
    """``difference``: ``a`` - ``b``, between ``low`` and ``high`` with ``confidence``; the p-value is
    two-sided.

    ``low`` and ``high`` are NaN where no interval can be given: for the mean of fewer than 100 losses that
    nothing bounds.

    Examples
    --------
    >>> from trellis.theory import mcnemar_test
    >>> found = mcnemar_test([1, 1, 1, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 1])
    >>> found.difference, round(found.p_value, 4)
    (0.625, 0.0625)
    """

    name: str
    a: float
    b: float
    low: float
    high: float
    confidence: float
    p_value: float
    n: int
    n_different: int

    @property
    def difference(self) -> float:
        return self.a - self.b

    @property
    def significant(self) -> bool:
        """Whether chance alone would rarely do it: p below 1 - confidence."""
        return self.p_value < 1 - self.confidence

    @property
    def has_interval(self) -> bool:
        return not math.isnan(self.low)

    @property
    def verdict(self) -> str:
        """In words. Intervals that hold for every distribution are wider than what the test can tell."""
        if not self.significant:
            return "no difference can be told"
        return "differs by the test alone" if self.low <= 0.0 <= self.high else "differs"

    def __str__(self) -> str:
        verdict = self.verdict.replace("differs", "they differ")
        interval = f"{100 * self.confidence:g}% interval {self.low:+.4g} to {self.high:+.4g}"
        if not self.has_interval:
            interval = "no interval: too few losses that nothing bounds"
        return (
            f"{self.a:.4g} against {self.b:.4g}: difference {self.difference:+.4g} ({interval}), "
            f"p = {self.p_value:.3g} ({self.name}, {self.n_different} of {self.n} examples differ): {verdict}"
        )


def mcnemar_test(losses_a: ArrayLike, losses_b: ArrayLike, *, delta: float = 0.05) -> Comparison:
    """For losses that are 0 or 1.

    Examples
    --------
    >>> from trellis.theory import mcnemar_test
    >>> round(mcnemar_test([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0]).p_value, 4)
    0.0625
    """
    a, b = _pair(losses_a, losses_b)
    if not (np.isin(a, (0.0, 1.0)).all() and np.isin(b, (0.0, 1.0)).all()):
        raise DataError("McNemar's test is for losses that are 0 or 1; use paired_loss_test for others")
    only_a, only_b = int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())
    p = min(1.0, 2.0 * float(bdtr(min(only_a, only_b), only_a + only_b, 0.5)))
    low, high = matched_pairs_interval(only_a, only_b, len(a), check_fraction("delta", delta))
    figures = float(a.mean()), float(b.mean())
    return Comparison("McNemar", *figures, low, high, 1 - delta, p, len(a), only_a + only_b)


def paired_loss_test(
    losses_a: ArrayLike, losses_b: ArrayLike, *, delta: float = 0.05, n_resamples: int = 10_000, seed: int = 0
) -> Comparison:
    """For the mean of any loss.

    Examples
    --------
    >>> from trellis.theory import paired_loss_test
    >>> found = paired_loss_test([0.5, 0.4, 0.6, 0.5] * 10, [0.1, 0.2, 0.1, 0.2] * 10)
    >>> round(found.difference, 3), found.p_value < 0.01
    (0.35, True)
    """
    a, b = (np.column_stack([losses, np.ones(len(losses))]) for losses in _pair(losses_a, losses_b))
    return paired_test(a, b, ratio, delta=delta, n_resamples=n_resamples, seed=seed)


def paired_test(
    counts_a: ArrayLike,
    counts_b: ArrayLike,
    statistic: Share,
    *,
    delta: float = 0.05,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """For a share of sums: ``counts`` are (examples, k), and ``statistic`` says what of them is inside.

    Examples
    --------
    >>> from trellis.theory import Share, paired_test
    >>> right = Share(inside=(1.0, 0.0), size=(0.0, 1.0))
    >>> found = paired_test([[1, 2], [2, 2]] * 20, [[0, 2], [1, 2]] * 20, right)
    >>> found.difference, found.p_value < 0.01
    (0.5, True)
    """
    a, b = as_floats("counts_a", counts_a), as_floats("counts_b", counts_b)
    if a.shape != b.shape or a.ndim != 2 or not len(a):
        raise DataError(f"counts of shapes {a.shape} and {b.shape}: both must be (examples, k)")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        i = int(np.argmin((np.isfinite(a) & np.isfinite(b)).all(axis=1)))
        raise DataError(f"example {i} has {a[i]} and {b[i]}; a paired test needs finite numbers")
    n_resamples = check_int("n_resamples", n_resamples, 1)
    check_fraction("delta", delta)
    change = (a - b)[(a != b).any(axis=1)]
    totals = a.sum(axis=0), b.sum(axis=0)
    figures = float(statistic(totals[0])), float(statistic(totals[1]))
    observed = abs(figures[0] - figures[1]) - _ROUNDING * max(map(abs, figures))
    exact = len(change) <= EXACT_UP_TO
    rng = np.random.default_rng(seed)
    hits = draws = 0
    for swaps in _all_swaps(len(change)) if exact else _drawn_swaps(len(change), n_resamples, rng):
        moved = swaps @ change
        differences = np.abs(statistic(totals[0] - moved) - statistic(totals[1] + moved))
        hits += int((differences >= observed).sum())
        draws += len(swaps)
    p = hits / draws if exact else (1 + hits) / (1 + draws)
    low, high = statistic.difference_interval(a, b, delta)
    return Comparison("randomisation test", *figures, low, high, 1 - delta, p, len(a), len(change))


def _all_swaps(n: int) -> Iterator[FloatArray]:
    yield ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)


def _drawn_swaps(n: int, n_resamples: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    at_a_time = max(1, _CELLS // n)
    sizes = [min(at_a_time, n_resamples - first) for first in range(0, n_resamples, at_a_time)]
    return (rng.integers(0, 2, size=(size, n), dtype=np.int8).astype(np.float64) for size in sizes)


def _pair(losses_a: ArrayLike, losses_b: ArrayLike) -> tuple[FloatArray, FloatArray]:
    a, b = as_floats("losses_a", losses_a).ravel(), as_floats("losses_b", losses_b).ravel()
    if a.shape != b.shape or not len(a):
        raise DataError(f"{len(a)} losses against {len(b)}: a paired test needs both on the same examples")
    return a, b

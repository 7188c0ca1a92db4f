"""Paired differences of test losses over seeds, and what is demanded of them.

A difference is the first method's loss minus the second's, seed by seed: whatever makes one draw of data
harder than another drops out. Its interval is Student's, of the mean over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

ALLOWED = 0.3  # points by which a method may be worse, where a standard error is less


class Difference(NamedTuple):
    """``error``: the standard error of ``mean``, NaN for a single seed; ``half``: half of the interval."""

    mean: float
    error: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.half:.2f}"


def paired(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> Difference:
    each = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    n = len(each)
    if n < 2:
        return Difference(float(each.mean()), np.nan, np.nan)
    error = float(each.std(ddof=1)) / np.sqrt(n)
    return Difference(float(each.mean()), error, float(student.ppf(0.5 + confidence / 2, n - 1)) * error)


class Bar(NamedTuple):
    """What must be shown: a loss that is smaller by ``points`` than that of each method in ``against``."""

    against: tuple[str, ...]
    points: float

    def met(self, differences: dict[str, Difference]) -> bool:
        return all(differences[other].mean <= -self.points for other in self.against)

    def __str__(self) -> str:
        return f"{self.points:g} better than {' and '.join(self.against)}"


def not_worse(difference: Difference) -> bool:
    """By no more than 0.3 points or one standard error, whichever is larger."""
    return difference.mean <= np.fmax(ALLOWED, difference.error)


def best_of(losses: Mapping[str, Sequence[float]]) -> str:
    """The method with the smallest mean. Chosen on the figures that it is then compared by, it looks a little
    better than it is: the comparison leans against the other side."""
    return min(losses, key=lambda method: float(np.mean(losses[method])))

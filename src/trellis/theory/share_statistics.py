"""Statistics that are shares of sums over examples, sum inside / sum size: F1, tokens that are right, means.

Inside and size of an example are linear in its row of counts. The influence of an example on the difference
of the shares p of two models on the same examples is

    e = (inside_a - p_a size_a) / sum size_a  -  (inside_b - p_b size_b) / sum size_b

and its contribution d is e and its part of the difference, by size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.signed_sum_intervals import signed_sum_interval


@dataclass(frozen=True)
class Share:
    """Coefficients of a row of counts that make what is inside, and the size.

    Examples
    --------
    >>> from trellis.theory import Share
    >>> Share(inside=(2.0, 0.0, 0.0), size=(0.0, 1.0, 1.0))  # F1 of correct, predicted and gold spans
    Share(inside=(2.0, 0.0, 0.0), size=(0.0, 1.0, 1.0))
    """

    inside: tuple[float, ...]
    size: tuple[float, ...]

    def __call__(self, sums: FloatArray) -> FloatArray:
        """The share of sums (..., k); 0 where the size is 0."""
        size = sums @ np.array(self.size)
        return np.asarray(sums @ np.array(self.inside) / np.where(size > 0, size, 1.0))

    def parts(self, rows: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """What is inside and outside in each of the rows (m, k); ``None`` if it is no share of the size."""
        inside, size = rows @ np.array(self.inside), rows @ np.array(self.size)
        return (inside, size - inside) if ((inside >= 0.0) & (inside <= size)).all() else None

    def difference_interval(self, a: FloatArray, b: FloatArray, delta: float) -> tuple[float, float]:
        """The interval of the share of the rows ``a`` minus that of ``b``, of the same examples.

        NaN where none can be given: means of few examples whose losses nothing bounds.
        """
        rows, shares = (a, b), [float(self(part.sum(axis=0))) for part in (a, b)]
        difference = shares[0] - shares[1]
        inside = [part @ np.array(self.inside) for part in rows]
        sizes = [part @ np.array(self.size) for part in rows]
        totals = [float(size.sum()) for size in sizes]
        bounded = self.parts(a) is not None and self.parts(b) is not None
        if min(totals) <= 0.0:
            return -1.0, 1.0
        e = [(x - p * n) / total for x, p, n, total in zip(inside, shares, sizes, totals, strict=True)]
        weights = 0.5 * (sizes[0] / totals[0] + sizes[1] / totals[1])
        influence = e[0] - e[1]
        contribution = influence + difference * weights
        if not bounded:
            return signed_sum_interval(contribution, influence, delta)
        largest = max(float(n.max()) / total for n, total in zip(sizes, totals, strict=True))
        reach = largest * (1.0 + difference), largest * (1.0 - difference)
        low, high = signed_sum_interval(contribution, influence, delta, reach)
        return max(low, -1.0), min(high, 1.0)


ratio = Share((1.0, 0.0), (0.0, 1.0))  # of rows (part, whole)
f1 = Share((2.0, 0.0, 0.0), (0.0, 1.0, 1.0))  # of rows (correct, predicted, gold)
f1_loss = Share((-2.0, 1.0, 1.0), (0.0, 1.0, 1.0))  # 1 - F1

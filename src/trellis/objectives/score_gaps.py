"""By how much predictions are wrong: what the epsilon of the direct objective is measured by.

    relative gap   (s(y_hat) - s(y*)) / L(y_hat)      of an example that is predicted wrongly
    eps_0          the median of the relative gaps

A relative gap is the epsilon at which y* overtakes y_hat in s - eps L, so at eps_0 half of the wrong
predictions change for the gold output. It grows with the scores, so no unit of the features or of the loss is
left in it.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray


def relative_gaps(gaps: FloatArray, losses: FloatArray) -> FloatArray:
    """Of the examples that are predicted wrongly, in their order, from s(y_hat) - s(y*) and L(y_hat) of all.
    Ties, and gold outputs that are forbidden (an infinite gap), are left out."""
    wrong = (losses > 0.0) & (gaps > 0.0) & np.isfinite(gaps)
    return np.asarray(gaps[wrong] / losses[wrong])


def median_gap(relative: FloatArray) -> float | None:
    """eps_0; None where no prediction is wrong, or all are ties."""
    return float(np.median(relative)) if len(relative) else None

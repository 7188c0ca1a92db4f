"""Columns that cannot tell hidden states apart, because the floor of the variances swamps them.

A state's variance never falls below ``min_variance``. If a column varies by less over *all* of the data, the
states look the same in it, whatever their means: EM then stops at once, and nothing was learned. So it is
said, with what to do.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from trellis.data.row_checks import column_moments
from trellis.training.fit import TrainingWarning


def warn_of_flat_columns(values: NDArray[np.float64], min_variance: float, *, stacklevel: int = 3) -> None:
    """Warn of columns whose variance is above 0 but not above the floor, and of data that are constant."""
    if not min_variance or values.ndim != 2 or len(values) < 2:
        return
    variance = column_moments(values)[1]
    flat = np.flatnonzero((variance > 0.0) & (variance <= min_variance))
    if not len(flat) and (variance > min_variance).any():
        return
    first = int(flat[0]) if len(flat) else 0
    more = f" (and {len(flat) - 1} more)" if len(flat) > 1 else ""
    warnings.warn(
        f"column {first} of X{more} has the variance {variance[first]:.3g}, not above "
        f"min_variance={min_variance:g}, so states cannot differ in it; scale the data, or lower min_variance"
        if len(flat) or variance[first] > 0.0
        else "X is constant, or was rounded to a constant, so states cannot differ; subtract what all values "
        "have in common before the data are stored",
        TrainingWarning,
        stacklevel=stacklevel,
    )

# mypy: allow-untyped-defs
"""The last two layers of the boundary classifier, for every pair of phones at every boundary."""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel


@kernel
def pair_log_odds(frames, pairs, weight, bias, out):
    """out[r, t] = bias + sum_h weight[h] max(frames[t, h] + pairs[r, h], 0), all in single precision.

    ``frames`` (T + 1, H) and ``pairs`` (R, H) are the two halves of the first layer.
    """
    n_rows, n_hidden = pairs.shape
    for r in range(n_rows):
        for t in range(len(frames)):
            total = np.float32(0.0)
            for h in range(n_hidden):
                total += weight[h] * max(frames[t, h] + pairs[r, h], np.float32(0.0))
            out[r, t] = bias + total

# mypy: allow-untyped-defs
"""The boundary scores of many pairs of phones over runs of rows, and their gradient."""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel


@kernel
def pair_scores(around, pairs, first, sizes, weight, offset, out):
    """For each pair r and t = first[r] .. first[r] + sizes[r] - 1, one after the other:

    out = offset[0] + sum_h weight[h] max(around[t, h] + pairs[r, h], 0)
    """
    at = 0
    for r in range(len(pairs)):
        for t in range(first[r], first[r] + sizes[r]):
            total = np.float32(0.0)
            for h in range(len(weight)):
                total += weight[h] * max(around[t, h] + pairs[r, h], np.float32(0.0))
            out[at] = offset[0] + total
            at += 1


@kernel
def pair_gradient(around, pairs, first, sizes, weight, slope, d_around, d_pairs, d_weight):
    """Add the derivatives of sum_i slope[i] out[i] to those of ``around``, ``pairs`` and ``weight``."""
    at = 0
    for r in range(len(pairs)):
        for t in range(first[r], first[r] + sizes[r]):
            s = slope[at]
            at += 1
            if s == 0.0:
                continue
            for h in range(len(weight)):
                z = around[t, h] + pairs[r, h]
                through = s * weight[h] if z > np.float32(0.0) else np.float32(0.0)
                d_around[t, h] += through
                d_pairs[r, h] += through
                d_weight[h] += s * max(z, np.float32(0.0))

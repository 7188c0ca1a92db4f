# mypy: allow-untyped-defs
"""The forward filter of a packed batch of chains with transitions of their own at every step."""

from __future__ import annotations

import math

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.backward_filter_kernels import filter_forward


@kernel
def filter_batch(unary, transitions, start, offsets, first, last, filtered, log_sums):
    """filtered[t, k] = P(z_t = k | parts up to step t), for sequences first..last-1.

    log_sums[i]: the log of the sum over all labellings of sequence i, ``-inf`` if it has none.
    """
    K = unary.shape[1]
    shift, e, weight, q = np.empty(K), np.empty((K, K)), np.empty(K), np.empty((K, K))
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        log_sums[i] = 0.0
        if hi == lo:
            continue
        f = filtered[lo:hi]
        u, a, none = unary[lo:hi], transitions[lo:hi], f[:0]
        log_sums[i] = filter_forward(u, a, start, f, shift, e, weight, q, none, none)
        for t in range(hi - lo):
            for k in range(K):
                f[t, k] = math.exp(f[t, k])

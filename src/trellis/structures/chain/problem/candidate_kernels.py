# mypy: allow-untyped-defs
"""Weighted sums of joint feature vectors: the gradient of an objective over candidate labellings."""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.chain_kernels import max_length
from trellis.structures.chain.scores.linear_chain_kernels import add_path


@kernel
def add_candidates(design, rows, g, mask, labellings, coefficients):
    """g += sum_i sum_r coefficients[r, i] Phi(x_i, labellings[r]): labellings (R, N), coefficients (R, S)."""
    n = design.offsets.shape[0] - 1
    nothing = np.full(max_length(design.offsets, 0, n), -1, dtype=np.int32)  # differs from every label
    for i in range(n):
        lo, hi = design.offsets[i], design.offsets[i + 1]
        for r in range(labellings.shape[0]):
            if coefficients[r, i] != 0.0:
                add_path(design, rows, g, mask, i, labellings[r, lo:hi], nothing, coefficients[r, i])

# mypy: allow-untyped-defs, disable-error-code="call-arg"
"""Rows of likelihoods and of symbols."""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.core.numerics_kernels import exp_shifted, highest


@kernel
def scale_rows(log_likelihood, floor, scaled, shift):
    """shift[t] = max_k log_likelihood[t, k] and scaled[t] = exp(log_likelihood[t] - shift[t]), at least
    ``floor`` where the log-likelihood is not ``-inf``.

    A row of ``-inf`` gives zeros and the shift ``-inf``.
    """
    for t in range(log_likelihood.shape[0]):
        u, e = log_likelihood[t], scaled[t]
        top = highest(u)
        shift[t] = top
        exp_shifted(u, 0.0 if top == -np.inf else top, e)
        if floor > 0.0:
            for k in range(e.shape[0]):
                if e[k] < floor and u[k] > -np.inf:
                    e[k] = floor


@kernel
def count_symbols(symbols, posterior, counts):
    """counts[m] += sum of posterior[t] over the steps with symbol m. Row -1, the last, takes the missing."""
    n, K = posterior.shape
    n_symbols = counts.shape[0] - 1
    for t in range(n):
        m = symbols[t]
        row, p = counts[m if m >= 0 else n_symbols], posterior[t]
        for k in range(K):
            row[k] += p[k]

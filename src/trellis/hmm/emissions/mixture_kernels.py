# mypy: allow-untyped-defs, disable-error-code="call-arg"
"""Sums over the components of each state. Components are columns: those of state k are kC to (k+1)C - 1."""

from __future__ import annotations

import math

import numpy as np

from trellis.core.logspace_kernels import exp_and_sum
from trellis.core.numerics import kernel


@kernel
def mixture_log_likelihood(log_likelihood, log_weights, out):
    """out[t, k] = log sum_c exp(log_likelihood[t, kC + c] + log_weights[kC + c])."""
    n, K = out.shape
    C = log_weights.shape[0] // K
    joint, e = np.empty(C), np.empty(C)
    for t in range(n):
        for k in range(K):
            for c in range(C):
                joint[c] = log_likelihood[t, k * C + c] + log_weights[k * C + c]
            top, total = exp_and_sum(joint, e)
            out[t, k] = top + math.log(total) if total > 0.0 else -np.inf


@kernel
def component_posteriors(log_likelihood, log_weights, posterior, shares):
    """shares[t, kC + c] = posterior[t, k] p(c | x_t, k); returns their entropy, - sum posterior p log p."""
    n, K = posterior.shape
    C = log_weights.shape[0] // K
    joint, e = np.empty(C), np.empty(C)
    entropy = 0.0
    for t in range(n):
        for k in range(K):
            q = posterior[t, k]
            for c in range(C):
                joint[c] = log_likelihood[t, k * C + c] + log_weights[k * C + c]
            top, total = exp_and_sum(joint, e)
            cross = 0.0
            for c in range(C):
                cross += e[c] * (joint[c] - top) if e[c] > 0.0 else 0.0
            r = q / total if total > 0.0 else 0.0
            for c in range(C):
                shares[t, k * C + c] = e[c] * r
            if total > 0.0:
                entropy += q * (math.log(total) - cross / total)
    return entropy

# mypy: allow-untyped-defs
"""From starts of segments to their ends and back: convolutions over lengths, by maximum or log-sum-exp."""

from __future__ import annotations

import math

import numpy as np

from trellis.core.logspace_kernels import log_dot_exp
from trellis.core.numerics import kernel, max_kernel
from trellis.core.numerics_kernels import exp_shifted, highest

TINY = 1e-200  # a sum below it may have lost terms to underflow
BLOCK = 64  # targets of a convolution that share one shift


@max_kernel
def convolve_max(before, after, x, weight, first, last, shortest, longest, out):
    """out[s + after l] = max_l x[s + before l] + weight[l] for s = first..last: with (before, after) = (0, 1)
    from starts to ends, with (1, 0) from ends to starts. ``out`` is -inf beforehand."""
    size = out.shape[0]
    for length in range(shortest, longest + 1):
        stop = min(last + 1, size - length)
        if stop > first and weight[length] > -np.inf:
            a, b = before * length, after * length
            source, target = x[first + a : stop + a], out[first + b : stop + b]
            for k in range(source.shape[0]):
                v = source[k] + weight[length]
                target[k] = v if v > target[k] else target[k]


@kernel
def convolve_sum(before, after, x, weight, first, last, shortest, longest, out):
    """The same with log-sum-exp in place of the maximum.

    out[t] = log sum_u exp(x[u]) exp(weight[+-(t - u)]) for ``BLOCK`` targets t at a time: with the largest x
    that they can reach shifted out, and the largest weight, the sum is a plain convolution. Where it nears
    underflow it is computed again in log space."""
    size = out.shape[0]
    sign = after - before
    # u = t - sign l runs over the starts first..last of segments, or their ends
    low = first + before * shortest
    high = min(last + before * longest, size - 1)
    from_target = first + after * shortest
    to_target = min(last + after * longest, size - 1)
    top_weight = highest(weight[shortest : longest + 1])
    if last < first or top_weight == -np.inf:
        return
    factor = np.zeros(longest + 1)
    exp_shifted(weight[shortest : longest + 1], top_weight, factor[shortest:])
    padding = longest + 1
    terms = np.zeros(BLOCK + 2 * padding)
    total = np.empty(BLOCK)
    for begin in range(from_target, to_target + 1, BLOCK):
        n = min(BLOCK, to_target + 1 - begin)
        # the sources of this block: u in reach_low..reach_high, kept at terms[u - begin + padding]
        reach_low = max(low, begin - longest if sign > 0 else begin + shortest)
        reach_high = min(high, begin + n - 1 - shortest if sign > 0 else begin + n - 1 + longest)
        if reach_high < reach_low:
            continue
        top = highest(x[reach_low : reach_high + 1])
        if top == -np.inf:
            continue
        terms[:] = 0.0
        at = reach_low - begin + padding
        exp_shifted(x[reach_low : reach_high + 1], top, terms[at : at + reach_high + 1 - reach_low])
        total[:] = 0.0
        for length in range(shortest, longest + 1):
            source = terms[padding - sign * length : padding - sign * length + n]
            for k in range(n):
                total[k] += factor[length] * source[k]
        for k in range(n):
            if total[k] > TINY:
                out[begin + k] = top + top_weight + math.log(total[k])
            else:
                # u = t - sign l within low..high
                t = begin + k
                least = max(shortest, t - high if sign > 0 else low - t)
                most = min(longest, t - low if sign > 0 else high - t)
                if most >= least:
                    near, far = t - sign * least, t - sign * most
                    terms_of_t = x[min(near, far) : max(near, far) + 1][::-sign]
                    out[t] = log_dot_exp(terms_of_t, weight[least : most + 1])

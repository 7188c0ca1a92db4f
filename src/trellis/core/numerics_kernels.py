# mypy: allow-untyped-defs, disable-error-code="call-arg"
"""Loops over one row that LLVM turns into SIMD: exponentials, maximum and minimum.

Scores are never NaN here, and ``-inf`` is allowed.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from trellis.core.numerics import max_kernel

# exp(r) on |r| <= ln(2)/2 by its Taylor polynomial: the remainder r^13/13! is below 2e-16 there.
_C2, _C3, _C4, _C5, _C6, _C7 = (1.0 / math.factorial(i) for i in range(2, 8))
_C8, _C9, _C10, _C11, _C12 = (1.0 / math.factorial(i) for i in range(8, 13))
_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = (
    6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits of the mantissa
)


@intrinsic
def _bits(typingctx, x):
    """The 64 bits of a float, as an integer."""

    def bitcast(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), bitcast


@intrinsic
def _from_bits(typingctx, x):
    """The float that has these 64 bits."""

    def bitcast(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), bitcast


@max_kernel
def exp_shifted(x, shift, out):
    """out = exp(x - shift) for x <= shift; below exp(-708) it is 0.

    A loop that LLVM turns into SIMD, unlike calls of libm.
    """
    for k in range(x.shape[0]):
        v = x[k] - shift
        small = v < -708.0
        v = -708.0 if small else v
        t = v * _LOG2E + _ROUND
        m = t - _ROUND
        r = (v - m * _LN2_HIGH) - m * _LN2_LOW
        p = _C12
        p = p * r + _C11
        p = p * r + _C10
        p = p * r + _C9
        p = p * r + _C8
        p = p * r + _C7
        p = p * r + _C6
        p = p * r + _C5
        p = p * r + _C4
        p = p * r + _C3
        p = p * r + _C2
        p = p * r * r + r + 1.0
        out[k] = 0.0 if small else _from_bits(_bits(p) + (_bits(t) << 52))


@max_kernel
def highest(x):
    """The maximum: SIMD, for scores are never NaN."""
    top = -np.inf
    for k in range(x.shape[0]):
        top = x[k] if x[k] > top else top
    return top


@max_kernel
def lowest(x):
    low = np.inf
    for k in range(x.shape[0]):
        low = x[k] if x[k] < low else low
    return low

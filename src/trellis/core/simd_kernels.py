# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""Vectors of eight float64 for kernels whose inner loop must stay in registers.

LLVM turns simple loops over rows into SIMD by itself, but it does not keep the sums of a small matrix product
in registers while it walks over the matrix, because it cannot know that the arrays do not overlap. These
functions say it directly: ``load`` eight numbers, ``fma`` them, ``store`` them. LLVM splits a vector where a
register holds fewer than eight.

Rows are those of C-contiguous matrices with a multiple of ``WIDTH`` columns (:func:`padded`); nothing checks
that an index is inside.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model
from numpy.typing import NDArray

WIDTH = 8

_INT = ir.IntType(64)
_INDEX = ir.IntType(32)
_LANES = ir.VectorType(ir.DoubleType(), WIDTH)
_LANE_BITS = ir.VectorType(_INT, WIDTH)

# exp(r) on |r| <= ln(2)/2 by its Taylor polynomial: the remainder r^14/14! is below 5e-18 there.
_TAYLOR = [1.0 / math.factorial(i) for i in range(13, 1, -1)]
_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = (
    6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits of the mantissa
)


def padded(n: int) -> int:
    """``n`` rounded up to whole vectors."""
    return (n + WIDTH - 1) // WIDTH * WIDTH


def aligned_zeros(*shape: int) -> NDArray[np.float64]:
    """A matrix whose rows, if they are whole vectors, each begin a cache line of 64 bytes."""
    size = math.prod(shape)
    memory = np.zeros(size + WIDTH)
    begin = -memory.ctypes.data // memory.itemsize % WIDTH
    return memory[begin : begin + size].reshape(shape)


class _Eight(types.Type):
    def __init__(self) -> None:
        super().__init__("eight_float64")


_eight = _Eight()


@register_model(_Eight)
class _EightModel(models.PrimitiveModel):
    def __init__(self, manager, kind) -> None:
        super().__init__(manager, kind, _LANES)


def _constant(value):
    return ir.Constant(_LANES, [value] * WIDTH)


def _spread(builder, number):
    """One number in all lanes."""
    nothing = ir.Constant(_LANES, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INDEX, WIDTH), [0] * WIDTH))


def _fma(builder, x, y, z):
    """x * y + z, in one instruction where the processor has it."""
    kind = ir.FunctionType(_LANES, [_LANES] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.fmuladd.v8f64"), [x, y, z])


def _fold(builder, x, combine):
    """All lanes into one number, by halves."""
    half = WIDTH // 2
    while half:
        low, high = (
            builder.shuffle_vector(
                x, x, ir.Constant(ir.VectorType(_INDEX, half), list(range(begin, begin + half)))
            )
            for begin in (0, half)
        )
        x = combine(low, high)
        half //= 2
    return builder.extract_element(x, ir.Constant(_INDEX, 0))


def _address(context, builder, signature, arguments):
    """Where matrix[row, column] lies; the arguments begin with these three."""
    matrix = context.make_array(signature.args[0])(context, builder, arguments[0])
    row, column = (context.cast(builder, arguments[i], signature.args[i], types.int64) for i in (1, 2))
    width = cgutils.unpack_tuple(builder, matrix.shape)[1]
    return builder.gep(matrix.data, [builder.add(builder.mul(row, width), column)])


@intrinsic
def load(typingctx, matrix, row, column):
    """matrix[row, column : column + 8]."""

    def build(context, builder, signature, arguments):
        place = _address(context, builder, signature, arguments)
        return builder.load(builder.bitcast(place, _LANES.as_pointer()), align=8)

    return _eight(matrix, row, column), build


@intrinsic
def store(typingctx, matrix, row, column, x):
    """matrix[row, column : column + 8] = x."""

    def build(context, builder, signature, arguments):
        place = _address(context, builder, signature, arguments)
        builder.store(arguments[3], builder.bitcast(place, _LANES.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(matrix, row, column, _eight), build


@intrinsic
def prefetch(typingctx, matrix, row, column):
    """Ask for the cache line of matrix[row, column], to be read or written soon."""

    def build(context, builder, signature, arguments):
        place = _address(context, builder, signature, arguments)
        pointer = builder.bitcast(place, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _INDEX, _INDEX, _INDEX])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, *(ir.Constant(_INDEX, i) for i in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(matrix, row, column), build


@intrinsic
def splat(typingctx, number):
    """The number in all lanes."""

    def build(context, builder, signature, arguments):
        return _spread(builder, arguments[0])

    return _eight(types.float64), build


@intrinsic
def add(typingctx, x, y):
    def build(context, builder, signature, arguments):
        return builder.fadd(*arguments)

    return _eight(_eight, _eight), build


@intrinsic
def multiply(typingctx, x, y):
    def build(context, builder, signature, arguments):
        return builder.fmul(*arguments)

    return _eight(_eight, _eight), build


@intrinsic
def fma(typingctx, number, x, y):
    """number * x + y."""

    def build(context, builder, signature, arguments):
        return _fma(builder, _spread(builder, arguments[0]), *arguments[1:])

    return _eight(types.float64, _eight, _eight), build


def _larger(builder, x, y):
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


def _smaller(builder, x, y):
    return builder.select(builder.fcmp_ordered("<", x, y), x, y)


@intrinsic
def larger(typingctx, x, y):
    """The maxima, lane by lane; numbers must not be NaN."""

    def build(context, builder, signature, arguments):
        return _larger(builder, *arguments)

    return _eight(_eight, _eight), build


@intrinsic
def smaller(typingctx, x, y):
    """The minima, lane by lane; numbers must not be NaN."""

    def build(context, builder, signature, arguments):
        return _smaller(builder, *arguments)

    return _eight(_eight, _eight), build


@intrinsic
def where_positive(typingctx, x, y):
    """y where x > 0, else 0."""

    def build(context, builder, signature, arguments):
        positive = builder.fcmp_ordered(">", arguments[0], _constant(0.0))
        return builder.select(positive, arguments[1], _constant(0.0))

    return _eight(_eight, _eight), build


@intrinsic
def choose(typingctx, condition, x, y):
    """x if the condition (one for all lanes) holds, else y."""

    def build(context, builder, signature, arguments):
        return builder.select(*arguments)

    return _eight(types.boolean, _eight, _eight), build


@intrinsic
def total(typingctx, x):
    """The sum of the lanes."""

    def build(context, builder, signature, arguments):
        return _fold(builder, arguments[0], builder.fadd)

    return types.float64(_eight), build


@intrinsic
def largest(typingctx, x):
    """The maximum of the lanes."""

    def build(context, builder, signature, arguments):
        return _fold(builder, arguments[0], lambda x, y: _larger(builder, x, y))

    return types.float64(_eight), build


@intrinsic
def smallest(typingctx, x):
    """The minimum of the lanes."""

    def build(context, builder, signature, arguments):
        return _fold(builder, arguments[0], lambda x, y: _smaller(builder, x, y))

    return types.float64(_eight), build


@intrinsic
def exp_below(typingctx, x):
    """exp(x) for x <= 0, to one unit in the last place; 0 below -708."""

    def build(context, builder, signature, arguments):
        (x,) = arguments
        small = builder.fcmp_ordered("<", x, _constant(-708.0))
        x = builder.select(small, _constant(-708.0), x)
        # x = m ln 2 + r, m an integer
        shifted = _fma(builder, x, _constant(_LOG2E), _constant(_ROUND))
        m = builder.fsub(shifted, _constant(_ROUND), flags=("nsz",))  # own flags: sums keep their order
        r = _fma(builder, m, _constant(-_LN2_HIGH), x)
        r = _fma(builder, m, _constant(-_LN2_LOW), r)
        p = _constant(_TAYLOR[0])
        for coefficient in _TAYLOR[1:]:
            p = _fma(builder, p, r, _constant(coefficient))
        p = builder.fadd(_fma(builder, builder.fmul(r, r), p, r), _constant(1.0), flags=("nsz",))
        # times 2^m: m stands in the low bits of ``shifted``
        power = builder.shl(builder.bitcast(shifted, _LANE_BITS), ir.Constant(_LANE_BITS, [52] * WIDTH))
        p = builder.bitcast(builder.add(builder.bitcast(p, _LANE_BITS), power), _LANES)
        return builder.select(small, _constant(0.0), p)

    return _eight(_eight), build

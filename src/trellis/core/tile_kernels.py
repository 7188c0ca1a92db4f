# mypy: allow-untyped-defs, disable-error-code="misc"
"""Products of small matrices, tile by tile in registers.

A tile is a few rows of four or eight columns. Its sums stay in registers through the whole depth of the
product and are written once. Numba has no vectors of its own, and LLVM does not find these where sizes are
not known, so the loops are written in LLVM's terms. LLVM splits a vector that is longer than the registers of
the machine. These are *intrinsics*, calls on bare pointers: a call of a kernel would count references to its
arrays, which takes longer than to multiply matrices of four rows.

Matrices are C-contiguous. The rows and columns of a result are multiples of four; a depth may be anything
from 1. A result may take the place of what it is added to, but not of a factor.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from trellis.core.numerics import kernel

_FLAGS = ("contract", "reassoc", "nsz", "arcp")
_INDEX, _FLOAT = ir.IntType(64), ir.DoubleType()
_POINTER = _FLOAT.as_pointer()


def _sums(
    builder: Any, rows: int, width: int, X: Any, x_row: Any, x_step: Any, Y: Any, y_step: Any, depth: Any
) -> Any:
    """sum_k X[a x_row + k x_step] Y[k y_step + b], a vector over b < width for each a < rows."""
    vector = ir.VectorType(_FLOAT, width)
    before, loop = builder.block, builder.append_basic_block("depth")
    builder.branch(loop)
    builder.position_at_end(loop)
    k, sums = builder.phi(_INDEX), [builder.phi(vector) for _ in range(rows)]
    k.add_incoming(_INDEX(0), before)
    line = builder.load(_vector(builder, Y, builder.mul(k, y_step), width), align=8)
    column, fresh = builder.mul(k, x_step), []
    for a, total in enumerate(sums):
        factor = builder.load(builder.gep(X, [builder.add(column, builder.mul(_INDEX(a), x_row))]))
        term = builder.fmul(_splat(builder, factor, width), line, flags=_FLAGS)
        fresh.append(builder.fadd(total, term, flags=_FLAGS))
    following = builder.add(k, _INDEX(1))
    k.add_incoming(following, loop)
    for total, value in zip(sums, fresh, strict=True):
        total.add_incoming(ir.Constant(vector, [0.0] * width), before)
        total.add_incoming(value, loop)
    after = builder.append_basic_block("summed")
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
    builder.position_at_end(after)
    return fresh


def _vector(builder: Any, array: Any, place: Any, width: int) -> Any:
    return builder.bitcast(builder.gep(array, [place]), ir.VectorType(_FLOAT, width).as_pointer())


def _splat(builder: Any, scalar: Any, width: int) -> Any:
    nothing = ir.Constant(ir.VectorType(_FLOAT, width), ir.Undefined)
    one = builder.insert_element(nothing, scalar, _INDEX(0))
    return builder.shuffle_vector(
        one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    )


def _function(module: Any, tall: int, add: bool, symmetric: bool) -> Any:
    """The LLVM function  M = X Y,  or  M = B + sign X Y  with ``add``, in tiles ``tall`` rows high.

    Arguments: X, the distances in it from row to row and along the depth, Y, its row length, the depth, sign,
    B, M, its rows and columns. ``symmetric``: nothing left of the tiles on the diagonal.
    """
    name = f"trellis_tiles_{tall}_{int(add)}_{int(symmetric)}"
    if name in module.globals:
        return module.globals[name]
    kinds = _POINTER, _INDEX, _INDEX, _POINTER, _INDEX, _INDEX, _FLOAT, _POINTER, _POINTER, _INDEX, _INDEX
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    X, x_row, x_step, Y, y_step, depth, sign, B, M, rows, columns = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))

    def tile(i: Any, j: Any, width: int) -> None:
        left = builder.gep(X, [builder.mul(i, x_row)])
        sums = _sums(builder, tall, width, left, x_row, x_step, builder.gep(Y, [j]), y_step, depth)
        for a, total in enumerate(sums):
            place = builder.add(builder.mul(builder.add(i, _INDEX(a)), columns), j)
            if add:
                old = builder.load(_vector(builder, B, place, width), align=8)
                term = builder.fmul(total, _splat(builder, sign, width), flags=_FLAGS)
                total = builder.fadd(old, term, flags=_FLAGS)
            builder.store(total, _vector(builder, M, place, width), align=8)

    with cgutils.for_range_slice(builder, _INDEX(0), rows, _INDEX(tall), _INDEX) as (i, _):
        first = i if symmetric else _INDEX(0)
        eights = builder.and_(builder.sub(columns, first), _INDEX(-8))
        rest = builder.add(first, eights)
        with cgutils.for_range_slice(builder, first, rest, _INDEX(8), _INDEX) as (j, _):
            tile(i, j, 8)
        with builder.if_then(builder.icmp_signed("<", rest, columns)):
            tile(i, rest, 4)
    builder.ret_void()
    return function


def _intrinsic(tall: int, add: bool, symmetric: bool, transposed: bool) -> Any:
    def build(context, builder, signature, arguments):
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, arguments, strict=True)
            if isinstance(kind, types.Array)
        ]
        numbers = [
            value
            for kind, value in zip(signature.args, arguments, strict=True)
            if not isinstance(kind, types.Array)
        ]
        B, X, Y, M = arrays if add else (arrays[-1], *arrays)

        def length(array: Any) -> Any:
            return cgutils.unpack_tuple(builder, array.shape)[-1]

        one = _INDEX(1)
        steps = (one, length(X)) if transposed else (length(X), one)
        rows = _INDEX(1) if tall == 1 else cgutils.unpack_tuple(builder, M.shape)[0]
        sign = numbers[1] if len(numbers) > 1 else _FLOAT(1.0)
        function = _function(builder.module, tall, add, symmetric)
        builder.call(
            function,
            [X.data, *steps, Y.data, length(Y), numbers[0], sign, B.data, M.data, rows, length(M)],
        )
        return context.get_dummy_value()

    return build


@intrinsic
def product(typingctx, X, Y, depth, M):
    """M = X Y, of the first ``depth`` columns of X and rows of Y."""
    return types.void(X, Y, types.intp, M), _intrinsic(4, False, False, False)


@intrinsic
def transposed_symmetric(typingctx, X, Y, depth, M):
    """M = X' Y where that is symmetric: what is on and above its diagonal (:func:`mirror` does the rest)."""
    return types.void(X, Y, types.intp, M), _intrinsic(4, False, True, True)


@intrinsic
def add_transposed(typingctx, B, X, Y, depth, sign, M):
    """M = B + sign X' Y, of the first ``depth`` rows of X and Y; M may be B."""
    return types.void(B, X, Y, types.intp, types.float64, M), _intrinsic(4, True, False, True)


@intrinsic
def add_symmetric(typingctx, B, X, Y, depth, sign, M):
    """M = B + sign X' Y where that is symmetric: what is on and above its diagonal."""
    return types.void(B, X, Y, types.intp, types.float64, M), _intrinsic(4, True, True, True)


@intrinsic
def add_row(typingctx, b, x, Y, depth, out):
    """out = b + x Y, for vectors b, x, out and the first ``depth`` rows of Y; ``out`` may be ``b``."""
    return types.void(b, x, Y, types.intp, out), _intrinsic(1, True, False, False)


@kernel
def mirror(M, n):
    """What is above the diagonal of the first n rows and columns, below it."""
    for i in range(n):
        for j in range(i):
            M[i, j] = M[j, i]

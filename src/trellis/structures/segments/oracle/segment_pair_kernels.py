# mypy: allow-untyped-defs
"""Adjacent segments under the rate term: for every length of the one, the best or the sum over the other's.

Expanding the square,

    max_l' v(l') - r (x - b l')^2  =  -r x^2 + max_l' (2 r b l') x + (v(l') - r b^2 l'^2),      x = a l,

is the upper envelope of lines whose slopes are in order, for r of either sign: built and read in O(L).
Log-sum-exp takes O(L^2), as a matrix product of many rows at once with the kernel exp(-r (a l - b l')^2 -
c_l), where c_l is the largest exponent of its column; an entry near underflow is computed again in log space.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.logspace_kernels import exp_and_sum
from trellis.core.numerics import kernel
from trellis.core.numerics_kernels import exp_shifted, highest

TINY = 1e-200  # a product below it may have lost terms to underflow
TILE = 64  # columns of one matrix product
SMALL_PRODUCT = (
    2**18
)  # multiplications up to which OpenBLAS stays on the calling thread: shards have their own


@kernel
def pair_max(v, from_length, b, to_length, a, r, out):
    """out[k, y] = max_x v[k, x] - r (a (to_length + y) - b (from_length + x))^2, row by row.

    Lines x < x' meet at position  b (l + l') / 2 + (v[x] - v[x']) / (2 r b (x' - x))."""
    n, m = v.shape
    # the envelope from left to right, entries 1..size: from where on it counts, its value, b l, and x
    since, height, middle, line = np.empty(m + 1), np.empty(m + 1), np.empty(m + 1), np.empty(m + 1, np.int64)
    inverse = np.empty(m)
    for x in range(1, m):
        inverse[x] = 1.0 / (2.0 * abs(r) * b * x)
    for k in range(n):
        row, size = v[k], 0
        for q in range(m):
            x = q if r >= 0.0 else m - 1 - q  # slopes 2 r b l' must rise
            if row[x] == -np.inf:
                continue
            u, start = b * (from_length + x), -np.inf
            while size > 0:
                start = 0.5 * (u + middle[size]) + (height[size] - row[x]) * inverse[abs(x - line[size])]
                if start > since[size]:
                    break
                size -= 1  # the last line is nowhere above both of its neighbours
                start = -np.inf
            size += 1
            since[size], height[size], middle[size], line[size] = start, row[x], u, x
        at = 1
        for y in range(out.shape[1]):
            position = a * (to_length + y)
            while at < size and since[at + 1] <= position:
                at += 1
            d = position - middle[at]
            out[k, y] = height[at] - r * d * d if size > 0 else -np.inf


@kernel
def pair_sum(v, from_length, b, to_length, a, r, out, squares):
    """out[k, y] = log sum_x exp(v[k, x] - r d^2), d = a (to_length + y) - b (from_length + x); and the mean
    of d^2 under these terms, unless ``squares`` is empty."""
    n, m = v.shape
    terms, top = np.empty((n, m)), np.empty(n)
    for k in range(n):
        top[k] = highest(v[k])
        exp_shifted(v[k], top[k] if top[k] > -np.inf else 0.0, terms[k])
    for y in range(0, out.shape[1], TILE):
        some = slice(y, y + TILE)
        pair_sum_tile(v, terms, top, from_length, b, to_length + y, a, r, out[:, some], squares[:, some])


@kernel
def pair_sum_tile(v, terms, top, from_length, b, to_length, a, r, out, squares):
    """``pair_sum`` for a few columns, given terms = exp(v - top)."""
    n, m = v.shape
    columns, with_squares = out.shape[1], squares.shape[0] > 0
    square, weight, weighted = np.empty((m, columns)), np.empty((m, columns)), np.empty((m, columns))
    shift = np.full(columns, -np.inf)
    for x in range(m):
        for y in range(columns):
            d = a * (to_length + y) - b * (from_length + x)
            square[x, y] = d * d
            shift[y] = max(shift[y], -r * d * d)
    for x in range(m):
        for y in range(columns):
            weight[x, y] = math.exp(-r * square[x, y] - shift[y])
            weighted[x, y] = weight[x, y] * square[x, y]
    sums, products = np.empty((n, columns)), np.empty((n, columns))
    rows = max(1, SMALL_PRODUCT // (m * columns))
    for k in range(0, n, rows):
        np.dot(terms[k : k + rows], weight, sums[k : k + rows])
        if with_squares:
            np.dot(terms[k : k + rows], weighted, products[k : k + rows])
    for k in range(n):
        for y in range(columns):
            if top[k] == -np.inf:
                out[k, y] = -np.inf
                if with_squares:
                    squares[k, y] = 0.0
            elif sums[k, y] > TINY:
                out[k, y] = top[k] + shift[y] + math.log(sums[k, y])
                if with_squares:
                    squares[k, y] = products[k, y] / sums[k, y]
            else:
                out[k, y], mean = log_space(v[k], square[:, y], r)
                if with_squares:
                    squares[k, y] = mean


@kernel
def log_space(v, square, r):
    """log sum_x exp(v - r square), and the mean of square."""
    terms = np.empty(v.shape[0])
    for x in range(v.shape[0]):
        terms[x] = v[x] - r * square[x]
    top, total = exp_and_sum(terms, terms)
    weighted = 0.0
    for x in range(v.shape[0]):
        weighted += terms[x] * square[x]
    return (top + math.log(total), weighted / total) if total > 0.0 else (top, 0.0)

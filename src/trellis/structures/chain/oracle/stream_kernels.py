# mypy: allow-untyped-defs, disable-error-code="call-arg"
"""Forward-backward of a block of chains with shared transitions, four chains at a time.

One chain alone waits for itself: a message can be multiplied by the transitions only when the one before it
is there, and each product of a row and a matrix reads the whole matrix. So the chains of a block are laid end
to end in four *streams* of about equal length, and a step of all four is one product of a 4 x K and a K x K
matrix, whose sums stay in registers (:mod:`trellis.core.simd_kernels`). The pairwise marginals of the block
are one product of a K x n and an n x K matrix.

The messages are the scaled ones of :mod:`.chain_kernels`, with the same equations and the same test of what
is safe; a chain that is not safe is told to the caller as NaN, and leaves no trace in the sums.

Rows have ``padded(K)`` columns. In each matrix of :class:`Block` one more row than there are steps is free:
the streams that have ended stay there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.numerics import kernel
from trellis.core.simd_kernels import (
    WIDTH,
    add,
    aligned_zeros,
    choose,
    exp_below,
    fma,
    larger,
    largest,
    load,
    multiply,
    padded,
    smaller,
    smallest,
    splat,
    store,
    total,
    where_positive,
)
from trellis.structures.chain.oracle.chain_kernels import RANGE, TINY, lost, lost_message

STREAMS = 4


class Block(NamedTuple):
    """Scratch for up to n steps, kept from call to call: fresh memory costs as much as the work on it."""

    u: FloatArray  # (n + 1, padded(K)) scores, those of start and end included; -inf beyond K
    d: FloatArray  # marginals times the weight of the chain
    alpha: FloatArray
    e: FloatArray  # exp(u - max u), then what multiplies alpha in the pairwise marginals
    margin: FloatArray  # (1, padded(K)): -inf up to K, inf beyond
    products: FloatArray  # (STREAMS, padded(K))
    ea: FloatArray  # (1, padded(K), padded(K)): from exp_transitions, zeros beyond K
    ea_t: FloatArray
    outer: FloatArray  # (padded(K), padded(K))
    scale: FloatArray  # (n + 1,)
    begins: NDArray[np.bool_]  # (n + 2,): whether a chain begins at this row
    seed: FloatArray  # (n + 1,): the weight of the chain at its last row, else 0
    bounds: NDArray[np.int64]  # (n + 1,): the rows of chain i are bounds[i]..bounds[i + 1] - 1, at least one
    weight: FloatArray  # (n,)
    partner: NDArray[np.int64]  # (n,): a chain that is not safe if this one is not; itself, if there is none
    log_z: FloatArray  # (n,)
    spread: FloatArray  # (n,): the largest spread within a row of the chain, inf where one is forbidden
    cuts: NDArray[np.int64]  # (STREAMS + 1,): stream s has the rows cuts[s]..cuts[s + 1] - 1
    at: NDArray[np.int64]  # (STREAMS,): the row that each stream is at
    rate: FloatArray  # (STREAMS,): 1 / the sum of its last message


def new_block(n: int, n_labels: int) -> Block:
    size = padded(n_labels)
    block = Block(
        u=aligned_zeros(n + 1, size),
        d=aligned_zeros(n + 1, size),
        alpha=aligned_zeros(n + 1, size),
        e=aligned_zeros(n + 1, size),
        margin=aligned_zeros(1, size),
        products=aligned_zeros(STREAMS, size),
        ea=aligned_zeros(1, size, size),
        ea_t=aligned_zeros(1, size, size),
        outer=aligned_zeros(size, size),
        scale=np.zeros(n + 1),
        begins=np.ones(n + 2, np.bool_),
        seed=np.zeros(n + 1),
        bounds=np.zeros(n + 1, np.int64),
        weight=np.zeros(n),
        partner=np.zeros(n, np.int64),
        log_z=np.zeros(n),
        spread=np.zeros(n),
        cuts=np.zeros(STREAMS + 1, np.int64),
        at=np.zeros(STREAMS, np.int64),
        rate=np.zeros(STREAMS),
    )
    block.margin[0, :n_labels], block.margin[0, n_labels:] = -np.inf, np.inf
    return block


@kernel
def block_marginals(block, n_chains, shift, floor):
    """log Z of each chain into ``log_z``, NaN where scaled messages are not safe or no labelling is allowed;
    its marginals times its ``weight`` into ``d``, 0 if its own log Z or its partner's is NaN. The sum of all
    alpha w^T, still to be multiplied by ``ea``, is added to ``outer``.

    ``ea, ea_t, shift`` and ``floor`` come from :func:`.chain_kernels.exp_transitions`.
    """
    n, steps = block.bounds[n_chains], _cut_streams(block.bounds, n_chains, block.cuts)
    _exp_scores(block, n_chains)
    _forward(block, steps, n)
    _sum_scales(block, n_chains, shift[0], floor)
    _backward(block, steps, n)
    _add_outer(block.alpha, block.e, n, block.outer)


@kernel
def _cut_streams(bounds, n_chains, cuts):
    """Whole chains in each stream, of about equal numbers of rows; returns the largest."""
    n, s, steps = bounds[n_chains], 0, 0
    for i in range(n_chains + 1):
        while s <= STREAMS and bounds[i] * STREAMS >= s * n:
            cuts[s] = bounds[i]
            steps = max(steps, cuts[s] - cuts[max(s - 1, 0)])
            s += 1
    return steps


@kernel
def _exp_scores(block, n_chains):
    """e[t] = exp(u[t] - max u[t]), and the sum of the maxima into ``log_z``: NaN if a probability is lost."""
    # Fields as local names: to take an array out of a tuple inside a loop counts references.
    u, e, margin, begins, bounds = block.u, block.e, block.margin, block.begins, block.bounds
    seed, weight, log_z, spreads, size = block.seed, block.weight, block.log_z, block.spread, u.shape[1]
    for i in range(n_chains):
        first, end = bounds[i], bounds[i + 1]
        maxima, low = 0.0, splat(0.0)
        for t in range(first, end):
            begins[t] = False
            seed[t] = 0.0
            x = load(u, t, 0)
            for k in range(WIDTH, size, WIDTH):
                x = larger(x, load(u, t, k))
            top = largest(x)
            maxima += top
            top = top if top > -np.inf else 0.0
            for k in range(0, size, WIDTH):
                x = add(load(u, t, k), splat(-top))
                low = smaller(low, larger(x, load(margin, 0, k)))
                store(e, t, k, exp_below(x))
        begins[first] = True
        seed[end - 1] = weight[i]
        spread = -smallest(low)
        if not spread < RANGE:
            for t in range(first, end):
                if lost(u[t], e[t]):
                    maxima = np.nan
        log_z[i], spreads[i] = maxima, spread
    begins[bounds[n_chains]] = True
    begins[bounds[n_chains] + 1] = True


@kernel
def _multiply_rows(rows, t0, t1, t2, t3, matrix, out):
    """out[s] = rows[t_s] matrix."""
    size = matrix.shape[0]
    for k in range(0, size, WIDTH):
        x0, x1, x2, x3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for j in range(size):
            m = load(matrix, j, k)
            x0, x1 = fma(rows[t0, j], m, x0), fma(rows[t1, j], m, x1)
            x2, x3 = fma(rows[t2, j], m, x2), fma(rows[t3, j], m, x3)
        store(out, 0, k, x0)
        store(out, 1, k, x1)
        store(out, 2, k, x2)
        store(out, 3, k, x3)


@kernel
def _forward(block, steps, n):
    """alpha[t] = (alpha[t-1] ea) * e[t] / c_{t-1}, and e[t] where a chain begins; c_t = sum alpha[t], and
    scale[t] = 1 / c_t.

    Dividing by the sum of the step *before* keeps the division out of the chain of steps that wait for each
    other.
    """
    alpha, e, scale, begins, products = block.alpha, block.e, block.scale, block.begins, block.products
    cuts, at, rate, ea, size = block.cuts, block.at, block.rate, block.ea[0], alpha.shape[1]
    for step in range(steps):
        for s in range(STREAMS):
            at[s] = cuts[s] + step if cuts[s] + step < cuts[s + 1] else n
        t0, t1, t2, t3 = at[0], at[1], at[2], at[3]
        # Where a chain begins there is no row before: what is read instead is not used.
        _multiply_rows(
            alpha, t0 - (not begins[t0]), t1 - (not begins[t1]), t2 - (not begins[t2]), t3 - (not begins[t3]),
            ea, products,
        )  # fmt: skip
        for s in range(STREAMS):
            t = at[s]
            first, r, c = begins[t], splat(rate[s]), splat(0.0)
            for k in range(0, size, WIDTH):
                x = load(e, t, k)
                x = choose(first, x, multiply(multiply(x, r), load(products, s, k)))
                store(alpha, t, k, x)
                c = add(c, x)
            rate[s] = 1.0 / total(c)
            scale[t] = rate[s]


@kernel
def _sum_scales(block, n_chains, shift, floor):
    """log Z = sum_t log c_t + max u[t] + shift, NaN for a chain that is not safe; it and its partner become
    zeros."""
    alpha, e, scale, bounds = block.alpha, block.e, block.scale, block.bounds
    sums, spread, partner = block.log_z, block.spread, block.partner
    # A message is at least floor * exp(-spread): where that is above TINY none can have been lost.
    enough = math.log(floor / TINY) if floor > 0.0 else 0.0
    for i in range(n_chains):
        first, end, log_z = bounds[i], bounds[i + 1], sums[i]
        product, safe = 1.0, floor >= 0.0
        for t in range(first, end):
            safe &= scale[t] < 1.0 / TINY
            product *= scale[t]
            if not (1e-100 < product < 1e100):  # a logarithm of many factors, since it is dear
                log_z -= math.log(product)
                product = 1.0
        log_z += (end - first - 1) * shift - math.log(product)
        if safe and not spread[i] < enough:
            safe = not lost_message(alpha[first:end], scale[first:end])
        sums[i] = log_z if safe and log_z > -np.inf else np.nan
    for i in range(n_chains):
        both = sums[i] + sums[partner[i]]
        if both != both:
            for t in range(bounds[i], bounds[i + 1]):
                scale[t] = 0.0
                for k in range(alpha.shape[1]):
                    alpha[t, k], e[t, k] = 0.0, 0.0


@kernel
def _backward(block, steps, n):
    """beta[t] = weight / c_t where a chain ends, else ea w[t + 1]; d[t] = alpha[t] * beta[t]; and w[t] = e[t]
    * beta[t] / c_{t-1}, 0 where a chain begins, replaces e[t].

    Then P(y_{t-1} = j, y_t = k) = alpha[t-1, j] ea[j, k] w[t, k]. Labels that no forward message reaches are
    dropped: they carry no probability, and their beta may be as large as it likes.
    """
    alpha, e, scale, begins, products = block.alpha, block.e, block.scale, block.begins, block.products
    d, seed, ea_t, size = block.d, block.seed, block.ea_t[0], alpha.shape[1]
    cuts, at = block.cuts, block.at
    for step in range(1, steps + 1):
        for s in range(STREAMS):
            at[s] = cuts[s + 1] - step if cuts[s + 1] - step >= cuts[s] else n
        t0, t1, t2, t3 = at[0], at[1], at[2], at[3]
        _multiply_rows(
            e, t0 + (not begins[t0 + 1]), t1 + (not begins[t1 + 1]), t2 + (not begins[t2 + 1]),
            t3 + (not begins[t3 + 1]), ea_t, products,
        )  # fmt: skip
        for s in range(STREAMS):
            t = at[s]
            ends, beta = begins[t + 1], splat(seed[t] * scale[t])
            r = splat(0.0 if begins[t] else scale[t - 1])
            for k in range(0, size, WIDTH):
                a = load(alpha, t, k)
                b = where_positive(a, choose(ends, beta, load(products, s, k)))
                store(d, t, k, multiply(a, b))
                store(e, t, k, multiply(multiply(load(e, t, k), r), b))


@kernel
def _add_outer(alpha, w, n, outer):
    """outer += sum_t alpha[t-1] w[t]^T."""
    size = outer.shape[0]
    for k in range(0, size, WIDTH):
        for j in range(0, size, 4):
            x0, x1, x2, x3 = (
                load(outer, j, k),
                load(outer, j + 1, k),
                load(outer, j + 2, k),
                load(outer, j + 3, k),
            )
            for t in range(1, n):
                y = load(w, t, k)
                x0, x1 = fma(alpha[t - 1, j], y, x0), fma(alpha[t - 1, j + 1], y, x1)
                x2, x3 = fma(alpha[t - 1, j + 2], y, x2), fma(alpha[t - 1, j + 3], y, x3)
            store(outer, j, k, x0)
            store(outer, j + 1, k, x1)
            store(outer, j + 2, k, x2)
            store(outer, j + 3, k, x3)

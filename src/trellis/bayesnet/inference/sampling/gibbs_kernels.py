# mypy: allow-untyped-defs
"""One chain of Gibbs sampling on flat factors.

    x_v ~ p(x_v | all others)  proportional to  exp of the sum over factors f with v of  f(x_v, the others)

Factors are logarithms: a variable may have thousands of them, whose products are beyond floating point.
The place of the present state in each factor is kept, and moves by stride times the change of x_v; so an
update costs the number of states times the number of factors of v, however large those are. Where a single
variable is asked for, p(x_v | all others) itself is averaged instead of the states drawn from it
(Rao-Blackwell: the same mean, a smaller variance).
"""

from __future__ import annotations

import numpy as np

from trellis.bayesnet.inference.sampling.uniform_kernels import uniform
from trellis.core.logspace_kernels import exp_and_sum
from trellis.core.numerics import kernel


@kernel
def conditional(factors, v, state, place, p):
    """p(x_v | all others) into ``p``, up to the sum that is returned; 0 if no state is possible."""
    K = factors.cardinalities[v]
    for k in range(K):
        p[k] = 0.0
    for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
        e = factors.incidence[j]
        stride = factors.stride[e]
        base = place[factors.factor_of[e]] - stride * state[v]
        for k in range(K):
            p[k] += factors.values[base + stride * k]
    return exp_and_sum(p[:K], p[:K])[1]


@kernel
def run_chain(factors, free, cells, own_cell, key, chain, burn_in, n_sweeps, n_batches, state, sums, squares):
    """``burn_in`` + ``n_sweeps`` sweeps over the variables ``free``, from ``state``, which is overwritten.

    ``sums`` (n_batches, cells) receives the sums of what is averaged in each batch of sweeps, ``squares``
    (2, cells) those of its squares in each half of the chain. ``own_cell[v]`` is the first cell of a variable
    that is asked for by itself, -1 for others; scopes without such a variable are counted state by state.
    Returns -1, or a variable of which no state is possible.
    """
    n_factors = factors.value_start.shape[0] - 1
    place = np.empty(n_factors, np.int64)
    for f in range(n_factors):
        place[f] = factors.value_start[f]
        for e in range(factors.scope_start[f], factors.scope_start[f + 1]):
            place[f] += factors.stride[e] * state[factors.scope[e]]
    p = np.empty(factors.cardinalities.max())
    for sweep in range(burn_in + n_sweeps):
        kept = sweep - burn_in
        batch = kept * n_batches // n_sweeps if kept >= 0 else 0
        half = 1 if 2 * kept >= n_sweeps else 0
        counter = (chain * (burn_in + n_sweeps) + sweep) * free.shape[0]
        for t in range(free.shape[0]):
            v = free[t]
            total = conditional(factors, v, state, place, p)
            if not total > 0.0:
                return v
            if kept >= 0 and own_cell[v] >= 0:
                for k in range(factors.cardinalities[v]):
                    share = p[k] / total
                    sums[batch, own_cell[v] + k] += share
                    squares[half, own_cell[v] + k] += share * share
            threshold = uniform(key, counter + t) * total
            reached, drawn = 0.0, state[v]
            for k in range(factors.cardinalities[v]):
                if p[k] > 0.0:  # the last possible state answers for rounding
                    drawn = k
                    reached += p[k]
                    if reached > threshold:
                        break
            change = drawn - state[v]
            if change != 0:
                for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
                    e = factors.incidence[j]
                    place[factors.factor_of[e]] += factors.stride[e] * change
                state[v] = drawn
        if kept >= 0:
            _count_scopes(cells, own_cell, state, sums[batch], squares[half])
    return -1


@kernel
def _count_scopes(cells, own_cell, state, sums, squares):
    for s in range(cells.value_start.shape[0] - 1):
        first, end = cells.scope_start[s], cells.scope_start[s + 1]
        if end - first == 1 and own_cell[cells.scope[first]] >= 0:
            continue
        cell = cells.value_start[s]
        for e in range(first, end):
            cell += cells.stride[e] * state[cells.scope[e]]
        sums[cell] += 1.0
        squares[cell] += 1.0

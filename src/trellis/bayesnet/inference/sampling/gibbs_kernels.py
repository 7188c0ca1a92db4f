# mypy: allow-untyped-defs
"""One chain of Gibbs sampling on flat factors.

    x_v ~ p(x_v | all others)  proportional to  exp of the sum over factors f with v of  f(x_v, the others)

Factors are logarithms: a variable may have thousands of them, whose products are beyond floating point.
The place of the present state in each factor is kept, and moves by stride times the change of x_v; so an
update costs the number of states times the number of factors of v, however large those are. Where a single
variable is asked for, p(x_v | all others) itself is averaged instead of the states drawn from it
(Rao-Blackwell: the same mean, a smaller variance). Blocks of several variables are drawn by elimination
(``gibbs_blocks``).
"""

from __future__ import annotations

import math

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
def _draw(p, u, total, state):
    """The state at which the running sum of ``p`` passes u * total; the last possible one answers for
    rounding."""
    threshold = u * total
    reached, drawn = 0.0, state
    for k in range(p.shape[0]):
        if p[k] > 0.0:
            drawn = k
            reached += p[k]
            if reached > threshold:
                break
    return drawn


@kernel
def _average(p, total, cell, sums, squares):
    for k in range(p.shape[0]):
        share = p[k] / total
        sums[cell + k] += share
        squares[cell + k] += share * share


@kernel
def _move(factors, v, change, place):
    for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
        e = factors.incidence[j]
        place[factors.factor_of[e]] += factors.stride[e] * change


@kernel
def _eliminate(factors, numbers, blocks, first, last, in_logs, place, tables, messages):
    """The tables of the buckets ``first`` .. ``last - 1`` as probabilities up to a factor for each row.

    ``place`` is where each factor would be read if all variables of the block were in state 0; ``numbers``
    are the factors, of which ``factors`` has the logarithms. Returns -1, or a variable that has no state.
    """
    for b in range(first, last):
        start, end = blocks.table_start[b], blocks.table_start[b + 1]
        table = tables[start:end]
        table[:] = 0.0 if in_logs else 1.0
        for part in range(blocks.part_start[b], blocks.part_start[b + 1]):
            source, places = blocks.source[part], blocks.maps[blocks.map_start[part] :]
            if source < 0:
                values = messages[blocks.message_start[-1 - source] :]
            elif in_logs:
                values = factors.values[place[source] :]
            else:
                values = numbers[place[source] :]
            if in_logs:
                for i in range(end - start):
                    table[i] += values[places[i]]
            else:
                for i in range(end - start):
                    table[i] *= values[places[i]]
        K = factors.cardinalities[blocks.variable[b]]
        possible, first_row = False, blocks.message_start[b]
        for row in range(blocks.message_start[b + 1] - first_row):
            if in_logs:
                top, total = exp_and_sum(table[row * K : (row + 1) * K], table[row * K : (row + 1) * K])
                messages[first_row + row] = top + math.log(total) if total > 0.0 else -np.inf
            else:
                total = 0.0
                for i in range(row * K, (row + 1) * K):
                    total += table[i]
                messages[first_row + row] = total
            possible = possible or total > 0.0
        if not possible:
            return blocks.variable[b]
    return -1


@kernel
def run_chain(
    factors, numbers, blocks, cells, own_cell, key, chain, burn_in, n_sweeps, n_batches, state, sums, squares
):
    """``burn_in`` + ``n_sweeps`` sweeps over ``blocks``, from ``state``, which is overwritten.

    ``sums`` (n_batches, cells) receives the sums of what is averaged in each batch of sweeps, ``squares``
    (2, cells) those of its squares in each half of the chain. ``own_cell[v]`` is the first cell of a variable
    that is asked for by itself, -1 for others; scopes without such a variable are counted state by state.
    In a block, x_v is averaged given what is outside and the variables of the block that are drawn before it.
    Returns -1, or a variable of which no state is possible.
    """
    n_factors, n_drawn = factors.value_start.shape[0] - 1, blocks.variable.shape[0]
    place = np.empty(n_factors, np.int64)
    for f in range(n_factors):
        place[f] = factors.value_start[f]
        for e in range(factors.scope_start[f], factors.scope_start[f + 1]):
            place[f] += factors.stride[e] * state[factors.scope[e]]
    single = np.empty(factors.cardinalities.max())
    tables, messages = np.empty(blocks.table_start[n_drawn]), np.empty(blocks.message_start[n_drawn])
    for sweep in range(burn_in + n_sweeps):
        kept = sweep - burn_in
        batch = kept * n_batches // n_sweeps if kept >= 0 else 0
        half = 1 if 2 * kept >= n_sweeps else 0
        counter = (chain * (burn_in + n_sweeps) + sweep) * n_drawn
        for block in range(blocks.block_start.shape[0] - 1):
            first, last = blocks.block_start[block], blocks.block_start[block + 1]
            if last - first == 1:
                v = blocks.variable[first]
                K = factors.cardinalities[v]
                total = conditional(factors, v, state, place, single)
                if not total > 0.0:
                    return v
                if kept >= 0 and own_cell[v] >= 0:
                    _average(single[:K], total, own_cell[v], sums[batch], squares[half])
                drawn = _draw(single[:K], uniform(key, counter + first), total, state[v])
                if drawn != state[v]:
                    _move(factors, v, drawn - state[v], place)
                    state[v] = drawn
                continue
            for b in range(first, last):
                v = blocks.variable[b]
                _move(factors, v, -state[v], place)
            stuck = _eliminate(
                factors, numbers, blocks, first, last, blocks.in_logs[block], place, tables, messages
            )
            if stuck >= 0:
                return stuck
            for b in range(last - 1, first - 1, -1):
                v = blocks.variable[b]
                K = factors.cardinalities[v]
                row = blocks.table_start[b]
                for e in range(blocks.separator_start[b], blocks.separator_start[b + 1]):
                    row += K * blocks.separator_stride[e] * state[blocks.separator[e]]
                p = tables[row : row + K]
                total = 0.0
                for k in range(K):
                    total += p[k]
                if kept >= 0 and own_cell[v] >= 0:
                    _average(p, total, own_cell[v], sums[batch], squares[half])
                state[v] = _draw(p, uniform(key, counter + b), total, state[v])
                _move(factors, v, state[v], place)
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

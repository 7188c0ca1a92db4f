# mypy: allow-untyped-defs
"""Forward sampling in blocks of particles: one variable at a time for the whole block, parents first.

    x_v ~ P(x_v | parents)      if v is not observed
    w  *= P(e_v | parents)      if it is, in likelihood weighting
    the particle stays with probability P(e_v | parents)      if it is, in rejection sampling

Keeping a particle with that probability is the same as drawing x_v and comparing. Particles that are out
(rejected, or of weight zero) leave the block at once and cost nothing more. Weights are kept as logarithms;
sums carry the largest one as their scale:

    total = sum w / exp(top),    sums[cell] = sum w 1[x in cell] / exp(top),    squares: the same with w^2
"""

from __future__ import annotations

import math

import numpy as np

from trellis.bayesnet.inference.sampling.uniform_kernels import uniform
from trellis.core.numerics import kernel

BLOCK = 1024


@kernel
def cumulate(values, value_start, n_states, out):
    """Running sums along the rows of each table; from the last possible state on they are 1, so that rounding
    never draws an impossible state."""
    for f in range(n_states.shape[0]):
        K = n_states[f]
        for row in range(value_start[f], value_start[f + 1], K):
            total = 0.0
            last = 0
            for k in range(K):
                total += values[row + k]
                out[row + k] = total
                if values[row + k] > 0.0:
                    last = k
            for k in range(last, K):
                out[row + k] = 1.0


@kernel
def forward(families, cumulative, reject, key, first, n, codes, log_weight, alive):
    """One block of ``Families``: particles ``first`` .. ``first + n - 1`` into ``codes`` (variables, BLOCK).

    Returns how many are left; ``alive`` holds their places.
    """
    factors, order, observed = families
    place = np.empty(n, np.int64)
    for a in range(n):
        alive[a] = a
        log_weight[a] = 0.0
    for t in range(order.shape[0]):
        v = order[t]
        for a in range(n):
            place[a] = factors.value_start[v]
        for e in range(factors.scope_start[v], factors.scope_start[v + 1] - 1):
            parent, stride = factors.scope[e], factors.stride[e]
            for a in range(n):
                place[a] += stride * codes[parent, alive[a]]
        state = observed[v]
        if state >= 0:
            kept = 0
            for a in range(n):
                i = alive[a]
                p = factors.values[place[a] + state]
                codes[v, i] = state
                if reject:
                    stays = uniform(key, (first + i) * order.shape[0] + t) < p
                else:
                    stays = p > 0.0
                    log_weight[i] += math.log(p)
                if stays:
                    alive[kept] = i
                    kept += 1
            n = kept
        else:
            for a in range(n):
                i = alive[a]
                u = uniform(key, (first + i) * order.shape[0] + t)
                k = 0
                while u >= cumulative[place[a] + k]:
                    k += 1
                codes[v, i] = k
    return n


@kernel
def estimate(families, cumulative, reject, scopes, key, first, last, sums, squares, totals):
    """Sums over particles ``first`` .. ``last - 1``; ``totals`` receives top, sum w, sum w^2 and how many
    particles were kept."""
    factors = families.factors
    codes = np.empty((factors.cardinalities.shape[0], BLOCK), np.int32)
    log_weight, alive = np.empty(BLOCK), np.empty(BLOCK, np.int64)
    top = -np.inf
    for begin in range(first, last, BLOCK):
        n = min(BLOCK, last - begin)
        n = forward(families, cumulative, reject, key, begin, n, codes, log_weight, alive)
        highest = top
        for a in range(n):
            highest = max(highest, log_weight[alive[a]])
        if highest > top:
            shrink = math.exp(top - highest)
            totals[1] *= shrink
            totals[2] *= shrink * shrink
            for cell in range(sums.shape[0]):
                sums[cell] *= shrink
                squares[cell] *= shrink * shrink
            top = highest
        totals[3] += n
        for a in range(n):
            w = math.exp(log_weight[alive[a]] - top)
            log_weight[alive[a]] = w
            totals[1] += w
            totals[2] += w * w
        for s in range(scopes.value_start.shape[0] - 1):
            for a in range(n):
                i = alive[a]
                cell = scopes.value_start[s]
                for e in range(scopes.scope_start[s], scopes.scope_start[s + 1]):
                    cell += scopes.stride[e] * codes[scopes.scope[e], i]
                w = log_weight[i]
                sums[cell] += w
                squares[cell] += w * w
    totals[0] = top


@kernel
def draw_rows(families, cumulative, key, first, last, rows):
    """Particles ``first`` .. ``last - 1`` that agree with what is observed, in their order, as the first
    ``rows`` (particles, variables); returns how many these are."""
    n_variables, kept = rows.shape[1], 0
    codes = np.empty((families.factors.cardinalities.shape[0], BLOCK), np.int32)
    log_weight, alive = np.empty(BLOCK), np.empty(BLOCK, np.int64)
    for begin in range(first, last, BLOCK):
        n = forward(
            families, cumulative, True, key, begin, min(BLOCK, last - begin), codes, log_weight, alive
        )
        for a in range(n):
            for v in range(n_variables):
                rows[kept + a, v] = codes[v, alive[a]]
        kept += n
    return kept

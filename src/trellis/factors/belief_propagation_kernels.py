# mypy: allow-untyped-defs
"""Max- and sum-product messages on a factor graph, one variable after another, in logarithms.

    to_variable[f -> v](x_v) = (+) over x without x_v of  f(x) + sum_{u != v} to_factor[u -> f](x_u)
    to_factor[v -> f](x_v)   = sum_{g with v, g != f} to_variable[g -> v](x_v)

with (+) the maximum or log-sum-exp. Factors are logarithms, too, so that nothing is lost however many factors
a variable has: a state that a hundred factors all but rule out may be the one that a hundred others insist
on. Messages to variables are normalised: (+) of each is 0; those to factors have 0 as their largest. Sums
that leave one factor out come from running sums of both sides, not from subtraction, so -inf needs no care. A
message lives at the place e of its variable in the scope of its factor: ``message[start[e] : start[e + 1]]``.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.logspace_kernels import MAX, exp_and_sum, normalise_logs
from trellis.core.numerics import kernel
from trellis.core.numerics_kernels import highest


@kernel
def sweep(mode, damping, factors, order, start, to_variable, to_factor, digits, fresh, top):
    """Update the messages to and from each variable in turn; returns the largest change of a message to a
    variable (of exp of it) before damping, or -1 minus a variable that is left without a state.

    Scratch: ``digits`` (variables of the widest factor), ``fresh`` and ``top`` (largest number of states).
    """
    largest = 0.0
    for t in range(order.shape[0]):
        v = order[t]
        K = factors.cardinalities[v]
        for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
            e = factors.incidence[j]
            _message(mode, factors, e, start, to_factor, digits, fresh, top)
            if not _normalise(mode, fresh[:K]):
                return -1.0 - v
            for k in range(K):
                old = to_variable[start[e] + k]
                largest = max(largest, abs(math.exp(fresh[k]) - math.exp(old)))
                if fresh[k] > -np.inf and old > -np.inf:
                    fresh[k] = (1.0 - damping) * fresh[k] + damping * old
                to_variable[start[e] + k] = fresh[k]
        if not _send_to_factors(factors, v, start, to_variable, to_factor, fresh):
            return -1.0 - v
    return largest


@kernel
def _message(mode, factors, target, start, to_factor, digits, out, top):
    """The message from a factor to the variable at place ``target``, not normalised."""
    f = factors.factor_of[target]
    first, end, at = factors.scope_start[f], factors.scope_start[f + 1], factors.value_start[f]
    K = factors.cardinalities[factors.scope[target]]
    if end - first == 1:
        for k in range(K):
            out[k] = factors.values[at + k]
        return
    if end - first == 2:  # most factors: a matrix and a vector
        other = first if target == first + 1 else first + 1
        n = factors.cardinalities[factors.scope[other]]
        terms = top[:n]
        for k in range(K):
            row = at + k * factors.stride[target]
            for i in range(n):
                terms[i] = factors.values[row + i * factors.stride[other]] + to_factor[start[other] + i]
            if mode == MAX:
                out[k] = highest(terms)
            else:
                shift, total = exp_and_sum(terms, terms)
                out[k] = shift + math.log(total) if total > 0.0 else -np.inf
        return
    for k in range(K):
        out[k] = 0.0
        top[k] = -np.inf
    for e in range(first, end):
        digits[e - first] = 0
    for i in range(at, factors.value_start[f + 1]):
        s = factors.values[i]
        if s > -np.inf:
            for e in range(first, end):
                if e != target:
                    s += to_factor[start[e] + digits[e - first]]
            k = digits[target - first]
            if s > top[k]:  # a new largest term: exp(-inf) = 0 for the first
                out[k] = out[k] * math.exp(top[k] - s) + 1.0
                top[k] = s
            elif s > -np.inf and mode != MAX:
                out[k] += math.exp(s - top[k])
        _advance(factors, first, end, digits)
    for k in range(K):
        out[k] = top[k] if mode == MAX else top[k] + math.log(max(out[k], 1.0))


@kernel
def _advance(factors, first, end, digits):
    """The next configuration of a factor: the last variable changes fastest."""
    for e in range(end - 1, first - 1, -1):
        digits[e - first] += 1
        if digits[e - first] < factors.cardinalities[factors.scope[e]]:
            break
        digits[e - first] = 0


@kernel
def _normalise(mode, x):
    """Make (+) of ``x`` 0; False if all of it is -inf."""
    if mode != MAX:
        return normalise_logs(x) > -np.inf
    top = highest(x)
    if top > -np.inf:
        for k in range(x.shape[0]):
            x[k] -= top
    return top > -np.inf


@kernel
def _send_to_factors(factors, v, start, to_variable, to_factor, running):
    """Messages from a variable to all its factors; False if no state is left to it."""
    K = factors.cardinalities[v]
    first, end = factors.incidence_start[v], factors.incidence_start[v + 1]
    for k in range(K):
        running[k] = 0.0
    for j in range(first, end):  # sums of the messages before ...
        at = start[factors.incidence[j]]
        for k in range(K):
            to_factor[at + k] = running[k]
            running[k] += to_variable[at + k]
    possible = highest(running[:K]) > -np.inf
    for k in range(K):
        running[k] = 0.0
    for j in range(end - 1, first - 1, -1):  # ... and of those after
        at = start[factors.incidence[j]]
        for k in range(K):
            to_factor[at + k] += running[k]
            running[k] += to_variable[at + k]
        top = highest(to_factor[at : at + K])
        if top > -np.inf:
            for k in range(K):
                to_factor[at + k] -= top
    return possible


@kernel
def variable_beliefs(mode, factors, order, start, to_variable, cell, beliefs):
    """log b(x_v) = the sum of the messages to v, normalised, into ``beliefs[cell[v] :]``."""
    for t in range(order.shape[0]):
        v = order[t]
        belief = beliefs[cell[v] : cell[v + 1]]
        belief[:] = 0.0
        for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
            at = start[factors.incidence[j]]
            for k in range(belief.shape[0]):
                belief[k] += to_variable[at + k]
        _normalise(mode, belief)


@kernel
def factor_beliefs(mode, factors, start, to_factor, digits, beliefs):
    """log b(x) = f(x) + sum of the messages to f, normalised, in the layout of the values of the factors.

    Returns a factor of which nothing is possible, or -1.
    """
    digits[:] = 0
    for f in range(factors.value_start.shape[0] - 1):
        first, end = factors.scope_start[f], factors.scope_start[f + 1]
        for i in range(factors.value_start[f], factors.value_start[f + 1]):
            beliefs[i] = factors.values[i]
            for e in range(first, end):
                beliefs[i] += to_factor[start[e] + digits[e - first]]
            _advance(factors, first, end, digits)
        if not _normalise(mode, beliefs[factors.value_start[f] : factors.value_start[f + 1]]):
            return f
    return -1

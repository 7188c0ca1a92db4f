# mypy: allow-untyped-defs
"""Sum-product messages on a factor graph, one variable after another, in logarithms.

    to_variable[f -> v](x_v) = log sum over x without x_v of exp(f(x) + sum_{u != v} to_factor[u -> f](x_u))
    to_factor[v -> f](x_v)   = sum_{g with v, g != f} to_variable[g -> v](x_v)

Factors are logarithms, too, so that nothing is lost however many factors a variable has: a state that a
hundred factors all but rule out may be the one that a hundred others insist on. Messages to variables are
normalised, exp sums to one; those to factors have 0 as their largest. Sums that leave one factor out come
from running sums of both sides, not from subtraction, so -inf needs no care. A message lives at the place e
of its variable in the scope of its factor: ``message[start[e] : start[e + 1]]``.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.numerics import kernel


@kernel
def sweep(factors, order, start, to_variable, to_factor, damping, digits, fresh, top):
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
            _message(factors, e, start, to_factor, digits, fresh, top)
            if not _normalise(fresh, 0, K):
                return -1.0 - v
            for k in range(K):
                new, old = math.exp(fresh[k]), math.exp(to_variable[start[e] + k])
                largest = max(largest, abs(new - old))
                if damping > 0.0:
                    fresh[k] = math.log((1.0 - damping) * new + damping * old)
                to_variable[start[e] + k] = fresh[k]
        if not _spread(factors, v, start, to_variable, to_factor, fresh):
            return -1.0 - v
    return largest


@kernel
def _message(factors, target, start, to_factor, digits, out, top):
    """The message from a factor to the variable at place ``target``, not normalised."""
    f = factors.factor_of[target]
    first, end = factors.scope_start[f], factors.scope_start[f + 1]
    K = factors.cardinalities[factors.scope[target]]
    for k in range(K):
        out[k] = 0.0
        top[k] = -np.inf
    for e in range(first, end):
        digits[e - first] = 0
    for i in range(factors.value_start[f], factors.value_start[f + 1]):
        s = factors.values[i]
        if s > -np.inf:
            for e in range(first, end):
                if e != target:
                    s += to_factor[start[e] + digits[e - first]]
            k = digits[target - first]
            if s > top[k]:  # a new largest term: exp(-inf) = 0 for the first
                out[k] = out[k] * math.exp(top[k] - s) + 1.0
                top[k] = s
            elif s > -np.inf:
                out[k] += math.exp(s - top[k])
        _advance(factors, first, end, digits)
    for k in range(K):
        out[k] = top[k] + math.log(max(out[k], 1.0))


@kernel
def _advance(factors, first, end, digits):
    """The next configuration of a factor: the last variable changes fastest."""
    for e in range(end - 1, first - 1, -1):
        digits[e - first] += 1
        if digits[e - first] < factors.cardinalities[factors.scope[e]]:
            break
        digits[e - first] = 0


@kernel
def _spread(factors, v, start, to_variable, to_factor, running):
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
    possible = _highest(running, 0, K) > -np.inf
    for k in range(K):
        running[k] = 0.0
    for j in range(end - 1, first - 1, -1):  # ... and of those after
        at = start[factors.incidence[j]]
        for k in range(K):
            to_factor[at + k] += running[k]
            running[k] += to_variable[at + k]
        highest = _highest(to_factor, at, K)
        if highest > -np.inf:
            for k in range(K):
                to_factor[at + k] -= highest
    return possible


@kernel
def _highest(x, at, n):
    highest = -np.inf
    for k in range(at, at + n):
        highest = max(highest, x[k])
    return highest


@kernel
def _normalise(x, at, n):
    """Subtract log sum exp from ``x[at : at + n]``; False if all of it is -inf."""
    highest = _highest(x, at, n)
    if not highest > -np.inf:
        return False
    total = 0.0
    for k in range(at, at + n):
        total += math.exp(x[k] - highest)
    shift = highest + math.log(total)
    for k in range(at, at + n):
        x[k] -= shift
    return True


@kernel
def variable_beliefs(factors, order, start, to_variable, cell, beliefs):
    """b(x_v) = exp of the sum of the messages to v, normalised, into ``beliefs[cell[v] :]``."""
    for t in range(order.shape[0]):
        v = order[t]
        K = factors.cardinalities[v]
        for k in range(K):
            beliefs[cell[v] + k] = 0.0
        for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
            at = start[factors.incidence[j]]
            for k in range(K):
                beliefs[cell[v] + k] += to_variable[at + k]
        _normalise(beliefs, cell[v], K)
        for k in range(K):
            beliefs[cell[v] + k] = math.exp(beliefs[cell[v] + k])


@kernel
def factor_belief(factors, f, start, to_factor, out):
    """log b(x) = f(x) + sum of the messages to f, normalised, one number for each value of the factor."""
    first, end = factors.scope_start[f], factors.scope_start[f + 1]
    digits = np.zeros(max(end - first, 1), np.int64)
    for i in range(out.shape[0]):
        out[i] = factors.values[factors.value_start[f] + i]
        for e in range(first, end):
            out[i] += to_factor[start[e] + digits[e - first]]
        _advance(factors, first, end, digits)
    _normalise(out, 0, out.shape[0])


@kernel
def bethe(factors, order, start, to_factor, cell, beliefs):
    """log Z by Bethe: sum_f sum_x b_f (f - log b_f) + sum_v (1 - number of factors of v) H(b_v)."""
    total = 0.0
    for f in range(factors.value_start.shape[0] - 1):
        size = factors.value_start[f + 1] - factors.value_start[f]
        b = np.empty(size)
        factor_belief(factors, f, start, to_factor, b)
        for i in range(size):
            if b[i] > -np.inf:
                total += math.exp(b[i]) * (factors.values[factors.value_start[f] + i] - b[i])
    for t in range(order.shape[0]):
        v = order[t]
        degree = factors.incidence_start[v + 1] - factors.incidence_start[v]
        for k in range(factors.cardinalities[v]):
            b_v = beliefs[cell[v] + k]
            if b_v > 0.0:
                total -= (1.0 - degree) * b_v * math.log(b_v)
    return total

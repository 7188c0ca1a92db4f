# mypy: allow-untyped-defs
"""Sum-product messages on a factor graph, one variable after another.

    to_variable[f -> v](x_v) = sum over x without x_v of f(x) prod_{u in f, u != v} to_factor[u -> f](x_u)
    to_factor[v -> f](x_v)   = prod_{g with v, g != f} to_variable[g -> v](x_v)

Messages sum to one. Products that leave one factor out come from running products of both sides, not from
division, so zeros need no care. A message lives at the place e of its variable in the scope of its factor:
``message[start[e] : start[e + 1]]``.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.numerics import kernel


@kernel
def sweep(factors, order, start, to_variable, to_factor, damping, digits, fresh):
    """Update the messages to and from each variable in turn; returns the largest change of a message to a
    variable before damping, or -1 minus a variable that is left without a state.

    Scratch: ``digits`` (variables of the widest factor), ``fresh`` (largest number of states).
    """
    largest = 0.0
    for t in range(order.shape[0]):
        v = order[t]
        K = factors.cardinalities[v]
        for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
            e = factors.incidence[j]
            total = _message(factors, e, start, to_factor, digits, fresh)
            if not total > 0.0:
                return -1.0 - v
            for k in range(K):
                new = fresh[k] / total
                largest = max(largest, abs(new - to_variable[start[e] + k]))
                to_variable[start[e] + k] = (1.0 - damping) * new + damping * to_variable[start[e] + k]
        if not _spread(factors, v, start, to_variable, to_factor, fresh):
            return -1.0 - v
    return largest


@kernel
def _message(factors, target, start, to_factor, digits, out):
    """The message from a factor to the variable at place ``target``, not normalised; returns its sum."""
    f = factors.factor_of[target]
    first, end = factors.scope_start[f], factors.scope_start[f + 1]
    v = factors.scope[target]
    for k in range(factors.cardinalities[v]):
        out[k] = 0.0
    for e in range(first, end):
        digits[e - first] = 0
    total = 0.0
    for i in range(factors.value_start[f], factors.value_start[f + 1]):
        p = factors.values[i]
        if p > 0.0:
            for e in range(first, end):
                if e != target:
                    p *= to_factor[start[e] + digits[e - first]]
            out[digits[target - first]] += p
            total += p
        _advance(factors, first, end, digits)
    return total


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
        running[k] = 1.0
    for j in range(first, end):  # products of the messages before ...
        at = start[factors.incidence[j]]
        for k in range(K):
            to_factor[at + k] = running[k]
            running[k] *= to_variable[at + k]
        if not _scale(running, 0, K) > 0.0:
            return False
    for k in range(K):
        running[k] = 1.0
    for j in range(end - 1, first - 1, -1):  # ... times those after
        at = start[factors.incidence[j]]
        for k in range(K):
            to_factor[at + k] *= running[k]
            running[k] *= to_variable[at + k]
        _scale(to_factor, at, K)
        _scale(running, 0, K)
    return True


@kernel
def _scale(p, at, n):
    """Divide ``p[at : at + n]`` by its sum, which is returned."""
    total = 0.0
    for k in range(at, at + n):
        total += p[k]
    if total > 0.0:
        for k in range(at, at + n):
            p[k] /= total
    return total


@kernel
def variable_beliefs(factors, order, start, to_variable, cell, beliefs):
    """b(x_v) = product of the messages to v, normalised, into ``beliefs[cell[v] :]``."""
    for t in range(order.shape[0]):
        v = order[t]
        K = factors.cardinalities[v]
        for k in range(K):
            beliefs[cell[v] + k] = 1.0 / K
        for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
            at = start[factors.incidence[j]]
            for k in range(K):
                beliefs[cell[v] + k] *= to_variable[at + k]
            _scale(beliefs, cell[v], K)


@kernel
def factor_belief(factors, f, start, to_factor, out):
    """b(x) = f(x) product of the messages to f, normalised, one number for each value of the factor."""
    first, end = factors.scope_start[f], factors.scope_start[f + 1]
    digits = np.zeros(max(end - first, 1), np.int64)
    for i in range(out.shape[0]):
        out[i] = factors.values[factors.value_start[f] + i]
        for e in range(first, end):
            out[i] *= to_factor[start[e] + digits[e - first]]
        _advance(factors, first, end, digits)
    _scale(out, 0, out.shape[0])


@kernel
def bethe(factors, order, start, to_factor, cell, beliefs):
    """log Z by Bethe: sum_f sum_x b_f log(f / b_f) + sum_v (1 - number of factors of v) H(b_v)."""
    total = 0.0
    for f in range(factors.value_start.shape[0] - 1):
        size = factors.value_start[f + 1] - factors.value_start[f]
        b = np.empty(size)
        factor_belief(factors, f, start, to_factor, b)
        for i in range(size):
            if b[i] > 0.0:
                total += b[i] * (math.log(factors.values[factors.value_start[f] + i]) - math.log(b[i]))
    for t in range(order.shape[0]):
        v = order[t]
        degree = factors.incidence_start[v + 1] - factors.incidence_start[v]
        for k in range(factors.cardinalities[v]):
            b_v = beliefs[cell[v] + k]
            if b_v > 0.0:
                total -= (1.0 - degree) * b_v * math.log(b_v)
    return total

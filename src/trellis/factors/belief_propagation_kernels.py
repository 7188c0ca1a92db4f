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

from trellis.core.logspace_kernels import MAX, normalise_logs, semiring_add
from trellis.core.numerics import kernel
from trellis.core.numerics_kernels import exp_shifted, highest


@kernel
def settle(
    mode, damping, tol, first_sweep, factors, order, backwards, start, to_variable, to_factor, digits,
    scratch, block, residuals,
):  # fmt: skip
    """Iterations until a sweep changes no message by more than ``tol``, as many as there is room for in
    ``residuals``, the changes; returns their number. The change is -1 minus a variable without a state."""
    messages = start, to_variable, to_factor
    for i in range(residuals.shape[0]):
        first = first_sweep and i == 0
        change = sweep(mode, damping, first, factors, order, *messages, digits, scratch, block)
        if change > tol:
            change = sweep(mode, damping, False, factors, backwards, *messages, digits, scratch, block)
        residuals[i] = change
        if change <= tol:
            return i + 1
    return residuals.shape[0]


@kernel
def sweep(mode, damping, first_sweep, factors, order, start, to_variable, to_factor, digits, scratch, block):
    """Update the messages to and from each variable in turn; returns the largest change of a message to a
    variable before damping (inf where a state becomes impossible), or -1 minus a variable without a state.

    Scratch: ``digits`` (variables of the widest factor), ``scratch`` (2, largest number of states), ``block``
    (entries of the largest factor of two variables).
    """
    largest = 0.0
    for t in range(order.shape[0]):
        v = order[t]
        K = factors.cardinalities[v]
        fresh = scratch[0, :K]
        for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
            e = factors.incidence[j]
            f = factors.factor_of[e]
            width = factors.scope_start[f + 1] - factors.scope_start[f]
            if width == 1 and not first_sweep:
                continue  # it never changes
            if width == 2:
                _pair_message(mode, factors, e, start, to_factor, fresh, block)
            else:
                _message(mode, factors, e, start, to_factor, digits, fresh, scratch[1])
            if not _normalise(mode, fresh):
                return -1.0 - v
            message = to_variable[start[e] : start[e] + K]
            for k in range(K):
                new, old = fresh[k], message[k]
                if new > -np.inf and old > -np.inf:
                    largest = max(largest, abs(new - old))
                    if width > 1:
                        new = (1.0 - damping) * new + damping * old
                elif new != old:
                    largest = np.inf
                message[k] = new
        if not _send_to_factors(factors, v, start, to_variable, to_factor, fresh):
            return -1.0 - v
    return largest


@kernel
def _pair_message(mode, factors, target, start, to_factor, out, block):
    """The message from a factor of two variables, most factors: block[z, x] = f(z, x) + to_factor(z)."""
    f = factors.factor_of[target]
    first, at = factors.scope_start[f], factors.value_start[f]
    other = first if target == first + 1 else first + 1
    K, n = out.shape[0], factors.cardinalities[factors.scope[other]]
    values, incoming = factors.values[at : at + K * n], to_factor[start[other] : start[other] + n]
    if n == 2:
        step, turn = (1, K) if other == first else (n, 1)
        for x in range(K):
            a, b = values[x * step] + incoming[0], values[x * step + turn] + incoming[1]
            out[x] = semiring_add(mode, a, b)
        return
    terms = block[: K * n]
    rows = terms.reshape(n, K)
    if other == first:
        table = values.reshape(n, K)
        for z in range(n):
            for x in range(K):
                rows[z, x] = table[z, x] + incoming[z]
    else:
        turned = values.reshape(K, n)
        for z in range(n):
            for x in range(K):
                rows[z, x] = turned[x, z] + incoming[z]
    for x in range(K):
        out[x] = rows[0, x]
    for z in range(1, n):
        for x in range(K):
            out[x] = rows[z, x] if rows[z, x] > out[x] else out[x]
    if mode == MAX:
        return
    for z in range(n):
        for x in range(K):
            rows[z, x] -= out[x] if out[x] > -np.inf else 0.0
    exp_shifted(terms, 0.0, terms)
    for z in range(1, n):
        for x in range(K):
            rows[0, x] += rows[z, x]
    for x in range(K):
        out[x] += math.log(rows[0, x]) if out[x] > -np.inf else 0.0


@kernel
def _message(mode, factors, target, start, to_factor, digits, out, top):
    """The message from a factor of any variables to the one at place ``target``, not normalised."""
    f = factors.factor_of[target]
    first, end, at = factors.scope_start[f], factors.scope_start[f + 1], factors.value_start[f]
    K = out.shape[0]
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
        next_configuration(factors, first, end, digits)
    for k in range(K):
        out[k] = top[k] if mode == MAX else top[k] + math.log(max(out[k], 1.0))


@kernel
def next_configuration(factors, first, end, digits):
    """The next configuration of a factor: the last variable changes fastest."""
    for e in range(end - 1, first - 1, -1):
        digits[e - first] += 1
        if digits[e - first] < factors.cardinalities[factors.scope[e]]:
            break
        digits[e - first] = 0


@kernel
def _normalise(mode, x):
    """Make (+) of ``x`` 0; False if all of it is -inf."""
    if mode != MAX and x.shape[0] == 2:
        total = semiring_add(mode, x[0], x[1])
        if total > -np.inf:
            x[0] -= total
            x[1] -= total
        return total > -np.inf
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
            next_configuration(factors, first, end, digits)
        if not _normalise(mode, beliefs[factors.value_start[f] : factors.value_start[f + 1]]):
            return f
    return -1

# mypy: allow-untyped-defs
"""Sequential reweighted message passing on a factor graph (TRW-S, and its form for wide factors).

Factors are rewritten with messages m[f, v] without changing the value of any assignment:

    S_v(x_v) = node_v(x_v) + sum_{f with v} m[f, v](x_v)          f'(x) = f(x) - sum_{v in f} m[f, v](x_v)

so that  sum_v max S_v + sum_f max f'  is an upper bound, whatever the messages. A pass goes through the
variables in order. Variable v takes what it can from its factors that hold an earlier variable,

    m[f, v](x_v) = max over the others of  f(x) - sum_{u != v} m[f, u](x_u),

and hands S_v on in equal shares w = 1 / max(factors with an earlier, with a later variable) to those that
hold a later one: m[f, v] -= w S_v. The first can only lower the bound, the second does not change it, and
after the pass every factor has the maximum 0: the bound is sum_v (1 - w * factors with a later one) max S_v.

A state with S = -inf is impossible; +inf in the message keeps it so for the other variables. Messages live at
the place e of their variable in the scope of its factor: ``message[start[e] : start[e + 1]]``.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.factors.belief_propagation_kernels import next_configuration


@kernel
def sequential_pass(order, rank, factors, node, cell, start, message, states, digits, scratch):
    """One pass; returns the bound (-inf: nothing is possible) and fills ``states``.

    ``rank``: the place of each variable in ``order``. ``node`` has the sums of the factors of one variable,
    which have no messages. The state of v maximises what is known given the states of the variables before
    it and the messages of those after it.
    """
    bound = 0.0
    for t in range(order.shape[0]):
        v = order[t]
        K = factors.cardinalities[v]
        total, taken, local, here = scratch[0, :K], scratch[1, :K], scratch[2, :K], scratch[3, :K]
        for k in range(K):
            total[k] = node[cell[v] + k]
            local[k] = total[k]
        n_in, n_out = 0, 0
        for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
            e = factors.incidence[j]
            earlier, later = _sides(factors, e, rank)
            if not earlier and not later:
                continue  # of this variable alone
            n_out += later
            of_f = message[start[e] : start[e] + K]
            if earlier:
                n_in += 1
                _take(factors, e, rank, start, message, states, digits, taken, here)
                for k in range(K):
                    of_f[k] = taken[k]
                    local[k] += here[k]
            else:
                for k in range(K):
                    local[k] += of_f[k]
            for k in range(K):
                total[k] += of_f[k]
        best, top = 0, -np.inf
        for k in range(K):
            top = max(top, total[k])
            if local[k] > local[best]:
                best = k
        states[v] = best
        if top == -np.inf:
            return top
        share = 1.0 / max(n_in, n_out, 1)
        bound += (1.0 - share * n_out) * top
        for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
            e = factors.incidence[j]
            earlier, later = _sides(factors, e, rank)
            if later:
                of_f = message[start[e] : start[e] + K]
                for k in range(K):
                    of_f[k] = np.inf if total[k] == -np.inf else of_f[k] - share * total[k]
    return bound


@kernel
def _sides(factors, target, rank):
    """Whether the factor of a place holds variables before and after the one there."""
    f, at = factors.factor_of[target], rank[factors.scope[target]]
    earlier, later = False, False
    for e in range(factors.scope_start[f], factors.scope_start[f + 1]):
        earlier = earlier or rank[factors.scope[e]] < at
        later = later or rank[factors.scope[e]] > at
    return earlier, later


@kernel
def _take(factors, target, rank, start, message, states, digits, taken, here):
    """Maxima of a factor over all but the variable of a place, less the messages of the others: ``taken``;
    those with the variables before it at their states, less the messages of those after it: ``here``."""
    f = factors.factor_of[target]
    first, end = factors.scope_start[f], factors.scope_start[f + 1]
    at = rank[factors.scope[target]]
    for k in range(taken.shape[0]):
        taken[k] = -np.inf
        here[k] = -np.inf
    for e in range(first, end):
        digits[e - first] = 0
    for i in range(factors.value_start[f], factors.value_start[f + 1]):
        value = factors.values[i]
        if value > -np.inf:
            less, less_later, agrees = value, value, True
            for e in range(first, end):
                if e != target:
                    digit = digits[e - first]
                    less -= message[start[e] + digit]
                    if rank[factors.scope[e]] > at:
                        less_later -= message[start[e] + digit]
                    else:
                        agrees = agrees and states[factors.scope[e]] == digit
            k = digits[target - first]
            taken[k] = max(taken[k], less)
            if agrees:
                here[k] = max(here[k], less_later)
        next_configuration(factors, first, end, digits)


@kernel
def evaluate_states(factors, states):
    """The sum of all factors at an assignment."""
    total = 0.0
    for f in range(factors.value_start.shape[0] - 1):
        at = factors.value_start[f]
        for e in range(factors.scope_start[f], factors.scope_start[f + 1]):
            at += factors.stride[e] * states[factors.scope[e]]
        total += factors.values[at]
    return total


@kernel
def improve_states(factors, order, states, local, max_sweeps):
    """Iterated conditional modes: each variable takes its best state given all others, until none changes."""
    for _ in range(max_sweeps):
        moved = False
        for t in range(order.shape[0]):
            v = order[t]
            K = factors.cardinalities[v]
            for k in range(K):
                local[k] = 0.0
            for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
                target = factors.incidence[j]
                f = factors.factor_of[target]
                at = factors.value_start[f]
                for e in range(factors.scope_start[f], factors.scope_start[f + 1]):
                    if e != target:
                        at += factors.stride[e] * states[factors.scope[e]]
                for k in range(K):
                    local[k] += factors.values[at + k * factors.stride[target]]
            best = states[v]
            for k in range(K):
                if local[k] > local[best]:
                    best = k
            if best != states[v]:
                states[v] = best
                moved = True
        if not moved:
            return

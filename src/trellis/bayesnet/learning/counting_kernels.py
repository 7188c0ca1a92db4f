# mypy: allow-untyped-defs
"""Counts of families in rows of data, expected where states are missing.

    log p(row) = log sum over hidden of prod_i P(x_i | parents),      counts[cell] = sum of p(cell | row)

Given the observed states, the product falls apart into connected components of hidden variables (joined
where they share a family). Each is enumerated: a row with twenty gaps that do not touch costs forty
configurations, not a million. Sums are in log space with the largest term shifted out, for a hidden cause can
have thousands of observed effects.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.logspace_kernels import exp_and_sum
from trellis.core.numerics import kernel


@kernel
def count_rows(factors, log_values, codes, weight, first, last, room, counts, row_log):
    """Rows ``first`` .. ``last - 1``: log p into ``row_log``, weighted expected counts added to ``counts``.

    ``room``: the largest number of configurations of a component. An impossible row has ``-inf``, and leaves
    counts without a meaning.
    """
    n_variables, n_factors = codes.shape[1], factors.value_start.shape[0] - 1
    place = np.empty(n_factors, np.int64)
    seen_variable, seen_family = np.empty(n_variables, np.bool_), np.empty(n_factors, np.bool_)
    hidden, family = np.empty(n_variables, np.int64), np.empty(n_factors, np.int64)
    digit = np.zeros(n_variables, np.int64)
    joint = np.empty(room)
    for row in range(first, last):
        x = codes[row]
        total = _observed(factors, log_values, x, place, seen_variable, seen_family)
        for v in range(n_variables):
            if not seen_variable[v] and total > -np.inf:
                n_hidden, n_family = _component(factors, v, seen_variable, seen_family, hidden, family)
                total += _sum_out(
                    factors, log_values, hidden, n_hidden, family, n_family, place, digit, joint, weight[row],
                    counts,
                )  # fmt: skip
        row_log[row] = total
        if total > -np.inf:
            for f in range(n_factors):
                if _complete(factors, x, f):
                    counts[place[f]] += weight[row]


@kernel
def _complete(factors, x, f):
    for e in range(factors.scope_start[f], factors.scope_start[f + 1]):
        if x[factors.scope[e]] < 0:
            return False
    return True


@kernel
def _observed(factors, log_values, x, place, seen_variable, seen_family):
    """The place of each family with hidden variables in state 0; log p of those without hidden ones."""
    total = 0.0
    for v in range(x.shape[0]):
        seen_variable[v] = x[v] >= 0
    for f in range(place.shape[0]):
        at, whole = factors.value_start[f], True
        for e in range(factors.scope_start[f], factors.scope_start[f + 1]):
            state = x[factors.scope[e]]
            if state >= 0:
                at += factors.stride[e] * state
            else:
                whole = False
        place[f] = at
        seen_family[f] = whole
        if whole:
            total += log_values[at]
    return total


@kernel
def _component(factors, v, seen_variable, seen_family, hidden, family):
    """The hidden variables that are connected with ``v``, and their families; how many of each."""
    hidden[0], n_hidden, n_family = v, 1, 0
    seen_variable[v] = True
    done = 0
    while done < n_hidden:
        v = hidden[done]
        done += 1
        for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
            f = factors.factor_of[factors.incidence[j]]
            if not seen_family[f]:
                seen_family[f] = True
                family[n_family] = f
                n_family += 1
                for e in range(factors.scope_start[f], factors.scope_start[f + 1]):
                    u = factors.scope[e]
                    if not seen_variable[u]:
                        seen_variable[u] = True
                        hidden[n_hidden] = u
                        n_hidden += 1
    return n_hidden, n_family


@kernel
def _sum_out(factors, log_values, hidden, n_hidden, family, n_family, place, digit, joint, weight, counts):
    """log of the sum over a component's configurations; adds weight times their posterior to ``counts``."""
    size = 1
    for h in range(n_hidden):
        size *= factors.cardinalities[hidden[h]]
    for i in range(size):
        value = 0.0
        for j in range(n_family):
            value += log_values[place[family[j]]]
        joint[i] = value
        _advance(factors, hidden, n_hidden, place, digit)
    top, total = exp_and_sum(joint[:size], joint[:size])
    if top == -np.inf:
        return top
    for i in range(size):
        share = weight * joint[i] / total
        if share > 0.0:
            for j in range(n_family):
                counts[place[family[j]]] += share
        _advance(factors, hidden, n_hidden, place, digit)
    return top + math.log(total)


@kernel
def _advance(factors, hidden, n_hidden, place, digit):
    """The next configuration of the hidden variables; after the last one, the first again."""
    for h in range(n_hidden):
        v = hidden[h]
        step = 1 if digit[v] + 1 < factors.cardinalities[v] else -digit[v]
        digit[v] += step
        for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
            e = factors.incidence[j]
            place[factors.factor_of[e]] += factors.stride[e] * step
        if step == 1:
            break


@kernel
def largest_components(factors, codes, log_size):
    """For each row, the largest log2 of the number of configurations of a component of hidden variables."""
    n_variables, n_factors = codes.shape[1], factors.value_start.shape[0] - 1
    seen_variable, seen_family = np.empty(n_variables, np.bool_), np.empty(n_factors, np.bool_)
    hidden, family = np.empty(n_variables, np.int64), np.empty(n_factors, np.int64)
    for row in range(codes.shape[0]):
        for v in range(n_variables):
            seen_variable[v] = codes[row, v] >= 0
        for f in range(n_factors):
            seen_family[f] = False
        for v in range(n_variables):
            if not seen_variable[v]:
                n_hidden, _ = _component(factors, v, seen_variable, seen_family, hidden, family)
                size = 0.0
                for h in range(n_hidden):
                    size += math.log2(factors.cardinalities[hidden[h]])
                log_size[row] = max(log_size[row], size)

# mypy: allow-untyped-defs
"""Probabilities of the spans of one chain, weighted by how many spans a labelling has.

A *run* is a longest stretch of steps whose neighbours ``joins`` says belong together; a run of states inside
spans is a span, with a first step, a last step and a kind. With g(y) the number of spans of a labelling y and
x in (0, 1],

    mass_x(s) = E[ x^g(y)  [s is a span of y] ]

is (Z_x / Z) P_x(s is a span): P_x and Z_x belong to the chain in which every beginning of a span scores log x
more. P_x(s) itself comes from the marginals of single steps and pairs: the probability that a run begins,
times the conditional probabilities that it goes on, times that it ends. All of these are probabilities, so
nothing overflows, whatever the scores.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.chain_kernels import exp_transitions, forward_backward, lanes


@kernel
def tilt(a, start, inside, joins, log_x, tilted, tilted_start):
    """Scores with ``log_x`` added to every beginning of a span."""
    K = start.shape[0]
    for k in range(K):
        tilted_start[k] = start[k] + (log_x if inside[k] else 0.0)
    for t in range(a.shape[0]):
        for j in range(K):
            for k in range(K):
                begins = inside[k] and not joins[j, k]
                tilted[t, j, k] = a[t, j, k] + (log_x if begins else 0.0)


@kernel
def run_probabilities(u, a, start, end, joins, before, after, begin, go_on, stop):
    """log Z, and what makes up the probabilities of runs (n >= 1 steps):

    begin[t, k]   P(a run begins at t in state k)
    go_on[t, i]   P(y_t = after[i] | y_{t-1} = before[i]), for pairs i of states that join
    stop[t, k]    P(the run ends at t | y_t = k)
    """
    n, K = u.shape
    size = lanes(K)
    ea, ea_t = np.zeros((a.shape[0], size, size)), np.zeros((a.shape[0], size, size))
    shift = np.empty(a.shape[0])
    floor = exp_transitions(a, ea, ea_t, shift)
    alpha, e, scale = np.empty((n, size)), np.zeros((n, size)), np.empty(n)
    single, pairs = np.zeros((n, K)), np.zeros((n, K, K))
    log_z = forward_backward(
        u, a, start, end, floor, ea, ea_t, shift, alpha, e, scale, np.empty(size), single,
        np.zeros((size, size)), pairs,
    )  # fmt: skip
    if log_z == -np.inf:
        return log_z
    begin[0] = single[0]
    for t in range(1, n):
        for k in range(K):
            begin[t, k] = 0.0
        for j in range(K):
            apart = 0.0
            for k in range(K):
                if not joins[j, k]:
                    begin[t, k] += pairs[t, j, k]
                    apart += pairs[t, j, k]
            stop[t - 1, j] = apart / single[t - 1, j] if single[t - 1, j] > 0.0 else 0.0
        for i in range(before.shape[0]):
            j = before[i]
            go_on[t, i] = pairs[t, j, after[i]] / single[t - 1, j] if single[t - 1, j] > 0.0 else 0.0
    for k in range(K):
        stop[n - 1, k] = 1.0
    return log_z


@kernel
def _advance(mass, following, before, after, go_on):
    """The masses of a run one step later, into ``following``; returns their sum."""
    for k in range(mass.shape[0]):
        following[k] = 0.0
    total = 0.0
    for i in range(before.shape[0]):
        moved = mass[before[i]] * go_on[i]
        following[after[i]] += moved
        total += moved
    return total


@kernel
def list_spans(begin, go_on, stop, inside, kinds, n_kinds, before, after, least):
    """The spans (first, last, kind) of probability ``least`` or more, in this order."""
    n, K = begin.shape
    spans, found = np.empty((4 * n, 3), np.int64), 0
    mass, following, ended = np.empty(K), np.empty(K), np.empty(n_kinds)
    for i in range(n):
        left = 0.0
        for k in range(K):
            mass[k] = begin[i, k] if inside[k] else 0.0
            left += mass[k]
        for j in range(i, n):
            if left < least:
                break
            ended[:] = 0.0
            for k in range(K):
                if inside[k]:
                    ended[kinds[k]] += mass[k] * stop[j, k]
            for kind in range(n_kinds):
                if ended[kind] < least:
                    continue
                if found == len(spans):
                    spans = np.concatenate((spans, np.empty_like(spans)))
                spans[found, 0], spans[found, 1], spans[found, 2] = i, j, kind
                found += 1
            if j + 1 < n:
                left = _advance(mass, following, before, after, go_on[j + 1])
                mass, following = following, mass
    return spans[:found]


@kernel
def span_masses(begin, go_on, stop, inside, kinds, n_kinds, before, after, spans, factor, masses):
    """masses[s] = factor * P(s is a span), for a list in the order of :func:`list_spans`."""
    K = begin.shape[1]
    mass, following, ended = np.empty(K), np.empty(K), np.empty(n_kinds)
    s = 0
    while s < len(spans):
        i = spans[s, 0]
        for k in range(K):
            mass[k] = begin[i, k] if inside[k] else 0.0
        j = i
        while s < len(spans) and spans[s, 0] == i:
            while j < spans[s, 1]:
                _advance(mass, following, before, after, go_on[j + 1])
                mass, following = following, mass
                j += 1
            ended[:] = 0.0
            for k in range(K):
                if inside[k]:
                    ended[kinds[k]] += mass[k] * stop[j, k]
            while s < len(spans) and spans[s, 0] == i and spans[s, 1] == j:
                masses[s] = factor * ended[spans[s, 2]]
                s += 1


@kernel
def log_weight_without_spans(u, a, start, end, inside):
    """log of the sum of exp(score) over labellings without any span; -inf if none is allowed."""
    n, K = u.shape
    f, g = np.empty(K), np.empty(K)
    step = 0 if a.shape[0] == 1 else 1
    for k in range(K):
        f[k] = -np.inf if inside[k] else start[k] + u[0, k]
    for t in range(1, n):
        for k in range(K):
            g[k] = -np.inf
            if inside[k]:
                continue
            for j in range(K):
                g[k] = np.logaddexp(g[k], f[j] + a[t * step, j, k])
            g[k] += u[t, k]
        f, g = g, f
    total = -np.inf
    for k in range(K):
        total = np.logaddexp(total, f[k] + end[k])
    return total


@kernel
def tilted_masses(u, a, start, end, inside, kinds, n_kinds, joins, before, after, nodes, least):
    """What expected F1 needs: the list of likely spans (S, 3), mass_x of each at the ``nodes`` x (S, M), the
    expected number of spans, and log Z (-inf: nothing is allowed)."""
    n, K = u.shape
    begin, go_on, stop = np.empty((n, K)), np.empty((n, len(before))), np.empty((n, K))
    log_z = run_probabilities(u, a, start, end, joins, before, after, begin, go_on, stop)
    if log_z == -np.inf:
        return np.empty((0, 3), np.int64), np.empty((0, len(nodes))), 0.0, log_z
    spans = list_spans(begin, go_on, stop, inside, kinds, n_kinds, before, after, least)
    expected = 0.0
    for t in range(n):
        for k in range(K):
            expected += begin[t, k] if inside[k] else 0.0
    masses, column = np.empty((len(spans), len(nodes))), np.empty(len(spans))
    tilted, tilted_start = np.empty_like(a), np.empty_like(start)
    for m in range(len(nodes)):
        tilt(a, start, inside, joins, math.log(nodes[m]), tilted, tilted_start)
        log_x = run_probabilities(u, tilted, tilted_start, end, joins, before, after, begin, go_on, stop)
        span_masses(
            begin, go_on, stop, inside, kinds, n_kinds, before, after, spans, math.exp(log_x - log_z), column
        )
        masses[:, m] = column
    return spans, masses, expected, log_z

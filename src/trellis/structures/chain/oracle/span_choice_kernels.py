# mypy: allow-untyped-defs
"""The best set of spans that an allowed labelling can have: a dynamic programme over runs.

    max over allowed y of  sum over the spans s of y of (reward[s] - price)     (spans not listed: reward 0)

over all labellings, or over those with exactly ``count`` spans. A *run* is open while it earns nothing; a
listed span is a jump from its first step to its last:

    open[t, c, k]    the run at t began at some step, in layer c, and has earned nothing
    closed[t, c, k]  as open, or the run ends at t and earned the reward of its span

with c spans begun up to t (one layer only where the count is free). Only a closed run is followed by the
beginning of another. What is allowed is what has a score above -inf; the scores play no other part.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel


@kernel
def _enter(u, a, start, joins, t, layer, closed, entry, previous):
    """entry[k]: the best beginning of a run at t in state k from layer ``layer`` of the steps before, and
    ``previous[k]``, the state there (-1: none)."""
    K = u.shape[1]
    for k in range(K):
        entry[k], previous[k] = -np.inf, -1
    if t == 0:
        for k in range(K):
            if layer == 0 and start[k] > -np.inf and u[0, k] > -np.inf:
                entry[k] = 0.0
        return
    arcs = a[0] if a.shape[0] == 1 else a[t]
    for j in range(K):
        value = closed[t - 1, layer, j]
        if value == -np.inf:
            continue
        for k in range(K):
            if value > entry[k] and not joins[j, k] and arcs[j, k] > -np.inf:
                entry[k], previous[k] = value, j
    for k in range(K):
        if u[t, k] == -np.inf:
            entry[k] = -np.inf


@kernel
def _go_on(u, arcs, before, after, t, values, firsts, following, following_firsts):
    """One step of open runs along the pairs that join, from t - 1 to t."""
    for k in range(values.shape[0]):
        following[k], following_firsts[k] = -np.inf, -1
    for i in range(before.shape[0]):
        j, k = before[i], after[i]
        if values[j] > following[k] and arcs[j, k] > -np.inf and u[t, k] > -np.inf:
            following[k], following_firsts[k] = values[j], firsts[j]


@kernel
def _by_kind(inside, kinds):
    """The states inside spans, kind by kind, and where those of each kind begin."""
    K = inside.shape[0]
    of_kind, members, found = np.zeros(kinds.max() + 2, np.int64), np.empty(K, np.int64), 0
    for kind in range(kinds.max() + 1):
        for k in range(K):
            if inside[k] and kinds[k] == kind:
                members[found] = k
                found += 1
        of_kind[kind + 1] = found
    return members, of_kind


@kernel
def best_spans(
    u, a, start, end, inside, kinds, joins, before, after, spans, rewards, price, count, first_of, kind_at
):
    """The value, and the spans: kind_at[t] is the kind at step t (-1: outside), first_of[t] the first step of
    its run. Returns (-inf, 0) if no labelling fits, else (value, number of spans). ``count`` -1: free."""
    n, K = u.shape
    layers = 1 if count < 0 else count + 1
    counts = 0 if count < 0 else 1
    closed, opened = np.full((n, layers, K), -np.inf), np.full((n, layers, K), -np.inf)
    # of a run: the step and state of its beginning; of a beginning: the state before it
    closed_step, open_step = np.empty((n, layers, K), np.int32), np.empty((n, layers, K), np.int32)
    closed_state, open_state = np.empty((n, layers, K), np.int32), np.empty((n, layers, K), np.int32)
    back = np.empty((n, layers, K), np.int32)
    entry, previous = np.empty(K), np.empty(K, np.int32)
    run, later = np.empty(K), np.empty(K)
    firsts, later_firsts = np.empty(K, np.int32), np.empty(K, np.int32)
    members, of_kind = _by_kind(inside, kinds)
    s_from = 0
    for t in range(n):
        s_to = s_from
        while s_to < len(spans) and spans[s_to, 0] == t:
            s_to += 1
        if t > 0:
            arcs = a[0] if a.shape[0] == 1 else a[t]
            for c in range(layers):
                for i in range(before.shape[0]):
                    j, k = before[i], after[i]
                    value = opened[t - 1, c, j]
                    if value > opened[t, c, k] and arcs[j, k] > -np.inf and u[t, k] > -np.inf:
                        opened[t, c, k] = value
                        open_step[t, c, k] = open_step[t - 1, c, j]
                        open_state[t, c, k] = open_state[t - 1, c, j]
        for c in range(layers):
            _enter(u, a, start, joins, t, c, closed, entry, previous)
            for k in range(K):
                to = c + counts if inside[k] else c
                run[k] = -np.inf
                if entry[k] == -np.inf or to >= layers:
                    continue
                back[t, to, k] = previous[k]
                if inside[k]:
                    entry[k] -= price
                    run[k], firsts[k] = entry[k], k
                if entry[k] > opened[t, to, k]:
                    opened[t, to, k], open_step[t, to, k], open_state[t, to, k] = entry[k], t, k
            to = c + counts
            at, s = t, s_from
            while s < s_to:
                while at < spans[s, 1]:
                    at += 1
                    arcs = a[0] if a.shape[0] == 1 else a[at]
                    _go_on(u, arcs, before, after, at, run, firsts, later, later_firsts)
                    run, later, firsts, later_firsts = later, run, later_firsts, firsts
                kind = spans[s, 2]
                for i in range(of_kind[kind], of_kind[kind + 1]):
                    k = members[i]
                    if run[k] > -np.inf:
                        value = run[k] + rewards[s]
                        if value > closed[at, to, k]:
                            closed[at, to, k] = value
                            closed_step[at, to, k], closed_state[at, to, k] = t, firsts[k]
                s += 1
        for c in range(layers):
            for k in range(K):
                if opened[t, c, k] > closed[t, c, k]:
                    closed[t, c, k] = opened[t, c, k]
                    closed_step[t, c, k] = open_step[t, c, k]
                    closed_state[t, c, k] = open_state[t, c, k]
        s_from = s_to
    return _walk_back(end, inside, kinds, counts, closed, closed_step, closed_state, back, first_of, kind_at)


@kernel
def _walk_back(end, inside, kinds, counts, closed, closed_step, closed_state, back, first_of, kind_at):
    n, layers, K = closed.shape
    layer, value, state = layers - 1, -np.inf, -1
    for k in range(K):
        if end[k] > -np.inf and closed[n - 1, layer, k] > value:
            value, state = closed[n - 1, layer, k], k
    if state < 0:
        return -np.inf, 0
    number, t = 0, n - 1
    while t >= 0:
        first, begun = closed_step[t, layer, state], closed_state[t, layer, state]
        for i in range(first, t + 1):
            first_of[i], kind_at[i] = first, kinds[begun] if inside[begun] else -1
        state = back[first, layer, begun]
        if inside[begun]:
            number += 1
            layer -= counts
        t = first - 1
    return value, number


@kernel
def likeliest_with_spans(u, a, start, end, inside, kinds, joins, first_of, kind_at, path):
    """The labelling with the highest score of those with exactly these spans, into ``path``; ties go to the
    smallest label, from the last step backwards."""
    n, K = u.shape
    v = np.full((n, K), -np.inf)
    for t in range(n):
        arcs = a[0] if a.shape[0] == 1 else a[t]
        goes_on = first_of[t] < t
        for k in range(K):
            if (kinds[k] if inside[k] else -1) != kind_at[t]:
                continue
            if t == 0:
                v[0, k] = start[k] + u[0, k]
                continue
            best = -np.inf
            for j in range(K):
                if joins[j, k] == goes_on:
                    best = max(best, v[t - 1, j] + arcs[j, k])
            v[t, k] = best + u[t, k]
    best = -np.inf
    for k in range(K):
        if v[n - 1, k] + end[k] > best:
            best, path[n - 1] = v[n - 1, k] + end[k], k
    for t in range(n - 1, 0, -1):
        arcs = a[0] if a.shape[0] == 1 else a[t]
        goes_on, k, top = first_of[t] < t, path[t], -np.inf
        for j in range(K):
            if joins[j, k] == goes_on and v[t - 1, j] + arcs[j, k] > top:
                top, path[t - 1] = v[t - 1, j] + arcs[j, k], j

# mypy: allow-untyped-defs
"""An assignment at which no factor is zero, or the proof that there is none.

Depth-first search that keeps every factor arc consistent (a state stays as long as some entry of the factor
above zero has it, at states that are left to the other variables). A decision takes a variable with the
fewest states left and one of its states; where that leads to a contradiction the state is taken away, and
where a variable then has none left, the decision before it was wrong. Components that no factor joins are
searched one after another, so that a contradiction in one never asks for another try in the others.

``allowed`` has a cell for each state of each variable, ``left`` counts them. Every cell that is taken away is
written on the ``trail``, and going back puts them in place again.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel

FOUND, IMPOSSIBLE, GIVEN_UP = 0, 1, 2


@kernel
def search(factors, hard, cell, component_start, members, prefer, budget, allowed, left):
    """FOUND, IMPOSSIBLE or GIVEN_UP (after ``budget`` entries of tables), and a variable without a state.

    ``hard``: which factors have zeros. ``members``: the variables of each component. ``prefer``: the state to
    try first. FOUND leaves one state of each of the members in ``allowed``.
    """
    n_factors = hard.shape[0]
    trail, n_trail = np.empty(allowed.shape[0], np.int64), np.zeros(1, np.int64)
    queue, queued = np.empty(n_factors, np.int64), np.zeros(n_factors, np.bool_)
    widest, most = 1, 1
    for f in range(n_factors):
        widest = max(widest, factors.scope_start[f + 1] - factors.scope_start[f])
        cells = 0
        for e in range(factors.scope_start[f], factors.scope_start[f + 1]):
            cells += factors.cardinalities[factors.scope[e]]
        most = max(most, cells)
    digits, support = np.empty(widest, np.int64), np.empty(most, np.bool_)
    work = np.zeros(1, np.int64)
    n_queue = 0
    for f in range(n_factors):
        if hard[f]:
            queue[n_queue], queued[f] = f, True
            n_queue += 1
    bad = _propagate(
        factors, hard, cell, queue, queued, n_queue, trail, n_trail, digits, support, work, allowed, left
    )
    if bad >= 0:
        return IMPOSSIBLE, bad
    decided = np.empty((left.shape[0] + 1, 3), np.int64)  # variable, state, length of the trail before it
    for c in range(component_start.shape[0] - 1):
        depth = 0
        while True:
            v = _fewest(members, component_start[c], component_start[c + 1], left)
            if v < 0:
                break
            work[0] += component_start[c + 1] - component_start[c]
            k = prefer[v]
            if not allowed[cell[v] + k]:
                k = 0
                while not allowed[cell[v] + k]:
                    k += 1
            decided[depth, 0], decided[depth, 1], decided[depth, 2] = v, k, n_trail[0]
            depth += 1
            for other in range(factors.cardinalities[v]):
                if other != k and allowed[cell[v] + other]:
                    _take_away(v, cell[v] + other, allowed, left, trail, n_trail)
            n_queue = _holders(factors, hard, v, -1, queue, queued, 0)
            bad = _propagate(
                factors, hard, cell, queue, queued, n_queue, trail, n_trail, digits, support, work, allowed,
                left,
            )  # fmt: skip
            while bad >= 0:
                if depth == 0:
                    return IMPOSSIBLE, bad
                if work[0] > budget:
                    return GIVEN_UP, bad
                depth -= 1
                v, k = decided[depth, 0], decided[depth, 1]
                _put_back(decided[depth, 2], cell, allowed, left, trail, n_trail)
                _take_away(v, cell[v] + k, allowed, left, trail, n_trail)
                bad = v
                if left[v] > 0:
                    n_queue = _holders(factors, hard, v, -1, queue, queued, 0)
                    bad = _propagate(
                        factors, hard, cell, queue, queued, n_queue, trail, n_trail, digits, support, work,
                        allowed, left,
                    )  # fmt: skip
            if work[0] > budget:
                return GIVEN_UP, -1
    return FOUND, -1


@kernel
def _fewest(members, first, last, left):
    """The member of a component with the fewest states left, of those with more than one; -1: none."""
    best, fewest = -1, 0
    for at in range(first, last):
        v = members[at]
        if left[v] > 1 and (best < 0 or left[v] < fewest):
            best, fewest = v, left[v]
            if fewest == 2:
                break
    return best


@kernel
def _take_away(v, at, allowed, left, trail, n_trail):
    allowed[at] = False
    left[v] -= 1
    trail[n_trail[0]] = at
    n_trail[0] += 1


@kernel
def _put_back(length, cell, allowed, left, trail, n_trail):
    """Undo what was taken away since the trail had this length."""
    while n_trail[0] > length:
        n_trail[0] -= 1
        at = trail[n_trail[0]]
        allowed[at] = True
        left[np.searchsorted(cell, at, side="right") - 1] += 1


@kernel
def _holders(factors, hard, v, but, queue, queued, n_queue):
    """Put the factors with zeros that hold v, all but one, on the queue; its new length."""
    for j in range(factors.incidence_start[v], factors.incidence_start[v + 1]):
        f = factors.factor_of[factors.incidence[j]]
        if hard[f] and f != but and not queued[f]:
            queue[n_queue], queued[f] = f, True
            n_queue += 1
    return n_queue


@kernel
def _propagate(
    factors, hard, cell, queue, queued, n_queue, trail, n_trail, digits, support, work, allowed, left
):
    """Take away states without support until none is left to take; a variable without a state, or -1."""
    while n_queue > 0:
        n_queue -= 1
        f = queue[n_queue]
        queued[f] = False
        first, end = factors.scope_start[f], factors.scope_start[f + 1]
        _find_support(factors, f, cell, digits, support, allowed)
        work[0] += factors.value_start[f + 1] - factors.value_start[f]
        at = 0
        for e in range(first, end):
            v = factors.scope[e]
            before = left[v]
            for k in range(factors.cardinalities[v]):
                if allowed[cell[v] + k] and not support[at + k]:
                    _take_away(v, cell[v] + k, allowed, left, trail, n_trail)
            at += factors.cardinalities[v]
            if left[v] == 0:
                for i in range(n_queue):
                    queued[queue[i]] = False
                return v
            if left[v] < before:
                n_queue = _holders(factors, hard, v, f, queue, queued, n_queue)
    return -1


@kernel
def _find_support(factors, f, cell, digits, support, allowed):
    """Which states of the variables of f, side by side, are in an entry above zero at allowed states."""
    first, end = factors.scope_start[f], factors.scope_start[f + 1]
    support[:] = False
    for e in range(first, end):
        digits[e - first] = 0
    for i in range(factors.value_start[f], factors.value_start[f + 1]):
        if factors.values[i] > -np.inf:
            possible = True
            for e in range(first, end):
                if not allowed[cell[factors.scope[e]] + digits[e - first]]:
                    possible = False
                    break
            if possible:
                at = 0
                for e in range(first, end):
                    support[at + digits[e - first]] = True
                    at += factors.cardinalities[factors.scope[e]]
        for e in range(end - 1, first - 1, -1):
            digits[e - first] += 1
            if digits[e - first] < factors.cardinalities[factors.scope[e]]:
                break
            digits[e - first] = 0

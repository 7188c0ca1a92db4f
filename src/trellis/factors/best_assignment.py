"""The best assignment of a factor graph of any width, with an upper bound: sequential message passing.

    value of an assignment found  <=  max_x sum_f f(x)  <=  bound

Passes (:mod:`.sequential_bound_kernels`) go forwards and backwards until the gap is closed, the bound stands
still or ``max_iter`` is reached. Each pass decodes an assignment, which is improved by single variables. If
the gap stays open, max-product propagation and, where all that was found is impossible, a search for an
assignment that is not, have a try as well. The best is kept, and is the optimum where the gap is closed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trellis.core.arrays import IntArray
from trellis.core.logspace_kernels import MAX
from trellis.core.status import Status
from trellis.factors.allowed_assignment import NOT_ESTABLISHED, allowed_assignment
from trellis.factors.belief_propagation import BeliefPropagation
from trellis.factors.flat_factors import FlatFactors, offsets
from trellis.factors.possible_states import ContradictionError
from trellis.factors.sequential_bound_kernels import evaluate_states, improve_states, sequential_pass

STANDSTILL = 5  # iterations without progress of the bound
SWEEPS = 1000  # of single variables
DAMPING = 0.5  # of max-product propagation


class BoundedAssignment(NamedTuple):
    """``value``: of ``states``, -inf where nothing possible was found. ``exact``: the gap to ``bound`` is
    closed. ``method``: "message_passing", "loopy" or "search", whichever found it."""

    states: IntArray
    value: float
    bound: float
    exact: bool
    method: str
    status: Status


class SequentialPasses:
    """The messages of a factor graph (logarithms; no factor over no variables) and its best assignment."""

    def __init__(self, factors: FlatFactors) -> None:
        self.factors = factors
        n = len(factors.cardinalities)
        widths = np.diff(factors.scope_start)
        self._cell = offsets(factors.cardinalities)
        self._node = np.zeros(self._cell[-1])
        self._start = offsets(factors.cardinalities[factors.scope])
        owner = np.repeat(np.arange(len(widths)), np.diff(factors.value_start))
        alone = np.flatnonzero(widths[owner] == 1)  # entries of factors of one variable
        f = owner[alone]
        cells = self._cell[factors.scope[factors.scope_start[f]]] + alone - factors.value_start[f]
        np.add.at(self._node, cells, factors.values[alone])
        self._message = np.zeros(self._start[-1])
        self._order = np.arange(n)
        self._states = np.zeros(n, dtype=np.int64)
        self._digits = np.empty(widths.max(initial=1), dtype=np.int64)
        self._scratch = np.empty((4, factors.cardinalities.max(initial=1)))

    def run_pass(self, *, forward: bool) -> tuple[float, IntArray]:
        """The bound after a pass through all variables, and the assignment that it decodes."""
        order = self._order if forward else self._order[::-1].copy()
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        arrays = self.factors, self._node, self._cell, self._start, self._message
        bound = sequential_pass(order, rank, *arrays, self._states, self._digits, self._scratch)
        if bound == -np.inf:
            raise ContradictionError
        return float(bound), self.improved(self._states)

    def improved(self, states: IntArray) -> IntArray:
        """The assignment with single variables moved to better states."""
        found = states.copy()
        improve_states(self.factors, self._order, found, self._scratch[0], SWEEPS)
        return found

    def value(self, states: IntArray) -> float:
        return float(evaluate_states(self.factors, states))


def best_assignment(factors: FlatFactors, max_iter: int, tol: float) -> BoundedAssignment:
    """The best assignment found, by all that is at hand; raises ``ContradictionError`` where all are zero.

    ``tol``: a gap of at most tol * max(1, |value|) counts as closed.
    """
    passes = SequentialPasses(factors)
    states, value, bound, method = np.zeros(0, np.int64), -np.inf, np.inf, "message_passing"
    still, n_iter = 0, 0

    def closed() -> bool:
        return value > -np.inf and bound - value <= tol * max(1.0, abs(value))

    while n_iter < max_iter and still < STANDSTILL and not closed():
        n_iter, before = n_iter + 1, bound
        for forward in (True, False):
            after, found = passes.run_pass(forward=forward)
            bound, score = min(bound, after), passes.value(found)
            if score > value or not len(states):
                states, value = found, score
        still = still + 1 if before - bound <= tol * max(1.0, abs(bound)) / 50 else 0
    if not closed():
        for name, found in _others(passes, states, n_iter, tol):
            score = passes.value(found)
            if score > value:
                states, value, method = found, score, name
    exact = closed()
    reason = "the gap is closed" if exact else f"the gap is {bound - value:.3g}"
    if not exact:
        reason += ", and the bound stands still" if still >= STANDSTILL else ", and the bound still falls"
    if value == -np.inf:
        reason = NOT_ESTABLISHED
    return BoundedAssignment(states, value, max(bound, value), exact, method, Status(exact, reason, n_iter))


def _others(
    passes: SequentialPasses, states: IntArray, max_iter: int, tol: float
) -> list[tuple[str, IntArray]]:
    """What other methods find: max-product, and a search where all else is impossible."""
    factors = passes.factors
    messages = BeliefPropagation(factors, np.arange(len(factors.cardinalities)), MAX)
    messages.run(max_iter, tol, DAMPING)
    found = [("loopy", passes.improved(messages.most_probable()))]
    if all(passes.value(one) == -np.inf for one in (states, found[0][1])):
        allowed = allowed_assignment(factors, found[0][1])
        if allowed is not None:
            found.append(("search", passes.improved(allowed)))
    return found

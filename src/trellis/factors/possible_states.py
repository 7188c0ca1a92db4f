"""Arc consistency: states that are impossible, found from the zeros of the tables alone.

A state of a variable is possible as long as each table has a positive entry with it at possible states of the
other variables. Removing a state can make others impossible, so a table is revisited whenever one of its
variables has lost a state. What is found impossible has probability zero; the converse does not hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray
from trellis.core.errors import InfeasibleError
from trellis.factors.tables import Table

Allowed = list[BoolArray]


class ContradictionError(InfeasibleError):
    """No state of ``variable`` is possible; None: a table without variables is zero."""

    def __init__(self, variable: int | None = None) -> None:
        what = (
            "a constant factor is zero" if variable is None else f"variable {variable} has no possible state"
        )
        super().__init__(f"the factors contradict each other: {what}")
        self.variable = variable


class PossibleStates:
    """The possible states of each variable without evidence, and what evidence leaves of them.

    Both raise :class:`ContradictionError` where a variable has no state left.
    """

    def __init__(self, cardinalities: Sequence[int], tables: Sequence[Table]) -> None:
        self._supports = [(t.variables, t.values > 0.0) for t in tables if not t.values.all()]
        self._holders: dict[int, list[int]] = {}
        for number, (variables, _) in enumerate(self._supports):
            for v in variables:
                self._holders.setdefault(v, []).append(number)
        self._sizes = cardinalities

    @cached_property
    def without_evidence(self) -> Allowed:
        everything = [np.ones(size, dtype=np.bool_) for size in self._sizes]
        return self._propagate(everything, range(len(self._supports)))

    def given(self, evidence: Mapping[int, int], weights: Mapping[int, FloatArray]) -> Allowed:
        """The possible states at the evidence, and where soft evidence is positive."""
        allowed = list(self.without_evidence)
        for v, state in evidence.items():
            only = np.zeros(len(allowed[v]), dtype=np.bool_)
            only[state] = allowed[v][state]
            allowed[v] = only
        for v, likelihood in weights.items():
            allowed[v] = allowed[v] & (likelihood > 0.0)
        changed = [*evidence, *weights]
        for v in changed:
            if not allowed[v].any():
                raise ContradictionError(v)
        return self._propagate(allowed, {t for v in changed for t in self._holders.get(v, ())})

    def narrowed(self, allowed: Allowed, variable: int, state: int) -> Allowed:
        """What is left of ``allowed`` when one more variable is in a state, which is among its own."""
        allowed = list(allowed)
        allowed[variable] = np.arange(len(allowed[variable])) == state
        return self._propagate(allowed, self._holders.get(variable, ()))

    def _propagate(self, allowed: Allowed, tables: Collection[int]) -> Allowed:
        waiting = deque(sorted(tables))
        queued = set(waiting)
        while waiting:
            number = waiting.popleft()
            queued.discard(number)
            variables, support = self._supports[number]
            axes = range(len(variables))
            for axis, v in enumerate(variables):
                if not allowed[v].all():
                    support = support & allowed[v].reshape([-1 if a == axis else 1 for a in axes])
            if not variables and not support:
                raise ContradictionError
            for axis, v in enumerate(variables):
                left = np.asarray(support.any(axis=tuple(a for a in axes if a != axis)))
                if left.sum() < allowed[v].sum():
                    if not left.any():
                        raise ContradictionError(v)
                    allowed[v] = left
                    more = [t for t in self._holders[v] if t != number and t not in queued]
                    queued.update(more)
                    waiting.extend(more)
        return allowed


def restrict(table: Table, allowed: Allowed) -> Table:
    """The table at the possible states; variables with one state left leave the table."""
    variables, values = table
    for axis, v in reversed(list(enumerate(variables))):
        states = np.flatnonzero(allowed[v])
        if len(states) == 1:
            values = values.take(states[0], axis=axis)
        elif len(states) < values.shape[axis]:
            values = values.take(states, axis=axis)
    kept = tuple(v for v in variables if np.count_nonzero(allowed[v]) > 1)
    return Table(kept, np.asarray(values))

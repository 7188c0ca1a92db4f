"""How large the weight of a particle can be in each cell of a question.

    bound(t)  >=  max over x in t of  product over observed v of  P(observed state of v | parents of v in x)

The maximum is found by eliminating variables from the tables of the observed ones alone, which is far less
work than inference. Where a product would have more than ``MOST`` entries, its parts are maximised one by one
(mini-buckets, Dechter and Rish 2003): the bound is then above the maximum, and still a bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trellis.bayesnet.inference.question import Question
from trellis.core.arrays import FloatArray, IntArray
from trellis.factors.elimination_order import elimination_order
from trellis.factors.tables import Table, aligned

MOST = 2**14
MANY = 64  # tables, above which all cells have one bound


def log_weight_bounds(question: Question) -> FloatArray:
    """The logarithm of the bound of each cell; -inf where a cell contradicts the evidence."""
    with np.errstate(divide="ignore"):
        tables = [Table(variables, np.log(values)) for variables, values in question.observation_tables()]
    constant = sum(float(values) for variables, values in tables if not variables)
    sizes = question.model.cardinalities
    groups = [_Group(sizes, group) for group in _connected(_merged(tables))]
    whole = constant + sum(group.bound(()).values.item() for group in groups)
    parts = [np.zeros(0)]
    for scope in question.scopes:
        free = tuple(v for v in scope if v not in question.evidence)
        log_bound = np.full([1] * len(free), whole)
        for group in groups:
            held = tuple(v for v in free if v in group.variables)
            if held:
                log_bound = log_bound - group.bound(()).values.item() + aligned(group.bound(held), free)
        log_bound = np.broadcast_to(log_bound, question.model.shape(free))
        parts.append(question.spread(scope, log_bound, elsewhere=-np.inf).ravel())
    return np.concatenate(parts)


class _Group:
    """Tables that share variables, and the bounds found so far."""

    def __init__(self, sizes: IntArray, tables: Sequence[Table]) -> None:
        self._sizes, self._tables = sizes, tables
        self.variables = {v for table in tables for v in table.variables}
        self._found: dict[tuple[int, ...], Table] = {}

    def bound(self, keep: tuple[int, ...]) -> Table:
        """A bound of the sum of the tables for each state of ``keep``; of many tables, one for all states."""
        if keep and len(self._tables) > MANY:
            return Table(keep, np.broadcast_to(self.bound(()).values, self._sizes[list(keep)]))
        if keep not in self._found:
            self._found[keep] = _maximise(self._sizes, self._tables, keep)
        return self._found[keep]


def _maximise(sizes: IntArray, tables: Sequence[Table], keep: tuple[int, ...]) -> Table:
    scopes = [table.variables for table in tables]
    for v in elimination_order(sizes, scopes, "min_weight", keep=keep).variables:
        bucket = sorted((t for t in tables if v in t.variables), key=lambda t: -t.values.size)
        tables = [table for table in tables if v not in table.variables]
        while bucket:
            scope, together, later = set(bucket[0].variables), [bucket[0]], []
            for table in bucket[1:]:
                union = scope.union(table.variables)
                if math.prod(int(sizes[u]) for u in union) <= MOST:
                    scope = union
                    together.append(table)
                else:
                    later.append(table)
            total = _add(together, (v, *sorted(scope - {v})))
            tables.append(Table(total.variables[1:], total.values.max(axis=0)))
            bucket = later
    return _add(tables, keep)


def _add(tables: Sequence[Table], variables: tuple[int, ...]) -> Table:
    total = np.zeros([1] * len(variables))
    for table in tables:
        total = total + aligned(table, variables)
    return Table(variables, total)


def _merged(tables: Sequence[Table]) -> list[Table]:
    """One table for each set of variables."""
    by_scope: dict[tuple[int, ...], list[Table]] = {}
    for table in tables:
        by_scope.setdefault(tuple(sorted(table.variables)), []).append(table)
    return [_add(several, scope) for scope, several in by_scope.items() if scope]


def _connected(tables: Sequence[Table]) -> list[list[Table]]:
    """Tables that are connected by common variables, together."""
    groups: list[tuple[set[int], list[Table]]] = []
    for table in tables:
        touched = [group for group in groups if not group[0].isdisjoint(table.variables)]
        groups = [group for group in groups if group[0].isdisjoint(table.variables)]
        groups.append(
            (
                {*table.variables}.union(*(group[0] for group in touched)),
                [table, *(one for group in touched for one in group[1])],
            )
        )
    return [tables for _, tables in groups]

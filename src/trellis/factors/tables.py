"""Factors: non-negative tables over numbered discrete variables, and their algebra.

A :class:`Table` has one axis for each of its variables, in the order of ``variables``:

    product       (f g)(x, y, z) = f(x, y) g(y, z)
    marginalise   f(x) = sum_y f(x, y)
    reduce        f(x) = f(x, y = evidence)

Inputs are never changed; ``reduce`` may return a view. This plain NumPy is for small tables and one-off work
(``explain_elimination``, the tables of a network before they are compiled); inference in large models runs in
:mod:`trellis.factors.junction_tree.junction_tree`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.registration import register


@register
class Table(NamedTuple):
    """A factor: the numbers of its variables, and an array with one axis for each of them."""

    variables: tuple[int, ...]
    values: FloatArray


def product(first: Table, *others: Table) -> Table:
    """The product of tables, over the union of their variables in order of first appearance."""
    variables = tuple(dict.fromkeys(v for table in (first, *others) for v in table.variables))
    result = aligned(first, variables)
    for table in others:
        result = result * aligned(table, variables)
    return Table(variables, np.broadcast_to(result, _shape(variables, (first, *others))))


def aligned(table: Table, variables: Sequence[int]) -> FloatArray:
    """The values with an axis for each of ``variables``, which include its own; others have length 1."""
    kept = [v for v in variables if v in table.variables]
    values = table.values.transpose([table.variables.index(v) for v in kept])
    sizes = iter(values.shape)
    return values.reshape([next(sizes) if v in table.variables else 1 for v in variables])


def marginalise(table: Table, out: Iterable[int]) -> Table:
    """The table with the variables ``out`` summed away; those it does not have are ignored."""
    gone = set(out)
    axes = tuple(axis for axis, v in enumerate(table.variables) if v in gone)
    kept = tuple(v for v in table.variables if v not in gone)
    return Table(kept, np.asarray(table.values.sum(axis=axes)))


def reduce(table: Table, evidence: Mapping[int, int]) -> Table:
    """The table at ``{variable: state}``; variables of the evidence disappear from it."""
    if not any(v in evidence for v in table.variables):
        return table
    place = tuple(evidence[v] if v in evidence else slice(None) for v in table.variables)
    return Table(tuple(v for v in table.variables if v not in evidence), np.asarray(table.values[place]))


def ordered(table: Table, variables: Sequence[int]) -> Table:
    """The same table with its axes in the order of ``variables``, which must be the table's own."""
    if sorted(variables) != sorted(table.variables):
        raise DataError(
            f"a table over the variables {table.variables} cannot be ordered as {tuple(variables)}"
        )
    axes = [table.variables.index(v) for v in variables]
    return Table(tuple(variables), table.values.transpose(axes))


def _shape(variables: Sequence[int], tables: Sequence[Table]) -> tuple[int, ...]:
    size = {v: n for table in tables for v, n in zip(table.variables, table.values.shape, strict=True)}
    return tuple(size[v] for v in variables)

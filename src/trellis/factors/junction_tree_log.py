"""The passes of a junction tree in log space, for tables whose entries span more than double precision holds.

The same plan and the same formulas as in the kernels, with logaddexp (or max) for sums and plus for products,
on NumPy arrays with one axis for each variable: some ten times slower, and never wrong about a zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.factors.junction_tree_plan import NOTHING, Plan
from trellis.factors.tables import Table, aligned

LARGEST = 2**22  # entries of a product


def log_marginals(plan: Plan, values: FloatArray) -> tuple[list[Table], dict[int, FloatArray]]:
    """The tables at the roots and all marginals, if Z is not 0; only the leaves of ``values`` are read."""
    tables = _to_roots(plan, _log_leaves(plan, values), np.logaddexp)
    roots = [tables[root] for root in plan.roots]
    if any(root.values.max() == -np.inf for root in roots):
        return roots, {}
    slopes = _from_roots(plan, tables)
    marginals = {}
    for v, table in plan.marginal_tables.items():
        joint = _contract([tables[table], slopes[table]], (v,), np.logaddexp).values
        weights = np.exp(joint - joint.max())
        marginals[v] = weights / weights.sum()
    return roots, marginals


def log_posteriors(
    plan: Plan, leaves: Sequence[Table], row: int, n_rows: int
) -> tuple[FloatArray, Iterator[Table]]:
    """log Z of each row, and the posteriors (the axis ``row`` last) of all leaves, which are logs of tables.

    ``row`` is a variable of the plan that is kept: rows of evidence side by side. Posteriors of a row with
    Z = 0 are zero.
    """
    tables = _to_roots(plan, leaves, np.logaddexp)
    log_z = np.zeros(n_rows)
    for root in plan.roots:
        log_z = log_z + tables[root].values
    slopes = _from_roots(plan, tables, (row,))

    def posteriors() -> Iterator[Table]:
        for leaf in range(plan.n_leaves):
            variables = (*(v for v in leaves[leaf].variables if v != row), row)
            joint = aligned(tables[leaf], variables) + aligned(slopes[leaf], variables)
            axes = tuple(range(len(variables) - 1))
            top = joint.max(axis=axes)
            shares = np.exp(joint - np.where(top > -np.inf, top, 0.0))
            total = shares.sum(axis=axes)
            yield Table(variables, shares * ((log_z > -np.inf) / np.where(total > 0, total, 1.0)))

    return log_z, posteriors()


def log_tables(plan: Plan, leaves: Sequence[Table]) -> list[Table]:
    """All tables of the plan after the pass to the roots; ``leaves`` are logs of tables."""
    return _to_roots(plan, leaves, np.logaddexp)


def leaf_posteriors(plan: Plan, leaves: Sequence[Table]) -> tuple[float, list[Table]]:
    """log Z, and the posteriors of all leaves (none if it is -inf), which are logs of tables."""
    tables = log_tables(plan, leaves)
    log_z = sum(float(tables[root].values) for root in plan.roots)
    if log_z == -np.inf:
        return log_z, []
    posteriors = []
    for leaf, slope in zip(leaves, _from_roots(plan, tables), strict=False):
        joint = leaf.values + aligned(slope, leaf.variables)
        shares = np.exp(joint - joint.max())
        posteriors.append(Table(leaf.variables, shares / shares.sum()))
    return log_z, posteriors


def log_best(plan: Plan, values: FloatArray) -> tuple[dict[int, int], float]:
    """The assignment with the largest product and the log of it; ties go to smaller numbers."""
    tables = _to_roots(plan, _log_leaves(plan, values), np.maximum)
    states: dict[int, int] = {}
    for step in reversed(plan.steps):
        summed = plan.summed(step)
        scores = np.zeros([len_of(tables[step.a], v) for v in summed])
        for table in (step.a, step.b):
            if table != NOTHING:
                place = tuple(states.get(v, slice(None)) for v in tables[table].variables)
                scores = scores + tables[table].values[place]
        digits = np.unravel_index(int(np.argmax(scores)), scores.shape)
        states.update((v, int(digit)) for v, digit in zip(summed, digits, strict=True))
    return states, sum(float(tables[root].values) for root in plan.roots)


def len_of(table: Table, variable: int) -> int:
    """The length of the axis of a variable."""
    return int(table.values.shape[table.variables.index(variable)])


def _log_leaves(plan: Plan, values: FloatArray) -> list[Table]:
    leaves = []
    with np.errstate(divide="ignore"):
        for leaf in range(plan.n_leaves):
            part = values[plan.offsets[leaf] : plan.offsets[leaf + 1]]
            leaves.append(Table(tuple(plan.layout(leaf)), np.log(part).reshape(plan.shape(leaf))))
    return leaves


def _to_roots(plan: Plan, leaves: Sequence[Table], add: Any) -> list[Table]:
    tables = list(leaves)
    by_output = {step.out: step for step in plan.steps}
    for out in range(plan.n_leaves, plan.n_leaves + len(plan.steps)):
        step = by_output[out]
        factors = [tables[table] for table in (step.a, step.b) if table != NOTHING]
        tables.append(_contract(factors, plan.layout(out), add))
    return tables


def _from_roots(plan: Plan, tables: Sequence[Table], also: tuple[int, ...] = ()) -> list[Table]:
    """The logs of the derivatives of all tables, over their variables and those of ``also``."""
    slopes = [Table((), np.zeros(()))] * len(tables)
    for step in reversed(plan.steps):
        for table, other in ((step.a, step.b), (step.b, step.a)):
            if table != NOTHING:
                factors = [slopes[step.out]] + ([tables[other]] if other != NOTHING else [])
                kept = dict.fromkeys((*tables[table].variables, *also))
                slopes[table] = _contract(factors, list(kept), np.logaddexp)
    return slopes


def _contract(factors: Sequence[Table], kept: Sequence[int], add: Any) -> Table:
    """The product of tables (a sum of logs) with everything but ``kept`` summed out by ``add``.

    Kept variables that no factor holds are left out: the result broadcasts over them. A product of more than
    ``LARGEST`` entries is never written down: its slices are summed one after another.
    """
    sizes = {v: n for table in factors for v, n in zip(table.variables, table.values.shape, strict=True)}
    kept = [v for v in kept if v in sizes]
    summed = sorted(set(sizes).difference(kept))
    parts = [aligned(table, (*kept, *summed)) for table in factors]
    return Table(tuple(kept), _summed(parts, [sizes[v] for v in kept], [sizes[v] for v in summed], add))


def _summed(parts: Sequence[FloatArray], kept: list[int], summed: list[int], add: Any) -> FloatArray:
    """``add`` over the last axes of the sum of arrays that broadcast to the shape ``kept + summed``."""
    if math.prod(kept) * math.prod(summed) > LARGEST and (kept or summed):
        at_first = [[part[min(i, len(part) - 1)] for part in parts] for i in range((kept or summed)[0])]
        if kept:
            return np.stack([_summed(slices, kept[1:], summed, add) for slices in at_first])
        total = _summed(at_first[0], [], summed[1:], add)
        for slices in at_first[1:]:
            total = add(total, _summed(slices, [], summed[1:], add))
        return total
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    for _ in summed:
        total = add.reduce(total, axis=-1)
    return np.asarray(total)

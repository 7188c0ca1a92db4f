"""The passes of a junction tree in log space, for tables whose entries span more than double precision holds.

The same plan and the same formulas as in the kernels, with logaddexp (or max) for sums and plus for products,
on NumPy arrays with one axis for each variable: some ten times slower, and never wrong about a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.inference.factors import FloatArray, Table, aligned
from trellis.inference.junction_tree_plan import NOTHING, Plan


def log_marginals(plan: Plan, values: FloatArray) -> tuple[list[Table], dict[int, FloatArray]]:
    """The tables at the roots and all marginals, if Z is not 0; only the leaves of ``values`` are read."""
    tables = _to_roots(plan, values, np.logaddexp)
    roots = [tables[root] for root in plan.roots]
    if any(root.values.max() == -np.inf for root in roots):
        return roots, {}
    slopes = [Table((), np.zeros(()))] * len(tables)
    for step in reversed(plan.steps):
        for table, other in ((step.a, step.b), (step.b, step.a)):
            if table != NOTHING:
                factors = [slopes[step.out]] + ([tables[other]] if other != NOTHING else [])
                slopes[table] = _contract(factors, tables[table].variables, np.logaddexp)
    marginals = {}
    for v, table in plan.marginal_tables.items():
        joint = _contract([tables[table], slopes[table]], (v,), np.logaddexp).values
        weights = np.exp(joint - joint.max())
        marginals[v] = weights / weights.sum()
    return roots, marginals


def log_best(plan: Plan, values: FloatArray) -> tuple[dict[int, int], float]:
    """The assignment with the largest product and the log of it; ties go to smaller numbers."""
    tables = _to_roots(plan, values, np.maximum)
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


def _to_roots(plan: Plan, values: FloatArray, add: Any) -> list[Table]:
    tables = []
    with np.errstate(divide="ignore"):
        for leaf in range(plan.n_leaves):
            part = values[plan.offsets[leaf] : plan.offsets[leaf + 1]]
            tables.append(Table(tuple(plan.layout(leaf)), np.log(part).reshape(plan.shape(leaf))))
    by_output = {step.out: step for step in plan.steps}
    for out in range(plan.n_leaves, plan.n_leaves + len(plan.steps)):
        step = by_output[out]
        factors = [tables[table] for table in (step.a, step.b) if table != NOTHING]
        tables.append(_contract(factors, plan.layout(out), add))
    return tables


def _contract(factors: Sequence[Table], kept: Sequence[int], add: Any) -> Table:
    """The product of tables (a sum of logs) with everything but ``kept`` summed out by ``add``.

    Kept variables that no factor holds are left out: the result broadcasts over them.
    """
    held = {v for table in factors for v in table.variables}
    kept = [v for v in kept if v in held]
    variables = [*kept, *sorted(held.difference(kept))]
    total = aligned(factors[0], variables)
    for table in factors[1:]:
        total = total + aligned(table, variables)
    for _ in range(len(variables) - len(kept)):
        total = add.reduce(total, axis=-1)
    return Table(tuple(kept), np.asarray(total))

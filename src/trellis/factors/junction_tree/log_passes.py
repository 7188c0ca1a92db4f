"""The passes of a junction tree in log space, for tables whose entries span more than double precision holds.

The same plan and the same formulas as in the kernels, with log-sum-exp for sums and plus for products, on
NumPy arrays with one axis for each variable: some ten times slower, and never wrong about a zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.logspace import log_sum_exp, softmax
from trellis.factors.junction_tree.plan import NOTHING, Plan
from trellis.factors.tables import Table, aligned

LARGEST = 2**22  # entries of a product


class LogSums:
    """Z, marginals and posteriors from ``leaves``, the logarithms of the tables of a plan, less a constant.

    ``row``: a variable of the plan that is kept, along which rows of evidence lie side by side. Everything
    has it as its last axis then. Impossible rows have log Z = -inf; their shares are zero.
    """

    def __init__(
        self, plan: Plan, leaves: Sequence[Table], log_constant: float = 0.0, row: int | None = None
    ) -> None:
        self._plan, self._leaves = plan, leaves
        self._rows = () if row is None else (row,)
        self.tables = self._to_roots()
        roots = [self.tables[root] for root in plan.roots]
        scalars = [root.values for root in roots if set(root.variables) <= {row}]
        self.log_partition: FloatArray = np.asarray(sum(scalars, np.asarray(log_constant)))
        self.kept = [root for root in roots if not set(root.variables) <= {row}]

    def _to_roots(self) -> list[Table]:
        tables = list(self._leaves)
        by_output = {step.out: step for step in self._plan.steps}
        for out in range(len(tables), len(tables) + len(by_output)):
            step = by_output[out]
            factors = [tables[table] for table in (step.a, step.b) if table != NOTHING]
            tables.append(contract(factors, self._plan.layout(out)))
        return tables

    @cached_property
    def slopes(self) -> list[Table]:
        """The logs of the derivatives of all tables, over their variables and the row."""
        slopes = [Table((), np.zeros(()))] * len(self.tables)
        for step in reversed(self._plan.steps):
            for table, other in ((step.a, step.b), (step.b, step.a)):
                if table != NOTHING:
                    factors = [slopes[step.out]] + ([self.tables[other]] if other != NOTHING else [])
                    kept = dict.fromkeys((*self.tables[table].variables, *self._rows))
                    slopes[table] = contract(factors, list(kept))
        return slopes

    def marginals(self) -> dict[int, FloatArray]:
        """The distribution (states,) of each variable that the plan is asked for."""
        found = {}
        for v, table in self._plan.marginal_tables.items():
            if v not in self._rows:
                joint = contract([self.tables[table], self.slopes[table]], (v, *self._rows))
                found[v] = softmax(aligned(joint, (v, *self._rows)), axis=0)
        return found

    def posterior(self, leaf: int) -> Table:
        """The probabilities of the entries of a leaf, with its axes in their order."""
        variables = tuple(v for v in self._leaves[leaf].variables if v not in self._rows) + self._rows
        joint = aligned(self.tables[leaf], variables) + aligned(self.slopes[leaf], variables)
        return Table(variables, softmax(joint, tuple(range(len(variables) - len(self._rows)))))

    def posteriors(self) -> FloatArray:
        """The posteriors of all leaves end to end."""
        parts = [self.posterior(leaf).values.ravel() for leaf in range(len(self._leaves))]
        return np.concatenate(parts) if parts else np.zeros(0)

    def log_tables(self) -> list[Table]:
        """The logs of all tables after the pass to the roots, each up to a constant."""
        return self.tables


def contract(factors: Sequence[Table], kept: Sequence[int]) -> Table:
    """The product of tables (a sum of logs) with everything but ``kept`` summed out.

    Kept variables that no factor holds are left out: the result broadcasts over them. A product of more than
    ``LARGEST`` entries is never written down: its slices are summed one after another.
    """
    sizes = {v: n for table in factors for v, n in zip(table.variables, table.values.shape, strict=True)}
    kept = [v for v in kept if v in sizes]
    summed = sorted(set(sizes).difference(kept))
    parts = [aligned(table, (*kept, *summed)) for table in factors]
    return Table(tuple(kept), _summed(parts, [sizes[v] for v in kept], [sizes[v] for v in summed]))


def _summed(parts: Sequence[FloatArray], kept: list[int], summed: list[int]) -> FloatArray:
    """Log-sum-exp over the last axes of the sum of arrays that broadcast to the shape ``kept + summed``."""
    if math.prod(kept) * math.prod(summed) > LARGEST and (kept or summed):
        slices = [[part[min(i, len(part) - 1)] for part in parts] for i in range((kept or summed)[0])]
        if kept:
            return np.stack([_summed(one, kept[1:], summed) for one in slices])
        return log_sum_exp(np.array([_summed(one, [], summed[1:]) for one in slices]))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return log_sum_exp(total, tuple(range(-len(summed), 0))) if summed else np.asarray(total)

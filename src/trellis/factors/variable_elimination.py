"""Variable elimination: the sum of a product of factors over all variables but a few.

It runs the pass to the roots of a junction tree, and no other. Where that is costly, states that the zeros of
the factors rule out leave the tables first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.factors.junction_tree import plan_choice
from trellis.factors.junction_tree.compiled_plan import CompiledPlan, Sums
from trellis.factors.junction_tree.junction_tree import log_table
from trellis.factors.junction_tree.plan import Forecast, Plan
from trellis.factors.junction_tree.plan_choice import MEMORY_LIMIT, Order
from trellis.factors.possible_states import Allowed, ContradictionError, PossibleStates, restrict
from trellis.factors.tables import Table, aligned


class _Elimination(NamedTuple):
    """What is left of the factors, the plan that sums them out, and the possible states of all variables."""

    factors: list[Table]
    plan: Plan
    allowed: Allowed

    def forecast(self, joint_bytes: float) -> Forecast:
        """What it needs, with the table over the variables that are kept, of which two copies are made."""
        return self.plan.forecast._replace(bytes=self.plan.forecast.bytes + 2.0 * joint_bytes)


def eliminate(
    cardinalities: Sequence[int] | IntArray,
    factors: Sequence[Table],
    keep: Sequence[int],
    *,
    order: Order = "best",
    memory_limit: float = MEMORY_LIMIT,
) -> tuple[float, Table]:
    """The sum over all variables but ``keep``, as (log s, T) for the product s T.

    The axes of T are ``keep`` in order, and its largest entry is 1; log s is -inf if everything is zero. The
    table over ``keep`` counts towards ``memory_limit``, as does everything else.
    """
    shape = [int(cardinalities[v]) for v in keep]
    try:
        chosen = _choose(cardinalities, factors, keep, order, memory_limit)
    except ContradictionError:
        return -np.inf, Table(tuple(keep), np.zeros(shape))
    plan_choice.check_memory(chosen.forecast(8.0 * math.prod(shape)), memory_limit)
    compiled = CompiledPlan(chosen.plan)
    leaves = compiled.lay_out([log_table(table) for table in chosen.factors])
    kept = [np.flatnonzero(chosen.allowed[v]) for v in keep]

    def read(sums: Sums) -> FloatArray:
        total = np.full([len(states) for states in kept], float(sums.log_partition))
        for table in sums.kept:
            total += aligned(table, keep)
        return total

    logs = np.full(1, -np.inf) if leaves.log_scale == -np.inf else compiled.sums(leaves, read, back=False)
    top = float(logs.max())
    if top == -np.inf:
        return top, Table(tuple(keep), np.zeros(shape))
    logs -= top
    values = np.exp(logs, out=logs)
    if values.size < math.prod(shape):
        whole = np.zeros(shape)
        whole[np.ix_(*kept)] = values
        values = whole
    return top, Table(tuple(keep), values)


def forecast_elimination(
    cardinalities: Sequence[int] | IntArray, factors: Sequence[Table], keep: Sequence[int], order: Order
) -> Forecast:
    """What :func:`eliminate` would need, without running it."""
    try:
        chosen = _choose(cardinalities, factors, keep, order, np.inf)
    except ContradictionError:
        return Forecast(-1, 1.0, 0.0, 0.0)
    return chosen.forecast(8.0 * math.prod(int(cardinalities[v]) for v in keep))


def _choose(
    cardinalities: Sequence[int] | IntArray,
    factors: Sequence[Table],
    keep: Sequence[int],
    order: Order,
    memory_limit: float,
) -> _Elimination:
    """The plan; where it is costly, without the states that the zeros of the factors rule out."""
    sizes = [int(size) for size in cardinalities]
    plan_choice.check_joint([sizes[v] for v in keep], memory_limit)
    held = {v for table in factors for v in table.variables}
    factors = [*factors, *(Table((v,), np.ones(sizes[v])) for v in keep if v not in held)]
    scopes = [table.variables for table in factors]
    orders = plan_choice.find_orders(sizes, scopes, order, keep, thorough=False)
    if not plan_choice.worth_a_plan(orders[0]):
        everything: Allowed = [np.ones(size, dtype=np.bool_) for size in sizes]
        return _Elimination(factors, plan_choice.choose_plan(sizes, scopes, orders, memory_limit), everything)
    allowed = PossibleStates(sizes, factors).without_evidence
    factors, sizes = [restrict(t, allowed) for t in factors], [int(s.sum()) for s in allowed]
    scopes = [table.variables for table in factors]
    if not isinstance(order, str):
        left = {v for scope in scopes for v in scope}
        order = [v for v in order if v in left]
    plan = plan_choice.make_plan(sizes, scopes, order, memory_limit, keep=keep)
    return _Elimination(factors, plan, allowed)

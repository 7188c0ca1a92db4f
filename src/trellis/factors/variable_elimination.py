"""Variable elimination: the sum of a product of factors over all variables but a few.

It runs the pass to the roots of a junction tree, and no other. Where that is costly, states that the zeros of
the factors rule out leave the tables first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.factors.junction_tree import plan_choice
from trellis.factors.junction_tree.compiled_plan import CompiledPlan, Sums
from trellis.factors.junction_tree.junction_tree import log_table
from trellis.factors.junction_tree.plan_choice import MEMORY_LIMIT, Order
from trellis.factors.possible_states import Allowed, ContradictionError, PossibleStates, restrict
from trellis.factors.tables import Table, aligned


def eliminate(
    cardinalities: Sequence[int] | IntArray,
    factors: Sequence[Table],
    keep: Sequence[int],
    *,
    order: Order = "best",
    memory_limit: float = MEMORY_LIMIT,
) -> tuple[float, Table]:
    """The sum over all variables but ``keep``, as (log s, T) for the product s T.

    The axes of T are ``keep`` in order, and its largest entry is 1; log s is -inf if everything is zero.
    """
    sizes = [int(size) for size in cardinalities]
    held = {v for table in factors for v in table.variables}
    factors = [*factors, *(Table((v,), np.ones(sizes[v])) for v in keep if v not in held)]
    shape = [sizes[v] for v in keep]
    nothing = -np.inf, Table(tuple(keep), np.zeros(shape))
    scopes = [table.variables for table in factors]
    orders = plan_choice.find_orders(sizes, scopes, order, keep, thorough=False)
    allowed: Allowed = [np.ones(size, dtype=np.bool_) for size in sizes]
    if plan_choice.worth_a_plan(orders[0]):
        try:
            allowed = PossibleStates(sizes, factors).without_evidence
        except ContradictionError:
            return nothing
        factors, sizes = [restrict(t, allowed) for t in factors], [int(s.sum()) for s in allowed]
        scopes = [table.variables for table in factors]
        if not isinstance(order, str):
            left = {v for scope in scopes for v in scope}
            order = [v for v in order if v in left]
        plan = plan_choice.make_plan(sizes, scopes, order, memory_limit, keep=keep)
    else:
        plan = plan_choice.choose_plan(sizes, scopes, orders, memory_limit)
    forecast = plan.forecast
    plan_choice.check_memory(forecast._replace(bytes=forecast.bytes + 8.0 * math.prod(shape)), memory_limit)
    compiled = CompiledPlan(plan)
    leaves = compiled.lay_out([log_table(table) for table in factors])
    if leaves.log_scale == -np.inf:
        return nothing

    def read(sums: Sums) -> FloatArray:
        total = np.full([sizes[v] for v in keep], float(sums.log_partition))
        for table in sums.kept:
            total += aligned(table, keep)
        return total

    logs = compiled.sums(leaves, read, back=False)
    top = float(logs.max())
    if top == -np.inf:
        return nothing
    values = np.zeros(shape)
    values[np.ix_(*(allowed[v] for v in keep))] = np.exp(logs - top)
    return top, Table(tuple(keep), values)
